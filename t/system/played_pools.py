"""A server of pools that the test plays: it reads the requests and says the answers."""

import socket

import wire


class Peer(wire.TextClient):
    """The server's end of one connection."""

    def __init__(self, sock):  # pylint: disable=super-init-not-called
        self.sock = sock
        self.deadline = wire.DEADLINE
        self.buffer = bytearray()
        self.at_end = False

    def hears(self, line, answer=None):
        """The next request must be this one; answers it."""
        assert self.line() == line
        if answer is not None:
            self.say(answer)

    def hears_join(self, pool, words=""):
        """The next request must be a JOIN of that pool with these words. Returns the member."""
        verb, name, member, *rest = self.line().split(" ")
        assert (verb, name, " ".join(rest)) == ("JOIN", pool, words)
        self.say("JOINED")
        return member

    def hears_drop(self, pool, member):
        """The next request must say that the member has ended."""
        self.hears("MEMBER DROP %s %s now" % (pool, member), "OK")


class Server:
    """A listener on a free port. Peers must be accepted in the order in which they connect."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(wire.DEADLINE)
        self.address = self.listener.getsockname()
        self.peers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.close()
        self.listener.close()

    def accept(self):
        """Waits for a client, and returns the Peer that speaks with it."""
        peer = Peer(self.listener.accept()[0])
        self.peers.append(peer)
        return peer

    def supplied(self, pool, init, maximum, want=None):
        """Accepts a supplier, and wants that many members of it."""
        peer = self.accept()
        wanted = "WANT %s %d" % (pool, init if want is None else want)
        # In one piece: a supplier of nothing asks again after 0.1 seconds.
        peer.hears("SUPPLY %s %d %d" % (pool, init, maximum), "OK\n" + wanted)
        return peer
