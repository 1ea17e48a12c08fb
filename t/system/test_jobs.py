"""Job queues on the real daemon: what stories cannot show of large answers, drains and upgrades."""

import contextlib
import re

import pytest
import tap

import http_client
import servers
import test_upgrade
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

JOBS = ("counter.threads=2", "jobs.enable=true", "jobs.port=0")


@pytest.fixture(params=["memory", "store"])
def start(request, start, tmp_path):
    """Starts the daemon with jobs in memory, or in a file."""
    more = ["jobs.path=%s" % (tmp_path / "jobs.db")] if request.param == "store" else []
    return lambda *options, **kwargs: start(*options, *more, **kwargs)


# --- limits ---------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["memory"], indirect=True)  # a store takes long
def test_without_memory_connections_are_closed(start):
    daemon = start(*JOBS, "jobs.memory_limit=4M", "access.max_per_source=0", admin=True)
    with daemon.job_client() as client:
        served = []
        while isinstance(client.put(b"x"), int):
            pass
        with pytest.raises((wire.Closed, ConnectionError)):
            while True:
                served.append(daemon.job_client())
                assert served[-1].ask("list-tube-used") == "USING default"
        for one in served:
            one.close()
        for need in ("puts", "rest"):
            assert metric(daemon, "counterd_jobs_memory_refused_total", need=need) > 0
        assert client.ask("delete 1") == "DELETED"
        assert client.fetch("reserve") == ("RESERVED 2 1", b"x")


def metric(daemon, name, **labels):
    status, text = http_client.ask(daemon.admin, "GET", "/metrics")
    assert status == 200
    sample = "%s{%s}" % (name, ",".join('%s="%s"' % pair for pair in labels.items())) if labels else name
    return float(re.search(r"^%s (\S+)$" % re.escape(sample), text, re.M)[1])


def silent(daemon, line):
    """A client that does not read the answer, which is long."""
    full = metric(daemon, "counterd_output_full_total", protocol="jobs")
    client = daemon.job_client()
    client.say(line)
    wire.poll(
        lambda: metric(daemon, "counterd_output_full_total", protocol="jobs") > full,
        "the answer is queued",
    )
    return client


def test_clients_that_do_not_read_use_up_nobody_elses_memory(start):
    """Neither a body that many of them have, nor bodies of jobs that are gone."""
    daemon = start(*JOBS, "jobs.memory_limit=16M", "jobs.max_job_size=8M", admin=True)
    size, readers = 6 << 20, []
    with daemon.job_client() as client:
        for number in range(5):
            body = bytes([97 + number]) * size
            assert client.put(body) == number + 1, "others have room"
            readers.append((silent(daemon, "peek %d" % (number + 1)), body))
            readers.append((silent(daemon, "list-jobs default all 0 9"), body))
            assert client.ask("delete %d" % (number + 1)) == "DELETED"
        assert metric(daemon, "counterd_jobs_memory_bytes") < size
        for number, (reader, body) in enumerate(readers):
            if number % 2:
                assert reader.line() == "LISTED 1 0"
            assert reader.job()[1] == body
            reader.close()


@pytest.mark.parametrize("start", ["store"], indirect=True)
def test_batches_whose_answers_would_pass_the_output_buffer_wait_for_each_other(start):
    daemon = start(*JOBS, "limits.output_buffer=16384", admin=True)
    batch = b"put-batch t 400 4800\r\n" + b"0 0 60 0\r\n\r\n" * 400 + b"\r\n"
    commits = "counterd_jobs_store_commits_total"
    with daemon.job_client() as client:
        before = metric(daemon, commits)
        client.send(batch * 8)
        for number in range(8):
            line, text = client.job()
            assert text.endswith(b"- INSERTED %d\n" % ((number + 1) * 400))
        assert metric(daemon, commits) >= before + 8, "one answer of 19,200 bytes at a time"


def change_watches(client, verb, names):
    for at in range(0, len(names), 50):
        some = names[at : at + 50]
        client.send(b"".join(b"%s %s\r\n" % (verb, name.encode()) for name in some))
        for _ in some:
            assert client.line().startswith("WATCHING ")


LONG = ["%04d" % number + "n" * 150 for number in range(3000)]
LONG_LIST = ("---\n- default\n" + "".join("- %s\n" % name for name in LONG)).encode()


def test_lists_of_tubes_that_nobody_reads_have_a_bound(start, tmp_path):
    """All together, also when their tubes have gone."""
    more = ("jobs.socket=%s" % (tmp_path / "jobs.sock"), "limits.output_buffer=16384")
    daemon = start(*JOBS, *more, "limits.unfinished=1M", admin=True)
    unread = []
    with daemon.job_client() as client:
        change_watches(client, b"watch", LONG)
        for count in range(1, 4):  # two have room
            unread.append(wire.JobClient(daemon.jobs_unix))
            unread[-1].say("list-tubes")
            wire.poll(lambda n=count: client.stats()["cmd-list-tubes"] == "%d" % n, "it began")
        change_watches(client, b"ignore", LONG)
        closed = {"protocol": "jobs", "reason": "unfinished"}
        wire.poll(
            lambda: metric(daemon, "counterd_connections_closed_total", **closed) == 1,
            "one has gone",
        )
        alive = []
        for reader in unread:  # the one that had most has gone
            with contextlib.suppress(wire.Closed):
                assert reader.job() == ("OK %d" % len(LONG_LIST), LONG_LIST)
                alive.append(reader)
        assert len(alive) == 2
        change_watches(client, b"watch", LONG)
        for _ in range(3):
            assert alive[0].fetch("list-tubes")[1] == LONG_LIST, "lists that were read are over"
        for reader in unread:
            reader.close()


# --- upgrades ------------------------------------------------------------------------------------


def test_unread_answers_go_on_over_upgrades(start, tmp_path):
    socket = "jobs.socket=%s" % (tmp_path / "jobs.sock")
    running = test_upgrade.Running(start, tmp_path, *JOBS, socket)
    daemon, body = running.daemon, b"x" * 1000000
    client = daemon.job_client()
    readers = [wire.JobClient(daemon.jobs_unix) for _ in range(3)]
    change_watches(client, b"watch", LONG)
    assert client.put(body) == 1
    for reader in readers:
        reader.say("list-tubes" if reader == readers[0] else "peek 1")
        reader.say("list-tube-used")
    wire.poll(
        lambda: [client.stats()[verb] for verb in ("cmd-list-tubes", "cmd-peek")] == ["1", "2"],
        "the answers have begun",
    )
    assert client.ask("delete 1") == "DELETED"
    change_watches(client, b"ignore", LONG)
    running.install()
    running.succeed()
    assert readers[0].job() == ("OK %d" % len(LONG_LIST), LONG_LIST)
    for reader in readers[1:]:
        assert reader.job() == ("FOUND 1 %d" % len(body), body)
    for reader in readers:
        assert reader.line() == "USING default"
        reader.close()
    client.close()


if __name__ == "__main__":
    tap.main(__file__)
