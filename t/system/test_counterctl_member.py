"""
`counterctl member`: which processes it runs, what it tells the server, and that nothing of it stays.

Most tests play the server themselves (played_pools), so they can say what they like, when they like.
"""

import os
import re
import signal
import subprocess
import time

import tap
import pytest

import ctl
import played_pools
import servers
import wire

pytestmark = pytest.mark.skipif(not ctl.have_counterctl(), reason="COUNTERCTL names no program")

NO, USAGE, UNAVAILABLE, DENIED, LOST = 1, 64, 69, 77, 79

# A member: says in a file of its own who it is, and sleeps until a signal ends it.
MEMBER = 'echo "$COUNTER_POOL $COUNTER_MEMBER $COUNTER_SLOT" >"%s/$$"; exec sleep 1000'

NAME = re.compile(r".+-(\d+)-(\d+)$")


@pytest.fixture(name="server")
def a_server():
    with played_pools.Server() as server:
        yield server


def member(server, *words):
    return ctl.Running("-s", ctl.at(server.address), "member", *words)


def shell(*words):
    return ("--", "sh", "-c", *words)


# --- processes -----------------------------------------------------------------------------------


def processes():
    """Returns the state and the parent of every process."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/stat" % entry) as f:
                    fields = f.read().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(entry)] = (fields[0], int(fields[1]))
    return found


def descendants(pid):
    """Returns the processes below one, with their states."""
    found, all_of_them = {}, processes()
    parents = {pid}
    while parents:
        below = {p: s for p, (s, parent) in all_of_them.items() if parent in parents}
        found.update(below)
        parents = set(below)
    return found


def supervisor(running):
    """The process below the one that the test has started: it starts the commands."""
    return next(p for p, (_, parent) in processes().items() if parent == running.pid)


def is_there(pid):
    """True if the process runs; a zombie does not."""
    return processes().get(pid, "Z")[0] != "Z"


def wait_gone(pids):
    wire.poll(lambda: not any(map(is_there, pids)), "the processes have ended")


def no_zombies(running):
    return "Z" not in descendants(running.pid).values()


class Started:
    """The members that MEMBER has noted in a folder, oldest first."""

    def __init__(self, folder):
        self.folder = folder
        self.script = MEMBER % folder

    def now(self):
        """Returns (number, pid, slot) of each."""
        found = []
        for entry in os.listdir(self.folder):
            with open(os.path.join(self.folder, entry)) as f:
                words = f.read().split()
            if words:
                found.append((int(NAME.match(words[1])[2]), int(entry), int(words[2])))
        return sorted(found)

    def wait(self, count):
        """Waits until so many were started in all. Returns their pids."""
        wire.poll(lambda: len(self.now()) >= count, "%d have started" % count)
        assert len(self.now()) == count
        return [pid for _, pid, _ in self.now()]


@pytest.fixture(name="started")
def the_started(tmp_path):
    folder = tmp_path / "started"
    folder.mkdir()
    return Started(folder)


def leave(running, peer, pool, members):
    """Ends it by TERM. Its members leave before they end."""
    running.signal(signal.SIGTERM)
    peer.hears("SUPPLY %s 0 0" % pool, "OK")
    for name in members:
        peer.hears_drop(pool, name)
    peer.hears("QUIT", "BYE")
    assert running.wait() == (128 + signal.SIGTERM, "", "")


def leave_quietly(running, peer):
    """Ends it by TERM, with whatever it has to say to the server. Returns how it ended."""
    running.signal(signal.SIGTERM)
    while peer.line() != "QUIT":
        peer.say("OK")
    peer.say("BYE")
    done = running.wait()
    assert done.status == 128 + signal.SIGTERM
    return done


# --- what the server wants -----------------------------------------------------------------------


def test_it_starts_as_many_as_are_wanted(server, started):
    with member(server, "p", "--init", "1", "--max", "4", *shell(started.script)) as running:
        peer = server.supplied("p", 1, 4)
        members = [peer.hears_join("p")]
        started.wait(1)
        peer.say("WANT p 3")
        members += [peer.hears_join("p"), peer.hears_join("p")]
        pids = started.wait(3)
        peer.say("WANT p 1")  # ends nobody
        peer.say("WANT p 2")
        peer.say("STOP p %s cull" % members[1])
        peer.hears_drop("p", members[1])
        wait_gone([pids[1]])
        peer.say("WANT p 3")
        members[1] = peer.hears_join("p")
        pids[1] = started.wait(4)[3]
        assert [NAME.match(name)[1] for name in members] == ["0", "1", "2"]
        leave(running, peer, "p", members)
        wait_gone(pids)


def test_names_are_never_used_twice(server, started):
    host = os.uname().nodename
    names = []
    for _ in range(2):
        with member(server, "p", *shell(started.script)) as running:
            peer = server.supplied("p", 1, 1)
            for _ in range(3):
                names.append(peer.hears_join("p"))
                peer.say("STOP p %s lifetime" % names[-1])
                peer.hears_drop("p", names[-1])
            names.append(peer.hears_join("p"))
            leave(running, peer, "p", names[-1:])
    assert len(set(names)) == 8 and all(re.match(re.escape(host) + r"-0-\d+$", n) for n in names)


def test_members_know_who_they_are(server, started):
    command = shell(started.script)
    with member(server, "p", "--name", "n", "--init", "2", *command) as running:
        peer = server.supplied("p", 2, 2)
        names = [peer.hears_join("p"), peer.hears_join("p")]
        for pid, name, slot in zip(started.wait(2), names, "01"):
            assert (started.folder / str(pid)).read_text() == "p %s %s\n" % (name, slot)
            assert name.startswith("n-%s-" % slot)
        leave(running, peer, "p", names)


def test_members_know_nothing_of_a_pool_around_them(server, tmp_path):
    log = tmp_path / "log"
    around = {"COUNTER_" + name: "outer" for name in ("MEMBER", "VALUE", "FENCE", "ATTR_A", "VALUE_0")}
    command = shell("env | grep ^COUNTER_ | sort >%s; exec sleep 1000" % log)
    where = ("-s", ctl.at(server.address))
    with ctl.Running(*where, "member", "p", *command, env=around) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        wire.poll(lambda: log.exists() and log.read_text().endswith("=0\n"), "it has said so")
        assert log.read_text() == "COUNTER_MEMBER=%s\nCOUNTER_POOL=p\nCOUNTER_SLOT=0\n" % name
        leave(running, peer, "p", [name])


def test_value_and_attributes_of_the_command_line(server):
    words = ("--value", "10.0.0.5:80", "--attr", "gpu=a100", "--attr", "n=")
    with member(server, "p", *words, *shell("exec sleep 1000")) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p", "10.0.0.5:80 gpu=a100 n=")
        leave(running, peer, "p", [name])


def test_there_are_never_more_than_max(server, started):
    command = shell("trap '' TERM; " + started.script)
    words = ("--init", "2", "--grace", "0.3")
    with member(server, "p", *words, *command) as running:
        peer = server.supplied("p", 2, 2)
        names = [peer.hears_join("p"), peer.hears_join("p")]
        started.wait(2)
        for _ in range(3):
            peer.say("STOP p %s fail" % names[0])
            peer.say("WANT p 9")
            peer.hears_drop("p", names[0])
            names[0] = peer.hears_join("p")  # only now
            assert sum(map(is_there, [pid for _, pid, _ in started.now()])) <= 2
        leave(running, peer, "p", names)


# --- ready ---------------------------------------------------------------------------------------


def test_it_joins_when_it_is_ready(server, tmp_path):
    script = "echo begin; cat %s; echo 'READY v:1 b=2 c=3'; echo READY w; echo end; exec sleep 1000"
    os.mkfifo(tmp_path / "go")
    words = ("--ready", "--value", "v", "--attr", "a=1", "--attr", "b=1")
    with member(server, "p", *words, *shell(script % (tmp_path / "go"))) as running:
        peer = server.supplied("p", 1, 1)
        assert running.line() == "begin"
        assert peer.is_silent()
        (tmp_path / "go").write_text("between\n")
        name = peer.hears_join("p", "v:1 a=1 b=2 c=3")
        assert running.line() == "between"
        assert running.line() == "end"  # no READY is passed on
        leave(running, peer, "p", [name])


@pytest.mark.parametrize(
    "said, words", [("READY", "v a=1"), ("READY -", "v a=1"), ("READY  -  a=2 b= ", "v a=2 b=")]
)
def test_what_it_does_not_say_is_as_on_the_command_line(server, said, words):
    command = shell("echo '%s'; exec sleep 1000" % said)
    with member(server, "p", "--ready", "--value", "v", "--attr", "a=1", *command) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p", words)
        leave(running, peer, "p", [name])


@pytest.mark.parametrize("said", ["READY v A=1", "READY v state=down", "READY v x"])
def test_a_wrong_ready_is_a_failed_start(server, tmp_path, said):
    log = tmp_path / "log"
    command = shell("echo x >>%s; echo '%s'; exec sleep 1000" % (log, said))
    with member(server, "p", "--ready", *command) as running:
        peer = server.supplied("p", 1, 1)
        complaint = running.child.stderr.readline().decode()
        assert "not of the form" in complaint and said not in complaint
        wire.poll(lambda: log.read_text() == "x\nx\n", "it is started again")
        assert peer.is_silent()


@pytest.mark.parametrize("size", [4090, 4091, 4096])
def test_a_long_value_joins(server, size):
    command = shell("echo READY %s a=1; exec sleep 1000" % ("x" * size))
    with member(server, "p", "--ready", *command) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p", "x" * size + " a=1")
        leave(running, peer, "p", [name])


@pytest.mark.parametrize("size", [4097, 8187, 100000])
def test_a_value_that_is_too_long_is_said_and_not_shown(server, size):
    command = shell("head -c 100000 /dev/zero | tr '\\0' x | (printf 'READY '; head -c %d; echo; "
                    "exec sleep 1000)" % size)  # fmt: skip
    with member(server, "p", "--ready", *command) as running:
        peer = server.supplied("p", 1, 1)
        complaint = running.child.stderr.readline().decode()
        assert "too long" in complaint
        done = leave_quietly(running, peer)
        assert "xx" not in complaint + done.out + done.err


def test_a_start_that_takes_too_long_is_ended(server, started):
    words = ("--ready", "--start-timeout", "0.2")
    with member(server, "p", *words, *shell("echo no READY; " + started.script)) as running:
        peer = server.supplied("p", 1, 1)
        assert "--start-timeout" in running.child.stderr.readline().decode()
        wire.poll(lambda: len(started.now()) > 1, "it is started again")
        wait_gone([started.now()[0][1]])
        assert peer.is_silent()


# --- ends ----------------------------------------------------------------------------------------


def test_stop_is_term_and_then_kill(server, tmp_path):
    log = tmp_path / "log"
    script = "trap 'echo told >>%s' TERM; echo READY; while :; do sleep 0.1; done" % log
    with member(server, "p", "--ready", "--grace", "2", *shell(script)) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        begin = time.monotonic()
        peer.say("STOP p %s operator" % name)
        peer.hears_drop("p", name)
        assert log.read_text() == "told\n" and time.monotonic() - begin >= 2
        peer.hears_join("p")
        leave_quietly(running, peer)


def test_one_that_ends_is_told_at_once_and_replaced(server, started):
    with member(server, "p", "--init", "2", *shell(started.script)) as running:
        peer = server.supplied("p", 2, 2)
        names = [peer.hears_join("p"), peer.hears_join("p")]
        pids = started.wait(2)
        os.kill(pids[0], signal.SIGKILL)
        peer.hears_drop("p", names[0])
        assert "signal 9 has ended sh" in running.child.stderr.readline().decode()
        names[0] = peer.hears_join("p")
        assert NAME.match(names[0])[1] == "0"
        leave(running, peer, "p", names)


def test_no_fork_storm(server, tmp_path):
    log = tmp_path / "log"
    with member(server, "p", "--init", "2", "--max", "9", *shell("echo x >>%s" % log)) as running:
        begin = time.monotonic()
        peer = server.supplied("p", 2, 9)

        def forks():
            return len(log.read_text()) // 2 if log.exists() else 0

        # In each of the two slots one at once, then after 0.1, 0.2, 0.4 and 0.8 seconds.
        wire.poll(lambda: forks() >= 10, "it is started again and again")
        elapsed = time.monotonic() - begin
        assert elapsed >= 1.5 and forks() <= 10 + 2 * elapsed
        wire.poll(lambda: no_zombies(running), "none is a zombie")
        assert peer.line().startswith("JOIN")
        running.signal(signal.SIGTERM)


def test_what_cannot_be_executed_is_told_at_once(server):
    with member(server, "p", "--", "/no/such/command") as running:
        peer = server.supplied("p", 1, 1)
        peer.hears("QUIT", "BYE")
        done = running.wait()
        assert done.status == 127 and "/no/such/command" in done.err


def test_no_zombies(server, tmp_path):
    # Each leaves one process in its group, and one outside of it whose parent ends at once.
    log = tmp_path / "log"
    script = "sleep 1000 & (setsid sh -c 'exit 0' &); echo x >>%s; exit 1" % log
    with member(server, "p", "--init", "3", "--grace", "0", *shell(script)) as running:
        peer = server.supplied("p", 3, 3)
        wire.poll(lambda: log.exists() and len(log.read_text()) >= 18, "nine have ended")
        wire.poll(lambda: no_zombies(running), "none is a zombie")
        assert peer.line().startswith("JOIN")
        running.signal(signal.SIGTERM)


GROUP = """
sleep 1000 & echo $! >>%s
setsid sleep 1000 & echo $! >>%s
echo $$ >>%s
echo READY
wait
"""


class Group:
    """A command that starts one process in its group, and one outside of it."""

    def __init__(self, folder):
        self.log = folder / "group"
        self.script = GROUP % ((self.log,) * 3)

    def pids(self, count=1):
        """Waits until so many were started. Returns all pids; the last is the command's."""

        def lines():
            return self.log.read_text().splitlines() if self.log.exists() else []

        wire.poll(lambda: len(lines()) >= 3 * count, "it has started all")
        pids = list(map(int, lines()))
        if count == 1:
            wire.poll(lambda: os.getsid(pids[1]) == pids[1], "one has left the group")
        return pids


@pytest.fixture(name="group")
def the_group(tmp_path):
    return Group(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_end_everything(server, group, number):
    with member(server, "p", "--ready", *shell(group.script)) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        pids = group.pids()
        running.signal(number)
        peer.hears("SUPPLY p 0 0", "OK")
        peer.hears_drop("p", name)
        peer.hears("QUIT", "BYE")
        assert running.wait() == (128 + number, "", "")
        assert not any(map(is_there, pids))


def test_at_the_end_they_are_killed_after_the_grace(server, started):
    script = "trap '' TERM; " + started.script
    with member(server, "p", "--grace", "0.3", *shell(script)) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        pids = started.wait(1)
        begin = time.monotonic()
        leave(running, peer, "p", [name])
        assert time.monotonic() - begin >= 0.3
        assert not any(map(is_there, pids))


def test_what_a_command_has_started_ends_with_it(server, group):
    with member(server, "p", "--ready", "--grace", "1000", *shell(group.script)) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        pids = group.pids()
        os.kill(pids[2], signal.SIGKILL)
        peer.hears_drop("p", name)
        peer.hears_join("p")
        wait_gone([pids[0]])
        leave_quietly(running, peer)
        assert not any(map(is_there, group.pids(2)))


def test_killed_it_leaves_nothing(server, group):
    with member(server, "p", "--ready", *shell("trap '' TERM; " + group.script)) as running:
        peer = server.supplied("p", 1, 1)
        peer.hears_join("p")
        pids = group.pids()
        running.signal(signal.SIGKILL)
        wait_gone(pids)
        peer.wait_closed()


def test_killed_below_it_leaves_nothing_either(server, group):
    with member(server, "p", "--ready", *shell("trap '' TERM; " + group.script)) as running:
        peer = server.supplied("p", 1, 1)
        peer.hears_join("p")
        pids = group.pids()
        os.kill(supervisor(running), signal.SIGKILL)
        wait_gone(pids)
        peer.wait_closed()
        assert running.wait().status == 128 + signal.SIGKILL


def test_what_the_shell_before_it_has_started_is_left_alone(server, tmp_path):
    # bash executes counterctl in place of itself, so its job becomes our child.
    log = tmp_path / "log"
    words = (ctl.COUNTERCTL, "-s", ctl.at(server.address), "member", "p", "--", "sleep", "1000")
    script = 'sleep 1000 & echo $! >%s; exec "$@"' % log
    with subprocess.Popen(["/bin/sh", "-c", script, "sh", *words], env=ctl.environment()) as child:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        child.terminate()
        peer.hears("SUPPLY p 0 0", "OK")
        peer.hears_drop("p", name)
        peer.hears("QUIT", "BYE")
        assert child.wait(wire.DEADLINE * 2) == 128 + signal.SIGTERM
    pid = int(log.read_text())
    assert is_there(pid)
    os.kill(pid, signal.SIGKILL)


def own_group():
    """As in test_counterctl_run: the kernel does not stop groups that nobody could continue."""
    os.setpgid(0, 0)


def test_a_stopped_one_goes_on(server):
    words = ("-s", ctl.at(server.address), "member", "p", *shell("exec sleep 1000"))
    with ctl.Running(*words, preexec=own_group) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        both = [running.pid, supervisor(running)]

        def states():
            return [processes()[pid][0] for pid in both]

        running.signal(signal.SIGTSTP)
        wire.poll(lambda: states() == ["T", "T"], "both have stopped")
        peer.say("STOP p %s cull" % name)
        running.signal(signal.SIGCONT)
        peer.hears_drop("p", name)
        peer.hears_join("p")
        leave_quietly(running, peer)


def test_its_terminal_does_not_reach_them(server, started):
    words = ("-s", ctl.at(server.address), "member", "p", *shell(started.script))
    with ctl.Terminal(*words) as terminal:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        pids = started.wait(1)
        assert os.getpgid(pids[0]) == pids[0] and os.readlink("/proc/%d/fd/0" % pids[0]) == "/dev/null"
        terminal.type("\x03")
        peer.hears("SUPPLY p 0 0", "OK")
        peer.hears_drop("p", name)
        peer.hears("QUIT", "BYE")
        assert terminal.wait() == 128 + signal.SIGINT


# --- the server is lost, or says no --------------------------------------------------------------


def test_without_the_server_all_end(server, started):
    with member(server, "p", "--init", "2", *shell(started.script)) as running:
        peer = server.supplied("p", 2, 2)
        names = {peer.hears_join("p"), peer.hears_join("p")}
        pids = started.wait(2)
        peer.close()
        wait_gone(pids)
        peer = server.supplied("p", 2, 2)
        again = [peer.hears_join("p"), peer.hears_join("p")]
        assert not names & set(again)
        running.signal(signal.SIGTERM)
        peer.hears("SUPPLY p 0 0", "OK")


def test_kept_ones_join_again(server, started):
    words = ("--init", "1", "--max", "3", "--keep", "--value", "v")
    with member(server, "p", *words, *shell(started.script)) as running:
        peer = server.supplied("p", 1, 3, want=2)
        names = [peer.hears_join("p", "v"), peer.hears_join("p", "v")]
        pids = started.wait(2)
        for _ in range(2):
            peer.close()
            peer = server.supplied("p", 1, 3, want=2)
            assert [peer.hears_join("p", "v"), peer.hears_join("p", "v")] == names
        peer.close()
        os.kill(pids[0], signal.SIGKILL)  # one that ends meanwhile is replaced
        peer = server.accept()
        assert len(started.wait(3)) == 3
        peer.hears("SUPPLY p 1 3", "OK\nWANT p 1")
        names[0] = peer.hears_join("p", "v")
        assert peer.hears_join("p", "v") == names[1]
        running.signal(signal.SIGTERM)
        peer.hears("SUPPLY p 0 0", "OK")


def test_a_name_that_is_still_in_use_is_tried_again(server):
    with member(server, "p", "--keep", *shell("exec sleep 1000")) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        peer.close()
        peer = server.supplied("p", 1, 1)
        for _ in range(3):
            peer.hears("JOIN p " + name, "ERROR EXISTS")
        assert peer.hears_join("p") == name
        assert "the name is in use" in running.child.stderr.readline().decode() + (
            running.child.stderr.readline().decode()
        )
        leave_quietly(running, peer)


def test_a_full_pool_ends_the_command(server, started):
    with member(server, "p", *shell(started.script)) as running:
        peer = server.supplied("p", 1, 1)
        assert peer.line().startswith("JOIN p ")
        started.wait(1)
        peer.say("ERROR POOL_FULL")
        peer.hears_join("p")
        assert len(started.wait(2)) == 2
        wait_gone([started.now()[0][1]])
        leave_quietly(running, peer)


def test_a_pool_that_was_dropped_is_supplied_again(server, started):
    with member(server, "p", *shell(started.script)) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        peer.say("WANT p 0\nSTOP p %s drop" % name)
        # It asks again 0.1 seconds after an answer, and its command may take longer to end.
        peer.hears("SUPPLY p 1 1")
        peer.hears("MEMBER DROP p %s now" % name, "ERROR NO_POOL\nERROR NO_POOL")
        peer.hears("SUPPLY p 1 1", "ERROR NO_POOL")
        peer.hears("SUPPLY p 1 1", "OK\nWANT p 1")
        assert peer.hears_join("p") != name
        leave_quietly(running, peer)


@pytest.mark.parametrize(
    "answer, status", [("NO_POOL", NO), ("WRONG_KIND", NO), ("DENIED", DENIED), ("TOO_MANY", 69)]
)
def test_what_the_server_refuses_at_the_start_is_the_end(server, answer, status):
    with member(server, "p", "--", "true") as running:
        peer = server.accept()
        peer.hears("SUPPLY p 1 1", "ERROR " + answer)
        peer.hears("QUIT", "BYE")
        done = running.wait()
        assert done.status == status and done.err.startswith("counterctl: p: ")


def test_what_it_refuses_later_is_tried_again(server):
    with member(server, "p", *shell("exec sleep 1000")) as running:
        peer = server.supplied("p", 1, 1)
        peer.hears_join("p")
        peer.close()
        peer = server.accept()
        peer.hears("SUPPLY p 1 1", "ERROR NO_POOL")
        peer.hears("SUPPLY p 1 1", "ERROR SHUTTING_DOWN")
        peer.close()
        peer = server.supplied("p", 1, 1)
        peer.hears_join("p")
        leave_quietly(running, peer)


def test_no_server_at_the_start(server):
    server.listener.close()
    done = ctl.run("-s", ctl.at(server.address), "member", "p", "--", "true")
    assert done.status == UNAVAILABLE and "can't connect" in done.err


# --- checks --------------------------------------------------------------------------------------


def taking(name, pool="p"):
    """The request that takes a member for a check."""
    return re.compile("TAKE %s member=%s for=check by=.*:check$" % (pool, re.escape(name)))


def test_members_are_checked(server, tmp_path):
    log = tmp_path / "log"
    check = 'env | grep ^COUNTER_ | sort >>%s; test "$COUNTER_FENCE" != 8' % log
    words = ("--check", check, "--every", "1")  # also the time that a check may take
    with member(server, "p", *words, *shell("exec sleep 1000")) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        checks = server.accept()
        for fence, result in ((7, ""), (8, " fail"), (9, "")):
            assert taking(name).match(checks.line())
            checks.say("TAKEN p %s %d v:1 gpu=a100" % (name, fence))
            checks.hears("RETURN %d%s" % (fence, result), "RETURNED")
        assert log.read_text().splitlines()[:6] == [
            "COUNTER_ATTR_GPU=a100",
            "COUNTER_FENCE=7",
            "COUNTER_MEMBER=" + name,
            "COUNTER_POOL=p",
            "COUNTER_SLOT=0",
            "COUNTER_VALUE=v:1",
        ]
        assert taking(name).match(checks.line())
        checks.say("TIMEOUT")  # somebody uses it
        assert taking(name).match(checks.line())
        leave_quietly(running, peer)
        assert len(log.read_text().splitlines()) == 18


def test_a_check_that_takes_too_long_has_failed(server, tmp_path):
    log = tmp_path / "log"
    words = ("--check", "sleep 1000 & echo $! >%s; wait" % log, "--every", "2")
    with member(server, "p", *words, *shell("exec sleep 1000")) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        checks = server.accept()
        assert taking(name).match(checks.line())
        checks.say("TAKEN p %s 7 -" % name)
        checks.hears("RETURN 7 fail", "RETURNED")
        wait_gone([int(log.read_text())])
        leave_quietly(running, peer)


def test_checks_go_on_over_another_connection(server):
    words = ("--check", "true", "--every", "1")
    with member(server, "p", *words, *shell("exec sleep 1000")) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        for _ in range(2):
            checks = server.accept()
            assert taking(name).match(checks.line())
            checks.close()
        checks = server.accept()
        assert taking(name).match(checks.line())
        checks.say("TAKEN p %s 7 -" % name)
        checks.hears("RETURN 7", "RETURNED")
        leave_quietly(running, peer)


def test_at_the_end_its_check_is_killed(server, tmp_path):
    log = tmp_path / "log"
    words = ("--check", "echo $$ >%s; exec sleep 1000" % log, "--every", "1000")
    with member(server, "p", *words[:3], "3", *shell("exec sleep 1000")) as running:
        peer = server.supplied("p", 1, 1)
        name = peer.hears_join("p")
        checks = server.accept()
        assert taking(name).match(checks.line())
        checks.say("TAKEN p %s 7 -" % name)
        wire.poll(lambda: log.exists() and log.read_text().endswith("\n"), "it runs")
        leave_quietly(running, peer)
        assert not is_there(int(log.read_text()))


# --- one member without a command ----------------------------------------------------------------


def test_without_a_command_it_is_a_member_itself(server):
    with member(server, "p", "--value", "v", "--attr", "a=1") as running:
        peer = server.accept()
        name = "%s-%d" % (os.uname().nodename, running.pid)
        peer.hears("JOIN p %s v a=1" % name, "JOINED")
        running.signal(signal.SIGTERM)
        peer.hears_drop("p", name)
        peer.hears("QUIT", "BYE")
        assert running.wait() == (128 + signal.SIGTERM, "", "")


def test_it_joins_again_under_its_name(server):
    with member(server, "p", "--name", "printer") as running:
        peer = server.accept()
        peer.hears("JOIN p printer", "JOINED")
        peer.close()
        peer = server.accept()
        peer.hears("JOIN p printer", "ERROR NO_POOL")
        peer.hears("JOIN p printer", "JOINED")
        leave_quietly(running, peer)


def test_it_ends_when_it_is_stopped(server):
    with member(server, "p", "--name", "printer") as running:
        peer = server.accept()
        peer.hears("JOIN p printer", "JOINED")
        peer.say("STOP p printer operator")
        peer.hears_drop("p", "printer")
        peer.hears("QUIT", "BYE")
        done = running.wait()
        assert done.status == 0 and "operator" in done.err


def test_a_name_in_use_is_told_at_the_start(server):
    with member(server, "p", "--name", "printer") as running:
        peer = server.accept()
        peer.hears("JOIN p printer", "ERROR EXISTS")
        peer.hears("QUIT", "BYE")
        assert running.wait().status == NO


def test_it_is_checked_too(server):
    with member(server, "p", "--name", "printer", "--check", "false", "--every", "0.1") as running:
        peer = server.accept()
        peer.hears("JOIN p printer", "JOINED")
        checks = server.accept()
        assert taking("printer").match(checks.line())
        checks.say("TAKEN p printer 7 -")
        checks.hears("RETURN 7 fail", "RETURNED")
        peer.say("STOP p printer fail")
        peer.hears_drop("p", "printer")
        peer.hears("QUIT", "BYE")
        assert running.wait().status == 0


# --- with the daemon -----------------------------------------------------------------------------

with_daemon = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


def counts(daemon, pool="p"):
    """Returns the counts of a pool; None if it is not there."""
    with daemon.text_client() as client:
        line = client.ask("POOL LIST " + pool)
        return dict(re.findall(r" (\w+)=(\d+)", line)) if line else None


def wait_counts(daemon, **wanted):
    texts = {key: str(value) for key, value in wanted.items()}
    wire.poll(lambda: texts.items() <= (counts(daemon) or {}).items(), "there are %s" % texts)


@pytest.fixture(name="supplied")
def a_supplied_pool(daemon, started):
    """A function that makes the pool p and supplies it with up to 3 members."""
    suppliers = []

    def supply(*words, options=""):
        with daemon.text_client() as client:
            assert client.ask("POOL ADD p kind=joined " + options) == "OK"
        where = ("-s", ctl.at(daemon.text), "member", "p", "--max", "3", *words)
        suppliers.append(ctl.Running(*where, *shell(started.script)))
        wait_counts(daemon, free=1)
        wire.poll(started.now, "it has started")
        return suppliers[-1]

    yield supply
    for supplier in suppliers:
        with supplier:
            supplier.signal(signal.SIGTERM)
            supplier.wait()


@with_daemon
def test_demand_starts_members_and_idleness_ends_them(daemon, supplied, started):
    supplied()
    with daemon.text_client() as one, daemon.text_client() as two, daemon.text_client() as three:
        users = [one, two, three]
        for user in users:
            user.say("TAKE p %d" % wire.DEADLINE)
        taken = [user.line().split() for user in users]
        assert len({words[2] for words in taken}) == 3
        wait_counts(daemon, members=3, taken=3)
        for user, words in zip(users, taken):
            assert user.ask("RETURN " + words[3]) == "RETURNED"
        assert one.ask("POOL SET p cull_after=0.1") == "OK"
        wait_counts(daemon, members=1, free=1)
        wire.poll(lambda: sum(is_there(pid) for _, pid, _ in started.now()) == 1, "one is left")


@with_daemon
def test_a_returned_failure_is_replaced(daemon, supplied, started):
    supplied()
    with daemon.text_client() as user:
        _, _, name, fence, _ = user.ask("TAKE p").split()
        assert user.ask("RETURN %s fail" % fence) == "RETURNED"
        answer = user.ask("TAKE p %d" % wire.DEADLINE)
        assert answer.startswith("TAKEN p ") and name not in answer
    wait_gone([started.now()[0][1]])


@with_daemon
def test_a_failed_check_is_replaced(daemon, supplied, started, tmp_path):
    check = "echo $COUNTER_MEMBER >>%s/log; test -e %s/good" % (tmp_path, tmp_path)
    supplied("--check", check, "--every", "0.1")
    wire.poll(lambda: len(started.now()) > 1, "it is replaced")
    (tmp_path / "good").touch()
    wait_gone([started.now()[0][1]])
    wait_counts(daemon, members=1, stopping=0)


@with_daemon
def test_when_it_is_killed_its_members_are_gone(daemon, supplied):
    supplier = supplied()
    supplier.signal(signal.SIGKILL)
    wait_counts(daemon, members=0, want=0)


@with_daemon
def test_a_dropped_pool_is_supplied_when_it_is_there_again(daemon, supplied, started):
    supplied()
    with daemon.text_client() as client:
        assert client.ask("POOL DROP p") == "OK"
        wire.poll(lambda: counts(daemon) is None, "it has gone")
        wait_gone([started.now()[0][1]])
        assert client.ask("POOL ADD p kind=joined") == "OK"
    wait_counts(daemon, free=1)


# --- the command line ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, why",
    [
        (("a b", "--", "true"), "name of a pool"),
        (("@p", "--", "true"), "name of a pool"),
        (("p", "--init", "3", "--max", "2", "--", "true"), "--init is 3"),
        (("p", "--name", "a b", "--", "true"), "--name"),
        (("p", "--name", "n" * 224, "--", "true"), "--name"),
        (("p", "--value", "a b", "--", "true"), "--value"),
        (("p", "--attr", "K=v", "--", "true"), "--attr"),
        (("p", "--attr", "k", "--", "true"), "--attr"),
        (("p", "--attr", "state=down", "--", "true"), "--attr"),
        (("p", "--ready"), "need"),
        (("p", "--max", "2"), "need"),
        (("p", "--start-timeout", "2", "--", "true"), "needs --ready"),
        (("p", "--every", "2", "--", "true"), "needs --check"),
    ],
)
def test_wrong_words(words, why):
    done = ctl.run("member", *words)
    assert done.status == USAGE and why in done.err and done.err.count("\n") == 1


if __name__ == "__main__":
    tap.main(__file__)
