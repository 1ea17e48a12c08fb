"""The table of failures, part two: what happens to the engine and to Sentinels (see cluster_rows.py)."""

import time

import wire
from cluster_rows import (
    LONG,
    ROWS,
    await_all,
    await_locked,
    await_order,
    expect,
    grantable,
    holder,
    nodes_in_any_order,
    queue,
    row,
    still_open,
)
from cluster_stalls import Disturbed
from cluster_world import lasted

__all__ = ["ROWS"]

# With Sentinel, `down-after` and three seconds must be below nine tenths of the lease.
WATCHED = {"engines": 2, "sentinels": 3, "lease": 8, "down_after_ms": 1000}


class Scene:
    """
    A strict and a loose name, each with a holder on one node and waiters on the others. `patient`: no
    node admits alone, or nobody waits for the loose one.
    """

    def __init__(self, world, rng, patient=True):
        self.world = world
        a, b, c = nodes_in_any_order(world, rng)
        self.strict, self.loose = world.strict(), world.loose()
        self.holders = [holder(world, a, self.strict), holder(world, b, self.loose)]
        self.lines = [queue(world, [b, c, a], self.strict)]
        self.lines.append(queue(world, [c, a, b] if patient else [], self.loose))
        self.a, self.b, self.c = a, b, c

    def check(self, loose=True):
        """
        Holders are still there, nobody else has been granted anything, and the order is kept. Not
        `loose`: somebody may have been granted the loose name before its holder's node was back.
        """
        still_open(*self.holders)
        for line in self.lines if loose else self.lines[:1]:
            answered = ["%s: %s" % (asked.name, asked.answer) for _, asked in line if asked.is_answered]
            assert not answered, "waiters were answered %s" % answered
        await_order(self.holders[1], self.lines[1], self.loose, self.world)
        await_order(self.holders[0], self.lines[0], self.strict, self.world)


def await_new_sessions(world, old, nodes=None):
    for node in nodes or world.nodes:
        node.await_new_session(old[node.name], wire.DEADLINE + 4 * world.lease)


# ---- the engine alone ----------------------------------------------------------------------------


@row(lease=3, patience=20)
def the_engine_restarts(world, rng):
    """With its data, empty, or flushed, also twice: holders and order stay; strict names have grace."""
    scene = Scene(world, rng)
    began = time.monotonic()
    old = world.keys().nodes
    how = rng.choice(["with data", "empty", "flushed"])
    for _ in range(rng.choice([1, 1, 2])):
        if how == "flushed":
            world.flush()
        else:
            world.restart_engine(keep=how == "with data")
    strict, loose = world.strict(), world.loose()
    asked = world.text(scene.b).acquire(strict, 1, LONG)
    expect(world.text(scene.c).acquire(loose, 1, LONG), "LOCKED")
    await_new_sessions(world, old)
    expect(asked, "LOCKED", deadline=wire.DEADLINE + 3 * world.lease)
    assert asked.answered_at - began >= world.lease, "a strict name was granted in grace"
    # A node notices that the engine was flushed when it says something, at its next beat at the latest.
    scene.check(loose=how != "flushed")


@row
def the_engine_is_gone_for_long(world, rng):
    """Longer than the lease: strict holders are closed, loose ones stay; then all is as before."""
    a, b, c = nodes_in_any_order(world, rng)
    strict, loose = world.strict(), world.loose()
    old, stays = holder(world, a, strict), holder(world, b, loose)
    waiting = queue(world, [b, c], strict)
    old_sessions = world.keys().nodes
    how = rng.choice(["stopped", "ended", "refused"])
    if how == "stopped":
        world.pause_engine()
    elif how == "ended":
        world.engine.ask("SAVE")
        world.engine.end()
    else:
        for node in world.nodes:
            node.isolate(silently=False)
    old.wait_closed(wire.DEADLINE + world.lease)
    still_open(stays)
    expect(world.text(c).acquire(strict), "ERROR ENGINE_AWAY")
    if how == "ended":
        world.engine.start()
    world.heal()
    await_new_sessions(world, old_sessions)
    still_open(stays)
    await_all(waiting, strict, world)


# ---- replicas and Sentinels ----------------------------------------------------------------------


@row(patience=20, **WATCHED)
def failover_with_writes_lost(world, rng):
    """Sentinel promotes a replica that lacks the last writes: holders and order stay."""
    a, b, c = nodes_in_any_order(world, rng)
    scene = Scene(world, rng)
    early = [world.strict(), world.loose()]
    lagging = rng.random() < 0.8
    if lagging:
        world.lag()
    # The replica does not know of these.
    late = [holder(world, node, name) for node, name in zip((a, b), early)]
    extra = world.strict()
    holder(world, c, extra).release(extra)
    sessions = world.keys().nodes
    began = time.monotonic()
    world.failover(with_lag=lagging)
    took = lasted(began)
    asked = world.text(b).acquire(world.strict(), 1, LONG)
    await_new_sessions(world, sessions)
    if took > world.down_after + 3:
        raise Disturbed("the failover took %.1f s" % took)
    world.measured["failover took (s)"].append(took)
    still_open(*late)
    expect(asked, "LOCKED", deadline=wire.DEADLINE + 4 * world.lease)
    assert asked.answered_at - began >= world.lease, "a strict name was granted in grace"
    for client, name in zip(late, early):
        expect(world.text(c).acquire(name), "TIMEOUT")
        client.release(name)
        grantable(world, c, name)
    scene.check()
    world.agree()


@row(**WATCHED)
def split_brain(world, rng):
    """The old primary goes on with one Sentinel and a node: those there are as if cut off."""
    a, b, c = nodes_in_any_order(world, rng)
    strict, loose = world.strict(), world.loose()
    old, stays = holder(world, a, strict), holder(world, a, loose)
    waiting = queue(world, [b, c], strict)
    was, new = world.primary_at, 1 - world.primary_at
    watcher = rng.randrange(3)
    others = [s for n, s in enumerate(world.sentinels) if n != watcher]
    world.partition([repr(a), world.primary_name, "sentinel-%d" % (watcher + 1)])
    asking = world.text(a)
    asked = asking.acquire(strict, 1, LONG)  # of the old side
    world.await_failover(new, others)
    if world.engines[was].info("replication")["role"] != "master":
        raise Disturbed("the Sentinels had promoted another engine before")
    await_locked(waiting[0], world)
    old.wait_closed(wire.DEADLINE + world.lease)
    assert not asked.is_answered or asked.answer.startswith("ERROR"), asked.answer
    asking.close()
    grantable(world, b, loose)
    term, sessions = world.term, world.keys().nodes
    world.heal()
    world.agree()
    a.await_live(wire.DEADLINE + 4 * world.lease)
    still_open(stays)
    assert world.observer.over(loose) <= 1
    now = world.keys().nodes
    if world.term == term and all(now[node.name] == sessions[node.name] for node in (b, c)):
        await_order(waiting[0][0], waiting[1:], strict, world)
