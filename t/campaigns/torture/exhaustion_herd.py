"""The part `herd` of exhaustion.py (`kit`): herds, names that nobody holds, a slow reader of the log.

Others' 99th percentile is at most doubled, plus SLACK_US: on two cores, our own clients take turns
with them.
"""

import threading
import time

SLACK_US = 10000
NAMES = 2000


def check(kit, others):
    if others.connections:
        kit.want(others.after <= 2 * others.before + SLACK_US, "others' 99th percentile: %s -> %s",
                 kit.micro(others.before), kit.micro(others.after))  # fmt: skip


def done(kit, start, scale):
    """A lock whose waiters all get DONE at once, again and again."""
    daemon = start("counter.threads=2", "access.max_per_source=0")
    count = min(scale.connections, kit.room(scale.connections + 2000) - 1000)
    others = kit.Others(daemon, scale)
    holder = daemon.text_client(deadline=120)
    made = kit.connect_many(daemon.text, count)
    with others.beside():
        for _ in range(3):
            kit.want(holder.ask("ACQ4ANY k 1 1000000 1") == "LOCKED", "it is free")
            kit.send_all(made, b"ACQ4ANY k 1 1000000 100\n")
            kit.wire.poll(lambda: holder.stat("waiting_workers") == count, "they wait", 60)
            kit.want(holder.ask("RELEASE k") == "RELEASED", "it is given back")
            kit.want(set(kit.read_all(made, 5)) == {b"DONE\n"}, "they are done")
    kit.say("%d clients got DONE three times", count)
    check(kit, others)
    kit.close_all(made)


def idle_names(kit, start, scale, rng):
    """Names that were taken and given back fill the memory; new locks have room."""
    daemon = start("counter.memory_limit=16M", "counter.threads=2")
    others = kit.Others(daemon, scale)
    binary, text = daemon.binary_client(deadline=120), daemon.text_client(deadline=120)
    until = time.monotonic() + (others.SECONDS if others.connections else 0)
    made = 0
    with others.beside():
        while made < scale.names or time.monotonic() < until:
            some = [b"idle-%d" % i for i in range(made, made + NAMES)]
            binary.send_reading(kit.acquires(some) + kit.releases(some))
            made += NAMES
            kit.want(set(kit.statuses(binary, 2 * NAMES)) == {kit.wire.OK}, "names have room")
            name = "lock-%d" % rng.randrange(1 << 30)
            kit.want(text.ask("ACQ4ME %s 1 9 0" % name) == "LOCKED", "a lock has room")
            kit.want(text.ask("RELEASE") == "RELEASED", "it is given back")
    kit.say("%d names came and went within 16M", made)
    check(kit, others)


def slow_log(kit, start, scale):
    """A reader of the log that takes some kilobytes at a time."""
    daemon = start("counter.threads=2", "log.level=debug")
    others = kit.Others(daemon, scale)
    over = threading.Event()

    def hold_up():
        while not over.wait(0.001):
            with daemon.changed:  # its reader waits for that
                time.sleep(0.05)

    slow = threading.Thread(target=hold_up)
    slow.start()
    try:
        with others.beside():
            until = time.monotonic() + (others.SECONDS if others.connections else 0.3)
            while time.monotonic() < until:
                kit.close_all(kit.connect_many(daemon.text, 20))
    finally:
        over.set()
        slow.join()
    check(kit, others)


def herd(kit, start, scale, rng):
    """Herds of waiters, names at 0, a slow reader of the log."""
    done(kit, start, scale)
    idle_names(kit, start, scale, rng)
    slow_log(kit, start, scale)
