"""The table of failures, part one: what happens to clients, nodes, and connections to the engine.

Each function of `ROWS` is a row: it breaks something in a world that is at rest, and fails if a client
sees what the table does not allow. The observer watches the limits meanwhile; `World.rest` then checks
that nothing is left. `needs` says which world a row wants.
"""

import os
import re
import shutil
import signal
import tempfile
import time

import servers
import wire
from cluster_clocks import Clocks
from cluster_world import lasted

LONG = 60  # seconds that a client waits who should not run out
ROWS = {}


def row(function=None, name=None, **needs):
    """Registers a row; `needs` are arguments for World."""

    def add(function):
        function.needs = needs
        ROWS[name or function.__name__] = function
        return function

    return add(function) if function else add


# ---- what rows have in common --------------------------------------------------------------------


def nodes_in_any_order(world, rng):
    return rng.sample(world.nodes, len(world.nodes))


def some_name(world, rng, limit=1):
    """A strict or a loose name."""
    return world.strict(limit) if rng.random() < 0.5 else world.loose(limit)


def hold(client, name, limit=1):
    """The client gets a unit at once."""
    answer = client.acquire(name, limit).wait()
    assert answer == "LOCKED", "%s: %s for %s" % (client, answer, name)
    return client


def holder(world, node, name, limit=1):
    return hold(world.text(node), name, limit)


def waits_of(world, name):
    """The number of waits for a name in the engine."""
    return sum(len(ids) for (_, _, of), ids in world.keys().queues.items() if of == name.encode())


def queue(world, nodes, name, limit=1, timeout=LONG):
    """A waiter on each of the nodes, in this order. Returns pairs of client and request."""
    waiting = []
    for node in nodes:
        client = world.text(node)
        before = waits_of(world, name)
        asked = client.acquire(name, limit, timeout)
        wire.poll(lambda b=before: waits_of(world, name) == b + 1, "%s waits for %s" % (client, name))
        waiting.append((client, asked))
    return waiting


def await_locked(waiter, world):
    client, asked = waiter
    answer = asked.wait(wire.DEADLINE + 4 * world.lease)
    assert answer == "LOCKED", "%s: %s" % (client, answer)


def await_order(first, waiting, name, world):
    """Gives back what `first` holds; each waiter then gets it in its turn and gives it back."""
    first.release(name)
    for at, waiter in enumerate(waiting):
        await_locked(waiter, world)
        early = [client for client, asked in waiting[at + 1 :] if asked.is_answered]
        assert not early, "%s came before its turn" % early
        waiter[0].release(name)


def await_all(waiting, name, world):
    """
    Each waiter gets it once and gives it back, in any order: where nodes were without the engine, those
    that are back first come first.
    """
    left = list(waiting)
    while left:
        wire.poll(lambda: any(asked.is_answered for _, asked in left), "somebody gets %s" % name,
                  wire.DEADLINE + 4 * world.lease)  # fmt: skip
        waiter = next(waiter for waiter in left if waiter[1].is_answered)
        left.remove(waiter)
        await_locked(waiter, world)
        waiter[0].release(name)


def expect(asked, *answers, deadline=None):
    """The request gets one of these answers."""
    answer = asked.wait(deadline)
    assert answer in answers, "%s %s: %s" % (asked.what, asked.name, answer)


def still_open(*clients):
    closed = [client for client in clients if not client.is_open]
    assert not closed, "%s was closed" % closed


def grantable(world, node, name, limit=1):
    """Asks until there is a unit. Returns the client that has it."""
    client = world.text(node)
    deadline = wire.DEADLINE + 4 * world.lease
    wire.poll(lambda: client.acquire(name, limit).wait(deadline) == "LOCKED",
              "%s is free" % name, deadline)  # fmt: skip
    return client


def await_said(node, pattern):
    """Waits for a line of the node's log from now or before."""
    wire.poll(lambda: re.search(pattern, node.log, re.I), "%r says %r\n%s" % (node, pattern, node.log[-2000:]),
              wire.DEADLINE + 2 * node.world.lease)  # fmt: skip


# ---- clients and nodes that end ------------------------------------------------------------------


@row
def a_node_is_killed(world, rng):
    """Its clients see the end; its units are free within a lease and a half, those of others stay."""
    a, b, c = nodes_in_any_order(world, rng)
    name, other = some_name(world, rng, 2), some_name(world, rng)
    lost, kept = holder(world, a, name, 2), holder(world, b, name, 2)
    lost_too, behind = holder(world, a, other), queue(world, [a, c], other)
    waiting = queue(world, [c, b], name, 2)
    a.kill()
    began = time.monotonic()
    for client in lost, lost_too, behind[0][0]:
        client.wait_closed()
    await_locked(waiting[0], world)
    await_locked(behind[1], world)
    world.measured["units free after (leases)"].append(lasted(began) / world.lease)
    assert not waiting[1][1].is_answered
    still_open(kept)
    kept.release(name)
    await_locked(waiting[1], world)


@row(lease=20)
def a_killed_node_restarts(world, rng):
    """On the same machine it frees its units at once, long before its lease is over."""
    a, b, c = nodes_in_any_order(world, rng)
    name = world.loose()
    holder(world, a, name)
    waiting = queue(world, [b, c], name)
    a.kill()
    began = time.monotonic()
    a.start()
    await_locked(waiting[0], world)
    assert lasted(began) < world.lease, "not before its lease was over"
    await_order(waiting[0][0], waiting[1:], name, world)


@row
def a_node_is_stopped(world, rng):
    """SIGSTOP for longer than its lease: each worker closes strict holders before it reads."""
    a, b, c = nodes_in_any_order(world, rng)
    others = [(world.text(a), world.strict()) for _ in range(8)]
    others += [(world.binary(a), world.strict()) for _ in range(8)]
    for client, name in others:
        assert client.acquire(name).wait() in ("LOCKED", "OK")
    strict, loose, line = world.strict(), world.loose(), world.loose()
    old, stays = holder(world, a, strict), holder(world, a, loose)
    first = holder(world, b, line)
    dropped, next_one = queue(world, [a, c], line)
    waiting, waiting_loose = queue(world, [b], strict)[0], queue(world, [c], loose)[0]
    was = a.session
    a.pause()
    with world.observer.allowed(strict):
        await_locked(waiting, world)
        await_locked(waiting_loose, world)
        wire.poll(lambda: was.encode() not in world.keys().beats, "its session is given back")
        first.release(line)
        await_locked(next_one, world)  # the one before it is of a session that ended
        # These are there before the node goes on.
        said = [client.release(name) for client, name in [*others, (old, strict)]]
        a.resume()
        for asked in said:
            expect(asked, "closed")
    a.await_new_session(was)
    still_open(stays, dropped[0])
    assert world.observer.over(loose) == 1
    assert not dropped[1].is_answered
    next_one[0].release(line)
    await_locked(dropped, world)


@row
def a_clock_stands_still(world, rng):
    """A paused machine: strict holders are closed a fifth of a lease after it goes on."""
    a, b, _ = nodes_in_any_order(world, rng)
    clocks = Clocks(world.engine.folder)
    a.stop()
    a.start(env=clocks.environment)
    a.await_live()
    strict = world.strict()
    old = holder(world, a, strict)
    waiting = queue(world, [b], strict)[0]
    a.pause()
    paused = time.monotonic()
    with world.observer.allowed(strict):
        await_locked(waiting, world)
        clocks.shift(others_s=-lasted(paused))
        a.resume()
        old.wait_closed()
    a.await_live()
    a.stop()
    a.start()


@row
def an_upgrade_takes_long(world, rng):
    """It is given up in time: no holder is closed, and nobody else is granted what it has."""
    a, b, c = nodes_in_any_order(world, rng)
    strict, loose = world.strict(), world.loose()
    a.stop()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "counterd")
        shutil.copy(servers.COUNTERD, program)
        a.start("upgrade.timeout=60", program=program)
        a.await_live()
        old, stays = holder(world, a, strict), holder(world, a, loose)
        waiting = queue(world, [b, c], strict)
        with open(program + ".new", "w", encoding="ascii") as f:
            f.write("#!/bin/sh\n%s \"$@\" |\n" % os.path.abspath(servers.COUNTERD))
            f.write("sed '/ rehearse /s/[0-9]*$/9000000000/'\n")  # so long did it read, it says
        os.chmod(program + ".new", 0o755)
        os.replace(program + ".new", program)
        was = a.session
        a.daemon.child.send_signal(signal.SIGUSR1)
        await_said(a, "is not enough to take over")
        a.await_new_session(was)
        still_open(old, stays)
        assert not any(asked.is_answered for _, asked in waiting)
        old.release(strict)
        await_locked(waiting[0], world)
        await_order(waiting[0][0], waiting[1:], strict, world)
        a.stop()
        a.start()


# ---- nodes that are cut off ----------------------------------------------------------------------


@row
def a_node_is_cut_off(world, rng):
    """Strict holders are closed before anybody else gets their units; loose ones stay."""
    a, b, c = nodes_in_any_order(world, rng)
    strict, loose, fresh = world.strict(), world.loose(), world.loose()
    old, stays = holder(world, a, strict), holder(world, a, loose)
    waiting = queue(world, [b, c], strict)
    asking = world.text(a)
    was = a.session
    a.isolate(silently=rng.random() < 0.7)
    old.wait_closed(wire.DEADLINE + world.lease)
    await_locked(waiting[0], world)
    # Without the engine each part admits loose names by what it alone holds.
    hold(asking, fresh)
    grantable(world, c, loose)
    expect(world.text(a).acquire(strict), "ERROR ENGINE_AWAY")
    expect(world.binary(a).acquire(strict), "0x21")
    wire.poll(lambda: was.encode() not in world.keys().beats, "its session is given back")
    grantable(world, b, fresh)
    a.heal()
    a.await_new_session(was)
    still_open(stays, asking, waiting[0][0])
    # What is above a limit stays, and nothing more is granted until it fits.
    expect(world.text(b).acquire(fresh), "TIMEOUT")
    assert world.observer.over(loose) <= 1 and world.observer.over(fresh) <= 1
    await_order(waiting[0][0], waiting[1:], strict, world)
