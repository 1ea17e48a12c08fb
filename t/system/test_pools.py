"""Pools with thousands of members, which no story can name: looking at them, and the memory limit.

The stories in t/scenario/pools-*.scn and daemon-pools.scn show the rest.
"""

import threading

import tap

import test_upgrade
import wire


def add_members(client, pool, count, more):
    """Adds m0000, m0001, ... Returns the answers."""
    lines = ["MEMBER ADD %s m%04d %s\n" % (pool, number, more) for number in range(count)]
    client.send_reading("".join(lines).encode())
    return {client.line() for _ in lines}


def test_past_the_memory_limit_nothing_new_comes_and_all_goes_on(start):
    daemon = start("counter.memory_limit=16M", "counter.buckets=1000")
    operator, holder, waiter = (daemon.text_client() for _ in range(3))
    for line in ("POOL ADD db", "MEMBER ADD db m1", "POOL ADD br kind=joined", "POOL ADD fill"):
        assert operator.ask(line) == "OK"
    assert operator.ask("JOIN br b1") == "JOINED"
    for pool in ("br", "db"):
        assert holder.ask("TAKE " + pool).startswith("TAKEN")
    waiter.say("TAKE db 600 member=m1")
    refused, long = "ERROR OUT_OF_MEMORY", "v" * 4096
    assert add_members(operator, "fill", 5000, long) == {"OK", refused}
    for line in ("JOIN br more " + long, "MEMBER SET db m1 value=" + long):
        assert operator.ask(line) == refused
    assert holder.ask("RETURN") == "RETURNED"
    assert waiter.line().startswith("TAKEN db m1 ")
    assert waiter.ask("RETURN") == "RETURNED"
    holder.close()
    assert operator.line() == "STOP br b1 crash"
    for line in ("POOL DROP fill now", "MEMBER ADD db m2"):
        assert operator.ask(line) == "OK"
    for client in (operator, waiter):
        client.close()


def test_requests_that_look_at_many_members_go_on_over_an_upgrade(start, tmp_path):
    """They are answered in order, and wait in their turn."""
    running = test_upgrade.Running(start, tmp_path, "counter.threads=2")
    over, answers = threading.Event(), []

    def look():
        with running.daemon.text_client() as client:
            while not over.is_set():
                client.send_reading(b"TAKE big 0 with=z=2\n" * 5)
                answers.extend(client.line() for _ in range(5))

    with running.daemon.text_client() as client, running.daemon.text_client() as other:
        for line in ("POOL ADD big", "POOL ADD small", "MEMBER ADD small s"):
            assert client.ask(line) == "OK"
        assert add_members(client, "big", 3000, "value z=0") == {"OK"}
        for line in ("TAKE big 0 with=z=1", "TAKE small", "TAKE big 600 with=z=1"):
            client.say(line)
        client.say("RETURN")
        client.say("TAKE big 600 with=z=1 count=2")
        assert client.line() == "TIMEOUT"
        assert client.line().startswith("TAKEN small s ")
        assert client.line() == "RETURNED"  # the wait, which is newer
        assert other.ask("MEMBER SET big m0000 z=1") == "OK"
        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            running.succeed()
            count = len(answers)
            wire.poll(lambda: len(answers) > count + 15, "requests go on after the upgrade", 60)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert set(answers) == {"TIMEOUT"}
        assert other.ask("MEMBER SET big m2999 z=1") == "OK"
        assert {client.line().split()[2] for _ in range(2)} == {"m0000", "m2999"}


if __name__ == "__main__":
    tap.main(__file__)
