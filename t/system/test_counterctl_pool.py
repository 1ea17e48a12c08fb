"""`counterctl pool`, `run --pool` and `clean`: what they ask, and what they make of the answers."""

import getpass
import json
import os
import re
import signal
import socket
import sys

import tap
import pytest

import ctl
import wire
from mock_pools import Fake, in_order

pytestmark = pytest.mark.skipif(
    not ctl.have_counterctl(), reason="COUNTERCTL names no program"
)  # fmt: skip

NO, USAGE, UNAVAILABLE, OUTPUT, TEMPORARY, PROTOCOL = 1, 64, 69, 74, 75, 76
DENIED, LOST, NOT_EXECUTABLE, NOT_FOUND = 77, 79, 126, 127

SLEEP = ("sh", "-c", "echo ready; exec sleep 1000")
BY = "%s@%s:" % (getpass.getuser(), socket.gethostname())


@pytest.fixture
def serve():
    """A function that starts a fake server, with answers in order or a function."""
    fakes = []

    def start(*answers):
        is_function = len(answers) == 1 and callable(answers[0])
        fakes.append(Fake(answers[0] if is_function else in_order(*answers)))
        return fakes[-1]

    yield start
    for fake in fakes:
        fake.stop()


# --- pool ----------------------------------------------------------------------------------------

POOL = ("POOL db static open group=dbs members=4 free=2 taken=1 cleaning=0 checking=0 dirty=1 "
        "stopping=0 down=0 waiting=1 want=- on_fail=down max=0\n")  # fmt: skip
MEMBER = ("MEMBER db_1 taken 61.500 1700000000000001 0.12.3@10.0.0.7:53122 takes=3 fails=1 then=down "
          "by=me@host:cmd note=disk model=A100\n")  # fmt: skip
FREE = "MEMBER db_2 free 0.000 - - takes=0 fails=0\n"
WAITER = "WAITER 0.1.1@10.0.0.8:1234 2.250 30 count=2 for=use with=model=A100 by=you@host:x\n"


def test_list(serve):
    fake = serve(POOL + POOL.replace("db ", "web ").replace("static open group=dbs", "joined draining group=-")
                 .replace("want=-", "want=3") + "\n")  # fmt: skip
    done = ctl.run(*fake.at, "pool", "list", "d")
    rows = [line.split() for line in done.out.splitlines()]
    assert fake.lines == ["POOL LIST d"]
    assert rows[0] == ["KIND", "MEMBERS", "FREE", "TAKEN", "CLEANING", "CHECKING", "DIRTY",
                       "STOPPING", "DOWN", "WAITING", "WANT", "NAME"]  # fmt: skip
    assert rows[1] == ["static"] + "4 2 1 0 0 1 0 0 1 - db @dbs".split()
    assert rows[2] == ["joined"] + "4 2 1 0 0 1 0 0 1 3 web (draining)".split()
    assert (done.status, done.err) == (0, "")


def test_list_of_none(serve):
    fake = serve("\n", "\n")
    assert ctl.run(*fake.at, "pool", "list") == (0, "", "")
    assert ctl.run(*fake.at, "pool", "list", "--json") == (0, "", "")
    assert fake.lines == ["POOL LIST"] * 2


def test_list_as_json(serve):
    fake = serve(POOL + "\n")
    row, status = ctl.run_json(*fake.at, "pool", "list", "--json")
    assert status == 0 and row == {
        "type": "pool", "name": "db", "id": "db", "kind": "static", "draining": False,
        "group": "dbs", "members": 4, "free": 2, "taken": 1, "cleaning": 0, "checking": 0,
        "dirty": 1, "stopping": 0, "down": 0, "waiting": 1,
        "options": {"on_fail": "down", "max": "0"},
    }  # fmt: skip


def test_show(serve):
    fake = serve(POOL + MEMBER + FREE + WAITER + "\n")
    done = ctl.run(*fake.at, "pool", "show", "db")
    assert fake.lines == ["POOL SHOW db"]
    assert done.out == (
        "db: static, group dbs\n"
        "options: on_fail=down max=0\n"
        "members: 4: free 2, taken 1, cleaning 0, checking 0, dirty 1, stopping 0, down 0\n"
        "  STATE  SINCE             FENCE  TAKES  FAILS  HOLDER                 NAME\n"
        "  taken  1m 1s  1700000000000001      3      1  0.12.3@10.0.0.7:53122  db_1 then=down "
        "by=me@host:cmd note=disk model=A100\n"
        "  free       0                 -      0      0  -                      db_2\n"
        "waiters: 1\n"
        "  WAITED  TIMEOUT  COUNT  FOR  CLIENT\n"
        "   2.2 s   30.0 s      2  use  0.1.1@10.0.0.8:1234 by=you@host:x with model=A100\n"
    )


def test_show_as_json(serve):
    fake = serve(POOL + MEMBER + FREE + WAITER + "\n")
    done = ctl.run(*fake.at, "pool", "show", "db", "-j")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["type"] for row in rows] == ["pool", "member", "member", "waiter"]
    assert rows[1] == {
        "type": "member", "name": "db_1", "id": "db_1", "state": "taken", "seconds": 61.5,
        "fence": 1700000000000001, "holder": "0.12.3@10.0.0.7:53122", "takes": 3, "fails": 1,
        "then": "down", "by": "me@host:cmd", "note": "disk", "attributes": {"model": "A100"},
    }  # fmt: skip
    assert rows[2] == {"type": "member", "name": "db_2", "id": "db_2", "state": "free",
                       "seconds": 0.0, "takes": 0, "fails": 0, "attributes": {}}  # fmt: skip
    assert rows[3] == {"type": "waiter", "client": "0.1.1@10.0.0.8:1234", "seconds": 2.25,
                       "timeout": 30.0, "count": 2, "for": "use", "by": "you@host:x",
                       "with": {"model": "A100"}}  # fmt: skip


@pytest.mark.parametrize("words, line", [
    ("add db kind=static on_fail=down", "POOL ADD db kind=static on_fail=down"),
    ("set db max=5", "POOL SET db max=5"),
    ("drop db", "POOL DROP db"),
    ("drop db now", "POOL DROP db now"),
    ("member add db db_1 host:5433 model=A100 zone=b", "MEMBER ADD db db_1 host:5433 model=A100 zone=b"),
    ("member add db db_1", "MEMBER ADD db db_1"),
    ("member set db db_1 state=down note=disk now", "MEMBER SET db db_1 note=disk state=down now"),
    ("member drop db db_1 now", "MEMBER DROP db db_1 now"),
])  # fmt: skip
def test_what_changes_something(serve, words, line):
    fake = serve("OK\n", "OK\n")
    assert ctl.run(*fake.at, "pool", *words.split()) == (0, "ok\n", "")
    assert ctl.run(*fake.at, "pool", *words.split(), "--json") == (0, '{"ok":true}\n', "")
    assert sorted(fake.lines[0].split()) == sorted(line.split()) and len(fake.lines) == 2


def test_names_are_read_with_escapes(serve):
    fake = serve("OK\n")
    assert ctl.run(*fake.at, "pool", "-e", "drop", "a\\\\b\\xc3\\xa9").status == 0
    assert fake.lines == ["POOL DROP a\\b\u00e9"]


@pytest.mark.parametrize("words, why", [
    (["lsit"], 'no such verb: "lsit"'),
    (["member"], 'no such verb: "member"'),
    (["member", "show", "db", "m"], "no such verb"),
    (["show"], '"counterctl pool show POOL"'),
    (["show", "a,b"], '"counterctl pool show POOL"'),
    (["show", "db", "x"], '"counterctl pool show POOL"'),
    (["drop", "db", "soon"], '"counterctl pool drop POOL [now]"'),
    (["member", "set", "db", "m"], '"counterctl pool member set POOL MEMBER K=V... [now]"'),
    (["member", "add", "db", "m", "v", "K=v"], "member add POOL MEMBER [VALUE"),
    (["show", "a b"], "argument 2 has a space"),
    (["member", "set", "db", "m", "note=a\nb"], "argument 5 has a space"),
    (["show", ""], "it is empty"),
    (["show", "x" * 256], "too long"),
])  # fmt: skip
def test_wrong_words_are_not_sent(serve, words, why):
    fake = serve()
    done = ctl.run(*fake.at, "pool", *words)
    assert (done.status, done.out) == (USAGE, "") and why in done.err
    assert done.err.count("\n") == 1 and fake.conns == []


@pytest.mark.parametrize("word, status, why", [
    ("ERROR NO_POOL", NO, "there is no such pool"),
    ("ERROR NO_MEMBER", NO, "there is no such member"),
    ("ERROR EXISTS", NO, "the name is in use"),
    ("ERROR WRONG_KIND", NO, "a pool of this kind"),
    ("ERROR BAD_VALUE max", USAGE, "the value of max is wrong"),
    ("ERROR DENIED", DENIED, "pools.operators"),
    ("ERROR TOO_MANY", UNAVAILABLE, "more than it allows"),
    ("ERROR OUT_OF_MEMORY", UNAVAILABLE, "no memory"),
    ("ERROR BAD_COMMAND", PROTOCOL, "too old"),
    ("RETURNED", PROTOCOL, "returned"),
    ("\x1b[1mhello", PROTOCOL, "\\x1b[1mhello"),
])  # fmt: skip
def test_a_refusal_is_explained(serve, word, status, why):
    fake = serve(word + "\n")
    done = ctl.run(*fake.at, "pool", "set", "db", "max=5")
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith("counterctl: pool set db max=5: 127.0.0.1:") and why in done.err


def test_list_from_a_server_without_pools(serve):
    fake = serve("ERROR BAD_COMMAND\n")
    done = ctl.run(*fake.at, "pool", "list")
    assert (done.status, done.out) == (PROTOCOL, "") and "knows nothing of pools" in done.err


# --- pool watch ----------------------------------------------------------------------------------

EVENTS = ("EVENT db db_1 free taken take fence=7 conn=0.1.2 by=me@host:x\n"
          "EVENT db - - - set\nLOST 3\n")  # fmt: skip


def test_watch_ends_with_its_pool(serve):
    fake = serve("OK\n" + EVENTS + "EVENT web - - - drop\nEVENT db - - - drop\n")
    done = ctl.run(*fake.at, "pool", "watch", "db")
    assert fake.lines == ["WATCH db"]
    assert done == (0, "db/db_1 take: free -> taken fence=7 conn=0.1.2 by=me@host:x\ndb set\n"
                       "3 events were lost, because they were not read in time\n"
                       "web drop\ndb drop\n", "")  # fmt: skip


def test_watch_of_all_pools_goes_on(serve):
    fake = serve("OK\n" + "EVENT db - - - drop\n")
    with ctl.Running(*fake.at, "pool", "watch", "*") as running:
        assert running.line() == "db drop"
        fake.say(EVENTS)
        assert running.line().startswith("db/db_1 take")
        fake.hang_up()
        done = running.wait()
        assert done.status == UNAVAILABLE and "the server closed the connection" in done.err
    assert fake.lines == ["WATCH *"]


def test_watch_as_json(serve):
    fake = serve("OK\n" + EVENTS + "EVENT db - - - drop\n")
    done = ctl.run(*fake.at, "pool", "watch", "db", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert rows[0] == {"type": "event", "pool": "db", "member": "db_1", "from": "free",
                       "to": "taken", "why": "take", "fence": 7, "connection": "0.1.2",
                       "by": "me@host:x"}  # fmt: skip
    assert rows[2] == {"type": "lost", "events": 3}
    assert rows[3]["why"] == "drop" and done.status == 0


def test_watch_ends_when_nobody_reads(serve):
    fake = serve("OK\n")
    with ctl.Running(*fake.at, "pool", "watch", "*") as running:
        fake.wait_lines(1)
        running.child.stdout.close()
        fake.say(EVENTS)
        assert running.child.wait(wire.DEADLINE) == 128 + signal.SIGPIPE


def test_closed_standard_descriptors_do_no_harm(serve):
    fake = serve(lambda line: None)
    command = ("run", "--pool", "p", "--", "true")
    with ctl.Running(*fake.at, *command, preexec=lambda: os.closerange(0, 3)) as running:
        fake.wait_lines(1)
        for fd in range(3):
            assert os.readlink("/proc/%d/fd/%d" % (running.pid, fd)) == "/dev/null"


def test_output_that_is_closed_is_said(serve):
    fake = serve(POOL + "\n")
    done = ctl.run(*fake.at, "pool", "list", preexec=lambda: os.close(1))
    assert done.status == OUTPUT and "standard output" in done.err


# --- run --pool ----------------------------------------------------------------------------------

PRINT = ("sh", "-c", "env | grep '^COUNTER_[APMVF]' | sort")


def test_a_member_is_told_by_variables_and_returned(serve):
    fake = serve("TAKEN gpus gpu_3 1700000000000042 /dev/x model=A100 mem_gb=80\n", "RETURNED\n")
    done = ctl.run(*fake.at, "run", "--pool", "gpus", "--", *PRINT)
    assert done == (0, "COUNTER_ATTR_MEM_GB=80\nCOUNTER_ATTR_MODEL=A100\n"
                       "COUNTER_FENCE=1700000000000042\nCOUNTER_MEMBER=gpu_3\nCOUNTER_POOL=gpus\n"
                       "COUNTER_VALUE=/dev/x\n", "")  # fmt: skip
    assert fake.lines == ["TAKE gpus 4294967295 by=%ssh" % BY, "RETURN 1700000000000042"]


def test_several_members_are_told_by_one_variable_and_by_one_each(serve):
    fake = serve("TAKEN b m1 7 - zone=x\nTAKEN b m2 8 v2 model=M\n", "RETURNED\nRETURNED\n")
    script = "env | grep '^\\(COUNTER_[APMVF]\\|GPUS\\)' | sort"
    done = ctl.run(*fake.at, "run", "--pool", "a,b", "--count=2", "--with", "k=v", "--with", "l=w",
                   "--env", "GPUS", "-t", "1.5", "--", "sh", "-c", script,
                   env={"COUNTER_ATTR_OLD": "1", "COUNTER_MEMBER_2": "old", "GPUS": "old"})  # fmt: skip
    assert done.out.splitlines() == [
        "COUNTER_ATTR_MODEL=- M", "COUNTER_ATTR_MODEL_0=", "COUNTER_ATTR_MODEL_1=M",
        "COUNTER_ATTR_ZONE=x -", "COUNTER_ATTR_ZONE_0=x", "COUNTER_ATTR_ZONE_1=",
        "COUNTER_FENCE=7 8", "COUNTER_FENCE_0=7", "COUNTER_FENCE_1=8",
        "COUNTER_MEMBER=m1 m2", "COUNTER_MEMBER_0=m1", "COUNTER_MEMBER_1=m2", "COUNTER_POOL=b",
        "COUNTER_VALUE=- v2", "COUNTER_VALUE_0=", "COUNTER_VALUE_1=v2", "GPUS=m1,v2",
    ]  # fmt: skip
    assert fake.wait_lines(3)[1:] == ["RETURN 7", "RETURN 8"]
    words = fake.lines[0].split()
    assert words[:3] == ["TAKE", "a,b", "1.5"]
    assert set(words[3:]) == {"count=2", "with=k=v", "with=l=w", "by=%ssh" % BY}


def test_a_group_and_a_member_by_name(serve):
    fake = serve("TAKEN p m 7 -\n", "RETURNED\n", "TAKEN p m 8 -\n", "RETURNED\n")
    assert ctl.run(*fake.at, "run", "--pool", "@g", "-t0", "--", "true") == (0, "", "")
    assert ctl.run(*fake.at, "run", "--pool", "p", "--member", "m", "-t", "0", "--", "true").status == 0
    assert fake.lines[0].split()[:2] == ["TAKE", "@g"] and "member=m" in fake.lines[2].split()


@pytest.mark.parametrize("options, script, status, how", [
    ([], "exit 0", 0, ""),
    ([], "exit 3", 3, ""),
    ([], "kill -KILL $$", 128 + signal.SIGKILL, " fail"),
    (["--fail-on", "1,3"], "exit 3", 3, " fail"),
    (["--fail-on", "1,3"], "exit 2", 2, ""),
    (["--fail-on", "nonzero"], "exit 255", 255, " fail"),
    (["--fail-on", "nonzero"], "exit 0", 0, ""),
    (["--fail-on=0"], "exit 0", 0, " fail"),
])  # fmt: skip
def test_how_it_ended_says_how_it_is_returned(serve, options, script, status, how):
    fake = serve("TAKEN p m 7 -\n", "RETURNED\n")
    done = ctl.run(*fake.at, "run", "--pool", "p", *options, "--", "sh", "-c", script)
    assert done == (status, "", "") and fake.lines[1] == "RETURN 7" + how


def test_a_command_that_is_not_there_leaves_the_member_as_it_was(serve):
    fake = serve("TAKEN p m 7 -\n", "RETURNED\n")
    done = ctl.run(*fake.at, "run", "--pool", "p", "--fail-on", "nonzero", "--", "/no/such/command")
    assert done.status == NOT_FOUND and fake.lines[1] == "RETURN 7"


def test_members_that_no_variable_can_hold_are_said_and_given_back(serve):
    lines = ["TAKEN p m%d %d %s\n" % (i, i, "x" * 4096) for i in range(1, 33)]
    fake = serve("".join(lines), *["RETURNED\n"] * 32)
    done = ctl.run(*fake.at, "run", "--pool", "p", "--count=32", "--", "echo", "ran")
    assert (done.status, done.out) == (NOT_EXECUTABLE, "")
    assert "COUNTER_VALUE would have 131117 bytes" in done.err and "xx" not in done.err
    assert fake.lines[1:] == ["RETURN %d" % i for i in range(1, 33)]


def test_a_member_that_was_taken_away_is_79(serve):
    fake = serve("TAKEN p m 7 -\nTAKEN p n 8 -\n", "GONE\n", "RETURNED\n")
    done = ctl.run(*fake.at, "run", "--pool", "p", "--count", "2", "--", "sh", "-c", "exit 3")
    assert done.status == LOST and done.err.count("\n") == 1
    assert "p/m was taken away while sh ran" in done.err
    assert sorted(fake.wait_lines(3)[1:]) == ["RETURN 7", "RETURN 8"]


@pytest.mark.parametrize("answer, status, why, quiet", [
    ("TIMEOUT\n", TEMPORARY, "timed out, no member that fits became free", True),
    ("QUEUE_FULL\n", UNAVAILABLE, "queue_max", True),
    ("ERROR SHUTTING_DOWN\n", UNAVAILABLE, "shutting down", True),
    ("ERROR NO_POOL\n", NO, "there is no such pool", False),
    ("ERROR NO_MEMBER\n", NO, "there is no such member", False),
    ("ERROR TOO_MANY\n", UNAVAILABLE, "more than it allows", True),
    ("ERROR BAD_COMMAND\n", PROTOCOL, "too old", False),
    ("RETURNED\n", PROTOCOL, "returned", False),
])  # fmt: skip
def test_why_there_is_no_member(serve, answer, status, why, quiet):
    fake = serve(answer, answer)
    run = (*fake.at, "run", "--pool", "p", "-t", "5")
    done = ctl.run(*run, "--", "echo", "ran")
    assert (done.status, done.out) == (status, "") and why in done.err
    assert done.err.startswith("counterctl: pool p: ")
    done = ctl.run(*run, "-q", "--", "echo", "ran")
    assert (done.status, done.out, done.err == "") == (status, "", quiet)


def test_no_member_without_a_wait(serve):
    fake = serve("TIMEOUT\n")
    done = ctl.run(*fake.at, "run", "--pool", "p", "-t", "0", "--", "echo", "ran")
    assert done.status == TEMPORARY and "no member that fits is free" in done.err


@pytest.mark.parametrize("args, why", [
    (["--pool", ""], '--pool: "" is not'),
    (["--pool", "a,"], '--pool: "a," is not'),
    (["--pool", "a b"], "--pool"),
    (["--pool", "a,a"], "different"),
    (["--pool", ",".join("p%d" % i for i in range(17))], "up to 16"),
    (["--pool", "@"], "@GROUP"),
    (["--pool", "p", "--with", "k"], '--with: "k" is not'),
    (["--pool", "p", "--with", "K=v"], '--with: "K=v" is not'),
    (["--pool", "p", "--with", "k=v", "--with", "k=w"], '"k=w"'),
    (["--pool", "p", *["--with", "k=v"] * 9], "8 times at most"),
    (["--pool", "p", "--count", "65"], "from 1 to 64"),
    (["--pool", "a,b", "--member", "m"], "one pool"),
    (["--pool", "p", "--member", "m n"], "--member"),
    (["--pool", "p", "--fail-on", ""], '--fail-on: "" is not'),
    (["--pool", "p", "--fail-on", "1,256"], '--fail-on: "1,256" is not'),
    (["--pool", "p", "--fail-on", "zero"], "--fail-on"),
    (["--pool", "p", "--env", "1A"], '--env: "1A" is not'),
    (["--pool", "p", "--env", "A=B"], "--env"),
    (["--pool", "p", "key"], "too many arguments"),
    (["--pool", "p", "--workers", "2"], "for a KEY"),
    (["--pool", "p", "--any"], "for a KEY"),
    (["key", "--count", "2"], "need --pool"),
    ([], "is missing"),
])  # fmt: skip
def test_wrong_options_are_not_sent(serve, args, why):
    fake = serve()
    done = ctl.run(*fake.at, "run", *args, "--", "echo", "ran")
    assert (done.status, done.out) == (USAGE, "") and why in done.err
    assert done.err.count("\n") == 1 and fake.conns == []


def test_a_signal_while_it_waits_says_quit(serve):
    fake = serve(lambda line: "TAKEN p m 7 -\nBYE\n" if line == "QUIT" else None)
    with ctl.Running(*fake.at, "run", "--pool", "p", "--", "echo", "ran") as running:
        fake.wait_lines(1)
        running.signal(signal.SIGTERM)
        assert running.wait() == (128 + signal.SIGTERM, "", "")
    assert fake.lines[1:] == ["QUIT"]


def test_a_signal_that_is_passed_on_is_a_failure(serve):
    fake = serve("TAKEN p m 7 -\n", "RETURNED\n")
    with ctl.Running(*fake.at, "run", "--pool", "p", "--", *SLEEP) as running:
        assert running.line() == "ready"
        running.signal(signal.SIGTERM)
        assert running.wait().status == 128 + signal.SIGTERM
    assert fake.lines[1] == "RETURN 7 fail"


def test_a_lost_connection_is_said_and_the_command_goes_on(serve):
    fake = serve("TAKEN p m 7 -\n")
    script = "echo ready; cat; exit 3"
    with ctl.Running(*fake.at, "run", "--pool", "p", "--", "sh", "-c", script) as running:
        assert running.line() == "ready"
        fake.hang_up()
        assert "goes on without it" in running.child.stderr.readline().decode()
        assert running.end() == (LOST, "", "")


def test_a_connection_lost_before_the_answer_to_return_is_79(serve):
    fake = serve("TAKEN p m 7 -\n", Fake.CLOSE)
    done = ctl.run(*fake.at, "run", "--pool", "p", "--", "true")
    assert done.status == LOST and "closed the connection" in done.err


@pytest.mark.parametrize("words, taken", [
    (["k"], "LOCKED\n"), (["--pool", "p"], "TAKEN p m 7 -\n")])  # fmt: skip
def test_a_signal_ends_the_wait_for_the_answer_when_it_gives_back(serve, words, taken):
    fake = serve(taken, None)
    with ctl.Running(*fake.at, "--io-timeout", "1000", "run", *words, "--", "true") as running:
        assert fake.wait_lines(2)[1].startswith("RE")
        running.signal(signal.SIGTERM)
        assert running.wait() == (128 + signal.SIGTERM, "", "")


def test_strict_ends_the_command(serve):
    fake = serve("TAKEN p m 7 -\n")
    with ctl.Running(*fake.at, "run", "--strict", "--pool", "p", "--", *SLEEP) as running:
        assert running.line() == "ready"
        fake.hang_up()
        done = running.wait()
        assert done.status == LOST and "gets TERM" in done.err


def test_what_asks_is_a_word(serve, tmp_path):
    command = tmp_path / ("a b\n" + "x" * 200)
    command.symlink_to("/bin/true")
    fake = serve("TAKEN p m 7 -\n", "RETURNED\n")
    assert ctl.run(*fake.at, "run", "--pool", "p", "--", str(command)).status == 0
    assert re.fullmatch(r"TAKE p 4294967295 by=%sa_b_x+" % re.escape(BY), fake.lines[0])
    assert len(fake.lines[0].split("by=")[1]) == 128


# --- clean ---------------------------------------------------------------------------------------


def clean_server(names, answers=None):
    """Serves one dirty member after another, and then lets TAKE wait. RETURN counts."""
    left = list(names)
    fences = iter(range(1, 1000))

    def answer(line):
        verb = line.split()[0]
        if verb == "TAKE" and left:
            return "TAKEN db %s %d v_%s\n" % (left[0], next(fences), left.pop(0))
        if verb == "TAKE":
            return None
        return (answers or {}).get(line, "RETURNED\n")

    return answer


def ended(running, number=signal.SIGTERM):
    running.signal(number)
    return running.wait()


def test_members_are_cleaned_one_after_another(serve):
    fake = serve(clean_server(["a", "b"]))
    script = "echo $COUNTER_POOL/$COUNTER_MEMBER $COUNTER_VALUE $COUNTER_FENCE"
    with ctl.Running(*fake.at, "clean", "db", "--", "sh", "-c", script) as running:
        assert [running.line(), running.line()] == ["db/a v_a 1", "db/b v_b 2"]
        fake.wait_lines(5)
        assert ended(running) == (128 + signal.SIGTERM, "", "")
    assert len(fake.conns) == 1
    take = "TAKE db 4294967295 for=clean by=%ssh" % BY
    assert fake.lines == [take, "RETURN 1", take, "RETURN 2", take]


def test_a_failure_is_said_and_tried_again_later(serve, tmp_path):
    fake = serve(clean_server(["a", "a", "a"]))
    script = "echo x >>%s/tries; [ $(wc -l <%s/tries) = 3 ] || exit 5" % (tmp_path, tmp_path)
    with ctl.Running(*fake.at, "clean", "db", "--", "sh", "-c", script) as running:
        fake.wait_lines(7)
        done = ended(running)
    assert done.err.splitlines() == ["counterctl: db/a: sh exited with 5: it is not clean"] * 2
    assert fake.lines[1::2] == ["RETURN 1 fail", "RETURN 2 fail", "RETURN 3"]


def test_jobs_clean_at_once(serve):
    fake = serve(clean_server("abc"))
    with ctl.Running(*fake.at, "clean", "db", "--jobs", "3", "--", *SLEEP) as running:
        assert [running.line() for _ in range(3)] == ["ready"] * 3
        assert len(fake.lines) == 3 and len(fake.conns) == 3
        assert ended(running) == (128 + signal.SIGTERM, "", "")
    assert sorted(fake.lines[3:]) == ["RETURN %d fail" % i for i in (1, 2, 3)]


def test_what_ignores_the_end_is_killed_and_what_says_done_is_not_believed(serve):
    fake = serve(clean_server("ab"))
    script = ("trap '' TERM; [ $COUNTER_MEMBER = a ] || trap 'exit 0' TERM; echo ready; "
              "while :; do sleep 0.01; done")  # fmt: skip
    with ctl.Running(*fake.at, "clean", "db", "--jobs", "2", "--grace", "0.2", "--",
                     "sh", "-c", script) as running:  # fmt: skip
        assert [running.line(), running.line()] == ["ready"] * 2
        assert ended(running, signal.SIGINT).status == 128 + signal.SIGINT
    assert sorted(fake.lines[2:]) == ["RETURN 1 fail", "RETURN 2 fail"]


# Starts one process in a session of its own, and one in its group; prints their numbers and its own.
GROUP = """
trap '' TERM
setsid sleep 1000 >/dev/null 2>&1 & daemon=$!
until kill -s 0 -- -$daemon 2>/dev/null; do sleep 0.01; done
sleep 1000 & echo $daemon $! $$
%s
"""


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_cleaner_that_is_killed_takes_its_commands_with_it(serve, which):
    fake = serve(clean_server("a"))
    with ctl.Running(*fake.at, "clean", "db", "--", "sh", "-c", GROUP % "wait") as running:
        daemon, *pids = map(int, running.line().split())
        pid = running.pid
        if which == "second":
            with open("/proc/%d/task/%d/children" % (pid, pid)) as children:
                pid = int(children.read())
        os.kill(pid, signal.SIGKILL)
        wire.poll(lambda: not any(map(is_running, pids)), "all of the group have ended")
        assert is_running(daemon)
        os.kill(daemon, signal.SIGKILL)


def test_what_a_command_leaves_in_its_group_ends_before_the_member_is_returned(serve):
    fake = serve(clean_server("a"))
    with ctl.Running(*fake.at, "clean", "db", "--grace", "0", "--", "sh", "-c", GROUP % "exit 0") as running:
        daemon, *pids = map(int, running.line().split())
        assert fake.wait_lines(2)[1] == "RETURN 1"
        assert not any(map(is_running, pids))
        assert ended(running).status == 128 + signal.SIGTERM
        assert is_running(daemon)
        os.kill(daemon, signal.SIGKILL)


def test_a_lost_connection_ends_the_command_and_is_made_again(serve):
    fake = serve(clean_server("ab"))
    script = "[ $COUNTER_MEMBER = b ] || exec sleep 1000"
    with ctl.Running(*fake.at, "clean", "db", "--", "sh", "-c", "echo ready;" + script) as running:
        assert running.line() == "ready"
        fake.hang_up()
        assert running.line() == "ready"
        assert fake.wait_lines(4)[2] == "RETURN 2"
        done = ended(running)
    assert done.err.count("\n") == 1 and "sh gets TERM" in done.err


def test_a_server_that_is_away_is_awaited(serve):
    fake = serve(clean_server("ab"))
    address = fake.address
    with ctl.Running(*fake.at, "clean", "db", "--jobs", "4", "--", "true") as running:
        fake.wait_lines(6)
        fake.stop()
        said = ""
        while "Connection refused; trying again" not in said:  # a worker may still be cleaning
            line = running.child.stderr.readline().decode()
            assert line, said
            said += line
        assert "the server closed the connection" in said
        fake.listen(address)
        fake.wait_lines(10)
        assert ended(running) == (128 + signal.SIGTERM, "", "")


@pytest.mark.parametrize("answer, why", [
    ("ERROR NO_POOL\n", "there is no such pool"),
    ("QUEUE_FULL\n", "queue_max"),
    ("ERROR SHUTTING_DOWN\n", "shutting down"),
])  # fmt: skip
def test_trouble_that_may_pass_is_said_once(serve, answer, why):
    fake = serve(lambda line: answer)
    with ctl.Running(*fake.at, "clean", "db", "--jobs", "2", "--", "true") as running:
        fake.wait_lines(6)
        done = ended(running)
    assert done.status == 128 + signal.SIGTERM
    assert done.err.count("\n") == 1 and why in done.err and "; trying again" in done.err
    assert len(fake.conns) == 2


@pytest.mark.parametrize("answer, status, why", [
    ("ERROR WRONG_KIND\n", NO, "a pool of this kind"),
    ("ERROR BAD_COMMAND\n", PROTOCOL, "too old"),
    ("HTTP/1.1 400 Bad\n", PROTOCOL, "HTTP/1.1 400 Bad"),
])  # fmt: skip
def test_trouble_that_stays_ends_it(serve, answer, status, why):
    fake = serve(lambda line: answer)
    done = ctl.run(*fake.at, "clean", "db", "--jobs", "3", "--", "true")
    assert done.status == status and done.err.count("\n") == 1 and why in done.err
    assert "trying again" not in done.err


def test_a_command_that_is_not_there_ends_it(serve):
    fake = serve(clean_server("ab"))
    done = ctl.run(*fake.at, "clean", "db", "--", "/no/such/command")
    assert done.status == NOT_FOUND and fake.lines[1:] == ["RETURN 1 fail"]


def test_a_member_that_was_taken_away_is_said(serve):
    fake = serve(clean_server("ab", {"RETURN 1": "GONE\n"}))
    with ctl.Running(*fake.at, "clean", "db", "--", "true") as running:
        fake.wait_lines(5)
        done = ended(running)
    assert done.err == "counterctl: db/a: it was taken away meanwhile\n"


SHOW = (POOL + "MEMBER a dirty 1.000 - - takes=0 fails=0\nMEMBER b free 1.000 - - takes=0 fails=0\n"
        "MEMBER c dirty 1.000 - - takes=0 fails=0\nMEMBER d dirty 1.000 - - takes=0 fails=0\n\n")  # fmt: skip


def once_server(line):
    words = line.split()
    if words[0] == "POOL":
        return SHOW
    if words[0] == "RETURN":
        return "RETURNED\n"
    member = [word for word in words if word.startswith("member=")][0][7:]
    return "TIMEOUT\n" if member == "c" else "TAKEN db %s %d -\n" % (member, ord(member))


@pytest.mark.parametrize("jobs", ["1", "2", "9"])
def test_once_cleans_what_is_dirty_now(serve, jobs):
    fake = serve(once_server)
    done = ctl.run(*fake.at, "clean", "db", "--once", "--jobs", jobs, "--", "sh", "-c",
                   "[ $COUNTER_MEMBER = a ] || exit 5")  # fmt: skip
    assert (done.status, done.out) == (5, "")
    assert done.err == "counterctl: db/d: sh exited with 5: it is not clean\n"
    assert fake.lines[0] == "POOL SHOW db"
    taken = [line for line in fake.lines if line[0] == "T"]
    assert sorted(re.search("member=.", line).group() for line in taken) == [
        "member=a", "member=c", "member=d"]  # fmt: skip
    assert sorted(line for line in fake.lines if line[0] == "R") == ["RETURN 100 fail", "RETURN 97"]


def test_once_with_nothing_to_do(serve):
    fake = serve(POOL + FREE + "\n", "ERROR NO_POOL\n")
    assert ctl.run(*fake.at, "clean", "db", "--once", "--", "false") == (0, "", "")
    done = ctl.run(*fake.at, "clean", "db", "--once", "--", "false")
    assert done.status == NO and "pool db: 127.0.0.1:" in done.err


def test_once_does_not_try_again(serve):
    fake = serve(lambda line: SHOW if line[0] == "P" else Fake.CLOSE)
    done = ctl.run(*fake.at, "clean", "db", "--once", "--", "false")
    assert done.status == UNAVAILABLE and "trying again" not in done.err


def test_clean_checks_the_name(serve):
    fake = serve()
    for name in ("", "a,b", "@g", "a b"):
        done = ctl.run(*fake.at, "clean", name, "--", "true")
        assert done.status == USAGE and "not the name of a pool" in done.err
    assert fake.conns == []


if __name__ == "__main__":
    tap.main(__file__)
