"""A reload: changes take effect, errors change nothing, and no connection is dropped."""

import contextlib
import http.client
import json
import os
import pwd
import signal
import ssl
import threading

import tap
import pytest

import certificates
import http_client
import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


class Running:
    """A daemon with a configuration file that the test changes."""

    def __init__(self, start, folder, *options, **kwargs):
        self.path = str(folder / "counter.conf")
        self.write("")
        kwargs["args"] = ["-f", self.path, *kwargs.get("args", ())]
        self.daemon = start("counter.threads=2", *options, **kwargs)

    def write(self, text):
        with open(self.path + ".new", "w") as f:
            f.write(text)
        os.replace(self.path + ".new", self.path)

    def reload(self, text):
        """Writes this file and reloads. Returns the log lines of the reload."""
        self.write(text)
        return self.daemon.reload()

    def apply(self, text):
        said = self.reload(text)
        assert "reload: done" in said, said
        return said


@pytest.fixture
def authority(tmp_path):
    return certificates.Authority(tmp_path)


def closed(client):
    """True if the server closes without an answer."""
    try:
        return client.wait_closed() == b""
    finally:
        client.close()


def is_served(address, **kwargs):
    """True if a client with these arguments gets an answer."""
    try:
        with wire.TextClient(address, **kwargs) as client:
            return client.ask("RELEASE") == "NOT_LOCKED"
    except (wire.Closed, ssl.SSLError, ConnectionError):
        return False


# --- every reloadable option ---------------------------------------------------------------------
#
# One function for each. It gets a daemon with an admin interface and a TLS port of the text
# protocol, with the certificate `pair` of `authority`. `base` is the initial text of its file.


@pytest.fixture
def running(start, tmp_path, authority):
    """A daemon with a TLS port, with the certificate in its file."""
    pair = authority.issue("first")
    path = tmp_path / "counter.conf"
    path.write_text("tls.cert = %s\ntls.key = %s\n" % pair)
    plain, tls = servers.listening(), servers.listening()
    made = Running.__new__(Running)
    made.path = str(path)
    made.daemon = start(
        "counter.threads=2",
        "jobs.enable=true",
        "jobs.port=0",
        inherit=[("poolcounter", plain), ("poolcounter-tls", tls)],
        admin=True,
        args=["-f", made.path],
    )
    plain.close()
    tls.close()
    made.base = path.read_text()
    made.authority = authority
    made.pair = pair
    made.folder = tmp_path
    return made


def peer_certificate(address, **kwargs):
    with wire.TextClient(address, tls=certificates.context(**kwargs)) as client:
        assert client.ask("RELEASE") == "NOT_LOCKED"
        return client.sock.getpeercert(binary_form=True)


def file_certificate(path):
    with open(path) as f:
        text = f.read()
    return ssl.PEM_cert_to_DER_cert(text)


def effect_max_connections(running, key, address, connect):
    """`connect` opens a connection and reads an answer, so the daemon has counted it."""
    running.apply(running.base + "%s = 1\n" % key)
    with connect(address):
        assert closed(wire.Client(address))
        running.apply(running.base)
        connect(address).close()


def answered_binary(address):
    client = wire.BinaryClient(address)
    assert client.noop() == wire.OK
    return client


def answered_text(address):
    client = wire.TextClient(address)
    assert client.ask("RELEASE") == "NOT_LOCKED"
    return client


def effect_counter_max_connections(running):
    address = running.daemon.binary
    effect_max_connections(running, "counter.max_connections", address, answered_binary)


def effect_poolcounter_max_connections(running):
    address = running.daemon.text
    effect_max_connections(running, "poolcounter.max_connections", address, answered_text)


def answered_jobs(address):
    client = wire.JobClient(address)
    assert client.ask("list-tube-used") == "USING default"
    return client


def effect_jobs_max_connections(running):
    address = running.daemon.jobs
    effect_max_connections(running, "jobs.max_connections", address, answered_jobs)


def effect_jobs_memory_limit(running):
    body = b"x" * (1 << 20)
    running.apply(running.base + "jobs.memory_limit = 1M\n")  # counts as 4 MiB
    with running.daemon.job_client() as client:
        assert [client.put(body) for _ in range(4)] == [1, 2, 3, "OUT_OF_MEMORY"]
        running.apply(running.base)
        assert [client.put(body) for _ in range(4)] == [5, 6, 7, 8]
        running.apply(running.base + "jobs.memory_limit = 4M\n")
        assert client.put(b"") == "OUT_OF_MEMORY"
        assert [client.ask("delete %d" % n) for n in (1, 2, 3, 5)] == ["DELETED"] * 4
        with running.daemon.job_client() as other:
            assert other.put(b"") == 10


def effect_jobs_tube_defaults(running):
    running.apply(running.base + "jobs.tube_defaults = limit=1\n")
    with running.daemon.job_client() as client:
        assert isinstance(client.put(b"a"), int)
        assert client.put(b"b") == "OUT_OF_MEMORY", "the tube is full"
        running.apply(running.base)
        assert isinstance(client.put(b"b"), int)


def effect_tls_cert(running):
    cert, key = running.authority.issue("second")
    running.apply("tls.cert = %s\ntls.key = %s\n" % (cert, key))
    assert peer_certificate(running.daemon.text_tls) == file_certificate(cert)


def effect_tls_key(running):
    both = str(running.folder / "both.pem")
    with open(both, "w") as f:
        for path in running.pair:
            with open(path) as part:
                f.write(part.read())
    running.apply("tls.cert = %s\n" % both)
    assert peer_certificate(running.daemon.text_tls) == file_certificate(running.pair[0])
    said = running.reload("tls.cert = %s\ntls.key = %s\n" % (both, running.authority.key))
    assert "does not belong to the certificate" in said


def effect_tls_verify_client(running):
    shown = running.authority.issue("client")
    tls = running.daemon.text_tls
    running.apply(
        running.base + "tls.ca = %s\ntls.verify_client = require\n" % running.authority.cert
    )
    assert not is_served(tls, tls=certificates.context(running.authority))
    assert is_served(tls, tls=certificates.context(running.authority, shown=shown))
    running.apply(
        running.base + "tls.ca = %s\ntls.verify_client = optional\n" % running.authority.cert
    )
    assert is_served(tls, tls=certificates.context(running.authority))


def effect_tls_ca(running):
    other = certificates.Authority(running.folder, "other")
    shown = other.issue("client")
    tls = running.daemon.text_tls
    require = running.base + "tls.verify_client = require\ntls.ca = %s\n"
    running.apply(require % running.authority.cert)
    assert not is_served(tls, tls=certificates.context(running.authority, shown=shown))
    running.apply(require % other.cert)
    assert is_served(tls, tls=certificates.context(running.authority, shown=shown))


def effect_tls_min_version(running):
    tls = running.daemon.text_tls
    old = certificates.context(running.authority, version=ssl.TLSVersion.TLSv1_2)
    assert is_served(tls, tls=old)
    running.apply(running.base + "tls.min_version = 1.3\n")
    assert not is_served(tls, tls=old)
    assert is_served(tls, tls=certificates.context(running.authority))


def effect_tls_handshake_timeout(running):
    running.apply(running.base + "tls.handshake_timeout = 1\n")
    assert closed(wire.Client(running.daemon.text_tls))


def effect_tls_max_handshakes(running):
    running.apply(running.base + "tls.max_handshakes = 1\n")
    with wire.Client(running.daemon.text_tls) as first:
        wire.poll(
            lambda: http_client.get(running.daemon.admin, "/api/v1/connections")["connections"],
            "it begins a handshake",
        )
        with wire.Client(running.daemon.text_tls) as second:
            assert closed(first)
            assert second.is_silent()


def effect_access_allow(running):
    text = running.daemon.text
    running.apply(running.base + "access.allow = 127.0.0.2, ::1\n")
    assert is_served(text, source="127.0.0.2")
    assert not is_served(text, source="127.0.0.3")
    running.apply(running.base)
    assert is_served(text, source="127.0.0.3")


def effect_access_max_per_source(running):
    running.apply(running.base + "access.max_per_source = 1\n")
    with wire.TextClient(running.daemon.text, source="127.0.0.2") as first:
        assert first.ask("RELEASE") == "NOT_LOCKED"
        assert not is_served(running.daemon.text, source="127.0.0.2")
        assert is_served(running.daemon.text, source="127.0.0.3")
        assert first.ask("RELEASE") == "NOT_LOCKED"


def wait_closed_for(running, reason):
    """Waits until one connection of the text protocol has been closed for this reason."""

    def closed_for_it():
        stats = http_client.get(running.daemon.admin, "/api/v1/stats")
        return stats["protocols"][0]["connections"]["closed"][reason] == 1

    wire.poll(closed_for_it, "one is closed for %s" % reason)


def effect_limits_request_timeout(running):
    running.apply(running.base + "limits.request_timeout = 1\n")
    client = running.daemon.text_client()
    client.send(b"ACQ4ME ")
    client.wait_closed()
    client.close()
    wait_closed_for(running, "request_timeout")


def fill(client, requests=30000):
    """Sends requests as long as the server reads, and reads no answers."""
    data = b"STATS FULL\n" * requests
    client.sock.setblocking(False)
    sent = 0
    while sent < len(data):
        try:
            sent += client.sock.send(data[sent : sent + 65536])
        except BlockingIOError:
            return


def effect_limits_write_timeout(running):
    running.apply(running.base + "limits.write_timeout = 1\n")
    client = running.daemon.text_client(rcvbuf=4096)
    fill(client)
    wait_closed_for(running, "write_timeout")
    client.close()


def effect_limits_output_buffer(running):
    def queued_now():
        rows = http_client.get(running.daemon.admin, "/api/v1/connections")["connections"]
        return max(row["queued_bytes"] for row in rows)

    def queued():
        """The bytes that the server finally queues for a client that never reads."""
        with running.daemon.text_client(rcvbuf=4096) as client:
            seen = [0]

            def is_steady():
                fill(client)
                seen.append(queued_now())
                return seen[-1] > 0 and len(seen) > 4 and len(set(seen[-4:])) == 1

            wire.poll(is_steady, "the server reads no more")
            return seen[-1]

    running.apply(running.base + "limits.output_buffer = 16K\n")
    assert 0 < queued() <= 32 * 1024
    running.apply(running.base + "limits.output_buffer = 1M\n")
    wire.poll(lambda: queued() > 128 * 1024, "the server queues more")


def effect_limits_unfinished(running):
    said = running.apply(running.base + "limits.unfinished = 1M\n")
    assert "limits.unfinished is 1M now; it was 256M" in said


def changes_level(running, token):
    """Returns the status of a change with this token."""
    return http_client.ask(running.daemon.admin, "POST", "/api/v1/loglevel?level=info", token)[0]


def effect_admin_token(running):
    assert changes_level(running, "tok-eins") == 403
    running.apply(running.base + "admin.token = tok-eins\n")
    assert changes_level(running, "tok-eins") == 200
    said = running.apply(running.base + "admin.token = tok-zwei\n")
    assert "tok-" not in said
    assert changes_level(running, "tok-eins") == 401
    assert changes_level(running, "tok-zwei") == 200
    running.apply(running.base)
    assert changes_level(running, "tok-zwei") == 403


def effect_admin_token_file(running):
    path = running.folder / "token"
    for token in ("one", "two"):
        path.write_text(token + "\n")
        running.apply(running.base + "admin.token = other\nadmin.token_file = %s\n" % path)
        assert changes_level(running, token) == 200
        assert changes_level(running, "other") == 401
    path.unlink()
    said = running.reload(running.base + "admin.token_file = %s\n" % path)
    assert "nothing was changed" in said
    assert changes_level(running, "two") == 200


def effect_admin_hosts(running):
    def status():
        connection = http.client.HTTPConnection(*running.daemon.admin[:2], timeout=wire.DEADLINE)
        with contextlib.closing(connection):
            connection.request("GET", "/healthz", headers={"Host": "counter.example"})
            return connection.getresponse().status

    assert status() == 421
    running.apply(running.base + "admin.hosts = counter.example\n")
    assert status() == 200
    running.apply(running.base)
    assert status() == 421


def effect_log_level(running):
    running.apply(running.base + "log.level = debug\n")
    with running.daemon.text_client() as client:
        client.ask("RELEASE")
    running.daemon.wait_log("debug: poolcounter: connection .* closed")
    said = running.apply(running.base)
    assert "log.level is info now; it was debug" in said


def effect_shutdown_drain(running):
    daemon = running.daemon
    running.apply(running.base + "shutdown.drain = 600\n")
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 9") == "LOCKED"
        daemon.is_expected_to_be_gone = True
        daemon.child.send_signal(signal.SIGTERM)
        daemon.wait_log("draining: no new acquires")
        assert client.ask("RELEASE") == "RELEASED"
        assert daemon.wait() == 0


def effect_upgrade_timeout(running):
    said = running.apply(running.base + "upgrade.timeout = 600\n")
    assert "upgrade.timeout is 600 now; it was 5" in said
    options = http_client.get(running.daemon.admin, "/api/v1/config")["options"]
    assert {o["key"]: o["value"] for o in options}["upgrade.timeout"] == "600"


def asks(running, line, source="127.0.0.1"):
    """Returns the answer to one request from this address."""
    with wire.TextClient(running.daemon.text, source=source) as client:
        return client.ask(line)


def effect_pools_operators(running):
    with running.daemon.text_client(source="127.0.0.3") as client:
        assert client.ask("POOL ADD a") == "OK"
        running.apply(running.base + "pools.operators = 127.0.0.2\n")
        assert client.ask("POOL ADD b") == "ERROR DENIED", "it holds for open connections too"
        assert asks(running, "POOL ADD b", "127.0.0.2") == "OK"
        running.apply(running.base)
        assert client.ask("POOL ADD c") == "OK"


def effect_pools_suppliers(running):
    pool = running.base + "pools.operators = ::1\npool.p.kind = joined\n"
    running.apply(pool)
    with running.daemon.text_client(source="127.0.0.2") as client:
        assert client.ask("JOIN p a") == "ERROR DENIED"
        running.apply(pool + "pools.suppliers = 127.0.0.2\n")
        assert client.ask("JOIN p a") == "JOINED"
        assert client.ask("POOL ADD q") == "ERROR DENIED", "that is for operators"
        assert asks(running, "JOIN p b", "127.0.0.3") == "ERROR DENIED"
        running.apply(pool)
        assert client.ask("JOIN p b") == "ERROR DENIED"


def effect_pools_max(running):
    running.apply(running.base + "pools.max = 1\n")
    with running.daemon.text_client() as client:
        assert client.ask("POOL ADD a") == "OK"
        assert client.ask("POOL ADD b") == "ERROR TOO_MANY"
        running.apply(running.base + "pools.max = 2\n")
        assert client.ask("POOL ADD b") == "OK"
        running.apply(running.base + "pools.max = 1\n")
        assert client.ask("MEMBER ADD b m") == "OK", "what there is stays"


def effect_pools_max_members(running):
    running.apply(running.base + "pools.max_members = 1\n")
    with running.daemon.text_client() as client:
        assert client.ask("POOL ADD a") == "OK"
        assert client.ask("MEMBER ADD a m") == "OK"
        assert client.ask("MEMBER ADD a n") == "ERROR POOL_FULL"
        running.apply(running.base + "pools.max_members = 2\n")
        assert client.ask("MEMBER ADD a n") == "OK"


def effect_pools_max_watchers(running):
    running.apply(running.base + "pools.max_watchers = 1\n")
    with running.daemon.text_client() as first, running.daemon.text_client() as second:
        assert first.ask("WATCH *") == "OK"
        assert second.ask("WATCH *") == "ERROR TOO_MANY"
        running.apply(running.base + "pools.max_watchers = 2\n")
        assert second.ask("WATCH *") == "OK"


def effect_of_cluster(running, key, value, said):
    """Without cluster.engine nothing else changes; test_cluster_basics.py shows the effects with it."""
    text = running.apply(running.base + "cluster.%s = %s\n" % (key, value))
    assert "cluster.%s %s" % (key, said) in text
    assert running.apply(running.base)


def effect_cluster_user(running):
    effect_of_cluster(running, "user", "somebody", 'is somebody now; it was ""')


def effect_cluster_password(running):
    effect_of_cluster(running, "password", "secret", "has changed")


def effect_cluster_ca(running):
    effect_of_cluster(running, "ca", "/a.pem", 'is /a.pem now; it was ""')


def effect_cluster_cert(running):
    effect_of_cluster(running, "cert", "/a.pem", 'is /a.pem now; it was ""')


def effect_cluster_key(running):
    effect_of_cluster(running, "key", "/a.key", 'is /a.key now; it was ""')


def effect_cluster_strict(running):
    effect_of_cluster(running, "strict", "a*", 'is a* now; it was ""')


def effect_cluster_loose(running):
    effect_of_cluster(running, "loose", "b?", 'is b? now; it was ""')


def effect_cluster_patience(running):
    effect_of_cluster(running, "patience", "0.5", "is 0.5 now; it was 1")


EFFECTS = {
    name[len("effect_") :]: function
    for name, function in list(globals().items())
    if name.startswith("effect_") and name not in ("effect_max_connections", "effect_of_cluster")
}


@pytest.mark.parametrize("key", sorted(EFFECTS))
def test_a_reload_shows_its_effect(running, key):
    EFFECTS[key](running)


def test_every_reloadable_option_is_among_these(running):
    options = http_client.get(running.daemon.admin, "/api/v1/config")["options"]
    reloadable = {o["key"].replace(".", "_") for o in options if o["reloadable"]}
    assert reloadable == set(EFFECTS)


# --- messages ------------------------------------------------------------------------------------


def test_a_change_and_what_needs_a_restart_are_a_line_each(start, tmp_path):
    running = Running(start, tmp_path)
    said = running.apply("limits.write_timeout = 7\npoolcounter.max_locks = 8\n")
    assert "info: reload: limits.write_timeout is 7 now; it was 30" in said
    assert (
        "warning: reload: poolcounter.max_locks can't change from 4 to 8 while counterd runs: "
        "restart it" in said
    )
    assert "info: reload: done: 1 changed, 1 need a restart" in said
    said = running.apply("")
    assert "limits.write_timeout is 30 now; it was 7" in said
    assert "max_locks" not in said


def test_the_command_line_goes_over_the_file_then_too(start, tmp_path):
    running = Running(start, tmp_path, args=["-o", "limits.write_timeout=5"])
    said = running.apply("limits.write_timeout = 7\n")
    assert "limits.write_timeout" not in said


def test_a_bad_file_keeps_what_was(start, tmp_path):
    running = Running(start, tmp_path, admin=True)
    running.apply("access.max_per_source = 1\n")
    first = wire.TextClient(running.daemon.text, source="127.0.0.2")
    for bad, said_of_it in (
        ("access.max_per_source = 0\nnonsense\n", ":2: neither"),
        ("access.max_per_sauce = 0\n", ':1: unknown key "access.max_per_sauce"; did you mean'),
        ("\n\naccess.allow = 10.0.0.1/8\n", ":3: access.allow: "),
        ("tls.verify_client = require\n", "set tls.ca"),
        ("tls.cert = /no/such/file\n", "/no/such/file: No such file"),
        ("poolcounter.enable = false\ncounter.enable = false\n", None),
    ):
        said = running.reload(bad)
        if said_of_it is None:
            continue  # an -o option of the test overrides it
        assert said_of_it in said, said
        assert "error: reload: nothing was changed" in said, said
        assert first.ask("RELEASE") == "NOT_LOCKED"
        assert not is_served(running.daemon.text, source="127.0.0.2")
    first.close()
    os.unlink(running.path)
    assert "no such file" in running.daemon.reload()
    running.write("")
    running.apply("")


def test_a_reload_can_be_asked_for_over_http(start, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    running = Running(start, tmp_path, "admin.token_file=%s" % token, admin=True)
    running.write("log.level = debug\ncounter.buckets = 5\n")
    status, body = http_client.ask(running.daemon.admin, "POST", "/api/v1/reload", "secret")
    assert status == 200
    answer = json.loads(body)
    assert answer["reloaded"] is True
    assert "log.level is debug now; it was info" in answer["report"]
    assert any(line.startswith("counter.buckets can't change") for line in answer["report"])
    running.write("log.level = loud\n")
    status, body = http_client.ask(running.daemon.admin, "POST", "/api/v1/reload", "secret")
    assert status == 409
    assert any(":1: log.level: " in line for line in json.loads(body)["report"])
    options = http_client.get(running.daemon.admin, "/api/v1/config")["options"]
    values = {option["key"]: option["value"] for option in options}
    assert values["log.level"] == "debug" and values["admin.token"] == ""


def test_the_interface_never_tells_the_token(start, tmp_path):
    running = Running(start, tmp_path, "admin.token=very-secret", admin=True)
    for path in ("/api/v1/config", "/api/v1/stats", "/metrics"):
        assert "very-secret" not in http_client.ask(running.daemon.admin, "GET", path)[1]
    options = http_client.get(running.daemon.admin, "/api/v1/config")["options"]
    assert {o["value"] for o in options if o["key"] == "admin.token"} == {"(set)"}


# --- pools of the file ---------------------------------------------------------------------------


class Pools(Running):
    """A daemon whose file has pools, and a connection of an operator."""

    def __init__(self, start, folder, text):
        super().__init__(start, folder, admin=True)
        self.members_file = folder / "members"
        self.members_file.write_text("")
        self.apply(text)
        self.client = self.daemon.text_client()

    def ask(self, line):
        return self.client.ask(line)

    def show(self, pool):
        """Returns the words of SHOW: of the pool, and of each member by its name."""
        self.client.say("POOL SHOW " + pool)
        head, members = self.client.line().split(" ")[1:], {}
        while line := self.client.line():
            kind, name, *words = line.split(" ")
            if kind == "MEMBER":
                members[name] = words
        return head, members

    def states(self, pool):
        return {name: words[0] for name, words in self.show(pool)[1].items()}

    def value(self, pool, member):
        """Takes the member, and returns its value and attributes; it is free again then."""
        words = self.ask("TAKE %s member=%s" % (pool, member)).split(" ")
        assert words[0] == "TAKEN", words
        assert self.ask("RETURN") == "RETURNED"
        return words[4:]


def test_options_values_and_attributes_are_again_as_in_the_file(start, tmp_path):
    text = "pool.db.members = a=value-1, b=value-2\npool.db.hold_warn = 7\n"
    text += "pool.db.members_file = %s\n" % (tmp_path / "members")
    pools = Pools(start, tmp_path, text)
    pools.members_file.write_text("c three gpu=a100\nd - state=down note=broken\n")
    said = pools.apply(text)
    assert "pool db: as the configuration says: 0 options changed; 2 members added, 0" in said
    assert pools.states("db") == {"a": "free", "b": "free", "c": "free", "d": "down"}
    assert pools.ask("POOL SET db hold_warn=9 queue_max=3 group=g") == "OK"
    assert pools.ask("MEMBER SET db a value=other k=v") == "OK"
    assert pools.ask("MEMBER SET db b state=down note=why") == "OK"
    assert pools.ask("MEMBER SET db c gpu=h100 rack=2") == "OK"
    assert pools.ask("MEMBER SET db d state=free note=") == "OK"
    assert pools.ask("MEMBER ADD db e") == "OK"
    said = pools.apply(text)
    assert (
        "pool db: as the configuration says: 3 options changed; 0 members added, 1 dropped, 2 put "
        "back" in said
    )
    assert "value-" not in said, "values are secret"
    head, members = pools.show("db")
    assert {"hold_warn=7", "queue_max=50", "group=-"} <= set(head)
    assert sorted(members) == ["a", "b", "c", "d"]
    assert pools.value("db", "a") == ["value-1"]
    assert pools.value("db", "c") == ["three", "gpu=a100"]
    assert (members["b"][0], members["b"][-1]) == ("down", "note=why"), "states and notes stay"
    assert members["d"][0] == "free"
    assert not any(word.startswith("note=") for word in members["d"])
    assert "pool db" not in pools.apply(text), "it is as the file says"


def test_a_member_that_is_gone_from_the_file_goes_when_it_is_returned(start, tmp_path):
    both, one = "pool.db.members = a, b, c\n", "pool.db.members = c\n"
    pools = Pools(start, tmp_path, both)
    with pools.daemon.text_client() as user:
        fence = user.ask("TAKE db member=a").split(" ")[3]
        said = pools.apply(one)
        assert "pool.db.members has changed" in said and "0 members added, 2 dropped" in said
        members = pools.show("db")[1]
        assert sorted(members) == ["a", "c"], "the free one is gone at once"
        assert members["a"][0] == "taken" and "then=drop" in members["a"]
        assert pools.ask("TAKE db member=b") == "ERROR NO_MEMBER"
        said = pools.apply(both)
        assert "1 members added, 0 dropped, 1 put back" in said
        assert "then=drop" not in pools.show("db")[1]["a"]
        pools.apply(one)
        assert user.ask("RETURN " + fence) == "RETURNED"
        assert pools.states("db") == {"c": "free"}


def test_a_new_member_of_the_file_goes_to_a_client_that_waits(start, tmp_path):
    pools = Pools(start, tmp_path, "pool.db.members = a\n")
    with pools.daemon.text_client() as user, pools.daemon.text_client() as waiter:
        assert user.ask("TAKE db").startswith("TAKEN db a ")
        waiter.say("TAKE db 600")
        wire.poll(lambda: "waiting=1" in pools.show("db")[0], "it waits")
        pools.apply("pool.db.members = a, b\n")
        assert waiter.line().startswith("TAKEN db b ")


def test_a_pool_that_is_gone_from_the_file_is_dropped_gracefully(start, tmp_path):
    text = "pool.db.members = a, b\n"
    pools = Pools(start, tmp_path, text + "pool.other.members = c\n")
    with pools.daemon.text_client() as user, pools.daemon.text_client() as waiter:
        assert user.ask("TAKE db count=2").startswith("TAKEN ")
        assert user.line().startswith("TAKEN ")
        waiter.say("TAKE db 600")
        wire.poll(lambda: "waiting=1" in pools.show("db")[0], "it waits")
        assert "pool.db is gone" in pools.apply("pool.other.members = c\n")
        assert waiter.line() == "ERROR NO_POOL"
        assert "draining" in pools.show("db")[0]
        assert user.ask("RETURN") == "RETURNED"
        assert len(pools.states("db")) == 1
        said = pools.apply(text)
        assert "pool.other is gone" in said and "it is no longer being dropped" in said
        assert "open" in pools.show("db")[0]
        assert sorted(pools.states("db")) == ["a", "b"], "what was being dropped stays"
        pools.apply("")
        assert user.ask("RETURN") == "RETURNED"
        assert pools.ask("POOL SHOW db") == "ERROR NO_POOL"


def test_pools_that_verbs_made_stay_and_keep_their_names(start, tmp_path):
    text = "pool.db.members = a\n"
    pools = Pools(start, tmp_path, text)
    assert pools.ask("POOL ADD mine max=3") == "OK"
    pools.apply("")
    assert pools.ask("POOL SHOW db") == "ERROR NO_POOL"
    assert "max=3" in pools.show("mine")[0]
    for wrong, complaint in (
        ("pool.mine.max = 4\n", "pool.mine: a pool of this name was made by POOL ADD"),
        ("pool.x.max = 1\npool.x.cull_after = 1\n", ":3: pool.x.cull_after: the pool is static"),
    ):
        said = pools.reload(text + wrong)
        assert complaint in said and "nothing was changed" in said
        assert pools.ask("POOL SHOW db") == "ERROR NO_POOL"
        assert "max=3" in pools.show("mine")[0]
    pools.apply(text)
    said = pools.reload("pool.db.kind = joined\n")
    assert "pool.db: its kind can't change from static to joined" in said
    assert pools.states("db") == {"a": "free"}


def test_a_wrong_members_file_changes_nothing(start, tmp_path):
    text = "pool.other.max = %%d\npool.db.members_file = %s\n" % (tmp_path / "members")
    pools = Pools(start, tmp_path, text % 1)
    pools.members_file.write_text("# devices\na\nb secret-value\n")
    pools.apply(text % 1)
    for content, line, reason in (
        ("a\nb secret-value gpu\n", 2, "not of the form NAME"),
        ("a\n\na secret-value\n", 3, '"a" is there twice'),
        ("c\n" * 2, 2, '"c" is there twice'),
    ):
        pools.members_file.write_text(content)
        said = pools.reload(text % 2)
        where = "%s:2: pool.db.members_file: %s:%d: " % (pools.path, pools.members_file, line)
        assert where in said and reason in said and "nothing was changed" in said, said
        assert "secret-value" not in said
        assert pools.states("db") == {"a": "free", "b": "free"}
        assert "max=1" in pools.show("other")[0]
    pools.members_file.unlink()
    said = pools.reload(text % 2)
    assert str(pools.members_file) in said and "nothing was changed" in said
    assert pools.states("db") == {"a": "free", "b": "free"}
    pools.members_file.write_text("b\n")
    pools.apply(text % 2)
    assert pools.states("db") == {"b": "free"}


# --- no connection is dropped --------------------------------------------------------------------


def test_open_connections_keep_their_certificate_and_new_ones_get_the_new(running):
    tls = running.daemon.text_tls
    trusting = certificates.context(running.authority)
    first, second = file_certificate(running.pair[0]), None
    with wire.TextClient(tls, tls=trusting) as old:
        assert old.sock.getpeercert(binary_form=True) == first
        assert old.ask("ACQ4ME k 1 2 0") == "LOCKED"
        # A renewed certificate replaces the file.
        renewed = running.authority.issue("renewed")
        for new, path in zip(renewed, running.pair):
            os.replace(new, path)
        second = file_certificate(running.pair[0])
        assert second != first
        assert peer_certificate(tls) == first, "before the reload"
        said = running.apply(running.base)
        assert "certificates were read again" in said
        with wire.TextClient(tls, tls=trusting) as new:
            assert new.sock.getpeercert(binary_form=True) == second
            assert new.ask("ACQ4ME k 1 2 0") == "TIMEOUT"
            assert old.ask("RELEASE k") == "RELEASED"
            assert new.ask("ACQ4ME k 1 2 0") == "LOCKED"


def test_a_certificate_that_went_bad_keeps_the_old(running):
    with open(running.pair[0], "w") as f:
        f.write("nothing\n")
    said = running.daemon.reload()
    assert running.pair[0] in said and "nothing was changed" in said
    assert is_served(running.daemon.text_tls, tls=certificates.context(running.authority))


def test_what_only_root_may_read_stays_as_it_was_read(start, tmp_path, authority):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    pwd.getpwnam("nobody")
    cert, key = authority.issue("root")
    os.chmod(key, 0o600)
    sock = servers.listening()
    daemon = start(
        "tls.cert=%s" % cert,
        "tls.key=%s" % key,
        "user=nobody",
        inherit=[("poolcounter-tls", sock)],
    )
    sock.close()
    said = daemon.reload()
    assert "nothing was changed" in said and "Permission denied" in said
    assert is_served(daemon.text_tls, tls=certificates.context(authority))


def test_100_reloads_drop_none_of_500_connections(running):
    """
    Half of them use TLS. All work during the reloads, and each reload changes the certificate.
    """
    reloads, count = wire.scaled(100, 25), wire.scaled(500, 120)
    trusting = certificates.context(running.authority)
    pairs = [running.authority.issue("a"), running.authority.issue("b")]
    clients = []
    for number in range(count):
        if number % 2:
            clients.append(wire.TextClient(running.daemon.text))
        else:
            clients.append(wire.TextClient(running.daemon.text_tls, tls=trusting))
        assert clients[-1].ask("ACQ4ME held-%d 1 2 5" % number) == "LOCKED"
    failures, over, rounds = [], threading.Event(), [0]

    def work():
        try:
            while not over.is_set() or rounds[0] < 2:
                for number, client in enumerate(clients):
                    assert client.ask("ACQ4ME own-%d 1 2 5" % number) == "LOCKED"
                for number, client in enumerate(clients):
                    assert client.ask("RELEASE own-%d" % number) == "RELEASED"
                rounds[0] += 1
        except Exception as e:  # reported by the main thread
            failures.append(e)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for number in range(reloads):
            said = running.apply(
                "tls.cert = %s\ntls.key = %s\nlimits.write_timeout = %d\n"
                % (*pairs[number % 2], 20 + number % 2)
            )
            assert "limits.write_timeout is %d now" % (20 + number % 2) in said
            assert not failures, failures
            assert is_served(running.daemon.text_tls, tls=trusting), "new ones come, too"
    finally:
        over.set()
        worker.join(wire.DEADLINE * 3)
    assert not worker.is_alive() and not failures, failures
    for number, client in enumerate(clients):
        assert client.ask("RELEASE held-%d" % number) == "RELEASED"
    stats = http_client.get(running.daemon.admin, "/api/v1/stats")
    closed_for = stats["protocols"][0]["connections"]["closed"]
    assert {reason for reason, n in closed_for.items() if n} <= {"peer"}, closed_for
    for client in clients:
        client.close()


def test_hangups_that_come_in_a_rush_are_taken_together(running):
    """However many signals arrive during a reload, the last file takes effect."""
    for number in range(50):
        running.write(running.base + "limits.write_timeout = %d\n" % (100 + number))
        running.daemon.child.send_signal(signal.SIGHUP)

    def has_the_last():
        options = http_client.get(running.daemon.admin, "/api/v1/config")["options"]
        return any(o["key"] == "limits.write_timeout" and o["value"] == "149" for o in options)

    wire.poll(has_the_last, "the last file is in force")


if __name__ == "__main__":
    tap.main(__file__)
