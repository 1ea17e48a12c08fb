"""
An upgrade in place from an older daemon, whose state has version 1 (base/record.md): COUNTERD_OLD
names its program. Its clients lose nothing.

With --keep FILE it runs no test, but writes such a state to a file (t/README.md).
"""

import os
import pathlib
import shutil
import sys
import tempfile

import pytest
import tap

import http_client
import servers
import test_upgrade
import wire

OLD = os.environ.get("COUNTERD_OLD", "")

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not OLD, reason="COUNTERD_OLD names no older daemon"),
]

NAMES = [b"name-%02d-" % i + b"x" * 590 for i in range(30)]
OPTIONS = [
    "limits.output_buffer=16K",
    "limits.request_timeout=600",
    "limits.write_timeout=600",
]


class Running(test_upgrade.Running):
    """Starts with the old program. Programs installed later are the new one."""

    def __init__(self, start, folder, *options):
        sockets = ["%s.socket=%s" % (name, folder / name) for name in ("poolcounter", "counter")]
        threads = "counter.threads = 2\n"
        super().__init__(
            start, folder, *OPTIONS, *sockets, *options, settings=threads, admin=True
        )

    def install(self, text=None):
        if self.number == 0:
            shutil.copy(OLD, self.program)
            self.number += 1
        else:
            super().install(text)


class Crowd:
    """Clients of both protocols: they hold, wait, have sent half a request, or do not read."""

    def __init__(self, daemon):
        self.daemon = daemon
        text, binary = daemon.text_client, daemon.binary_client
        self.holder, self.first, self.second, self.third = text(), text(), text(), text()
        self.leader, self.follower, self.fellow = text(), text(), text()
        self.counting, self.other, self.many = binary(), binary(), binary()
        self.half_text, self.half_binary = text(), binary()
        self.reader = wire.TextClient(daemon.text_unix)
        self.dumper = wire.BinaryClient(daemon.binary_unix)
        self.watcher = text()
        self.hold_and_wait()
        self.say_half()
        self.stop_reading()

    def hold_and_wait(self):
        assert self.holder.ask("ACQ4ME k 1 9 600") == "LOCKED"
        assert self.holder.ask("ACQ4ME second 2 9 600") == "LOCKED"
        assert self.leader.ask("ACQ4ANY page 1 9 600") == "LOCKED"
        waiters = [(self.first, "ACQ4ME k"), (self.second, "ACQ4ME k"), (self.third, "ACQ4ME k")]
        waiters += [(self.follower, "ACQ4ANY page"), (self.fellow, "ACQ4ANY page")]
        for number, (client, line) in enumerate(waiters):
            client.say(line + " 1 9 600")
            wire.poll(
                lambda: self.watcher.stat("waiting_workers") == number + 1, "%d wait" % (number + 1)
            )
        assert self.watcher.ask("ACQ4ME k 1 3 600") == "QUEUE_FULL"
        assert self.counting.acquire(3, 5, b"n") == wire.OK
        assert self.other.acquire(2, 5, b"n") == wire.OK
        assert self.other.acquire(1, 5, b"n") == wire.NOT_AVAILABLE
        assert self.other.acquire(4, 9, b"kept") == wire.OK
        assert self.other.release(4, b"kept") == wire.OK
        for name in NAMES:
            assert self.many.acquire(1, 9, name) == wire.OK
        assert self.reader.ask("ACQ4ME r 1 9 600") == "LOCKED"

    def say_half(self):
        self.request = wire.binary_request(wire.ACQUIRE, wire.acquire_body(1, 1, b"whole"))
        self.send(self.half_text, "poolcounter", b"ACQ4ME ha")
        self.send(self.half_binary, "counter", self.request[:13])

    def stop_reading(self):
        """Answers are queued for two clients, and the Dump of one is under way."""
        self.unread = self.fill(self.reader, "poolcounter", b"STATS FULL\n")
        self.opaques = self.fill(self.dumper, "counter", wire.binary_request(wire.STATS))
        self.dumper.send(wire.binary_request(wire.DUMP, opaque=b"dump"))
        self.dumper.send(wire.binary_request(wire.NOOP, opaque=b"noop"))
        wire.poll(lambda: self.queued("counter") >= 8192, "the Dump is under way")

    def fill(self, client, protocol, request):
        """
        Sends requests until some of the answers stay in the daemon. Returns the number of requests.
        """
        count = 0
        while self.queued(protocol) == 0:
            self.send(client, protocol, request * 8)
            count += 8
        return count

    def send(self, client, protocol, data):
        """Sends, and waits until the daemon has read it."""
        before = self.protocol(protocol)["bytes"]["received"]
        client.send(data)
        wire.poll(
            lambda: self.protocol(protocol)["bytes"]["received"] >= before + len(data), "it is read"
        )

    def get(self, what):
        return http_client.get(self.daemon.admin, "/api/v1/" + what)

    def protocol(self, name):
        return next(p for p in self.get("stats")["protocols"] if p["name"] == name)

    def queued(self, protocol):
        found = self.get("connections?protocol=" + protocol)["connections"]
        return sum(one["queued_bytes"] for one in found)

    def told(self, *but):
        """
        What the daemon reports of the clients, without changing values and the keys `but`; and the
        start times, apart because they come from two clocks that differ slightly.
        """
        but = {"age_seconds", "held_seconds", "waited_seconds", "since", "opened", *but}
        began = []

        def lines(found):
            began.extend(one.get("since", one.get("opened")) for one in found)
            return [{key: value for key, value in one.items() if key not in but} for one in found]

        stats = self.get("stats")
        told = {key: stats[key] for key in ("names", "holdings", "units", "waiting")}
        for name in ("k", "second", "page", "n", "kept", "r", NAMES[7].decode()):
            told[name] = self.get("names/" + name)
            for parties in ("holders", "waiters"):
                told[name][parties] = lines(told[name][parties])
        connections = self.get("connections")["connections"]
        connections.sort(key=lambda one: (one["client"], one["protocol"]))
        told["connections"] = lines(connections)
        for name in ("poolcounter", "counter"):
            protocol = self.protocol(name)
            # An older state may have no classes of durations, so no percentiles.
            waits = {how: one["count"] for how, one in protocol["waits"].items()}
            told[name] = protocol["requests"], waits, protocol["bytes"]["received"]
        return told, began

    def finish(self):
        """Each client continues its action."""
        self.half_text.send(b"lf 1 9 600\n")
        assert self.half_text.line() == "LOCKED"
        self.half_binary.send(self.request[13:])
        assert self.half_binary.reply().status == wire.OK
        assert self.counting.release(3, b"n") == wire.OK
        assert self.other.acquire(3, 5, b"n") == wire.OK
        assert self.holder.ask("RELEASE k") == "RELEASED"
        assert self.first.line() == "LOCKED"
        assert self.second.is_silent() and self.third.is_silent()
        assert self.first.ask("RELEASE") == "RELEASED"
        assert self.second.line() == "LOCKED"
        self.second.close()
        assert self.third.line() == "LOCKED"
        assert self.holder.ask("RELEASE second") == "RELEASED"
        assert self.leader.ask("RELEASE page") == "RELEASED"
        assert self.follower.line() == self.fellow.line() == "DONE"
        for _ in range(self.unread):
            lines = [self.reader.line()]
            while lines[-1]:
                lines.append(self.reader.line())
            assert lines[0].startswith("uptime: ")
        assert self.reader.ask("RELEASE r") == "RELEASED"
        for _ in range(self.opaques):
            assert len(wire.parse_stats(self.dumper.reply())) > 10
        found = []
        while not found or found[-1]:
            reply = self.dumper.reply()
            assert reply.opaque == b"dump"
            found.append(wire.parse_dump(reply))
        assert sorted(e[0] for e in found[:-1] if e[0] in NAMES) == NAMES
        assert self.dumper.reply().opaque == b"noop"
        for client in vars(self).values():
            if isinstance(client, wire.Client):
                client.close()


@pytest.mark.parametrize("threads", [2, 3])
def test_nothing_is_lost(start, tmp_path, threads):
    running = Running(start, tmp_path)
    crowd = Crowd(running.daemon)
    places = () if threads == 2 else ("connection",)  # else their connections get other numbers
    before, began = crowd.told(*places)
    running.write("counter.threads = %d\n" % threads)
    running.install()
    assert "upgrade: 15 connections were kept, 0 closed" in running.succeed()
    after, begins = crowd.told(*places)
    assert after == before
    assert begins == pytest.approx(began, abs=0.5)
    crowd.finish()


def keep(path):
    """Makes a daemon write its state. A program that only rehearses copies it to a file."""
    started = []

    def start(*options, **kwargs):
        started.append(servers.Counterd(*options, **kwargs))
        return started[-1]

    with tempfile.TemporaryDirectory() as folder:
        running = Running(start, pathlib.Path(folder))
        crowd = Crowd(running.daemon)
        running.misbehave("rehearse", "cat /proc/self/fd/${COUNTERD_UPGRADE#* } >%s; exit 1" % path)
        running.fail()
        crowd.finish()
        started[0].stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--keep"]:
        keep(os.path.abspath(sys.argv[2]))
    else:
        tap.main(__file__)
