"""Clients that know nothing of clusters, on two nodes with one engine.

Pages are rendered by request processes that speak as MediaWiki's do: each connects to the first of its
servers that it can reach, sends ACQ4ME or ACQ4ANY with workers, maxqueue and timeout of its pool, reads
one line, then renders the page and sends RELEASE, or shows what another one rendered, or an old copy.
The other client is one of the counter protocol of yrmcds: acquire, release and get, in binary.
"""

import threading

import pytest
import tap

import redis_servers
import servers
import wire
from cluster_world import World

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not redis_servers.have_redis(), reason="there is no redis-server"),
]

WORKERS = 2
# What a request process does after each answer.
RENDER, SHOW_NEW, SHOW_OLD = "render", "show what is new", "show what is old"
AFTER = {"LOCKED": RENDER, "DONE": SHOW_NEW, "QUEUE_FULL": SHOW_OLD, "TIMEOUT": SHOW_OLD}


class Request:
    """One request process, with the servers of its configuration, and a pool's settings for one key."""

    def __init__(self, addresses, key, workers=WORKERS, maxqueue=100, timeout=60):
        self.addresses, self.key = list(addresses), key
        self.settings = "%d %d %d" % (workers, maxqueue, timeout)
        self.client = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.crash()

    def connect(self):
        for address in self.addresses:
            try:
                self.client = wire.TextClient(address, deadline=60)
                return
            except ConnectionError:
                continue
        raise ConnectionError("no server can be reached")

    def ask(self, verb):
        if self.client is None:
            self.connect()
        self.client.say("%s %s %s" % (verb, self.key, self.settings))
        return self

    def what_next(self):
        return AFTER[self.client.line()]

    def is_answered(self):
        return not self.client.is_silent()

    def release(self):
        assert self.client.ask("RELEASE " + self.key) == "RELEASED"

    def crash(self):
        """The process ends: its connection does, too."""
        if self.client is not None:
            self.client.close()
            self.client = None


@pytest.fixture(name="one_world", scope="module")
def make_world():
    with World(nodes=2, lease=3) as world:
        world.begin()
        yield world


@pytest.fixture(name="world")
def use_world(one_world):
    """Two nodes that are live. After the test nothing may be left in them."""
    yield one_world
    one_world.rest()


def addresses(world, first):
    """The text addresses of the nodes, that of node `first` before the other."""
    nodes = world.nodes[first:] + world.nodes[:first]
    return [node.daemon.text for node in nodes if node.is_running]


def waiting(world, key):
    """How many wait for a key, in all nodes."""
    name = key.encode()
    return sum(len(ids) for (_, _, of), ids in world.keys().queues.items() if of == name)


def await_waiting(world, key, count):
    wire.poll(lambda: waiting(world, key) == count, "%d wait for %s" % (count, key))


def take_answered(requests, count):
    """Waits until `count` of the requests are answered, and takes them out of the list."""
    wire.poll(lambda: sum(r.is_answered() for r in requests) >= count, "%d answers" % count)
    found = [request for request in requests if request.is_answered()]
    assert len(found) == count, "%d requests are answered" % len(found)
    for request in found:
        requests.remove(request)
    return found


KEYS = ("s:enwiki:pcache:idhash:1-0!canonical", "l:enwiki:pcache:idhash:1-0!canonical")


@pytest.mark.parametrize("key", KEYS)
def test_workers_are_those_of_both_nodes(world, key):
    left = [Request(addresses(world, i % 2), key).ask("ACQ4ME") for i in range(2 * WORKERS + 2)]
    await_waiting(world, key, WORKERS + 2)
    renders = take_answered(left, WORKERS)
    while renders:
        one = renders.pop(0)
        assert one.what_next() == RENDER
        one.release()
        one.crash()
        if left:
            renders += take_answered(left, 1)
            await_waiting(world, key, len(left))


@pytest.mark.parametrize("key", KEYS)
def test_who_waits_gets_the_key_in_order_whatever_the_node(world, key):
    with Request(addresses(world, 0), key, workers=1) as holder:
        assert holder.ask("ACQ4ME").what_next() == RENDER
        line = []
        for i in range(6):
            line.append(Request(addresses(world, i % 2), key, workers=1).ask("ACQ4ME"))
            await_waiting(world, key, i + 1)
        holder.release()
        for at, one in enumerate(line):
            assert one.what_next() == RENDER
            assert not any(other.is_answered() for other in line[at + 1 :])
            one.release()
            one.crash()


@pytest.mark.parametrize("key", KEYS)
def test_done_reaches_the_requests_of_both_nodes(world, key):
    with Request(addresses(world, 0), key, workers=1) as holder:
        assert holder.ask("ACQ4ANY").what_next() == RENDER
        others = [Request(addresses(world, i % 2), key, workers=1).ask("ACQ4ANY") for i in range(8)]
        await_waiting(world, key, 8)
        holder.release()
        assert [other.what_next() for other in others] == [SHOW_NEW] * 8
        for other in others:
            other.crash()


@pytest.mark.parametrize("key", KEYS)
def test_the_queue_is_one(world, key):
    settings = {"workers": 1, "maxqueue": 3}
    holder = Request(addresses(world, 0), key, **settings)
    assert holder.ask("ACQ4ANY").what_next() == RENDER
    waits = [Request(addresses(world, i), key, **settings).ask("ACQ4ANY") for i in range(2)]
    await_waiting(world, key, 2)
    for first in (0, 1):
        with Request(addresses(world, first), key, **settings) as one:
            assert one.ask("ACQ4ANY").what_next() == SHOW_OLD
    with Request(addresses(world, 1), key, workers=1, timeout=0) as one:
        assert one.ask("ACQ4ME").what_next() == SHOW_OLD
    for request in [holder] + waits:
        request.crash()
    await_waiting(world, key, 0)


@pytest.mark.parametrize("key", KEYS)
def test_a_client_that_crashes_frees_its_worker_for_the_other_node(world, key):
    holder = Request(addresses(world, 0), key, workers=1)
    assert holder.ask("ACQ4ANY").what_next() == RENDER
    with Request(addresses(world, 1), key, workers=1) as other:
        other.ask("ACQ4ANY")
        await_waiting(world, key, 1)
        holder.crash()
        # The work is not done, so it must be done now.
        assert other.what_next() == RENDER
        other.release()


@pytest.mark.parametrize("key", KEYS)
def test_a_node_that_crashes_frees_its_workers_for_the_other(world, key):
    dead, alive = world.nodes
    holders = [Request(addresses(world, 0), key) for _ in range(WORKERS)]
    for holder in holders:
        assert holder.ask("ACQ4ME").what_next() == RENDER
    waiters = [Request([node.daemon.text], key).ask("ACQ4ME") for node in (dead, alive, alive)]
    await_waiting(world, key, 3)
    dead.kill()
    for holder in holders:
        holder.client.wait_closed()
        holder.crash()
    # The configuration still names both; the next process finds the one that runs.
    addresses_now = [("127.0.0.1", servers.free_port())] + addresses(world, 0)
    late = Request(addresses_now, key).ask("ACQ4ME")
    for waiter in waiters[1:]:
        assert waiter.what_next() == RENDER
    assert not late.is_answered()
    waiters[1].release()
    assert late.what_next() == RENDER
    for request in waiters + [late]:
        request.crash()
    world.begin()
    with Request(addresses(world, 0), key) as one:
        assert one.ask("ACQ4ME").what_next() == RENDER
        one.release()


@pytest.mark.parametrize("name", [b"s:api:203.0.113.7", b"l:api:203.0.113.7"])
def test_counters_of_yrmcds_count_both_nodes(world, name):
    a, b = (wire.BinaryClient(node.daemon.binary, deadline=60) for node in world.nodes)
    assert a.acquire(3, 5, name) == wire.OK
    assert b.acquire(3, 5, name) == wire.NOT_AVAILABLE
    assert b.acquire(2, 5, name) == wire.OK
    assert a.get(name) == b.get(name) == 5
    assert b.release(3, name) == wire.NOT_ACQUIRED
    assert b.release(1, name) == wire.OK
    assert a.acquire(1, 5, name) == wire.OK
    a.close()
    wire.poll(lambda: b.get(name) == 1, "what the first client had is free")
    assert b.acquire(4, 5, name) == wire.OK
    world.nodes[1].kill()
    with wire.BinaryClient(world.nodes[0].daemon.binary, deadline=60) as c:
        wire.poll(lambda: c.acquire(5, 5, name) == wire.OK, "what the dead node had is free", 60)
    b.close()


@pytest.mark.parametrize("key", KEYS)
def test_both_protocols_share_a_name(world, key):
    name = key.encode()
    with Request(addresses(world, 0), key) as one, Request(addresses(world, 1), key) as other:
        assert one.ask("ACQ4ME").what_next() == RENDER
        with wire.BinaryClient(world.nodes[1].daemon.binary, deadline=60) as counter:
            assert counter.acquire(1, WORKERS, name) == wire.OK
            other.ask("ACQ4ME")
            await_waiting(world, key, 1)
            assert counter.release(1, name) == wire.OK
            assert other.what_next() == RENDER
            assert counter.get(name) == 2


def render_pages(world, number, rounds, key, pages, wrong):
    """A request process after the other, on this node first: each renders or shows the page."""
    for _ in range(rounds):
        with Request(addresses(world, number % 2), key, timeout=120) as one:
            if one.ask("ACQ4ME").what_next() != RENDER:
                wrong.append("a request was not served")
                return
            with pages["lock"]:
                pages["now"] += 1
                pages["most"] = max(pages["most"], pages["now"])
                pages["count"] += 1
            one.client.ask("STATS UPTIME")
            with pages["lock"]:
                pages["now"] -= 1
            one.release()


@pytest.mark.parametrize("key", KEYS)
def test_many_requests_at_once_never_render_more_than_workers(world, key):
    pages, wrong = {"lock": threading.Lock(), "now": 0, "most": 0, "count": 0}, []
    rounds = wire.scaled(20, 5)
    threads = [threading.Thread(target=render_pages, args=(world, i, rounds, key, pages, wrong))
               for i in range(8)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    assert pages["count"] == 8 * rounds
    assert pages["most"] <= WORKERS


if __name__ == "__main__":
    tap.main(__file__)
