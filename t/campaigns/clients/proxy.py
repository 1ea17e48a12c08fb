"""
A proxy between clients and the daemon's job queues: it cuts and stalls connections, and notes what
goes over the wire, so that a judge knows of each reservation who had it, how long, and what ended it.

Each slot (a worker or a producer) has a port of its own, which stays when its process is another
one. One thread serves all connections. What it notes is in the order in which it happened: a fault
is noted before the daemon or the client can notice it. Times are of the system's monotonic clock.
"""

import collections
import selectors
import socket
import struct
import threading
import time

CHUNK = 1 << 16
SLOW = 1.0  # s: an answer that takes longer is a fault, of the machine or its disk
VERBS = {"tube", "put-into", "put-batch", "claim", "ack", "nack", "renew", "bury", "stats-job", "list-jobs", "ready"}
CUTS = ("reset", "half to client", "half to daemon", "request dropped", "answer dropped", "stall")

Reserved = collections.namedtuple("Reserved", "at link id token tube tries label asked_at")
Said = collections.namedtuple("Said", "at link verb id token")  # a request about a reservation
Heard = collections.namedtuple("Heard", "at link verb id token answer asked_at passed")
Put = collections.namedtuple("Put", "at link label key")
Beside = collections.namedtuple("Beside", "at link id token line")  # sent though it had this job
Fault = collections.namedtuple("Fault", "at until kind slot link")  # slot, link: None if of all


class Link:
    """
    One connection of a client, and ours to the daemon. `ended`: when; `broken`: the same, or when one side
    of it was; `why`: how.
    """

    def __init__(self, slot, number, client):
        self.slot, self.number, self.client = slot, number, client
        self.server = None
        self.ended = self.broken = self.why = None
        self.to_server, self.to_client = bytearray(), bytearray()
        self.asked, self.answered = bytearray(), bytearray()  # what is not parsed yet
        self.waiting = collections.deque()  # requests without an answer
        self.holding = set()  # (id, token) that came over it, and were not given back
        self.claimed_at = 0.0
        self.stalled_until = 0.0
        self.closes_at = None
        self.is_deaf = False  # no bytes go to the client any more
        self.armed = None  # a fault that comes with the next bytes
        self.client_done = self.server_done = False

    def __repr__(self):
        return "link %d of %s" % (self.number, self.slot)


def nonblocking(sock):
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def close_hard(sock):
    """Closes with RST."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    sock.close()


class Proxy(threading.Thread):
    """Ends with `stop`. `notes` and `faults` are complete then."""

    def __init__(self, slots, rng):
        super().__init__(daemon=True)
        self.rng = rng
        self.target = None  # the daemon's address; None while it is down
        self.notes, self.faults, self.links, self.wrong = [], [], [], []
        self.lock = threading.Lock()
        self.commands = collections.deque()
        self.alive = set()
        self.away = {}  # slots that nothing reaches, until when
        self.selector = selectors.DefaultSelector()
        self.ports, self.listeners = {}, {}
        for slot in slots:
            self.listen(slot, 0)
        self.wake, self.woken = socket.socketpair()
        self.woken.setblocking(False)
        self.selector.register(self.woken, selectors.EVENT_READ, None)
        self.is_over = False
        self.error = None

    def listen(self, slot, port):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(64)
        sock.setblocking(False)
        self.ports[slot] = sock.getsockname()[1]
        self.listeners[slot] = sock
        self.selector.register(sock, selectors.EVENT_READ, slot)

    # --- called by other threads

    def call(self, function, *arguments):
        """Runs a function in this thread, and waits for it."""
        done = threading.Event()
        self.commands.append((function, arguments, done))
        self.wake.send(b"x")
        while not done.wait(0.1):
            if not self.is_alive():
                raise RuntimeError("the proxy has ended: %r" % self.error)

    def aim(self, address):
        """From now on the daemon is there; None: it is down, and all connections end."""
        self.call(self._aim, address)

    def note_fault(self, kind, slot=None, begin=None, until=None):
        """Notes a fault that somebody else makes, from `begin` (now) to `until`: call it before."""
        self.call(self._fault, kind, slot, None, until, begin)

    def cut(self, kind, slot=None):
        """Makes a fault of CUTS at some connection, of this slot if it is given."""
        self.call(self._cut, kind, slot)

    def cut_off(self, slots, seconds):
        """
        Ends all connections of one of these slots, and each new one at once, for so many seconds: of one
        that has a job, if there is any.
        """
        self.call(self._cut_off, slots, seconds)

    def stop(self):
        self.call(self._stop)
        self.join()

    # --- the thread

    def run(self):
        try:
            while not self.is_over:
                now = time.monotonic()
                due = [link.stalled_until for link in self.alive if link.stalled_until > now]
                due += [link.closes_at for link in self.alive if link.closes_at]
                ready = self.selector.select(max(0, min(due, default=now + 1) - now))
                for key, mask in ready:
                    if key.fileobj is self.woken:
                        self.woken.recv(1000)
                    elif isinstance(key.data, str):
                        self._accept(key.fileobj, key.data)
                    elif key.data[0].ended is None:
                        self._move(*key.data, mask)
                while self.commands:
                    function, arguments, done = self.commands.popleft()
                    function(*arguments)
                    done.set()
                now = time.monotonic()
                for link in list(self.alive):
                    if link.closes_at and link.closes_at <= now:
                        self._end(link, link.why or "cut")
                    elif link.stalled_until and link.stalled_until <= now:
                        link.stalled_until = 0.0
                        self._watch(link)
        except BaseException as e:  # pylint: disable=broad-except
            self.error = e
            raise

    def _aim(self, address):
        self.target = address
        if address is None:
            for link in list(self.alive):
                self._end(link, "daemon killed")
            if self.rng.random() < 0.5:  # refused, not closed
                for sock in self.listeners.values():
                    self.selector.unregister(sock)
                    sock.close()
                self.listeners = {}
        elif not self.listeners:
            for slot, port in self.ports.items():
                self.listen(slot, port)

    def _fault(self, kind, slot, link, until=None, begin=None):
        begin = begin or time.monotonic()
        self.faults.append(Fault(begin, until or begin, kind, slot, link))

    def _stop(self):
        for link in list(self.alive):
            self._end(link, "the end")
        for sock in self.listeners.values():
            sock.close()
        self.is_over = True

    def _cut(self, kind, slot):
        links = sorted((link for link in self.alive if slot in (None, link.slot) and not link.why and not link.armed
                        and not link.stalled_until), key=lambda link: link.number)  # fmt: skip
        busy = [link for link in links if link.holding]
        links = busy if busy and self.rng.random() < 0.7 else links
        if not links:
            return
        link = self.rng.choice(links)
        if kind in ("request dropped", "answer dropped"):
            link.armed = kind
            return
        if kind == "stall":
            seconds = self.rng.choice((0.3, 1, 2.5, 6))
            self._fault(kind, link.slot, link, time.monotonic() + seconds)
            link.stalled_until = time.monotonic() + seconds
            self._watch(link)
            return
        self._fault(kind, link.slot, link)
        link.why = kind
        if kind == "reset":
            self._end(link, kind)
        else:
            link.broken = time.monotonic()
            link.closes_at = time.monotonic() + self.rng.choice((0.05, 0.5, 2))
            link.is_deaf = kind == "half to client"
            try:
                (link.client if link.is_deaf else link.server).shutdown(socket.SHUT_WR)
            except OSError:
                self._end(link, kind)

    def _cut_off(self, slots, seconds):
        busy = {link.slot for link in self.alive if link.holding}
        slot = self.rng.choice([slot for slot in slots if slot in busy] or slots)
        self._fault("cut off", slot, None, time.monotonic() + seconds + 0.5)
        self.away[slot] = time.monotonic() + seconds
        for link in [link for link in self.alive if link.slot == slot]:
            self._end(link, "cut off")

    def _accept(self, listener, slot):
        try:
            client = nonblocking(listener.accept()[0])
        except OSError:
            return
        if self.target is None or time.monotonic() < self.away.get(slot, 0):
            close_hard(client)
            return
        link = Link(slot, len(self.links), client)
        try:
            link.server = nonblocking(socket.create_connection(self.target, 5))
        except OSError:
            close_hard(client)
            return
        self.links.append(link)
        self.alive.add(link)
        self._watch(link)

    def _watch(self, link):
        """Asks for the events that concern it now."""
        stalled = link.stalled_until > 0
        for sock, done, out, other in (
            (link.client, link.client_done, link.to_client, link.to_server),
            (link.server, link.server_done, link.to_server, link.to_client),
        ):
            mask = 0
            if not stalled and not done and len(other) < 4 * CHUNK:
                mask |= selectors.EVENT_READ
            if not stalled and out:
                mask |= selectors.EVENT_WRITE
            try:
                key = self.selector.get_key(sock)
            except KeyError:
                key = None
            if mask and key is None:
                self.selector.register(sock, mask, (link, sock))
            elif mask and key.events != mask:
                self.selector.modify(sock, mask, (link, sock))
            elif not mask and key is not None:
                self.selector.unregister(sock)

    def _end(self, link, why, quietly=False):
        if link.ended is not None:
            return
        link.ended, link.why = time.monotonic(), why
        link.broken = link.broken or link.ended
        if link.waiting and link.waiting[0][0] != "claim" and link.ended - link.waiting[0][3] > SLOW:
            self.faults.append(Fault(link.waiting[0][3], link.ended, "slow answer", link.slot, link))
        self.alive.discard(link)
        for sock in (link.client, link.server):
            try:
                self.selector.unregister(sock)
            except KeyError:
                pass
            if quietly:
                sock.close()
            else:
                close_hard(sock)

    def _move(self, link, sock, mask):
        is_client = sock is link.client
        try:
            if mask & selectors.EVENT_READ:
                data = sock.recv(CHUNK)
                if not data:
                    self._done(link, is_client)
                    return
                if not self._came(link, is_client, data):
                    return
            self._flush(link)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._end(link, link.why or ("client closed" if is_client else "daemon closed"))
            return
        if link.ended is None:
            self._watch(link)

    def _flush(self, link):
        for out, sock in ((link.to_server, link.server), (link.to_client, link.client)):
            if out:
                try:
                    del out[: sock.send(out)]
                except BlockingIOError:
                    pass

    def _done(self, link, is_client):
        """One side sends no more."""
        if link.why in ("half to client", "half to daemon"):
            if is_client:
                link.client_done = True
            else:
                link.server_done = True
            if link.client_done or not link.is_deaf:
                self._end(link, link.why, quietly=True)
            else:
                self._watch(link)
            return
        self._end(link, "client closed" if is_client else "daemon closed", quietly=True)

    def _came(self, link, is_client, data):
        """Parses and passes on. False: the connection has ended."""
        dropping = link.armed == ("request dropped" if is_client else "answer dropped")
        if is_client:
            link.asked += data
            self._requests(link, not dropping)
        else:
            link.answered += data
            self._answers(link, not dropping and not link.is_deaf)
        if dropping:
            self._fault(link.armed, link.slot, link)
            link.why = link.armed
            if not is_client:
                try:
                    link.client.send(data[: self.rng.randrange(len(data))])
                except OSError:
                    pass
            self._end(link, link.why)
            return False
        if is_client:
            link.to_server += data
        elif not link.is_deaf:
            link.to_client += data
        return True

    def _requests(self, link, passed):
        while True:
            line, rest = self._message(link.asked, self._request_size)
            if line is None:
                return
            words, now = line.split(), time.monotonic()
            verb = words[0] if words else ""
            if verb not in VERBS:
                self.wrong.append("%r sent %r" % (link, line))
            number, token = 0, 0
            if verb in ("ack", "nack", "renew", "bury", "stats-job"):
                number, token = int(words[1]), int(words[2]) if verb in ("ack", "nack", "renew") else 0
                if passed:
                    self.notes.append(Said(now, link, verb, number, token))
            if link.holding and verb not in ("ack", "nack", "renew", "bury", "stats-job"):
                self.notes += [Beside(now, link, number, token, line) for number, token in link.holding]
            labels = []
            if verb == "put-into":
                labels = [(rest.split(b" ", 1)[0].decode(), key_of(words))]
            elif verb == "put-batch":
                while rest:
                    head, _, rest = rest.partition(b"\r\n")
                    size = int(head.split()[3])
                    labels.append((rest[:size].split(b" ", 1)[0].decode(), key_of(head.decode().split())))
                    rest = rest[size + 2 :]
            for label, key in labels:
                self.notes.append(Put(now, link, label, key))
            link.waiting.append((verb, number, token, now))

    def _answers(self, link, passed):
        while True:
            line, body = self._message(link.answered, self._answer_size)
            if line is None:
                return
            words, now = line.split(), time.monotonic()
            if words[0] == "RESERVED" and len(words) == 6:
                number, token = int(words[1]), int(words[3])
                link.holding.add((number, token))
                label = body.split(b" ", 1)[0].decode()
                self.notes.append(Reserved(now, link, number, token, words[4], int(words[5]), label, link.claimed_at))
                continue
            if not link.waiting:
                self.wrong.append("%r: the daemon said %r, and nobody asked" % (link, line))
                continue
            verb, number, token, asked_at = link.waiting.popleft()
            if verb == "claim":
                link.claimed_at = asked_at
            elif now - asked_at > SLOW:
                self.faults.append(Fault(asked_at, now, "slow answer", link.slot, link))
            if verb in ("ack", "nack", "renew", "bury"):
                self.notes.append(Heard(now, link, verb, number, token, words[0], asked_at, passed))
                if verb != "renew" or words[0] == "NOT_FOUND":
                    link.holding = {pair for pair in link.holding if pair[0] != number}

    @staticmethod
    def _message(data, size_of):
        """Takes a line and its body out of `data`, if they are whole."""
        end = data.find(b"\r\n")
        if end < 0:
            return None, b""
        line = bytes(data[:end]).decode("latin-1")
        size = size_of(line.split())
        whole = end + 2 + (0 if size is None else size + 2)
        if len(data) < whole:
            return None, b""
        body = bytes(data[end + 2 : whole - 2]) if size is not None else b""
        del data[:whole]
        return line, body

    @staticmethod
    def _request_size(words):
        if words and words[0] == "put-into":
            return int(words[5])
        return int(words[3]) if words and words[0] == "put-batch" else None

    @staticmethod
    def _answer_size(words):
        if words and words[0] in ("RESERVED", "FOUND"):
            return int(words[2])
        return int(words[1]) if words and words[0] == "OK" else None


def key_of(words):
    return next((word[4:] for word in words if word.startswith("key=")), None)
