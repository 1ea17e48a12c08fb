"""Clients that take and give back units all the time, on all nodes, while something else goes wrong."""

import threading
import time

import wire


class Load(threading.Thread):
    """
    `clients` clients that acquire units of `names` (name -> limit), keep them for a moment and give them
    back, some with a wait. One that loses its connection connects again while its node runs. `answers`
    counts what they were answered; `wrong` has the first surprise.
    """

    def __init__(self, world, nodes, names, clients, rng, hold=0.02):
        super().__init__(daemon=True)
        self.world, self.nodes, self.names, self.rng = world, nodes, names, rng
        self.hold = hold
        self.states = [[None, None, None, 0.0] for _ in range(clients)]  # client, asked, name, until
        self.answers = {}
        self.wrong = None
        self.is_over = False
        self.start()

    def run(self):
        try:
            while not self.is_over:
                for state in self.states:
                    self._step(state)
                time.sleep(0.002)
        except BaseException as e:  # pylint: disable=broad-except
            self.wrong = e

    def _step(self, state):
        client, asked, name, until = state
        if client is None or not client.is_open:
            state[:] = [self._connect(), None, None, 0.0]
        elif asked is not None:
            if asked.is_answered:
                self.answers[asked.answer] = self.answers.get(asked.answer, 0) + 1
                state[1] = None
                if asked.answer == "LOCKED":
                    state[3] = time.monotonic() + self.rng.random() * self.hold
                else:
                    state[2] = None
        elif name is not None:
            if time.monotonic() >= until:
                state[1:3] = [client.release(name), None]
        else:
            name = self.rng.choice(list(self.names))
            timeout = self.rng.choice([0, 0.05, 1, 5])
            state[1] = client.acquire(name, self.names[name], timeout, shared=self.rng.random() < 0.2)
            state[2] = name

    def _connect(self):
        node = self.rng.choice(self.nodes)
        daemon = node.daemon
        if daemon is None or node.is_paused:
            return None
        try:
            return self.world.observer.text(daemon.text, "load on %r" % node)
        except OSError:
            return None

    def end(self):
        """Ends it and its clients; fails if it was surprised."""
        self.is_over = True
        self.join(wire.DEADLINE)
        for client, *_ in self.states:
            if client is not None:
                client.close()
        if self.wrong is not None:
            raise self.wrong
        return self.answers
