"""
./dev torture pools: consumers, cleaners and suppliers of pools are killed by SIGKILL at random, while
a watcher follows every member by its events, and an observer reads SHOW.

At every moment each member is in one state: each event begins in the state in which the one before
has ended, and only moves of the protocol page are seen. A held member has one fence, and fences grow.
A dirty member is free again only by a cleaner. The counts of SHOW add up, and the members of the
joined pool are never more than its maximum. Upgrades in place change none of that.
When all clients are dead, nothing is held or awaited, the units of `pool:NAME` are 0, and no joined
member is left.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))

import servers
import wire

ROLES = ["consumer"] * 8 + ["cleaner"] * 2 + ["supplier"] * 3
DIRTY, JOINED, JOINED_MAX = "db", "web", 6
SETTINGS = [
    "pool.db.members=db_1, db_2, db_3, db_4",
    "pool.db.on_return=dirty",
    "pool.db.clean_tries=0",
    "pool.web.kind=joined",
    "pool.web.max=%d" % JOINED_MAX,
    "pool.web.cull_after=1",
    "pool.web.stop_timeout=1",
]
HELD = {"taken", "cleaning", "checking"}


# ---- clients that are killed ---------------------------------------------------------------------


def consume(client, rng):
    """Takes members and gives them back, until it is killed."""
    while True:
        target = rng.choice([DIRTY, JOINED, "db,web", "web,db"])
        count = rng.choice(["", "", " count=2"])
        what = rng.choice(["", "", " for=check"])
        answer = client.ask("TAKE %s %s%s%s" % (target, rng.choice(["0", "0.05", "5"]), count, what))
        if not answer.startswith("TAKEN"):
            continue
        if count:
            client.line()
        time.sleep(rng.random() * 0.01)  # the time that a member is used
        for _ in range(2 if count else 1):
            client.ask(rng.choice(["RETURN", "RETURN", "RETURN fail"]))


def clean(client, rng):
    while True:
        if client.ask("TAKE db 5 for=clean").startswith("TAKEN"):
            client.ask(rng.choice(["RETURN", "RETURN", "RETURN", "RETURN fail"]))


def supply(client, rng):
    """Runs members as WANT says, and ends them as STOP says. Now and then one ends by itself."""
    mine, number, want = [], 0, 0
    client.say("SUPPLY web 1 4")
    while True:
        line = client.line() if b"\n" in client.buffer or client.fill(0.05) else ""
        if line.startswith("WANT"):
            want = int(line.split()[2])
        elif line.startswith("STOP"):
            client.say("MEMBER DROP web %s now" % line.split()[2])
            if line.split()[2] in mine:
                mine.remove(line.split()[2])
        elif line == "ERROR POOL_FULL" and mine:
            mine.pop()  # another one was faster
        elif mine and rng.random() < 0.02:
            client.say("MEMBER DROP web %s now" % mine.pop(rng.randrange(len(mine))))
        while len(mine) < want:
            number += 1
            mine.append("%d-%d" % (os.getpid(), number))
            client.say("JOIN web %s" % mine[-1])


def be(role, host, port, seed):
    """Plays a role until it is killed; the server's end ends it, too."""
    client = wire.TextClient((host, int(port)), deadline=60)
    try:
        {"consumer": consume, "cleaner": clean, "supplier": supply}[role](client, random.Random(seed))
    except (wire.Closed, OSError):
        pass


# ---- the watcher ---------------------------------------------------------------------------------


class Watcher(threading.Thread):
    """Follows all members by their events. `wrong` has the first thing that must not be."""

    def __init__(self, daemon, moves):
        super().__init__(daemon=True)
        self.client = daemon.text_client(deadline=120)
        self.moves = moves
        self.states, self.fences = {}, {}
        self.last_fence = 0
        self.events = 0
        self.wrong = None
        for pool in (DIRTY, JOINED):
            for member, state, _ in show(self.client, pool)[1]:
                self.states[pool, member] = state
        assert self.client.ask("WATCH *") == "OK"

    def run(self):
        try:
            while not self.wrong:
                self.follow(self.client.line())
        except (wire.Closed, OSError):
            pass

    def follow(self, line):
        words = line.split()
        if words[0] != "EVENT" or words[2] == "-":
            self.wrong = None if words[0] == "EVENT" else "not an event: " + line
            return
        pool, member, before, after, why = words[1:6]
        more = dict(word.split("=", 1) for word in words[6:])
        self.events += 1
        if self.states.get((pool, member), "-") != before:
            self.wrong = "%s was %s before: %s" % (member, self.states.get((pool, member), "-"), line)
        elif (before, after, why) not in self.moves:
            self.wrong = "no such move: " + line
        elif after in HELD:
            fence = int(more["fence"])
            if fence <= self.last_fence:
                self.wrong = "its fence is not above %d: %s" % (self.last_fence, line)
            self.last_fence = self.fences[pool, member] = fence
        elif before in HELD and int(more["fence"]) != self.fences[pool, member]:
            self.wrong = "another hold ends, %d: %s" % (self.fences[pool, member], line)
        elif before == "dirty" and after == "free":
            self.wrong = "a dirty member is free, and nobody has cleaned it: " + line
        self.states[pool, member] = after


def show(client, pool):
    """The counts and the members (name, state, fence) of a pool."""
    client.say("POOL SHOW " + pool)
    counts = dict(re.findall(r"(\w+)=(\d+)", client.line()))
    members = []
    while True:
        line = client.line()
        if not line:
            return {name: int(count) for name, count in counts.items()}, members
        words = line.split()
        if words[0] == "MEMBER":
            members.append((words[1], words[2], words[4]))


def check(client, pool):
    counts, members = show(client, pool)
    states = ["free", "taken", "cleaning", "checking", "dirty", "stopping", "down"]
    assert sum(counts[state] for state in states) == counts["members"], counts
    assert len({name for name, _, _ in members}) == len(members), members
    for name, state, fence in members:
        assert (fence != "-") == (state in HELD), (name, state, fence)
    assert pool != JOINED or counts["members"] <= JOINED_MAX, counts


# ---- the storm -----------------------------------------------------------------------------------


def legal_moves():
    """The moves of the protocol page that this storm may see: (from, to, why)."""
    moves = {("-", "free", why) for why in ("add", "join")}
    moves |= {("free", "taken", "take"), ("free", "checking", "check"), ("dirty", "cleaning", "clean")}
    moves |= {("taken", to, why) for to in ("free", "dirty") for why in ("return", "quit")}
    moves |= {(held, to, why) for held in ("taken", "checking") for to in ("dirty", "stopping") for why in ("fail", "crash")}
    moves |= {("taken", "free", "undone"), ("checking", "free", "undone"), ("cleaning", "dirty", "undone")}
    moves |= {("cleaning", "free", "cleaned"), ("cleaning", "dirty", "clean_failed"), ("checking", "free", "checked")}
    moves |= {("free", "stopping", "cull"), ("stopping", "-", "stop_timeout")}
    for state in ("free", "taken", "checking", "stopping"):
        moves |= {(state, "-", why) for why in ("leave", "lost")}
    return moves


def start(role, address, rng):
    return subprocess.Popen(
        [sys.executable, "-B", os.path.abspath(__file__), "--be", role, address[0], str(address[1]), str(rng.random())])


def upgrade(daemon):
    """Upgrades the daemon to itself, and waits until it has taken over."""
    with daemon.changed:
        seen = len(daemon.lines)
    daemon.child.send_signal(signal.SIGUSR1)

    def is_over():
        with daemon.changed:
            said = daemon.lines[seen:]
        assert None not in said, "it ended:\n" + daemon.log
        assert not any("goes on as before" in line for line in said), "\n".join(said)
        return any("info: ready: " in line for line in said)

    wire.poll(is_over, "the upgrade is over", 60)


def storm(seconds, seed):
    """Runs the storm; raises AssertionError with what is wrong. Returns what was done."""
    rng = random.Random(seed)
    daemon = servers.Counterd(*SETTINGS)
    clients, killed, looks, upgrades = [], 0, 0, 0
    try:
        watcher = Watcher(daemon, legal_moves())
        watcher.start()
        observer = daemon.text_client(deadline=60)
        clients = [(role, start(role, daemon.text, rng)) for role in ROLES]
        end = time.monotonic() + seconds
        while time.monotonic() < end and not watcher.wrong:
            check(observer, DIRTY)
            check(observer, JOINED)
            looks += 1
            if rng.random() < 0.3:
                i = rng.randrange(len(clients))
                role, client = clients[i]
                client.kill()
                client.wait()
                clients[i] = (role, start(role, daemon.text, rng))
                killed += 1
            if rng.random() < 0.02:
                upgrade(daemon)
                upgrades += 1
            time.sleep(0.02)  # between two looks
        assert not watcher.wrong, watcher.wrong
        for _, client in clients:
            client.kill()
            client.wait()
        wire.poll(lambda: nothing_is_left(observer), "that nothing is held and awaited")
        binary = daemon.binary_client()
        for pool in (DIRTY, JOINED):
            assert binary.get(b"pool:" + pool.encode()) in (0, None), pool
        wire.poll(lambda: watcher.wrong or dict(show_states(observer)) == present(watcher.states),
                  "that the watcher was told everything")
        assert not watcher.wrong, watcher.wrong
        daemon.stop()
        return "%d killed, %d upgrades, %d events, %d looks" % (killed, upgrades, watcher.events, looks)
    finally:
        for _, client in clients:
            client.kill()
            client.wait()
        daemon.kill()


def nothing_is_left(client):
    dirty, joined = show(client, DIRTY)[0], show(client, JOINED)[0]
    return (all(counts[state] == 0 for counts in (dirty, joined) for state in HELD | {"waiting"})
            and joined["members"] == 0 and dirty["members"] == 4)


def show_states(client):
    for pool in (DIRTY, JOINED):
        for member, state, _ in show(client, pool)[1]:
            yield (pool, member), state


def present(states):
    return {member: state for member, state in states.items() if state != "-"}


def main():
    parser = argparse.ArgumentParser(prog="./dev torture pools", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long (300)")
    parser.add_argument("--seed", type=int, help="of the plan")
    parser.add_argument("--be", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.be:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        be(*args.be)
        return
    seed = args.seed if args.seed is not None else random.randrange(2**31)
    print("seed %d" % seed)
    print(storm(args.seconds, seed))


if __name__ == "__main__":
    main()
