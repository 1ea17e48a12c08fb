"""What nodes keep in the engine: read in one go, added up, and compared with nothing at the end.

`Keys` is a snapshot of all keys of a prefix. `problems` has a line for each sum that is wrong;
`left` a line for each trace of clients or nodes that are gone.
"""

import os

import resp
import wire

SUMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "campaigns", "cluster", "sums.lua")

# All keys of a prefix with their values, as of one moment.
_ALL = """
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
    local kind = redis.call('TYPE', key)['ok']
    local value
    if kind == 'hash' then value = redis.call('HGETALL', key)
    elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    elseif kind == 'set' then value = redis.call('SMEMBERS', key)
    else value = {} end
    found[#found + 1] = {key, kind, value}
end
return found
"""


def _pairs(values):
    return dict(zip(values[0::2], values[1::2]))


class Keys:
    """All keys of a prefix."""

    def __init__(self, address, prefix="counterd"):
        base = b"{%s}:" % prefix.encode()
        with open(SUMS, encoding="ascii") as f, resp.Client(address) as client:
            found = client.ask("EVAL", _ALL, 0, base + b"*")
            # A line for each sum that is wrong.
            self.problems = [line.decode() for line in client.ask("EVAL", f.read(), 1, base)]
        self.found = {key[len(base) :]: (kind, value) for key, kind, value in found}
        self.beats = self._hash(b"beat")
        self.nodes = {node.decode(): s.decode() for node, s in self._hash(b"node").items()}
        self.meta = {k.decode(): v.decode() for k, v in self._hash(b"meta").items()}
        self.units = {name: int(n) for name, n in self._hash(b"units").items()}
        self.more = set(self.found.get(b"more", (None, []))[1])
        self.waits = {}  # session -> CLASS:NAME -> number
        self.queues = {}  # session, CLASS, name -> id -> seq
        self.sessions = {}  # session -> fields
        for key in self.found:
            self._sort(key)

    def _hash(self, key):
        return _pairs(self.found.get(key, (None, []))[1])

    def _sort(self, key):
        kind, _, rest = key.partition(b":")
        if kind == b"w":
            self.waits[rest.decode()] = {what: int(n) for what, n in self._hash(key).items()}
        elif kind == b"s":
            self.sessions[rest.decode()] = {k.decode(): v.decode() for k, v in self._hash(key).items()}
        elif kind == b"q":
            session, queue_class, name = rest.split(b":", 2)
            ids = {i: float(seq) for i, seq in self._hash(key).items()}
            self.queues[session.decode(), queue_class, name] = ids

    @property
    def grace(self):
        return "grace" in self.meta

    def state_of(self, node):
        """The state of the node's session that is not ended."""
        return self.sessions.get(self.nodes.get(node), {}).get("state")

    def left(self, nodes):
        """A line for each thing that is there besides the sessions of these nodes."""
        found = ["%r of %r" % (units, name) for name, units in self.units.items()]
        found += ["waits of %s: %r" % item for item in self.waits.items()]
        found += ["%r is in more" % name for name in self.more]
        sessions = set(self.sessions) | {s.decode() for s in self.beats} | set(self.nodes.values())
        found += ["session %s: %r" % (s, self.sessions.get(s)) for s in sessions
                  if s not in {self.nodes.get(node) for node in nodes}]  # fmt: skip
        return found


def await_nothing_left(address, nodes, prefix="counterd", deadline=None):
    """
    Waits until nothing is left but the sessions of `nodes`. All sums must be right at each moment.
    """
    seen = []

    def is_empty():
        keys = Keys(address, prefix)
        assert not keys.problems, "\n".join(keys.problems)
        seen[:] = keys.left(nodes)
        return not seen

    try:
        wire.poll(is_empty, "nothing is left", deadline)
    except wire.Timeout as e:
        raise wire.Timeout("%s; there is\n%s" % (e, "\n".join(seen))) from None
