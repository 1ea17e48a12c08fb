"""./dev torture exhaustion: a daemon that has run out of something.

Each part has its own daemon. It asserts promises in plain numbers. The tests use `--short`: fewer of
everything, and shorter limits.
"""

import argparse
import collections
import contextlib
import errno
import os
import random
import resource
import select
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "system")]

import http_client  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

OUTPUT_MAX = 256 * 1024  # limits.output_buffer
HEADER = struct.Struct(">BBBBI4sIIH")

Scale = collections.namedtuple(
    "Scale",
    "limit cpu_seconds memory names connections unread unread_limit slow slow_limit slow_pause" " holders",
)
FULL = Scale(1024, 10, "64M", 1000000, 18000, 1000, 30, 5000, 30, 10, 200)
SHORT = Scale(64, 0.5, "16M", 260000, 500, 6, 1, 100, 1, 0.3, 20)
SLOW = SHORT._replace(connections=200, unread=2)


class Found(AssertionError):
    """A promise was broken."""


def want(condition, what, *values):
    if not condition:
        raise Found(what % values if values else what)


def say(text, *values):
    print("  " + (text % values if values else text), flush=True)


# ---- many connections ----------------------------------------------------------------------------


def room(descriptors):
    """Raises the limit of descriptors. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < descriptors:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connect_many(address, count, rcvbuf=None):
    """Opens connections, at most 400 at a time, because the listener's backlog takes no more."""
    made = []
    while len(made) < count:
        batch = []
        for _ in range(min(400, count - len(made))):
            s = socket.socket()
            if rcvbuf:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
            s.setblocking(False)
            s.connect_ex(address)
            batch.append(s)
        poller = select.poll()
        by_fd = {s.fileno(): s for s in batch}
        for fd in by_fd:
            poller.register(fd, select.POLLOUT)
        until = time.monotonic() + 60
        while by_fd:
            want(time.monotonic() < until, "%d connections are not made", len(by_fd))
            for fd, _ in poller.poll(1000):
                poller.unregister(fd)
                s = by_fd.pop(fd)
                error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                want(error == 0, "connecting failed: %s", os.strerror(error))
        made += batch
    return made


def send_all(sockets, data):
    for s in sockets:
        want(s.send(data) == len(data), "a request was not taken")


def read_all(sockets, size):
    """Reads `size` bytes from each."""
    got = {s.fileno(): b"" for s in sockets}
    by_fd = {s.fileno(): s for s in sockets}
    poller = select.poll()
    for fd in got:
        poller.register(fd, select.POLLIN)
    left, until = len(sockets), time.monotonic() + 60
    while left:
        want(time.monotonic() < until, "%d connections are not answered", left)
        for fd, _ in poller.poll(1000):
            data = by_fd[fd].recv(size - len(got[fd]))
            want(data, "closed after %r", got[fd])
            got[fd] += data
            if len(got[fd]) == size:
                poller.unregister(fd)
                left -= 1
    return [got[s.fileno()] for s in sockets]


def close_all(sockets):
    for s in sockets:
        s.close()


def closed(daemon, reason):
    status, text = http_client.ask(daemon.admin, "GET", "/metrics")
    want(status == 200, "/metrics: %d", status)
    return sum(
        int(float(line.split()[-1]))
        for line in text.splitlines()
        if line.startswith("counterd_connections_closed_total{") and '"%s"' % reason in line
    )


def connections(daemon):
    found, cursor = [], ""
    while cursor is not None:
        page = http_client.get(daemon.admin, "/api/v1/connections?limit=1000" + cursor)
        found += page["connections"]
        cursor = page["cursor"] and "&cursor=" + page["cursor"]
    return found


# ---- the parts -----------------------------------------------------------------------------------


def descriptors(start, scale, rng):
    """Without descriptors it waits and does not spin; it accepts again when some are free."""
    daemon = start(preexec=servers.set_limit(resource.RLIMIT_NOFILE, scale.limit))
    early = daemon.text_client()
    want(early.ask("ACQ4ME early 1 9 60") == "LOCKED", "an early client gets its lock")
    crowd = connect_many(daemon.text, scale.limit + 100)
    wire.poll(lambda: daemon.descriptors() >= scale.limit - 4, "it is out of descriptors", 60)
    began, used = time.monotonic(), daemon.cpu_seconds()
    while time.monotonic() - began < scale.cpu_seconds:
        want(early.ask("RELEASE other") == "NOT_LOCKED", "a connected client is served")
        time.sleep(0.1)
    share = (daemon.cpu_seconds() - used) / (time.monotonic() - began)
    say("%d connections to %d descriptors: %.1f %% of a processor", len(crowd), scale.limit,
        100 * share)  # fmt: skip
    # The clock of a process goes in steps of 10 ms.
    want(share <= (0.3 if wire.SLOW else 0.05) + 0.02 / scale.cpu_seconds,
         "%.1f %% of a processor while it cannot accept", 100 * share)  # fmt: skip
    close_all(crowd)

    def served():
        with daemon.text_client(deadline=60) as late:
            return late.ask("RELEASE") == "NOT_LOCKED"

    wire.poll(served, "it accepts again", 60)
    want(early.ask("RELEASE early") == "RELEASED", "the early client has its lock still")
    early.close()


def acquires(some, units=1, limit=1):
    out = bytearray()
    for name in some:
        out += HEADER.pack(0x90, wire.ACQUIRE, 0, 0, 10 + len(name), b"\0\0\0\0", units, limit,
                           len(name))  # fmt: skip
        out += name
    return bytes(out)


def statuses(client, count):
    """The statuses of `count` answers, with any bodies."""
    found, at, buffer = [], 0, client.buffer
    while len(found) < count:
        while len(found) < count and len(buffer) - at >= 12:
            end = at + 12 + int.from_bytes(buffer[at + 4 : at + 8], "big")
            if len(buffer) < end:
                break
            found.append(buffer[at + 2])
            at = end
        if len(found) < count:
            want(not client.at_end and client.fill(), "answers are missing")
    del buffer[:at]
    return found


def memory(start, scale, rng):
    """Without memory it refuses new names, serves existing ones, and reuses freed memory."""
    # Names of binary clients stay at 0 until their interval ends, after a day by default.
    daemon = start("counter.memory_limit=" + scale.memory, "counter.stats_interval=2")
    client, text = daemon.binary_client(deadline=120), daemon.text_client(deadline=120)
    want(text.ask("ACQ4ME first 1 9 0") == "LOCKED", "a lock before")
    made, step, status = 0, 10000, []
    while made < scale.names and wire.OUT_OF_MEMORY not in status:
        client.send_reading(acquires(b"name-%d" % i for i in range(made, made + step)))
        status = statuses(client, step)
        made += step
    want(wire.OUT_OF_MEMORY in status, "%d names were taken within %s", made, scale.memory)
    taken = made - step + status.index(wire.OUT_OF_MEMORY)
    while made < scale.names:  # the client keeps asking, and is refused
        client.send_reading(acquires(b"name-%d" % i for i in range(made, made + step)))
        statuses(client, step)
        made += step
    want(taken > 100000, "only %d names", taken)
    limit = int(scale.memory[:-1]) * 1024
    resident = daemon.resident_kib()
    say("%d names of %d taken within %s; %d KiB resident", taken, made, scale.memory, resident)
    want(resident < (16 if wire.SLOW else 1) * (limit + 32 * 1024), "%d KiB resident", resident)
    known = [b"name-%d" % rng.randrange(taken) for _ in range(1000)]
    for name in known:
        want(client.get(name) == 1, "%r is held", name)
        want(client.acquire(1, 1, name) == wire.NOT_AVAILABLE, "%r is taken", name)
    for name in set(known):
        want(client.release(1, name) == wire.OK, "%r is given back", name)
        want(client.acquire(1, 1, name) == wire.OK, "%r is had again", name)
    want(text.ask("RELEASE first") == "RELEASED", "a lock from before")
    answer = text.ask("ACQ4ME name-1 2 9 0")  # one more holder needs more memory
    want(answer in ("LOCKED", "ERROR OUT_OF_MEMORY"), "another unit of what exists: %s", answer)
    want(text.ask("STATS UPTIME").startswith("uptime"), "statistics")
    client.close()

    def again():
        return text.ask("ACQ4ME afterwards 1 9 0") == "LOCKED"

    wire.poll(again, "there is memory when its holders are gone", 60)
    text.close()


def crowd(start, scale, rng):
    """Very many connections, each with a lock."""
    may = room(scale.connections + 2000)
    count = min(scale.connections, may - 1000)
    if count < scale.connections:
        say("only %d connections: the limit of descriptors is %d", count, may)
    daemon = start("counter.threads=2", "poolcounter.max_locks=2")
    client = daemon.text_client(deadline=60)  # first: select() needs a low number
    before = daemon.resident_kib()
    made = []
    for first in range(0, count, 2000):
        batch = connect_many(daemon.text, min(2000, count - first))
        for i, s in enumerate(batch):
            s.send(b"ACQ4ME holder-%d 1 2 0\n" % (first + i))
        want(set(read_all(batch, 7)) == {b"LOCKED\n"}, "all have their locks")
        made += batch
    grown = daemon.resident_kib() - before
    say("%d connections with a lock each: %.0f bytes a connection", count, grown * 1024 / count)
    send_all(made, b"ACQ4ME all %d %d 0\n" % (count, 2 * count))
    want(set(read_all(made, 7)) == {b"LOCKED\n"}, "all share one name")
    want(client.ask("ACQ4ME all %d %d 0" % (count, 2 * count)) == "TIMEOUT", "its limit holds")
    close_all(made)
    wire.poll(lambda: client.stat("processing_workers") == 0, "all is free at the end", 60)
    client.close()


def unread(start, scale, rng):
    """Clients that send requests all the time and never read."""
    daemon = start("counter.threads=2", "limits.write_timeout=%d" % scale.unread_limit, admin=True)
    # A Dump is 400 KB, so the kernel's buffers for a client (some MB) are soon full.
    with daemon.binary_client(deadline=60) as client:
        client.send_reading(acquires(b"%05d" % i + b"n" * 2000 for i in range(200)))
        want(set(statuses(client, 200)) == {wire.OK}, "there are names to tell of")
        few = max(1, scale.unread // 10)
        text = connect_many(daemon.text, few, rcvbuf=4096)
        binary = connect_many(daemon.binary, scale.unread - few, rcvbuf=4096)
        most, seconds = never_read(daemon, scale, text, binary)
        want(client.get(b"%05d" % 0 + b"n" * 2000) == 1, "the holder still holds it")
    say("%d clients that never read: %d bytes queued at most, all closed within %.0f s",
        scale.unread, most, seconds)  # fmt: skip
    want(0 < most <= OUTPUT_MAX, "%d bytes queued for one client", most)
    close_all(text + binary)


def never_read(daemon, scale, text, binary):
    """
    Sends requests until all are closed. Returns the most bytes queued for one, and the seconds it
    took.
    """
    requests = {s.fileno(): b"STATS FULL\n" * 500 for s in text}
    requests.update({s.fileno(): wire.binary_request(wire.DUMP) * 5 for s in binary})
    live = {s.fileno(): s for s in text + binary}
    spare = 60 if scale is not FULL or wire.SLOW else 5  # the short form does not judge times
    began, gone, most, stuck = time.monotonic(), 0, 0, {}
    while gone < scale.unread:
        for fd, s in list(live.items()):
            try:
                s.send(requests[fd])
            except BlockingIOError:
                pass
            except OSError as e:
                want(e.errno in (errno.EPIPE, errno.ECONNRESET), "%s", e)
                del live[fd]
        try:
            # The kernel's own time limit may come first.
            gone = closed(daemon, "write_timeout") + closed(daemon, "vanished")
            found = connections(daemon)
        except OSError:  # the admin interface is slow under this load
            continue
        now, before, stuck = time.monotonic(), stuck, {}
        for one in found:
            queued = one["queued_bytes"]
            most = max(most, queued)
            if queued:  # the time at which it reached this number
                known, since = before.get(one["connection"], (0, now))
                stuck[one["connection"]] = (queued, since if known == queued else now)
                passed = now - stuck[one["connection"]][1]
                want(passed < scale.unread_limit + spare,
                     "%d bytes are queued for one that has taken nothing for %.0f s", queued,
                     passed)  # fmt: skip
        want(now - began < 400, "%d are open still", scale.unread - gone)
        time.sleep(0.05 if scale.unread_limit < 5 else 1)
    return most, time.monotonic() - began


def slow(start, scale, rng):
    """Clients that send a byte now and then, and others that hold a lock and send nothing."""
    daemon = start("limits.request_timeout=%d" % scale.slow_limit, "counter.threads=2", admin=True)
    holders = connect_many(daemon.text, scale.holders)
    for i, s in enumerate(holders):
        s.send(b"ACQ4ME holder-%d 1 2 0\n" % i)
    want(set(read_all(holders, 7)) == {b"LOCKED\n"}, "holders have their locks")
    made = connect_many(daemon.text, scale.slow)
    request = b"ACQ4ME " + b"k" * 4000
    began, sent, at = {}, {}, time.monotonic()
    due = collections.deque()
    for s in made:  # spread over one pause
        due.append((at + rng.random() * scale.slow_pause, s.fileno()))
    due = collections.deque(sorted(due))
    by_fd = {s.fileno(): s for s in made}
    poller = select.poll()
    for fd in by_fd:
        poller.register(fd, select.POLLIN | select.POLLRDHUP)
    lasted = []
    spare = 60 if scale is not FULL or wire.SLOW else 5
    while by_fd:
        now = time.monotonic()
        while due and due[0][0] <= now:
            _, fd = due.popleft()
            if fd not in by_fd:
                continue
            began.setdefault(fd, now)
            sent[fd] = sent.get(fd, -1) + 1
            with contextlib.suppress(OSError):
                by_fd[fd].send(request[sent[fd] : sent[fd] + 1])
            due.append((now + scale.slow_pause, fd))
        for fd, _ in poller.poll(20):
            poller.unregister(fd)
            lasted.append(time.monotonic() - began[fd])
            by_fd.pop(fd)
        old = [fd for fd in by_fd if fd in began]
        if old:
            most = now - min(began[fd] for fd in old)
            want(most < scale.slow_limit + spare, "a request is open after %.1f s", most)
    say("%d incomplete requests closed after %.1f to %.1f s", scale.slow, min(lasted), max(lasted))
    want(min(lasted) >= scale.slow_limit - 0.01, "one was closed after %.2f s", min(lasted))
    wire.poll(lambda: closed(daemon, "request_timeout") == scale.slow, "closed for that reason", 60)
    send_all(holders, b"RELEASE\n")
    want(set(read_all(holders, 9)) == {b"RELEASED\n"}, "idle holders have their locks still")
    close_all(made + holders)


PARTS = {
    "descriptors": descriptors,
    "memory": memory,
    "connections": crowd,
    "unread": unread,
    "slow": slow,
}


@contextlib.contextmanager
def starting():
    """Returns a function that starts daemons. They must end in order."""
    started = []

    def start(*options, **kwargs):
        started.append(servers.Counterd(*options, **kwargs))
        return started[-1]

    try:
        yield start
        for daemon in started:
            if daemon.is_running():
                daemon.stop()
    finally:
        for daemon in started:
            daemon.kill()


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev torture exhaustion", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="of " + ", ".join(PARTS))
    parser.add_argument("--short", action="store_true", help="what the tests run")
    parser.add_argument("--seed", type=int, help="of the names and moments that are random")
    chosen = parser.parse_args(argv)
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error("no such part: " + " ".join(unknown))
    seed = random.randrange(1 << 32) if chosen.seed is None else chosen.seed
    print("seed %d" % seed, flush=True)
    failed = 0
    room(20000)
    for part in chosen.parts or PARTS:
        print(part, flush=True)
        try:
            with starting() as start:
                PARTS[part](start, SHORT if chosen.short else FULL, random.Random(seed))
        except (AssertionError, OSError) as e:
            failed += 1
            print("  FOUND: %s" % e, flush=True)
    print("%d parts, %d failed" % (len(chosen.parts or PARTS), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
