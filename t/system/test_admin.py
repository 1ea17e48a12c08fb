"""The admin interface of the real daemon, read with independent HTTP and JSON."""

import http.client
import json
import os
import re
import socket
import subprocess
import threading
import time

import tap
import pytest

import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

TOKEN = "correct-horse"
BEARER = {"Authorization": "Bearer " + TOKEN}


def ask(daemon, method, target, headers=None):
    """Makes one request on a connection of its own. Returns (status, headers, body)."""
    connection = http.client.HTTPConnection(*daemon.admin[:2], timeout=wire.DEADLINE)
    try:
        connection.request(method, target, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def get(daemon, target):
    """Returns the JSON of a GET that succeeds."""
    status, headers, body = ask(daemon, "GET", target)
    assert status == 200, body
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "no-store"
    return json.loads(body)


def error(daemon, method, target, headers=None):
    """Returns the status and the reason of a request that fails."""
    status, _, body = ask(daemon, method, target, headers)
    said = json.loads(body)["error"]
    assert status >= 400 and said["status"] == status
    return status, said["reason"]


def metric(text, name, **labels):
    """Returns the value of a sample; None if there is none."""
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if found and found.group(1) == name:
            if dict(re.findall(r'(\w+)="([^"]*)"', found.group(2) or "")) == labels:
                return float(found.group(3))
    return None


@pytest.fixture
def watched(start):
    """A daemon with two workers, an admin interface and a token."""
    return start("counter.threads=2", "admin.token=" + TOKEN, admin=True)


# --- reading -----------------------------------------------------------------------------------


def test_daemon_is_healthy_and_ready_while_it_serves(watched):
    assert ask(watched, "GET", "/healthz")[::2] == (200, b"ok\n")
    assert ask(watched, "GET", "/readyz")[::2] == (200, b"ready\n")
    status, headers, body = ask(watched, "HEAD", "/readyz")
    assert (status, headers["Content-Length"], body) == (200, "6", b"")


def test_status_page_is_served_with_its_files(watched):
    status, headers, body = ask(watched, "GET", "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    for path in ("/page.js", "/page.css", "/favicon.svg"):
        assert path.encode() in body
        status, headers, content = ask(watched, "GET", path)
        assert status == 200 and content
        again = ask(watched, "GET", path, {"If-None-Match": headers["ETag"]})
        assert again[0] == 304 and again[2] == b""


def test_stats_know_listeners_and_what_was_done(watched):
    with watched.text_client() as text, watched.binary_client() as binary:
        assert text.ask("ACQ4ME k 1 9 0") == "LOCKED"
        assert binary.acquire(3, 10, b"u") == wire.OK
        stats = get(watched, "/api/v1/stats")
        assert stats["threads"] == 2 and stats["names"] == 2 and stats["units"] == 4
        by_name = {protocol["name"]: protocol for protocol in stats["protocols"]}
        assert by_name["poolcounter"]["listeners"][0] == "%s:%d" % watched.text
        assert by_name["counter"]["listeners"][0] == "%s:%d" % watched.binary
        assert by_name["poolcounter"]["connections"]["open"] == 1
        assert {"verb": "ACQ4ME", "outcome": "LOCKED", "count": 1} in by_name["poolcounter"]["requests"]
        assert {"verb": "acquire", "outcome": "success", "count": 1} in by_name["counter"]["requests"]
        assert sum(worker["connections"] for worker in stats["workers"]) == 2


def test_metrics_are_what_prometheus_expects(watched, tmp_path):
    with watched.text_client() as text:
        text.ask("ACQ4ME k 1 9 0")
        status, headers, body = ask(watched, "GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    body = body.decode("utf-8")
    labels = {"protocol": "poolcounter", "verb": "ACQ4ME", "outcome": "LOCKED"}
    assert metric(body, "counterd_requests_total", **labels) == 1
    assert metric(body, "process_open_fds") >= 8
    assert abs(metric(body, "process_open_fds") - watched.descriptors()) <= 2
    assert metric(body, "process_resident_memory_bytes") > 1e6
    if os.access("/usr/bin/promtool", os.X_OK):
        done = subprocess.run(
            ["/usr/bin/promtool", "check", "metrics"], input=body.encode(), capture_output=True,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_names_of_any_bytes_are_listed_and_looked_up(watched):
    name = b"a/\0\xff\\\xc3\xa9"
    with watched.binary_client() as binary:
        binary.acquire(2, 10, name)
        (one,) = get(watched, "/api/v1/names")["names"]
        assert one["name"] == "a/\\x00\\xff\\\\é"
        assert one["id"] == "a%2F%00%FF%5C%C3%A9"
        assert (one["in_use"], one["limit"], one["holders"]) == (2, 10, 1)
        found = get(watched, "/api/v1/names/" + one["id"])
        (holder,) = found["holders"]
        assert (holder["protocol"], holder["units"]) == ("counter", 2)
        host, port = binary.sock.getsockname()[:2]
        assert holder["client"] == "%s:%d" % (host, port)
    wire.poll(lambda: get(watched, "/api/v1/names/" + one["id"])["in_use"] == 0, "it is given back")


def test_options_are_shown_without_secrets(watched):
    options = {option["key"]: option for option in get(watched, "/api/v1/config")["options"]}
    assert options["counter.threads"]["value"] == "2"
    assert not options["counter.threads"]["is_default"]
    assert options["admin.token"]["value"] == "(set)"
    assert TOKEN not in json.dumps(options)
    assert options["log.level"]["reloadable"] and options["log.level"]["is_default"]


# --- accepted Host names -------------------------------------------------------------------------


def test_a_page_elsewhere_cant_have_its_name_lead_here(start):
    daemon = start("admin.hosts=counter.example, locks", admin=True)
    for host in ("%s:%d" % daemon.admin[:2], "localhost", "[::1]:7532", socket.gethostname(), "locks:1"):
        assert ask(daemon, "GET", "/api/v1/stats", {"Host": host})[0] == 200
    for path in ("/", "/metrics", "/api/v1/stats"):
        status, reason = error(daemon, "GET", path, {"Host": "evil.example:7532"})
        assert status == 421 and "evil.example" in reason and "admin.hosts" in reason
    daemon.wait_log("warning: admin: .* asked for .*evil.example:7532")


def test_over_a_unix_socket_any_name_will_do(start, tmp_path):
    path = str(tmp_path / "admin.sock")
    with servers.listening(path) as listening:
        start(inherit=[("admin", listening)])
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(wire.DEADLINE)
        client.connect(path)
        client.sendall(b"GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n")
        assert client.makefile("rb").readline().split()[1] == b"200"


# --- changes -----------------------------------------------------------------------------------


def test_nothing_is_changed_without_the_token(start):
    daemon = start(admin=True)
    for target in ("/api/v1/reload", "/api/v1/loglevel?level=debug", "/api/v1/connections/0.0.1/kill"):
        assert error(daemon, "POST", target)[0] == 403
        assert error(daemon, "POST", target, BEARER)[0] == 403
    daemon = start("admin.token=" + TOKEN, admin=True)
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": TOKEN}):
        assert error(daemon, "POST", "/api/v1/loglevel?level=debug", headers)[0] == 401
    assert get(daemon, "/api/v1/loglevel") == {"level": "info"}


def test_killed_client_loses_what_it_has_to_who_waits(watched):
    with watched.text_client() as first, watched.text_client() as second:
        assert first.ask("ACQ4ME k 1 9 0") == "LOCKED"
        second.say("ACQ4ME k 1 9 60")
        wire.poll(lambda: get(watched, "/api/v1/names/k")["waiters"], "it waits")
        tag = get(watched, "/api/v1/names/k")["holders"][0]["connection"]
        status, _, body = ask(watched, "POST", "/api/v1/connections/%s/kill" % tag, BEARER)
        assert (status, json.loads(body)) == (200, {"killed": tag})
        assert second.line() == "LOCKED"
        assert error(watched, "POST", "/api/v1/connections/%s/kill" % tag, BEARER)[0] == 404
    watched.wait_log("has ended connection " + re.escape(tag))


def test_jobs_are_changed_on_disk(start, tmp_path):
    words = ("jobs.enable=true", "jobs.port=0", "jobs.path=%s" % (tmp_path / "jobs.db"), "admin.token=" + TOKEN)

    def post(target):
        status, _, body = ask(daemon, "POST", target, BEARER)
        assert status == 200 and json.loads(body)["done"] is True, body
        return json.loads(body)

    daemon = start(*words, admin=True)
    with daemon.job_client() as jobs:
        jobs.put(b"a", into="a")
        jobs.put(b"a", into="a")
        ids = [jobs.put(b"b", delay=1000, into="b") for _ in range(3)]
        ids.append(jobs.put(1001 * b"x", into="b"))
    post("/api/v1/jobs/%d/kick" % ids[0])
    post("/api/v1/jobs/%d/delete" % ids[1])
    post("/api/v1/tubes/b/pause?seconds=1000")
    assert post("/api/v1/tubes/a/clear?state=ready")["deleted"] == 2
    daemon.kill()
    daemon.is_expected_to_be_gone = True

    daemon = start(*words, admin=True)
    assert error(daemon, "GET", "/api/v1/tubes/a")[0] == 404
    (tube,) = get(daemon, "/api/v1/tubes?prefix=b")["tubes"]
    assert (tube["states"]["ready"], tube["states"]["delayed"]) == (2, 1)
    assert tube["pause_left_seconds"] > 900
    jobs = get(daemon, "/api/v1/jobs?tube=b")["jobs"]
    assert [job["id"] for job in jobs] == [ids[0], ids[2], ids[3]]
    job = get(daemon, "/api/v1/jobs/%d" % ids[3])["job"]  # the store alone has its body
    assert job["body"] == 1001 * "x"
    body = ask(daemon, "GET", "/metrics")[2].decode()
    for name in ("commits_total", "commit_seconds_total", "longest_commit_seconds", "failures_total", "log_bytes"):
        assert metric(body, "counterd_jobs_store_" + name) is not None, name
    assert metric(body, "counterd_jobs_store_failing") == 0
    assert metric(body, "counterd_jobs_store_file_bytes") > 4096


def test_log_level_can_be_changed_while_it_runs(watched):
    status, _, body = ask(watched, "POST", "/api/v1/loglevel?level=debug", BEARER)
    assert (status, json.loads(body)) == (200, {"level": "debug"})
    watched.text_client().close()
    watched.wait_log("debug: ")


def test_reload_reads_the_file_again(start, tmp_path):
    path = tmp_path / "counter.conf"
    path.write_text("admin.token = %s\nlog.level = info\n" % TOKEN)
    daemon = start("counter.enable=false", admin=True, args=["-f", str(path)])
    path.write_text("admin.token = %s\nlog.level = debug\n" % TOKEN)
    status, _, body = ask(daemon, "POST", "/api/v1/reload", BEARER)
    answer = json.loads(body)
    assert status == 200 and answer["reloaded"] is True
    assert any("log.level" in line for line in answer["report"])
    assert get(daemon, "/api/v1/loglevel") == {"level": "debug"}
    path.write_text("log.level = loud\n")
    status, _, body = ask(daemon, "POST", "/api/v1/reload", BEARER)
    assert status == 409
    assert any("loud" in line for line in json.loads(body)["report"])
    last = get(daemon, "/api/v1/reload")
    assert (last["tried"], last["good"]) == (2, False) and abs(last["at"] - time.time()) < 600
    path.write_text("admin.token = another\n")
    assert ask(daemon, "POST", "/api/v1/reload", BEARER)[0] == 200
    assert get(daemon, "/api/v1/reload")["good"] is True
    assert error(daemon, "POST", "/api/v1/reload", BEARER)[0] == 401


# --- hostile clients ---------------------------------------------------------------------------


def test_slow_clients_of_the_admin_keep_nobody_from_anything(watched):
    held = []
    for number in range(200):
        sock = socket.create_connection(watched.admin, wire.DEADLINE)
        held.append(sock)
        if number % 2:
            sock.sendall(b"GET /api/v1/names HTTP/1.1\r\nX-Half: ")
    with watched.text_client() as text:
        for _ in range(200):
            assert text.ask("ACQ4ME k 1 9 0") == "LOCKED"
            assert text.ask("RELEASE k") == "RELEASED"
    assert ask(watched, "GET", "/healthz")[0] == 200
    assert watched.descriptors() < 64 + 40
    for sock in held:
        sock.close()


def test_a_flood_of_nonsense_is_survived(watched):
    for data in (b"\0" * 100000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20000, os.urandom(50000)):
        with socket.create_connection(watched.admin, wire.DEADLINE) as sock:
            try:
                sock.sendall(data)
                while sock.recv(65536):
                    pass
            except OSError:
                pass  # the server closed before it had read all
    assert ask(watched, "GET", "/healthz")[0] == 200


# --- the end -----------------------------------------------------------------------------------


def test_daemon_ends_at_once_whatever_its_admin_clients_do(start):
    daemon = start("counter.threads=2", admin=True)
    idle = socket.create_connection(daemon.admin, wire.DEADLINE)
    over = threading.Event()

    def ask_on():
        while not over.is_set():
            try:
                ask(daemon, "GET", "/api/v1/connections")
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)

    threads = [threading.Thread(target=ask_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    wire.poll(lambda: get(daemon, "/api/v1/stats")["uptime_seconds"] > 0.5, "it runs")
    daemon.stop()
    daemon.is_expected_to_be_gone = True
    over.set()
    for thread in threads:
        thread.join()
    idle.close()


def test_port_that_is_taken_is_named(start):
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    daemon = start("admin.port=%d" % taken.getsockname()[1], "admin.listen=127.0.0.1", ready=False)
    assert daemon.wait() == 2
    daemon.is_expected_to_be_gone = True
    assert "127.0.0.1:%d" % taken.getsockname()[1] in daemon.log
    assert "admin.port" in daemon.log
    taken.close()


if __name__ == "__main__":
    tap.main(__file__)
