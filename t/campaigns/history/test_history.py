"""
Records histories of a real daemon, and checks that some order explains what its clients saw; ./dev check-history
has 200. During every second one the daemon is upgraded, and reloads. A wrong history stays in build/history/.
"""

import os
import random
import re
import signal
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "system"))

import tap

import record
import servers
import wire

BUILD = os.environ.get("TOP_BUILDDIR", "build")
CHECK = os.path.join(BUILD, "t", "campaigns", "history", "check")
HISTORIES = int(os.environ.get("T_HISTORIES", "3"))
REQUESTS = wire.scaled(8000, 4000)
PER_DAEMON = 20  # histories that one daemon serves
ENDS_UPGRADE = "info: ready|goes on as before|reload: (done|nothing was changed)"


def check(path):
    """The checker's status, and what it says."""
    done = subprocess.run([CHECK, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode()


def upgrade(daemon, over, wrong):
    """A thread: upgrades the daemon in place and has it reload, again and again. Each must succeed."""
    number = signal.SIGHUP
    while not over.wait(0.02) and daemon.is_running() and not wrong:
        seen = len(daemon.log)
        number = signal.SIGHUP if number == signal.SIGUSR1 else signal.SIGUSR1
        daemon.child.send_signal(number)
        try:
            wire.poll(lambda: re.search(ENDS_UPGRADE, daemon.log[seen:]), "the upgrade is over", 60)
        except AssertionError as e:
            wrong.append(str(e))
        if re.search("goes on as before|nothing was changed", daemon.log[seen:]):
            wrong.append(daemon.log[seen:])


def one_history(daemon, seed, upgrades, path):
    over, wrong = threading.Event(), []
    thread = threading.Thread(target=upgrade, args=(daemon, over, wrong))
    if upgrades:
        thread.start()
    try:
        lines, violation = record.record(daemon.text, daemon.binary, REQUESTS, seed)
    finally:
        over.set()
        if upgrades:
            thread.join()
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(["# seed %d" % seed, *lines, ""]))
    status, said = check(path)
    assert status == 0 and not violation and not wrong, "%s: %s" % (path, [said, violation, *wrong, daemon.log[-2000:]])
    os.unlink(path)


def test_an_order_explains_what_clients_saw():
    if not servers.have_counterd():
        tap.pytest.skip("COUNTERD names no daemon")
    seed, daemon = int(os.environ.get("T_SEED") or random.randrange(2**31)), None
    print("# T_SEED=%d (of the plan; the processes race)" % seed)
    folder = os.path.join(BUILD, "history")
    os.makedirs(folder, exist_ok=True)
    try:
        for i in range(seed, seed + HISTORIES):
            if daemon is None or i % PER_DAEMON == 0:
                if daemon:
                    daemon.stop()
                threads = "counter.threads=%d" % (2 + i // PER_DAEMON % 3)
                daemon = servers.Counterd(threads, "counter.stats_interval=4294967295")
            one_history(daemon, i, i % 2 == 1, os.path.join(folder, "history-%d" % i))
        daemon.stop()
    finally:
        if daemon:
            daemon.kill()


# Client, name, verb, result, units, limit, queue, waits, call, seen, left, ret. What else the checker finds
# planted-history shows.
WRONG = """
1 0 acq4me locked 1 1 9 0 10 0 0 40
2 0 acq4me locked 1 1 9 0 20 0 0 30

1 0 acq4me locked 1 1 9 0 10 0 0 20
2 0 acq4me locked 1 1 9 1 30 35 0 200
3 0 acq4me locked 1 1 9 1 40 45 0 70
1 0 release ok 1 0 0 0 50 0 0 60
3 0 release ok 1 0 0 0 180 0 0 190

1 0 acquire ok 1 1 0 0 10 0 0 20
1 1 acquire ok 1 1 0 0 30 0 0 40
2 1 acquire ok 1 1 0 0 50 0 0 60
"""


def test_a_wrong_history_is_found(tmp_path):
    for lines in WRONG.split("\n\n"):
        path = tmp_path / "wrong"
        path.write_text(lines.strip() + "\n")
        assert check(str(path))[0] == 1, lines


if __name__ == "__main__":
    tap.main(__file__)
