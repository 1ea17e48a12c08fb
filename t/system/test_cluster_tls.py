"""An engine over TLS, with a private CA and certificates of nodes: cluster.ca, cluster.cert, cluster.key."""

import os
import shutil
import signal
import subprocess

import pytest
import tap

import certificates
import ctl
import http_client
import redis_servers
import servers
import wire
from test_cluster_basics import upgrade

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not redis_servers.have_redis(), reason="there is no redis-server"),
]


class Place:
    """A folder with two CAs, a Redis with a certificate of the first, and a node's files beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.ours, self.other = (certificates.Authority(folder, name) for name in ("ours", "other"))
        self.server, self.elsewhere = self.ours.issue("redis"), self.ours.issue("elsewhere", "DNS:x.test")
        self.ca, self.cert, self.key = (str(folder / name) for name in ("ca.pem", "node.pem", "node.key"))
        self.file = folder / "counter.conf"
        self.trust(self.ours)
        self.show(self.ours)
        self.port = servers.free_port()

    def trust(self, authority):
        """The node believes this CA."""
        shutil.copy(authority.cert, self.ca)

    def show(self, authority):
        """The node has a new certificate of this CA, at the same place."""
        for made, at in zip(authority.issue("node"), (self.cert, self.key)):
            shutil.copy(made, at)

    def redis(self, certificate=None):
        """Starts the Redis, which wants a certificate of our CA."""
        cert, key = certificate or self.server
        return redis_servers.RedisServer(
            tls_port=self.port, tls_cert_file=cert, tls_key_file=key, tls_ca_cert_file=self.ours.cert,
        )  # fmt: skip

    def node(self, start, **options):
        """Starts a node with the files; `options` are those of cluster.*, which a reload reads again."""
        values = {"engine": "rediss://localhost:%d" % self.port, "node": "a", "lease": 5,
                  "loose": "l-*", "ca": self.ca, "cert": self.cert, "key": self.key}  # fmt: skip
        values.update(options)
        self.file.write_text("".join("cluster.%s = %s\n" % item for item in values.items() if item[1]))
        return start("cluster.patience=0", args=["-f", str(self.file)], admin=True)


@pytest.fixture(name="place")
def make_place(tmp_path):
    return Place(tmp_path)


def state(daemon):
    return http_client.get(daemon.admin, "/api/v1/cluster")


def await_live(daemon):
    wire.poll(lambda: state(daemon)["state"] == "live", "it is live")


def await_reason(daemon, *words):
    """Waits until the API, `counterctl cluster` and the log say why the node is not live."""
    wire.poll(lambda: all(word in state(daemon)["reason"] for word in words), "the API has the reason")
    if ctl.have_counterctl():
        shown = ctl.run("cluster", "--admin", "%s:%d" % daemon.admin)
        assert all(word in shown.out for word in words), shown
    wire.poll(lambda: all(word in daemon.log for word in words), "the log has it")


def test_a_private_ca_and_a_certificate_that_a_reload_replaces(start, place):
    with place.redis() as redis:
        a = place.node(start)
        await_live(a)
        holder = a.text_client()
        assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"

        # The Redis now wants certificates of the other CA.
        redis.ask("CONFIG", "SET", "tls-ca-cert-file", place.other.cert)
        redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
        await_reason(a, "the server does not know the CA of its client's certificate", "set cluster.cert")
        place.show(place.other)
        os.chmod(place.key, 0o644)
        said = a.reload()
        assert "cluster: the certificates were read again" in said
        assert "cluster.key: %s can be read by every user" % place.key in said
        await_live(a)
        assert redis.ask("HGET", "{counterd}:units", "l-1") == b"1", "nothing was lost"
        assert holder.ask("RELEASE") == "RELEASED"


def test_without_a_certificate_a_node_is_told_that_it_needs_one(start, place):
    with place.redis():
        a = place.node(start, cert=None, key=None)
        await_reason(a, "TLS: the server wants a certificate of its client: set cluster.cert and cluster.key")


def test_a_ca_that_is_not_the_engines(start, place):
    place.trust(place.other)
    with place.redis():
        a = place.node(start)
        await_reason(a, "certificate", "set cluster.ca to the CA of the engine's certificate")
        with open(place.ca, "w", encoding="ascii") as f:
            f.write("no certificate\n")
        said = a.reload()
        assert "cluster.ca: CA certificates %s: the file has no certificate in PEM format" % place.ca in said
        assert "nothing was changed" in said
        place.trust(place.ours)
        a.reload()
        await_live(a)


def test_a_bad_file_leaves_the_old_one_in_force(start, place):
    with place.redis() as redis:
        a = place.node(start)
        await_live(a)
        os.unlink(place.key)
        said = a.reload()
        assert "cluster.key: key %s: No such file or directory" % place.key in said
        assert "nothing was changed" in said
        before = state(a)["session"]
        redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
        wire.poll(lambda: state(a)["session"] not in ("", before), "another session, with the old key")
        await_live(a)


def test_an_upgrade_reads_the_files(start, place):
    with place.redis():
        a = place.node(start)
        await_live(a)
        os.rename(place.key, place.key + ".away")
        a.child.send_signal(signal.SIGUSR1)
        a.wait_log("goes on as before")
        assert "cluster.key: key %s: No such file or directory" % place.key in a.log
        await_live(a)
        os.rename(place.key + ".away", place.key)
        upgrade(a, 1)
        await_live(a)


def test_a_certificate_of_another_host_is_refused(start, place):
    with place.redis(place.elsewhere):
        a = place.node(start)
        await_reason(a, "hostname mismatch", "set cluster.engine to a name that the engine's certificate has")
        assert state(a)["state"] != "live"


def test_what_is_wrong_with_the_files_is_said_before_the_start(place):
    empty, folder = place.folder / "empty", str(place.folder)
    empty.write_text("")
    rows = [
        ({"ca": "/missing.pem"}, "cluster.ca: CA certificates /missing.pem: No such file or directory"),
        ({"ca": folder}, "cluster.ca: CA certificates %s: Is a directory" % folder),
        ({"ca": str(empty)}, "cluster.ca: CA certificates %s: the file has no certificate in PEM" % empty),
        ({"cert": place.key}, "cluster.cert: certificate %s: the file has no certificate" % place.key),
        ({"cert": place.cert, "key": place.ours.key}, "cluster.key: key %s: it does not belong" % place.ours.key),
        ({"cert": place.cert}, "cluster.cert: key %s: the file has no private key" % place.cert),
        ({"key": place.key}, "cluster.key: cluster.cert is empty"),
        ({"engine": "redis://localhost:1", "ca": place.ca}, "cluster.ca: cluster.engine has no TLS"),
        ({"engine": "unix:/x", "cert": place.cert, "key": place.key}, "cluster.cert: cluster.engine has no TLS"),
        ({"engine": "", "ca": "/missing.pem"}, None),
        ({"ca": place.ca, "cert": place.cert, "key": place.key}, None),
    ]
    for options, said in rows:
        options = {"engine": "rediss://localhost:1", "loose": "*", **options}
        words = [word for item in options.items() for word in ("-o", "cluster.%s=%s" % item)]
        done = subprocess.run([servers.COUNTERD, "-t", *words], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (said is None), (options, done)
        assert said is None or said in done.stderr, (options, done)


if __name__ == "__main__":
    tap.main(__file__)
