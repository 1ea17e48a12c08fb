"""Bugs of nodes that share limits that were found once, each in a small world."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tap  # noqa: E402
import pytest  # noqa: E402

import redis_servers  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402
from cluster_world import World  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not redis_servers.have_redis(), reason="redis-server is not installed"),
]


def test_all_workers_close_holders_before_they_read():
    """
    A stopped node wakes after its lease. Whichever thread runs first, no worker reads what strict
    holders have sent meanwhile.
    """
    with World(nodes=1) as world:
        world.begin()
        (node,) = world.nodes
        held = [(world.text(node), world.strict()) for _ in range(12)]
        held += [(world.binary(node), world.strict()) for _ in range(12)]
        for client, name in held:
            assert client.acquire(name).wait() in ("LOCKED", "OK")
        loose = world.text(node)
        assert loose.acquire(world.loose()).wait() == "LOCKED"
        node.pause()
        stopped = time.monotonic()
        asked = [client.release(name) for client, name in held]  # there when it goes on
        wire.poll(lambda: time.monotonic() > stopped + world.lease, "its lease is over")
        node.resume()
        for client, _ in held:
            client.wait_closed()
        assert {one.answer for one in asked} == {"closed"}
        assert loose.is_open
        node.await_live(wire.DEADLINE + world.lease)


if __name__ == "__main__":
    tap.main(__file__)
