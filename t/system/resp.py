"""A client of Redis on a unix socket: commands, pipelines and subscriptions.

Bulk strings and status lines come back as bytes, integers as int, arrays as lists, nothing as None. An error reply
is raised as Error by `ask`, and is returned as an Error by `read` and `pipeline`.
"""

import socket

DEADLINE = 60  # seconds; far beyond what any answer takes


class Error(Exception):
    """An error reply. `word` is its first word: ERR, OOM, SESSION."""

    @property
    def word(self):
        return str(self).split(" ", 1)[0]


def encode(arguments):
    """A command as bytes for the wire."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        argument = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(argument), argument))
    return b"".join(parts)


class Client:
    """One connection. One that has subscribed is used for messages only."""

    def __init__(self, path, user=None, password=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.file = self.socket.makefile("rb")
        if user:
            self.ask("AUTH", user, password)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, *arguments):
        """Sends a command; `read` returns its reply."""
        self.socket.sendall(encode(arguments))

    def read(self):
        """Returns the next reply."""
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if not line:
            raise ConnectionError("the server closed the connection")
        if kind == b"+":
            return rest
        if kind == b"-":
            return Error(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if rest == b"-1":
            return None
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2]
        assert kind == b"*", "not RESP2: %r" % line
        return [self.read() for _ in range(int(rest))]

    def ask(self, *arguments):
        """Sends a command and returns its reply, or raises the Error that it was."""
        self.send(*arguments)
        reply = self.read()
        if isinstance(reply, Error):
            raise reply
        return reply

    def pipeline(self, commands):
        """Sends all `commands`, each a sequence, and returns the list of their replies."""
        commands, replies = list(commands), []
        for start in range(0, len(commands), 500):
            some = commands[start : start + 500]
            self.socket.sendall(b"".join(map(encode, some)))
            replies += [self.read() for _ in some]
        return replies

    def info(self, section):
        """INFO as a dictionary of text."""
        lines = self.ask("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line and line[0] != "#")

    def published(self):
        """
        Returns the payloads of all messages that were published since the last call: the server answers the PING of
        a subscriber behind them.
        """
        self.send("PING")
        replies = iter(self.read, [b"pong", b""])
        return [payload for _, _, payload in replies]
