"""A stand-in for a server of pools: a function of the test answers each line, and all are recorded."""

import socket
import threading

import ctl
import wire


class Fake:
    """
    Serves the text protocol on a port of its own. `answer(line)` returns the lines to say to a
    request: a string, one of bytes, None for nothing yet, or CLOSE. `lines` are the requests of all
    connections, in the order of their arrival.
    """

    CLOSE = object()

    def __init__(self, answer):
        self.answer = answer
        self.lines = []
        self.conns = []
        self.listener = None
        self.listen(("127.0.0.1", 0))

    def listen(self, address):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(address)
        self.listener.listen()
        self.address = self.listener.getsockname()
        self.at = ("-s", ctl.at(self.address))
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                conn = listener.accept()[0]
            except OSError:
                return
            self.conns.append(conn)
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        try:
            with conn, conn.makefile("rb") as requests:
                for line in requests:
                    line = line.decode().rstrip("\n")
                    self.lines.append(line)
                    said = self.answer(line)
                    if said is Fake.CLOSE:
                        return
                    if said is not None:
                        conn.sendall(said.encode() if isinstance(said, str) else said)
        except OSError:
            pass

    def say(self, text):
        """Says lines over the newest connection."""
        self.conns[-1].sendall(text.encode())

    def hang_up(self):
        """Ends all connections."""
        for conn in self.conns:
            try:
                conn.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.conns = []

    def stop(self):
        """Stops listening, and ends all connections; harmless when it has stopped."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.hang_up()

    def wait_lines(self, count):
        """Waits until that many requests have arrived. Returns them."""
        wire.poll(lambda: len(self.lines) >= count, "%d requests: %r" % (count, self.lines))
        return self.lines


def in_order(*answers):
    """An answer for each request, one after another."""
    left = list(answers)
    return lambda line: left.pop(0)
