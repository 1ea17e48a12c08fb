"""The table of failures, part three: rows that break things while clients work on all nodes (see cluster_rows.py)."""

import time

import wire
from cluster_load import Load
from cluster_proxy import COMMANDS, MESSAGES
from cluster_rows import hold, row
from cluster_rows_engine import ROWS, WATCHED

__all__ = ["ROWS"]


def load_of(world, rng):
    """Clients on all nodes, for strict and loose names of some units and of one."""
    names = {world.strict(2): 2, world.strict(): 1, world.strict(): 1, world.loose(3): 3}
    return Load(world, world.nodes, names, 24, rng)


def end(world, load):
    world.check()
    load.end()
    assert load.answers.get("LOCKED"), load.answers


@row(lease=3)
def all_at_once(world, rng):
    """
    Connections are cut, stalled and slow, nodes killed, ended and cut off, and the engine restarts and is
    flushed: nobody has more than a strict limit.
    """
    load = load_of(world, rng)
    until = time.monotonic() + 4 * world.lease
    while time.monotonic() < until:
        node, what = rng.choice(world.nodes), rng.randrange(10)
        if what < 2:
            node.cut(rng.choice([COMMANDS, MESSAGES, None]))
        elif what < 4:
            node.stall(rng.choice(["up", "down", "both"]), old_only=rng.random() < 0.5)
        elif what == 4:
            node.delay(rng.random() * world.lease / 20)
        elif what == 5:
            node.isolate(silently=rng.random() < 0.7)
        elif what == 6:
            world.flush() if rng.random() < 0.5 else world.restart_engine(keep=rng.random() < 0.5)
        elif what == 7:
            node.kill() if rng.random() < 0.7 else node.stop()
            time.sleep(rng.choice([0, 1.5]) * rng.random() * world.lease)  # how long it is gone
            node.start()
        else:
            node.heal()
        world.check()
        time.sleep(rng.random() * world.lease / 5)  # the pace of the faults
    world.heal()
    world.await_live()
    end(world, load)


@row(**WATCHED)
def failovers_under_load(world, rng):
    """A replica that lacks the last writes is promoted: nobody has more than a strict limit."""
    load = load_of(world, rng)
    loose = world.loose()
    stays = hold(world.text(rng.choice(world.nodes)), loose)
    for _ in range(rng.choice([1, 2])):
        lagging = rng.random() < 0.8
        if lagging:
            world.lag()
            time.sleep(rng.random())  # of writes that get lost
        world.failover(with_lag=lagging)
        world.await_live(deadline=wire.DEADLINE + 4 * world.lease)
        world.agree()
        world.await_live(deadline=wire.DEADLINE + 4 * world.lease)
        world.await_no_grace()
        world.check()
    assert stays.is_open
    end(world, load)
