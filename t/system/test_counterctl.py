"""counterctl's single commands: of the binary protocol, statistics, and the admin interface."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.request

import tap
import pytest

import ctl
import mock_admin
import servers
import wire

pytestmark = pytest.mark.skipif(
    not servers.have_counterd() or not ctl.have_counterctl(),
    reason="COUNTERD and COUNTERCTL name no programs",
)

NO, USAGE, NO_INPUT, UNAVAILABLE, OUTPUT = 1, 64, 66, 69, 74
TEMPORARY, PROTOCOL, DENIED, CONFIG, LOST = 75, 76, 77, 78, 79


def binary(daemon):
    return ("-s", ctl.at(daemon.binary))


# --- help ----------------------------------------------------------------------------------------


def test_help_and_version():
    assert re.fullmatch(r"counterctl \d+\.\d+\S*\n", ctl.run("--version").out)
    for args in (["help"], ["--help"], ["-h"]):
        done = ctl.run(*args)
        assert done.status == 0 and "\n  connections " in done.out and done.err == ""
    assert ctl.run("help", "dump").out == ctl.run("dump", "--help").out
    assert "--sort=ORDER" in ctl.run("help", "dump").out
    done = ctl.run("help", "dmup")
    assert done.status == USAGE and "dump" in done.err


def test_what_is_wrong_goes_to_standard_error():
    for args in ([], ["xyzzy"], ["get"], ["get", "--no-such", "k"], ["get", "--any", "k"]):
        done = ctl.run(*args)
        assert done.status == USAGE and done.out == "" and done.err.startswith("counterctl: "), args


# --- noop, get, release, acquire -----------------------------------------------------------------


def test_noop(daemon):
    assert re.fullmatch(r"ok, \d.* \S?s\n", ctl.run(*binary(daemon), "noop").out)
    answer, status = ctl.run_json(*binary(daemon), "noop", "--json")
    assert status == 0 and answer["ok"] is True and 0 < answer["seconds"] < wire.DEADLINE


def test_get(daemon):
    done = ctl.run(*binary(daemon), "get", "k")
    assert (done.status, done.out) == (NO, "") and "Not found" in done.err
    assert ctl.run_json(*binary(daemon), "get", "k", "--json") == (
        {"name": "k", "id": "k", "exists": False, "in_use": 0}, NO)  # fmt: skip
    with daemon.binary_client() as client:
        assert client.acquire(3, 5, b"a\xff b") == wire.OK
        assert ctl.run(*binary(daemon), "get", "-e", "a\\xff b") == (0, "3\n", "")
        answer, status = ctl.run_json(*binary(daemon), "get", "-ej", "a\\xff\\x20b")
        assert (answer, status) == (
            {"name": "a\\xff b", "id": "a%FF%20b", "exists": True, "in_use": 3}, 0)  # fmt: skip


def test_names_are_checked(daemon):
    for name, why in (("", "empty"), ("x" * 65536, "at most 65535"), ("a\\q", "character 2")):
        done = ctl.run(*binary(daemon), "get", "-e", name)
        assert done.status == USAGE and why in done.err, name
    assert ctl.run(*binary(daemon), "get", "x" * 65535).status == NO


def test_release_of_a_connection_that_has_nothing(daemon):
    assert ctl.run(*binary(daemon), "release", "k", "1").status == NO
    with daemon.binary_client() as client:
        assert client.acquire(3, 5, b"k") == wire.OK
        done = ctl.run(*binary(daemon), "release", "k", "1")
        assert done.status == NO and "Not acquired" in done.err
        answer, status = ctl.run_json(*binary(daemon), "release", "k", "1", "-j")
        assert status == NO and not answer["ok"] and answer["status"] == "not_acquired"
        assert ctl.run(*binary(daemon), "release", "k", "0") == (0, "ok\n", "")
        assert client.get(b"k") == 3


def test_acquire_holds_until_its_input_ends(daemon):
    with ctl.Running(*binary(daemon), "acquire", "k", "2", "5") as running:
        assert running.line() == "acquired 2"
        with daemon.binary_client() as client:
            assert client.get(b"k") == 2
            running.say("what is said does not matter\n")
            assert client.get(b"k") == 2
            assert running.end() == (0, "", "")
            assert client.get(b"k") == 0


def test_acquire_for_some_time_does_not_look_at_its_input(daemon):
    done = ctl.run(*binary(daemon), "acquire", "k", "2", "5", "--for", "0.05", "--json")
    assert done.status == 0
    assert json.loads(done.out) == {"name": "k", "id": "k", "acquired": 2}


def test_acquire_ends_with_a_signal(daemon):
    with ctl.Running(*binary(daemon), "acquire", "k", "2", "5", "--for", "1000") as running:
        assert running.line() == "acquired 2"
        running.signal(signal.SIGTERM)
        assert running.wait() == (128 + signal.SIGTERM, "", "")
    with daemon.binary_client() as client:
        assert client.get(b"k") == 0


def test_acquire_what_is_not_available(daemon):
    with daemon.binary_client() as client:
        assert client.acquire(4, 5, b"k") == wire.OK
        done = ctl.run(*binary(daemon), "acquire", "k", "2", "5")
        assert (done.status, done.out) == (TEMPORARY, "") and "not available" in done.err
        answer, status = ctl.run_json(*binary(daemon), "acquire", "k", "2", "5", "-j")
        assert status == TEMPORARY
        assert answer == {"name": "k", "id": "k", "acquired": 0, "status": "not_available"}


def test_acquire_whose_connection_is_lost_is_79(start):
    daemon = start()
    with ctl.Running(*binary(daemon), "acquire", "k", "2", "5") as running:
        assert running.line() == "acquired 2"
        daemon.is_expected_to_be_gone = True
        daemon.child.kill()
        done = running.wait()
        assert done.status == LOST and "the server frees what this command held" in done.err


def test_acquire_checks_its_numbers():
    for args, why in ((["0", "1"], "UNITS"), (["1", "x"], "MAX"), (["3", "2"], "at most 2"),
                      (["1", "4294967296"], "4294967295"), (["-1", "2"], "-1")):  # fmt: skip
        done = ctl.run("acquire", "k", *args)
        assert done.status == USAGE, args
    done = ctl.run("acquire", "k", "1", "1", "--for", "1", "--", "true")
    assert done.status == USAGE and "exclude each other" in done.err


# --- dump ----------------------------------------------------------------------------------------

ODD = [b"plain", b"with blank", b"new\nline", b"\xff\xfe", "grün".encode(), b"back\\slash",
       b"\x1b[31m", b"plain2", b"\x00"]  # fmt: skip


@pytest.fixture
def holding(daemon):
    """A client that holds odd names, each with one unit more than the name before."""
    with daemon.binary_client() as client:
        for units, name in enumerate(ODD, 1):
            assert client.acquire(units, 100, name) == wire.OK
        assert client.acquire(50, 100, b"plain") == wire.OK
        assert client.release(50, b"plain") == wire.OK
        yield daemon


def shown(name):
    out = ""
    for char in name.decode("utf-8", "surrogateescape"):
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            out += "\\x%02x" % (code - 0xDC00)
        else:
            out += "\\x%02x" % code if code < 0x20 else char.replace("\\", "\\\\")
    return out


def rows(done):
    """(in use, peak, name) of each row of a dump."""
    lines = done.out.splitlines()
    assert lines[0].split() == ["IN", "USE", "PEAK", "NAME"]
    found = []
    for line in lines[1:]:
        in_use, peak, name = re.fullmatch(r" *(\d+)  +(\d+)  (.*)", line).groups()
        found.append((int(in_use), int(peak), name))
    return found


def test_dump_lists_every_name_as_it_can_be_shown(holding):
    done = ctl.run(*binary(holding), "dump")
    assert done.status == 0 and done.err == ""
    expected = {(units, 51 if units == 1 else units, shown(name)) for units, name in enumerate(ODD, 1)}
    found = rows(done)
    assert set(found) == expected and len(found) == len(expected)


def test_dump_in_json_is_a_line_each(holding):
    done = ctl.run(*binary(holding), "dump", "--json")
    found = {row["id"]: row for row in map(json.loads, done.out.splitlines())}
    assert found["%1B%5B31m"] == {"name": "\\x1b[31m", "id": "%1B%5B31m", "in_use": 7, "peak": 7}
    assert found["gr%C3%BCn"]["name"] == "grün"
    assert len(found) == len(ODD)


def test_dump_sorts(holding):
    by_name = [name for _, _, name in rows(ctl.run(*binary(holding), "dump", "-S", "name"))]
    assert by_name == [shown(name) for name in sorted(ODD)]
    by_use = [in_use for in_use, _, _ in rows(ctl.run(*binary(holding), "dump", "-S", "in-use"))]
    assert by_use == list(range(len(ODD), 0, -1))
    by_peak = [peak for _, peak, _ in rows(ctl.run(*binary(holding), "dump", "-S", "peak"))]
    assert by_peak == [51] + list(range(len(ODD), 1, -1))


def test_dump_filters_and_limits(holding):
    dump = (*binary(holding), "dump")
    assert {row[2] for row in rows(ctl.run(*dump, "-p", "plain"))} == {"plain", "plain2"}
    assert [row[2] for row in rows(ctl.run(*dump, "-ep", "\\x1b"))] == ["\\x1b[31m"]
    assert {row[0] for row in rows(ctl.run(*dump, "--min", "7"))} == {7, 8, 9}
    assert len(rows(ctl.run(*dump, "--limit", "3"))) == 3
    assert [row[0] for row in rows(ctl.run(*dump, "-n", "3", "-S", "in-use"))] == [9, 8, 7]
    assert [row[2] for row in rows(ctl.run(*dump, "-n2", "-Sname", "-p", "pl"))] == ["plain", "plain2"]
    assert ctl.run(*dump, "-p", "no such name") == (0, "", "")


def test_dump_of_many_names_sorted_in_part_and_whole(daemon):
    with daemon.binary_client() as client:
        order = [(i * 7919) % 3000 + 1 for i in range(3000)]
        for i, units in enumerate(order):
            client.send(
                wire.binary_request(wire.ACQUIRE, wire.acquire_body(units, 5000, b"n%04d" % i))
            )
        for _ in order:
            assert client.reply().status == wire.OK
        dump = (*binary(daemon), "dump", "-S", "in-use")
        assert [row[0] for row in rows(ctl.run(*dump))] == sorted(order, reverse=True)
        for limit in (1, 2, 10, 2999, 3000, 5000):
            got = [row[0] for row in rows(ctl.run(*dump, "-n", str(limit)))]
            assert got == sorted(order, reverse=True)[:limit]


def test_dump_shows_how_far_it_is_on_a_terminal(holding):
    with ctl.Terminal(*binary(holding), "dump", "--sort", "name") as terminal:
        assert terminal.wait() == 0
        assert b"of 9 names" in terminal.output and b"\r\x1b[K" in terminal.output
    with ctl.Terminal(*binary(holding), "dump") as terminal:
        assert terminal.wait() == 0
        assert b"names" not in terminal.output  # the progress would stand between the rows


# --- stats ---------------------------------------------------------------------------------------


def test_stats_of_each_protocol(daemon):
    answer, status = ctl.run_json(*binary(daemon), "stats", "-j")
    assert status == 0 and list(answer) == ["counter"]
    assert answer["counter"]["command:stats"] == 1 and answer["counter"]["threads"] == 2
    answer, status = ctl.run_json("-s", ctl.at(daemon.text), "stats", "--text", "-j")
    assert status == 0 and list(answer) == ["poolcounter"]
    assert answer["poolcounter"]["processing_workers"] == 0
    assert re.match(r"0 days, 0h", answer["poolcounter"]["uptime"])
    done = ctl.run("-s", ctl.at(daemon.text), "stats", "--text")
    assert re.search(r"(?m)^poolcounter\n  NAME +VALUE\n  uptime +0 days", done.out)


def test_stats_of_both_protocols_and_of_one_that_is_not_served(start):
    # The ports must be the default ones, so use an address of our own.
    host = "127.88.%d.%d" % (os.getpid() >> 8 & 255, os.getpid() & 255)
    options = ("poolcounter.port=7531", "counter.port=11215")
    listen = ("poolcounter.listen=" + host, "counter.listen=" + host)
    daemon = start(*options, *listen)
    answer, status = ctl.run_json("-s", host, "stats", "-j")
    assert status == 0 and set(answer) == {"counter", "poolcounter"}
    assert ctl.run("-s", host, "stats").out.count("VALUE") == 2
    assert ctl.run("-s", host, "get", "k").status == NO
    assert ctl.run("-s", host, "run", "k", "--", "true").status == 0
    daemon.stop()
    daemon.is_expected_to_be_gone = True
    start(*options, *listen, "counter.enable=false")
    done = ctl.run("-s", host, "stats", "-j")
    assert done.status == 0 and list(json.loads(done.out)) == ["poolcounter"]
    assert host + ":11215: Connection refused" in done.err


def test_stats_of_no_server():
    done = ctl.run("-s", "127.0.0.1:%d" % servers.free_port(), "stats")
    assert (done.status, done.out) == (UNAVAILABLE, "")


def test_the_wrong_port_is_told(daemon):
    done = ctl.run("-s", ctl.at(daemon.text), "--io-timeout", "0.2", "get", "k")
    assert done.status in (UNAVAILABLE, PROTOCOL)
    done = ctl.run("-s", ctl.at(daemon.binary), "run", "k", "--", "true")
    assert done.status in (UNAVAILABLE, PROTOCOL)


# --- batch ---------------------------------------------------------------------------------------


def test_a_batch_is_one_connection(daemon):
    lines = ["acquire a\\x20b 3 5", "get a\\x20b", "acquire a\\x20b 3 5", "release a\\x20b 2",
             "get a\\x20b", "  noop  ", "release a\\x20b 9", "get none"]  # fmt: skip
    done = ctl.run(*binary(daemon), "batch", stdin="\n".join(lines).encode())
    assert done.out.splitlines() == [
        "ok 3", "ok 3", "no Resource not available", "ok", "ok 1", "ok", "no Not acquired",
        "no Not found"]  # fmt: skip
    assert done.status == NO and done.err == ""
    with daemon.binary_client() as client:
        assert client.get(b"a b") == 0


def test_a_batch_answers_each_line_at_once(daemon):
    with ctl.Running(*binary(daemon), "batch") as running:
        for line, answer in (("acquire k 1 1\n", "ok 1"), ("\n# nothing\nget k\r\n", "ok 1")):
            running.say(line)
            assert running.line() == answer
        with daemon.binary_client() as client:
            assert client.get(b"k") == 1
        running.say("noop")
        assert running.end() == (0, "ok\n", "")


def test_lines_of_a_batch_that_are_wrong(daemon):
    lines = ["foo", "get", "get a b", "acquire k 0 1", "acquire k 2 1", "release k -1", "get a\\q",
             "get \x1b", "get k 1 2 3 4 5 6 7", "noop"]  # fmt: skip
    done = ctl.run(*binary(daemon), "batch", stdin="\n".join(lines).encode())
    answers = done.out.splitlines()
    assert done.status == USAGE and len(answers) == len(lines)
    for number, answer in enumerate(answers[:7], 1):
        assert answer.startswith("error line %d: " % number), answer
    assert answers[7] == "no Not found" and answers[9] == "ok"


def test_lines_that_are_too_long_are_passed_over(daemon):
    name = "\\x61" * 65535
    text = "get %s\nget %s\nget %s\nnoop\n" % ("x" * 1000000, name, "x" * 65536)
    done = ctl.run(*binary(daemon), "batch", stdin=text.encode())
    answers = done.out.splitlines()
    assert answers[0].startswith("error line 1: it is longer") and answers[1] == "no Not found"
    assert answers[2].startswith("error line 3: ") and answers[3] == "ok" and len(answers) == 4


def test_a_batch_in_json(daemon):
    text = "acquire k 2 3\nget nix\nstats\nbad\n"
    done = ctl.run(*binary(daemon), "batch", "--json", stdin=text.encode())
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert answers[0] == {
        "ok": True, "command": "acquire", "status": "success", "name": "k", "id": "k", "units": 2}  # fmt: skip
    assert (answers[1]["ok"], answers[1]["status"]) == (False, "not_found")
    assert answers[2]["stats"]["held_units"] == "2"
    assert answers[3]["status"] == "error" and answers[3]["line"] == 4


def test_a_batch_notices_that_the_server_is_gone(start):
    daemon = start()
    with ctl.Running(*binary(daemon), "batch") as running:
        running.say("acquire k 1 1\n")
        assert running.line() == "ok 1"
        daemon.is_expected_to_be_gone = True
        daemon.child.kill()
        done = running.wait()
        assert done.status == LOST and "the server frees what this command held" in done.err


# --- output that can't be written ----------------------------------------------------------------


def test_a_full_disk_is_told(holding):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([ctl.COUNTERCTL, *binary(holding), "dump"], stdout=full,
                              stderr=subprocess.PIPE, env=ctl.environment(), check=False)  # fmt: skip
    assert done.returncode == OUTPUT and b"No space left" in done.stderr


def test_a_reader_that_has_gone_ends_us_without_a_word(holding):
    script = '"$0" "$@" | head -n1; echo ${PIPESTATUS[0]}'
    for _ in range(3):
        with holding.binary_client() as client:
            for i in range(3000):
                client.send(wire.binary_request(
                    wire.ACQUIRE, wire.acquire_body(1, 9, b"n%0100d" % i)))  # fmt: skip
            for _ in range(3000):
                client.reply()
            done = subprocess.run(
                ["bash", "-c", script, ctl.COUNTERCTL, *binary(holding), "dump"],
                capture_output=True, env=ctl.environment(), check=True)  # fmt: skip
    assert done.stdout.split()[-1] == b"141" and done.stderr == b""


# --- the admin interface as its contract says ----------------------------------------------------


@pytest.fixture
def mock():
    server = mock_admin.MockAdmin()
    yield server
    server.stop()


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(mock_admin.TOKEN + "\n")
    path.chmod(0o600)
    return ("--token-file", str(path))


def test_contended(mock):
    done = ctl.run("--admin", mock.address, "contended", "--by", "refused", "--limit", "3")
    assert done.status == 0 and mock.paths() == ["/api/v1/contended?by=refused&limit=3"]
    lines = done.out.splitlines()
    assert lines[0].split() == ["IN", "USE", "PEAK", "LIMIT", "WAITING", "LOAD", "REFUSED/S", "NAME"]
    assert lines[2].endswith("odd\\x0a\\\\name 中文") and len(lines) == 4
    answer, status = ctl.run_json("--admin", mock.address, "contended", "-j")
    assert status == 0 and answer["names"] == mock_admin.CONTENDED["names"]


def test_holders(mock):
    done = ctl.run("--admin", mock.address, "holders", "odd\n\\name")
    assert done.status == 0 and mock.paths() == ["/api/v1/names/odd%0A%5Cname"]
    lines = done.out.splitlines()
    assert lines[0].startswith("odd\\x0a\\\\name: 2 in use, peak 3")
    assert re.match(r"  0\.12\.3 +poolcounter +1 +2 +3\.2 s  192\.0\.2\.1:4711$", lines[3])
    assert re.search(r"(?m)^  0\.13\.9 .* any  \[2001:db8::1\]:999$", done.out)
    answer, _ = ctl.run_json("--admin", mock.address, "holders", "-je", "odd\\x0a\\\\name")
    assert answer == mock_admin.DETAIL
    done = ctl.run("--admin", mock.address, "holders", "none")
    assert done.status == NO and "there is no such name (404)" in done.err
    answer, status = ctl.run_json("--admin", mock.address, "holders", "-j", "none")
    assert status == NO and answer["error"]["status"] == 404


def test_connections_of_many_pages(mock):
    mock.connections = 2500
    done = ctl.run("--admin", mock.address, "connections", "--protocol", "a&b")
    assert len(done.out.splitlines()) == 2501
    assert mock.paths()[:2] == ["/api/v1/connections?limit=1000&protocol=a%26b",
                                "/api/v1/connections?limit=1000&protocol=a%26b&cursor=1000"]  # fmt: skip
    done = ctl.run("--admin", mock.address, "connections", "--limit", "1500", "-j")
    found = [json.loads(line)["connection"] for line in done.out.splitlines()]
    assert found == ["0.%d.1" % i for i in range(1500)]
    assert mock.paths()[-1] == "/api/v1/connections?limit=500&cursor=1000"


def test_kill_reload_and_loglevel_with_the_token(mock, token):
    admin = ("--admin", mock.address)
    assert ctl.run(*admin, "kill", "0.12.3", *token) == (0, "killed 0.12.3\n", "")
    done = ctl.run(*admin, "kill", "9.9.9", *token)
    assert done.status == NO and "no such connection" in done.err
    assert ctl.run(*admin, "reload", *token) == (0, "log.level is debug now\n", "")
    assert ctl.run(*admin, "loglevel", "debug", *token) == (0, "debug\n", "")
    assert ctl.run(*admin, "loglevel") == (0, "debug\n", "")
    env = {"COUNTER_ADMIN_TOKEN": mock_admin.TOKEN, "COUNTER_ADMIN": mock.address}
    assert ctl.run("kill", "0.12.3", env=env).status == 0
    assert ctl.run_json("kill", "0.12.3", "-j", env=env) == ({"killed": "0.12.3"}, 0)
    assert ctl.run_json("reload", "-j", env=env)[0]["reloaded"] is True


def test_a_reload_that_fails(mock, token):
    mock.reload_fails = True
    done = ctl.run("--admin", mock.address, "reload", *token)
    assert (done.status, done.out) == (CONFIG, "")
    assert "the file is wrong (409)" in done.err and "counter.conf:3: unknown key" in done.err


def test_the_token_is_sent_only_where_it_is_needed(mock, token):
    env = {"COUNTER_ADMIN_TOKEN": mock_admin.TOKEN, "COUNTER_ADMIN": mock.address}
    for args in (["holders", "x"], ["config"], ["loglevel"], ["contended"], ["top", "--once"]):
        ctl.run(*args, env=env)
    assert mock.requests and not any("Authorization" in h for _, _, h in mock.requests)


def test_tokens_that_are_wrong_or_missing(mock, token, tmp_path):
    admin = ("--admin", mock.address)
    done = ctl.run(*admin, "kill", "0.12.3")
    assert done.status == DENIED and "--token-file or $COUNTER_ADMIN_TOKEN" in done.err
    done = ctl.run(*admin, "reload", env={"COUNTER_ADMIN_TOKEN": "other"})
    assert done.status == DENIED and "other" not in done.err
    mock.token = None
    done = ctl.run(*admin, "kill", "0.12.3", *token)
    assert done.status == DENIED and "no admin.token is set" in done.err
    done = ctl.run(*admin, "kill", "0.12.3", "--token-file", str(tmp_path / "none"))
    assert done.status == NO_INPUT and "No such file" in done.err
    for bad in ("", "two words\n", "x" * 5000, "ctrl\x01\n"):
        (tmp_path / "bad").write_text(bad)
        done = ctl.run(*admin, "kill", "0.12.3", "--token-file", str(tmp_path / "bad"))
        assert done.status == USAGE and "a token is" in done.err
    mock.token = mock_admin.TOKEN
    os.chmod(token[1], 0o644)
    done = ctl.run(*admin, "kill", "0.12.3", *token)
    assert done.status == 0 and "every user of this machine can read it" in done.err
    done = ctl.run(*admin, "kill", "0.12.3", "--token", "x")
    assert done.status == USAGE and "list of processes" in done.err


def test_config(mock):
    done = ctl.run("--admin", mock.address, "config")
    lines = done.out.splitlines()
    assert re.match(r"counter\.port +11215 +=", lines[1]) and lines[1].endswith("at the start")
    assert re.match(r"limits\.write_timeout +7 +30 +s +with reload$", lines[2])
    assert ctl.run_json("--admin", mock.address, "config", "-j")[0] == mock_admin.CONFIG


def test_loglevel_knows_the_levels(mock, token):
    done = ctl.run("--admin", mock.address, "loglevel", "loud", *token)
    assert done.status == USAGE and "error, warning, info, debug" in done.err and not mock.requests


@pytest.mark.parametrize(
    "code, answer, status",
    [
        (200, b"no JSON", PROTOCOL),
        (200, b"[1,2]", PROTOCOL),
        (404, b"<html>", PROTOCOL),
        (500, {"error": {"status": 500, "reason": "oh \x1b[1m"}}, UNAVAILABLE),
        (503, {}, UNAVAILABLE),
        (301, {}, PROTOCOL),
        (200, b'{"a":1,"a":2}', PROTOCOL),
    ],
)
def test_answers_that_are_none(mock, code, answer, status):
    mock.canned["/api/v1/config"] = (code, answer)
    done = ctl.run("--admin", mock.address, "config")
    assert (done.status, done.out) == (status, "") and "\x1b" not in done.err


def test_answers_of_the_wrong_shape_print_nothing_wrong(mock):
    odd = {"options": [{}, 3, {"key": 7}], "names": [None, {}], "connections": "x", "cursor": 5,
           "holders": 4, "waiters": [[]], "level": None, "report": 1, "killed": {}}  # fmt: skip
    for path in ("config", "contended", "connections", "names/k", "loglevel", "stats", "history"):
        mock.canned["/api/v1/" + path] = (200, odd)
    for args in (["config"], ["contended"], ["connections"], ["holders", "k"], ["loglevel"],
                 ["top", "--once"]):  # fmt: skip
        assert ctl.run("--admin", mock.address, *args).status == 0, args


def test_a_cursor_that_stands_still_ends_the_list(mock):
    mock.canned["/api/v1/connections"] = (200, {"connections": [{}], "cursor": "same"})
    done = ctl.run("--admin", mock.address, "connections")
    assert done.status == 0 and len(mock.requests) == 2


def test_no_admin_interface_and_one_that_is_silent():
    done = ctl.run("--admin", "127.0.0.1:%d" % servers.free_port(), "config")
    assert done.status == UNAVAILABLE and "admin interface at 127.0.0.1:" in done.err
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        done = ctl.run("--admin", ctl.at(listener.getsockname()), "--io-timeout", "0.1",
                       "--connect-timeout", "0.1", "config")  # fmt: skip
        assert done.status == UNAVAILABLE and "imeout" in done.err
    done = ctl.run("--admin", "a b", "config")
    assert done.status == USAGE and "--admin" in done.err


def test_proxies_are_not_asked(mock):
    env = {"http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"}
    assert ctl.run("--admin", mock.address, "loglevel", env=env).out == "info\n"


# --- the admin interface of the daemon -----------------------------------------------------------


@pytest.fixture
def real(start):
    """The daemon with its admin interface and a token."""
    daemon = start("admin.token=" + mock_admin.TOKEN, "counter.threads=2", admin=True)
    daemon.ctl = ("--admin", ctl.at(daemon.admin))
    return daemon


def test_who_holds_and_who_waits_and_killing_them(real, token):
    with ctl.Running("-s", ctl.at(real.text), "run", "odd key", "--strict", "--", "cat") as running:
        running.say("x\n")
        assert running.line() == "x"
        with real.text_client() as waiter:
            waiter.say("ACQ4ANY odd%20key 1 9 1000")
            with real.text_client() as client:
                wire.poll(lambda: client.stat("waiting_workers") == 1, "one waits")
            answer, status = ctl.run_json(*real.ctl, "holders", "-j", "odd%20key")
            assert status == 0 and answer["id"] == "odd%2520key" and answer["in_use"] == 1
            assert [row["kind"] for row in answer["waiters"]] == ["any"]
            done = ctl.run(*real.ctl, "holders", "odd%20key")
            assert done.status == 0 and "holders: 1 of 1" in done.out
            assert "waiters: 1 of 1" in done.out
            connection = answer["holders"][0]["connection"]
            assert connection in ctl.run(*real.ctl, "connections").out
            assert ctl.run(*real.ctl, "kill", connection).status == DENIED
            done = ctl.run(*real.ctl, "kill", connection, *token)
            assert done == (0, "killed %s\n" % connection, "")
            assert running.wait().status == LOST
            assert waiter.line() == "LOCKED"
    assert ctl.run(*real.ctl, "kill", connection, *token).status == NO
    assert ctl.run(*real.ctl, "kill", "x.y", *token).status in (NO, USAGE)
    assert ctl.run(*real.ctl, "holders", "none").status == NO


def test_lists_of_the_daemon(real):
    with real.binary_client() as client, real.text_client() as other:
        assert client.acquire(3, 3, b"busy \x01\xff") == wire.OK
        assert other.ask("ACQ4ME busy 1 1 0") == "LOCKED"
        assert client.acquire(1, 3, b"busy \x01\xff") == wire.NOT_AVAILABLE
        found, status = ctl.run_json(*real.ctl, "contended", "--by", "refused", "-j")
        assert status == 0 and found["names"][0]["name"] == "busy \\x01\\xff"
        done = ctl.run(*real.ctl, "contended", "--by", "peak")
        assert re.search(r"(?m)^ *3 +3 +3 .*busy \\x01\\xff$", done.out)
        rows_of = ctl.run(*real.ctl, "connections", "-j", "--protocol", "counter").out.splitlines()
        assert [json.loads(row)["protocol"] for row in rows_of] == ["counter"]
        assert len(ctl.run(*real.ctl, "connections", "--limit", "1").out.splitlines()) == 2


def test_config_reload_and_loglevel_of_the_daemon(real, token):
    done = ctl.run(*real.ctl, "config")
    assert re.search(r"(?m)^counter\.threads +2 ", done.out)
    assert mock_admin.TOKEN not in done.out
    assert ctl.run(*real.ctl, "loglevel", "debug", *token) == (0, "debug\n", "")
    assert ctl.run(*real.ctl, "loglevel") == (0, "debug\n", "")
    done = ctl.run(*real.ctl, "reload", *token)
    assert done.status == 0 and done.out
    assert ctl.run(*real.ctl, "reload").status == DENIED


def test_one_frame_of_the_daemon(real):
    with real.text_client() as client, real.text_client() as refused:
        assert client.ask("ACQ4ME busy-name 1 9 0") == "LOCKED"
        assert refused.ask("ACQ4ME busy-name 1 9 0") == "TIMEOUT"
        done = ctl.run(*real.ctl, "top", "--once", "--by", "refused")
        assert done.status == 0 and "busy-name" in done.out and "*REFUSED" in done.out
        assert re.search(r"names 1  units 1  waiting 0  conns \d", done.out)
        answer, status = ctl.run_json(*real.ctl, "top", "--once", "--json")
        assert status == 0 and set(answer) == {"stats", "history", "contended", "pools", "tubes"}
        assert len(answer["history"]["series"]["requests"]) == 600
        metrics = urllib.request.urlopen("http://%s/metrics" % ctl.at(real.admin), timeout=30).read().decode()
        refused = {p["name"]: p["refused"] for p in answer["stats"]["protocols"]}
        assert refused["poolcounter"] >= 1
        assert 'counterd_refused_total{protocol="poolcounter"} %d\n' % refused["poolcounter"] in metrics


def test_top_shows_percentiles_that_no_wait_exceeds(real):
    with real.text_client() as client, real.text_client() as late:
        assert client.ask("ACQ4ME waited-name 1 9 0") == "LOCKED"
        assert late.ask("ACQ4ME waited-name 1 9 0.21") == "TIMEOUT"

        def waits():
            top = ctl.run_json(*real.ctl, "top", "--once", "--json")[0]
            return top["stats"]["recent"]["waits"] if top["stats"]["recent"]["waits"]["count"] else None

        found = wire.poll(waits, "the wait is in the history")
        assert found["count"] == 1 and found["max_seconds"] >= 0.2
        for which in ("p50_seconds", "p90_seconds", "p99_seconds"):
            assert 0.95 * found["max_seconds"] <= found[which] <= found["max_seconds"]


# --- completions ---------------------------------------------------------------------------------

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_counterctl
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words):
    path = os.path.join(os.environ.get("TOP_SRCDIR", "."), "conf/completion/counterctl")
    done = subprocess.run(["bash", "-c", BASH, "bash", path, "counterctl", *words],
                          capture_output=True, check=True)  # fmt: skip
    return set(done.stdout.decode().split())


def test_bash_completes():
    assert completed("d") == {"dump"}
    assert completed("-s", "host", "con") == {"connections", "contended", "config"}
    assert completed("run", "--st") == {"--strict"}
    assert completed("dump", "--so") == {"--sort"}
    assert completed("dump", "--sort", "in") == {"in-use"}
    assert completed("dump", "--sort", "=", "p") == {"peak"}
    assert completed("run", "key", "--", "ech") == {"echo"}
    assert completed("loglevel", "w") == {"warning"}
    assert completed("help", "k") == {"kill"}
    assert completed("run", "--workers", "") == set()
    assert "--server" in completed("-")


if __name__ == "__main__":
    tap.main(__file__)
