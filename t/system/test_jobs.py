"""Job queues on the real daemon: transports, bodies, limits, drains, upgrades, ends of clients."""

import contextlib
import random
import re
import signal
import time

import pytest
import tap

import certificates
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


@pytest.fixture
def daemon(start):
    return start(*JOBS)


def send_in_pieces(client, data, size=1):
    for at in range(0, len(data), size):
        client.send(data[at : at + size])


def waiting(client, count):
    """Waits until so many connections wait."""
    wire.poll(
        lambda: int(client.stats()["current-waiting"]) == count, "%d connections wait" % count
    )


# --- transports ----------------------------------------------------------------------------------

TALK = (
    b"use t\r\nput 3 0 60 12\r\nhe\r\nllo\r\n\0\xffx\r\nwatch t\r\nreserve-with-timeout 0\r\n"
    b"touch 1\r\nrelease 1 4 0\r\npeek-ready\r\nclaim 5 0 t\r\nbury 1 0\r\npeek-buried\r\n"
    b"kick 9\r\nnonsense\r\nput-into u 0 0 60 0\r\n\r\nlist-tubes\r\ndelete 1\r\nclear u all\r\n"
    b"ignore t\r\nuse default\r\nlist-tube-used\r\nquit\r\n"
)
BODY = b"he\r\nllo\r\n\0\xffx\r\n"


def check_talk(client):
    for line in ("USING t", "INSERTED 1", "WATCHING 2"):
        assert client.line() == line
    assert client.job() == ("RESERVED 1 12", BODY[:12])
    assert client.line() == "TOUCHED"
    assert client.line() == "RELEASED"
    assert client.job() == ("FOUND 1 12", BODY[:12])
    assert client.line() == "CLAIMED 1"
    line, body = client.job()
    words = line.split()
    assert words[:3] + words[4:] == ["RESERVED", "1", "12", "t", "2"] and body == BODY[:12]
    assert 0 < int(words[3]) < 1 << 53
    assert client.line() == "BURIED"
    assert client.job() == ("FOUND 1 12", BODY[:12])
    assert client.line() == "KICKED 1"
    assert client.line() == "UNKNOWN_COMMAND"
    assert client.line() == "INSERTED 2"
    assert client.job()[1] == b"---\n- default\n- t\n- u\n"
    for line in ("DELETED", "CLEARED 1", "WATCHING 1", "USING default", "USING default"):
        assert client.line() == line
    assert client.wait_closed() == b""


# row real.transports
@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("transport", ["tcp", "unix", "tls"])
def test_every_transport_serves_the_same(start, tmp_path, transport, size):
    options, tls = list(JOBS), None
    if transport == "unix":
        options.append("jobs.socket=%s" % (tmp_path / "jobs.sock"))
    elif transport == "tls":
        authority = certificates.Authority(tmp_path)
        cert, key = authority.issue("server")
        tls = certificates.context(authority)
        options += ["tls.cert=%s" % cert, "tls.key=%s" % key]
        options += ["jobs.tls_port=%d" % servers.free_port()]
    daemon = start(*options)
    address = {"tcp": daemon.jobs, "unix": daemon.jobs_unix, "tls": daemon.jobs_tls}[transport]
    with wire.JobClient(address, tls=tls) as client:
        send_in_pieces(client, TALK, size)
        check_talk(client)


# row real.transports
def test_transports_share_the_jobs(start, tmp_path):
    daemon = start(*JOBS, "jobs.socket=%s" % (tmp_path / "jobs.sock"))
    with daemon.job_client() as tcp, wire.JobClient(daemon.jobs_unix) as unix:
        unix.say("reserve")
        waiting(tcp, 1)
        assert tcp.put(b"body") == 1
        assert unix.job() == ("RESERVED 1 4", b"body")
        assert tcp.ask("delete 1") == "NOT_FOUND"
        assert unix.ask("delete 1") == "DELETED"


def test_many_workers_on_many_connections_each_get_a_job(daemon):
    count = wire.scaled(200, 60)
    workers = [daemon.job_client() for _ in range(count)]
    with daemon.job_client() as producer:
        for number, worker in enumerate(workers):
            worker.say("reserve" if number % 2 else "claim 1 600 default")
        waiting(producer, count)
        producer.send(b"".join(b"put 0 0 600 4\r\n%04d\r\n" % n for n in range(count)))
        assert [producer.line() for _ in range(count)] == [
            "INSERTED %d" % (n + 1) for n in range(count)
        ]
        bodies = []
        for number, worker in enumerate(workers):
            if number % 2 == 0:
                assert worker.line() == "CLAIMED 1"
            bodies.append(worker.job()[1])
        assert sorted(bodies) == [b"%04d" % n for n in range(count)]
        assert producer.stats()["current-jobs-reserved"] == str(count)
    for worker in workers:
        worker.close()


# --- bodies and limits ---------------------------------------------------------------------------


# row lines.limits
def test_a_body_that_stops_coming_ends_its_connection(start):
    daemon = start(*JOBS, "limits.request_timeout=1")
    with daemon.job_client() as client, daemon.job_client() as other:
        client.send(b"put 0 0 60 200000\r\n" + b"x" * 65536 + b"y" * 1000)
        assert client.wait_closed() == b""
        assert other.ask("peek 1") == "NOT_FOUND"
        other.say("reserve-with-timeout 2")  # longer than the time for a request
        assert other.line() == "TIMED_OUT"


# row put.max put.toobig
def test_bodies_of_the_largest_size_and_above(start):
    size = 3 << 20
    daemon = start(*JOBS, "jobs.max_job_size=3M")
    generator = random.Random(1)
    body = generator.randbytes(size)
    with daemon.job_client() as client:
        assert client.put(body) == 1
        client.send(b"put 0 0 60 %d\r\n" % size)
        at = 0
        while at < size:
            step = generator.randrange(1, 200000)
            client.send(body[at : at + step])
            at += step
        client.send(b"\r\n")
        assert client.line() == "INSERTED 2"
        assert client.put(body + b"x") == "JOB_TOO_BIG"
        assert client.put(b"delete 1\r\n" * 1000000) == "JOB_TOO_BIG"
        assert client.fetch("reserve") == ("RESERVED 1 %d" % size, body)
        assert client.fetch("peek 2") == ("FOUND 2 %d" % size, body)
        assert client.stats()["max-job-size"] == str(size)


# row put.crlf put.badnumber
@pytest.mark.parametrize(
    "line,answer",
    [
        (b"put 0 0 60 10", b"EXPECTED_CRLF\r\n"),
        (b"put x 0 60 1000000", b"BAD_FORMAT\r\n"),
        (b"put 0 0 60", b"BAD_FORMAT\r\n"),
        (b"put-into : 0 0 60 9", b"BAD_FORMAT\r\n"),
    ],
)
def test_the_answer_to_a_bad_put_arrives_before_the_close(daemon, line, answer):
    with daemon.job_client() as client, daemon.job_client() as other:
        assert other.put(b"safe") == 1
        try:
            client.send_reading(line + b"\r\n" + b"delete 1\r\n" * 100000)
        except (wire.Closed, OSError):
            pass  # the server reads no more
        assert client.wait_closed() == answer
        assert other.fetch("peek 1") == ("FOUND 1 4", b"safe")


# row lines.web
@pytest.mark.parametrize("line", [b"GET / HTTP/1.1", b"POST / HTTP/1.1", b"Host: localhost"])
def test_a_line_of_the_web_closes(daemon, line):
    with daemon.job_client() as client, daemon.job_client() as other:
        assert other.put(b"safe") == 1
        client.send(line + b"\r\ndelete 1\r\n")
        assert client.wait_closed() == b""
        assert other.ask("delete 1") == "DELETED"


# row lines.errors
@pytest.mark.parametrize("start", ["memory"], indirect=True)  # a store has bodies that memory has no room for
def test_without_memory_puts_are_refused_and_then_taken_again(start):
    daemon = start(*JOBS, "jobs.memory_limit=4M")
    with daemon.job_client() as client:
        body, ids = b"x" * 100000, []
        while True:
            got = client.put(body)
            if got == "OUT_OF_MEMORY":
                break
            ids.append(got)
            assert len(ids) < 100
        assert len(ids) > 20
        assert client.stats("stats-tube default")["current-jobs-ready"] == str(len(ids))
        assert client.fetch("reserve") == ("RESERVED 1 100000", body)
        assert client.put(body) == "OUT_OF_MEMORY"
        assert client.ask("delete 1") == "DELETED"
        assert client.ask("delete %d" % ids[-1]) == "DELETED"
        assert isinstance(client.put(body), int)
        assert client.ask("clear default all") == "CLEARED %d" % (len(ids) - 1)
        assert isinstance(client.put(body), int)


def connect_until_closed(daemon):
    """Connects until a new connection is closed. Returns those that are served."""
    served = []
    while True:
        client = daemon.job_client()
        try:
            assert client.ask("list-tube-used") == "USING default"
        except (wire.Closed, ConnectionError):
            client.close()
            return served
        served.append(client)


def memory(daemon):
    """What /metrics says of memory: bytes, and refusals by need."""
    text = http_client.ask(daemon.admin, "GET", "/metrics")[1]
    refused = re.findall(r'^counterd_jobs_memory_refused_total\{need="(\w+)"\} (\S+)$', text, re.M)
    used = re.search(r"^counterd_jobs_memory_bytes (\S+)$", text, re.M)
    return int(used[1]), {need: int(count) for need, count in refused}


def test_what_ends_a_job_works_when_all_memory_is_used_up(start):
    daemon = start(*JOBS, "jobs.memory_limit=4M", "access.max_per_source=0", admin=True)
    with daemon.job_client() as client:
        assert client.put(b"first", pri=9, ttr=600) == 1
        empty, _ = memory(daemon)
        records = b"5 0 600 10\r\n0123456789\r\n" * 100
        while client.fetch("put-batch default 100 %d\r\n%s" % (len(records), records.decode()))[1]:
            pass
        while isinstance(client.put(b"x", pri=7, ttr=600), int):
            pass
        count = int(client.stats()["current-jobs-ready"])
        assert count > 3000
        client.say("claim 200 0")
        ids = []
        for _ in range(int(client.line().split()[1])):
            ids.append(client.job()[0].split()[1:4:2])
        assert len(ids) == 200
        others = connect_until_closed(daemon)
        assert len(others) > 50
        used, refused = memory(daemon)
        assert used <= 4 << 20 and refused["puts"] > 0 and refused["rest"] > 0 and refused["ends"] == 0
        assert client.ask("watch new") == "OUT_OF_MEMORY" and others[0].ask("use new") == "OUT_OF_MEMORY"
        for line, answer in (
            ("touch %s", "TOUCHED"), ("release %s 1 0", "RELEASED"), ("delete %s", "DELETED"),
        ):  # fmt: skip
            assert client.ask(line % ids[0][0]) == answer
        for number, _ in ids[1:60]:
            client.say("bury %s 0" % number)
        for number, _ in ids[60:120]:
            client.say("delete %s" % number)
        assert [client.line() for _ in range(119)] == ["BURIED"] * 59 + ["DELETED"] * 60
        for number, token in ids[120:150]:
            others[0].say("renew %s %s" % (number, token))
            others[0].say("nack %s %s 0" % (number, token))
            others[1].say("touch %s" % number)
        for number, token in ids[150:]:
            others[0].say("ack %s %s" % (number, token))
        assert [others[0].line() for _ in range(110)] == ["TOUCHED", "RELEASED"] * 30 + ["DELETED"] * 50
        assert [others[1].line() for _ in range(30)] == ["NOT_FOUND"] * 30
        assert others[2].ask("kick-job %s" % ids[1][0]) == "KICKED"
        assert others[2].ask("kick 1000") == "KICKED 58"
        assert others[3].ask("clear default all") == "CLEARED %d" % (count - 1 - 60 - 50)
        assert memory(daemon)[1]["ends"] == 0
        for other in others:
            other.close()
        wire.poll(lambda: client.stats()["current-connections"] == "1", "the others have gone")
        assert memory(daemon)[0] < empty
        daemon.job_client().close()
        assert isinstance(client.put(b"x"), int)


def test_an_answer_may_be_larger_than_the_output_buffer(start):
    daemon = start(*JOBS, "limits.output_buffer=65536", "jobs.max_job_size=4M")
    body = b"z" * (4 << 20)
    with daemon.job_client() as client, daemon.job_client() as other:
        assert client.put(body) == 1
        client.send(b"peek 1\r\npeek 1\r\nput 0 0 60 1\r\nq\r\n")
        assert other.ask("list-tube-used") == "USING default"
        assert client.job() == ("FOUND 1 %d" % len(body), body)
        assert client.job() == ("FOUND 1 %d" % len(body), body)
        assert client.line() == "INSERTED 2"


# row claim list-jobs
def test_an_answer_with_several_jobs_stops_at_the_output_buffer(start):
    size, big = 30000, 100000
    daemon = start(*JOBS, "limits.output_buffer=65536")
    with daemon.job_client() as client:
        for number, length in enumerate((size, size, size, big)):
            assert client.put(b"abcd"[number : number + 1] * length) == number + 1
        for after, listed, following in ((0, (1, 2), 2), (2, (3,), 3), (3, (4,), 0)):
            ask = "list-jobs default all %d 1000" % after
            assert client.ask(ask) == "LISTED %d %d" % (len(listed), following)
            for number in listed:
                length = big if number == 4 else size
                assert client.job()[0] == "FOUND %d %d ready 0" % (number, length)
        for claimed in ((1, 2), (3,), (4,)):
            assert client.ask("claim 1000 0") == "CLAIMED %d" % len(claimed)
            assert [int(client.job()[0].split()[1]) for _ in claimed] == list(claimed)
            stats = client.stats("stats-tube default")
            assert stats["current-jobs-reserved"] == str(claimed[-1]), "no more than were told"


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


# row lines.errors
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


# row lines.errors
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


def test_lists_of_tubes_are_written_as_they_are_read(start, tmp_path):
    socket = "jobs.socket=%s" % (tmp_path / "jobs.sock")  # it takes less than TCP
    daemon = start(*JOBS, socket, "limits.output_buffer=16384")
    with daemon.job_client() as client, wire.JobClient(daemon.jobs_unix) as reader:
        change_watches(client, b"watch", LONG)
        reader.say("list-tubes")
        wire.poll(lambda: client.stats()["cmd-list-tubes"] == "1", "the list has begun")
        client.send(b"list-tubes-watched\r\nlist-tube-used\r\n")
        assert client.job() == ("OK %d" % len(LONG_LIST), LONG_LIST)
        assert client.line() == "USING default"
        change_watches(client, b"ignore", LONG)
        assert client.fetch("list-tubes")[1] == b"---\n- default\n"
        reader.say("list-tube-used")
        assert reader.job() == ("OK %d" % len(LONG_LIST), LONG_LIST), "tubes that have gone, too"
        assert reader.line() == "USING default"


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


# --- time ----------------------------------------------------------------------------------------


# row wait.moment
def test_nothing_comes_early(daemon):
    with daemon.job_client() as worker, daemon.job_client() as other:
        begin = time.monotonic()
        assert other.put(b"x", delay=1, ttr=4) == 1
        assert worker.fetch("reserve") == ("RESERVED 1 1", b"x")
        assert time.monotonic() - begin >= 1
        begin = time.monotonic()
        assert worker.ask("touch 1") == "TOUCHED"
        assert worker.ask("reserve") == "DEADLINE_SOON"
        assert time.monotonic() - begin >= 3
        assert other.fetch("reserve") == ("RESERVED 1 1", b"x")
        assert time.monotonic() - begin >= 4
        assert worker.ask("delete 1") == "NOT_FOUND"
        begin = time.monotonic()
        assert other.ask("pause-tube default 1") == "PAUSED"
        assert other.put(b"y") == 2
        assert worker.fetch("reserve") == ("RESERVED 2 1", b"y")
        assert time.monotonic() - begin >= 1
        begin = time.monotonic()
        assert worker.ask("claim 1 1 elsewhere") == "TIMED_OUT"
        assert time.monotonic() - begin >= 1


# --- ends ----------------------------------------------------------------------------------------


# row real.vanished
@pytest.mark.parametrize("end", ["close", "reset", "eof"])
def test_the_jobs_of_a_client_that_ends_are_ready_at_once(daemon, end):
    ending, other = daemon.job_client(), daemon.job_client()
    assert ending.put(b"one", pri=5) == 1
    assert ending.put(b"two", pri=3) == 2
    assert ending.fetch("reserve-job 1")[0] == "RESERVED 1 3"
    assert ending.fetch("reserve-job 2")[0] == "RESERVED 2 3"
    other.say("reserve")
    ending.send(b"put 0 0 60 100\r\nhalf")
    waiting_client = daemon.job_client()
    waiting(waiting_client, 1)
    getattr(ending, end)()
    assert other.job() == ("RESERVED 1 3", b"one")
    assert other.fetch("reserve") == ("RESERVED 2 3", b"two")
    stats = waiting_client.stats("stats-job 1")
    assert (stats["releases"], stats["timeouts"], stats["reserves"]) == ("0", "0", "2")
    assert waiting_client.stats()["current-jobs-ready"] == "0"
    for client in (ending, other, waiting_client):
        client.close()


# row real.drain put.draining
def test_a_drain_refuses_puts_and_waits_for_reservations(start):
    daemon = start(*JOBS, "shutdown.drain=600")
    worker, producer = daemon.job_client(), daemon.job_client()
    assert producer.put(b"work") == 1
    assert worker.fetch("reserve") == ("RESERVED 1 4", b"work")
    producer.send(b"put 0 0 60 4\r\nha")
    daemon.is_expected_to_be_gone = True
    daemon.child.send_signal(signal.SIGTERM)
    daemon.wait_log("draining: no new acquires")
    producer.send(b"lf\r\n")
    assert producer.line() == "DRAINING"
    assert producer.put(b"more", into="t") == "DRAINING"
    assert producer.stats()["draining"] == "true"
    assert worker.ask("touch 1") == "TOUCHED"
    assert daemon.is_running()
    assert worker.ask("delete 1") == "DELETED"
    assert daemon.wait() == 0
    for client in (worker, producer):
        client.close()


# --- upgrades ------------------------------------------------------------------------------------


# row real.upgrade
def test_everything_goes_on_over_upgrades(start, tmp_path):
    running = test_upgrade.Running(start, tmp_path, *JOBS)
    daemon = running.daemon
    producer, worker, waiter, claimer, half, skipping, paused = (
        daemon.job_client() for _ in range(7)
    )
    before = producer.stats()
    assert producer.ask("use t") == "USING t"
    assert producer.put(b"reserved", pri=7) == 1
    assert producer.put(b"buried") == 2
    assert producer.put(b"delayed", delay=3000) == 3
    assert producer.put(b"leased", into="lease", ttr=600) == 4
    assert worker.ask("watch t") == "WATCHING 2"
    assert worker.fetch("reserve-job 2")[0] == "RESERVED 2 6"
    assert worker.ask("bury 2 9") == "BURIED"
    assert worker.fetch("reserve") == ("RESERVED 1 8", b"reserved")
    worker.fetch("tube lease claim=lease tries=5")
    assert worker.ask("claim 1 0 lease") == "CLAIMED 1"
    token = worker.job()[0].split()[3]
    assert paused.ask("use p") == "USING p"
    assert paused.put(b"paused") == 5
    assert paused.ask("pause-tube p 3000") == "PAUSED"
    assert waiter.ask("watch w") == "WATCHING 2"
    assert waiter.ask("ignore default") == "WATCHING 1"
    waiter.say("reserve")
    waiting(producer, 1)  # so it is before the claim in the line for w
    claimer.say("claim 3 3000 w v")
    half.send(b"put-into h 1 0 60 100000\r\n" + b"h" * 70000)
    skipping.send(b"put 0 0 60 2000000\r\n" + b"s" * 100000)
    waiting(producer, 2)
    for _ in range(2):
        running.install()
        running.succeed()
    after = producer.stats()
    assert after["id"] == before["id"]
    assert after["cmd-put"] == "4" and after["total-jobs"] == "5"
    assert after["current-waiting"] == "2"
    assert after["current-jobs-reserved"] == "2" and after["current-jobs-buried"] == "1"
    half.send(b"h" * 30000 + b"\r\n")
    assert half.line() == "INSERTED 6"
    assert half.fetch("peek 6") == ("FOUND 6 100000", b"h" * 100000)
    skipping.send(b"s" * 1900000 + b"\r\n")
    assert skipping.line() == "JOB_TOO_BIG"
    assert producer.ask("list-tube-used") == "USING t"
    assert producer.put(b"for w", into="w") == 7
    assert waiter.job() == ("RESERVED 7 5", b"for w")
    assert producer.put(b"for v", into="v") == 8
    assert claimer.line() == "CLAIMED 1"
    assert claimer.job()[1] == b"for v"
    assert paused.ask("reserve-with-timeout 0") == "TIMED_OUT"
    stats = producer.stats("stats-job 1")
    assert (stats["state"], stats["pri"], stats["reserves"]) == ("reserved", "7", "1")
    assert worker.ask("release 1 2 0") == "RELEASED"
    assert worker.fetch("peek 2") == ("FOUND 2 6", b"buried")
    assert producer.fetch("peek-delayed") == ("FOUND 3 7", b"delayed")
    assert producer.ask("renew 4 %s" % token) == "TOUCHED"
    assert producer.stats("tube lease")["tries"] == "5"
    assert producer.ask("ack 4 %s" % token) == "DELETED"
    left = int(producer.stats("stats-tube p")["pause-time-left"])
    assert 2000 < left < 3000
    assert worker.fetch("reserve") == ("RESERVED 1 8", b"reserved")
    for client in (producer, worker, waiter, claimer, half, skipping, paused):
        client.close()


# row real.upgrade
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


# row real.upgrade
def test_an_upgrade_that_fails_changes_nothing(start, tmp_path):
    running = test_upgrade.Running(start, tmp_path, *JOBS)
    with running.daemon.job_client() as worker, running.daemon.job_client() as waiter:
        assert worker.put(b"job", ttr=600) == 1
        assert worker.fetch("reserve") == ("RESERVED 1 3", b"job")
        waiter.say("reserve")
        waiting(worker, 1)
        running.misbehave("rehearse", "exit 1")
        running.fail()
        assert worker.ask("touch 1") == "TOUCHED"
        assert worker.ask("release 1 0 0") == "RELEASED"
        assert waiter.job() == ("RESERVED 1 3", b"job")


if __name__ == "__main__":
    tap.main(__file__)
