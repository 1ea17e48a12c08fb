"""What a node advises to set in its engine: it works as it is, and can be better."""

import subprocess

import pytest
import tap

import ctl
import http_client
import redis_servers
import servers
import wire

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not redis_servers.have_redis(), reason="there is no redis-server"),
]

SAVES = "the engine saves snapshots"


def advice(daemon):
    """What /api/v1/cluster advises, once the node is live."""

    def answer():
        return http_client.get(daemon.admin, "/api/v1/cluster")

    wire.poll(lambda: answer()["state"] == "live", "it is live")
    return answer()["advice"]


@pytest.mark.parametrize(
    "save, stop, advised",
    [('""', "yes", False), ("3600 1", "no", False), ("3600 1", "yes", True)],
)
def test_snapshots_that_can_stop_writes(start, save, stop, advised):
    with redis_servers.RedisServer(save=save, stop_writes_on_bgsave_error=stop) as engine:
        daemon = start("cluster.engine=" + engine.url, "cluster.loose=*", admin=True)
        assert any(line.startswith(SAVES) for line in advice(daemon)) == advised


def test_each_connect_looks_again(start):
    with redis_servers.RedisServer(save="3600 1") as engine:
        daemon = start("cluster.engine=" + engine.url, "cluster.loose=*", admin=True)
        assert len(advice(daemon)) == 1
        with engine.client() as client:
            assert client.ask("CONFIG", "SET", "save", "") == b"OK"
            assert client.ask("CLIENT", "KILL", "TYPE", "pubsub") >= 1
        wire.poll(lambda: advice(daemon) == [], "nothing is advised")


@pytest.mark.parametrize("db", ["0", "3"])
def test_a_user_that_may_not_read_settings(start, db):
    line = subprocess.run(
        [ctl.COUNTERCTL, "cluster", "acl", "--db", db], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    with redis_servers.RedisServer(tcp=True, save="3600 1") as engine:
        with engine.client() as client:
            assert client.ask(*line) == b"OK"
        daemon = start("cluster.engine=%s/%s" % (engine.url, db), "cluster.user=USER", "cluster.password=PASSWORD",
                       "cluster.loose=*", admin=True)  # fmt: skip
        assert advice(daemon) == []


if __name__ == "__main__":
    tap.main(__file__)
