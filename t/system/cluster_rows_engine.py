"""The table of failures, part two: what happens to the engine and to Sentinels (see cluster_rows.py)."""

import contextlib
import os
import time

import wire
from cluster_clocks import Clocks
from cluster_rows import (
    LONG,
    ROWS,
    await_all,
    await_locked,
    await_order,
    expect,
    grantable,
    hold,
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


@row(lease=5)
def the_engine_is_slow(world, rng):
    """Up to patience requests are late; longer, they are refused or admitted alone; holders stay."""
    scene = Scene(world, rng, patient=False)
    name = world.strict()
    world.pause_engine()
    try:
        late = world.text(scene.a).acquire(name, 1, LONG)
        assert not late.event.wait(rng.random() * world.lease / 10)
    finally:
        world.engine.resume()
    expect(late, "LOCKED", deadline=wire.DEADLINE + world.lease)
    world.await_live()
    sessions = world.keys().nodes

    world.pause_engine()
    try:
        away = world.text(scene.b).acquire(world.strict())
        alone = world.text(scene.c).acquire(world.loose())
        expect(away, "ERROR ENGINE_AWAY")
        expect(alone, "LOCKED")
        still_open(*scene.holders)
    finally:
        world.engine.resume()
    # The third node has asked for nothing, and may not have noticed.
    await_new_sessions(world, sessions, [scene.b, scene.c])
    scene.check()


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


@row
def the_engine_is_full(world, rng):
    """Acquisitions are refused; releases, hand overs and beats work."""
    scene = Scene(world, rng)
    beat = world.keys().beats
    world.fill()
    try:
        expect(world.text(scene.b).acquire(world.strict()), "ERROR ENGINE_FULL")
        expect(world.text(scene.c).acquire(world.loose(), 1, LONG), "ERROR ENGINE_FULL")
        expect(world.binary(scene.a).acquire(world.strict()), "0x82")
        scene.check()
        wire.poll(lambda: all(world.keys().beats.get(s, n) != n for s, n in beat.items()),
                  "beats go on", wire.DEADLINE + world.lease)  # fmt: skip
    finally:
        world.fill(False)
    assert set(world.keys().beats) == set(beat), "a session has ended"
    hold(world.text(scene.a), world.strict())


@row
def the_engine_refuses_writes(world, rng):
    """MISCONF, NOREPLICAS: as if cut off."""
    a, b, c = nodes_in_any_order(world, rng)
    strict, loose = world.strict(), world.loose()
    old, stays = holder(world, a, strict), holder(world, b, loose)
    waiting = queue(world, [b, c], strict)
    sessions = world.keys().nodes
    how = rng.choice(["MISCONF", "NOREPLICAS"])
    world.refuse_writes(how=how)
    try:
        old.wait_closed(wire.DEADLINE + world.lease)
        still_open(stays)
        expect(world.text(c).acquire(strict), "ERROR ENGINE_AWAY")
        hold(world.text(a), world.loose())
    finally:
        world.refuse_writes(False, how)
    await_new_sessions(world, sessions)
    still_open(stays)
    await_all(waiting, strict, world)


@contextlib.contextmanager
def environment(values):
    """What is started within it has these variables."""
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})


@row
def clocks_are_set(world, rng):
    """The clocks of the engine and of a node jump, by any amount: nothing happens."""
    a = rng.choice(world.nodes)
    clocks = Clocks(world.engine.folder)
    with environment(clocks.environment):
        world.restart_engine(keep=True)
    a.stop()
    a.start(env=clocks.environment)
    world.begin()
    scene = Scene(world, rng)
    sessions, term = world.keys().nodes, world.term
    for _ in range(3):
        clocks.shift(rng.choice([-1, 1]) * rng.choice([1, 3600, 365 * 86400]))
        beats = world.keys().beats
        wire.poll(lambda b=beats: all(int(world.keys().beats[s]) > int(n) + 1 for s, n in b.items()),
                  "all beats go on", wire.DEADLINE + world.lease)  # fmt: skip
    assert world.keys().nodes == sessions and world.term == term
    scene.check()
    world.observer.close_all()
    a.stop()
    world.restart_engine(keep=True)


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


@row(engines=2)
def a_replica_promoted_by_hand(world, rng):
    """While the old primary goes on, limits are exceeded, until its nodes come to the new one."""
    a, b, c = nodes_in_any_order(world, rng)
    name = world.strict()
    old = holder(world, a, name)
    was, new = world.primary_at, 1 - world.primary_at
    world.engines[new].ask("REPLICAOF", "NO", "ONE")
    for node in (b, c):
        node.move_to(new)
    world.primary_at = new
    world.await_live(b, c, deadline=wire.DEADLINE + 3 * world.lease)
    with world.observer.allowed(name):
        second = grantable(world, b, name)
        world.engines[was].ask("REPLICAOF", *world.gates[world.primary_name].address)
        a.move_to(new)
        old.wait_closed(wire.DEADLINE + world.lease)  # its session was given back there
    a.await_live(wire.DEADLINE + 3 * world.lease)
    still_open(second)
    asked = queue(world, [a], name)[0]
    expect(world.text(c).acquire(name), "TIMEOUT")
    second.release(name)
    await_locked(asked, world)
