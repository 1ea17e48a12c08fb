"""Upgrades in place that no story shows (t/scenario/daemon-upgrade.scn): limits of the machine, and who may."""

import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import sys

import pytest
import tap

import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

# A new program that does something else in one part ("check", "rehearse", "take"), and is the
# daemon in the others.
MISBEHAVING = """#!/bin/sh
case "$COUNTERD_UPGRADE" in
%(part)s*) %(deed)s ;;
esac
exec %(program)s "$@"
"""


class Running:
    """A daemon whose program and configuration file can be replaced."""

    def __init__(self, start, tmp_path, *options, settings="", **kwargs):
        self.program = str(tmp_path / "counterd")
        self.settings = str(tmp_path / "counter.conf")
        self.number = 0
        self.write(settings)
        self.install()
        self.daemon = start(*options, program=self.program, args=["-f", self.settings], **kwargs)
        self.pid = self.daemon.pid

    def write(self, text):
        with open(self.settings, "w") as f:
            f.write(text)

    def install(self, text=None):
        """Installs another program at the path: a script, or a new copy of the daemon."""
        self.number += 1
        fresh = "%s.%d" % (self.program, self.number)
        if text is None:
            shutil.copy(servers.COUNTERD, fresh)
        else:
            with open(fresh, "w") as f:
                f.write(text)
            os.chmod(fresh, 0o755)
        os.replace(fresh, self.program)

    def misbehave(self, part, deed):
        program = os.path.abspath(servers.COUNTERD)
        self.install(MISBEHAVING % {"part": part, "deed": deed, "program": program})

    def succeed(self):
        return self._upgrade(True)

    def fail(self):
        return self._upgrade(False)

    def _upgrade(self, good):
        """Upgrades, which must succeed or not. Returns what it says of that."""
        with self.daemon.changed:
            seen = len(self.daemon.lines)
        self.daemon.child.send_signal(signal.SIGUSR1)
        said = []

        def is_over():
            with self.daemon.changed:
                assert None not in self.daemon.lines, "it ended:\n" + self.daemon.log
                said[:] = self.daemon.lines[seen:]
            return any(re.search(r"info: ready: |upgrade: counterd .* goes on as before", line) for line in said)

        wire.poll(is_over, "the upgrade is over", 60)
        said = "\n".join(said)
        assert ("has taken over" in said) == good and ("goes on as before" in said) != good, said
        return said


# Starts a program, and replaces its file before the program can find its own path.
REPLACED = """import os, shutil, sys
path = sys.argv[1]
fd = os.open(path, os.O_RDONLY)
shutil.copy(path, path + ".new")
os.replace(path + ".new", path)
os.execv("/proc/self/fd/%d" % fd, sys.argv[1:])
"""


def test_a_program_that_was_replaced_while_it_started_finds_the_new_one(start, tmp_path):
    running = Running(start, tmp_path, prefix=[sys.executable, "-I", "-c", REPLACED])
    assert os.readlink("/proc/%d/exe" % running.pid).endswith(" (deleted)")
    with running.daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 9 600") == "LOCKED"
        running.succeed()
        assert os.readlink("/proc/%d/exe" % running.pid) == running.program
        assert client.ask("RELEASE k") == "RELEASED"


@pytest.fixture
def group():
    """A control group for memory, of version 1 or 2: its folder, and the files of its limit and of what is used."""
    first = pathlib.Path("/sys/fs/cgroup/memory")
    top, limit, used = first, "memory.limit_in_bytes", "memory.usage_in_bytes"
    if not first.is_dir():
        top, limit, used = first.parent, "memory.max", "memory.current"
    folder = top / ("counterd-upgrade-%d" % os.getpid())
    try:
        folder.mkdir()
        (folder / limit).stat()
    except OSError as e:
        pytest.skip("no control group can be made: %s" % e)
    yield folder, folder / limit, folder / used

    def is_gone():
        with contextlib.suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    wire.poll(is_gone, "the control group is gone")


@pytest.mark.skipif(wire.SLOW, reason="a sanitizer's own memory is most of it")
def test_a_limit_of_memory_refuses_what_it_would_end(group, start, tmp_path):
    folder, limit, used = group
    settings = "counter.threads = 1\nupgrade.timeout = 60\n"
    running = Running(
        start, tmp_path, settings=settings, preexec=lambda: (folder / "cgroup.procs").write_text(str(os.getpid()))
    )
    daemon = running.daemon
    maker = daemon.binary_client()
    for i in range(0, 200000, 1000):
        bodies = [wire.acquire_body(1, 1, b"name-%08d" % n) for n in range(i, i + 1000)]
        maker.send_reading(b"".join(wire.binary_request(wire.ACQUIRE, body) for body in bodies))
        assert {maker.reply().status for _ in bodies} == {wire.OK}
    limit.write_text(str(int(used.read_text()) * 3 // 2))
    said = running.fail()
    assert re.search(r"needs up to \d+ MiB of memory.*%s" % folder, said), said
    assert maker.get(b"name-%08d" % 199999) == 1
    # Enough for the upgrade, but not for a copy of the process too.
    with open("/proc/%d/statm" % daemon.pid) as f:
        resident, shared = [int(n) * resource.getpagesize() for n in f.read().split()[1:3]]
    limit.write_text(str(int(used.read_text()) + (resident - shared) * 5 // 2 + (8 << 20)))
    running.install()
    said = running.succeed()
    assert "all threads stood still" not in said, said
    assert maker.get(b"name-%08d" % 199999) == 1
    limit.write_text(str(1 << 30))
    # The child becomes the first to go, even if it is small.
    offered = "until grep -q 1000 /proc/$$/oom_score_adj; do sleep 0.1; done"
    running.misbehave("rehearse", offered + "; echo offered >&2; exit 1")
    assert "upgrade: offered" in running.fail()
    running.install()
    assert "all threads stood still" in running.succeed()
    maker.close()
    daemon.stop()
    daemon.is_expected_to_be_gone = True


if __name__ == "__main__":
    tap.main(__file__)
