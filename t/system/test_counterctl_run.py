"""`counterctl run` and `acquire` with a command: every possible end."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import tap
import pytest

import ctl
import servers
import wire

pytestmark = pytest.mark.skipif(
    not servers.have_counterd() or not ctl.have_counterctl(),
    reason="COUNTERD and COUNTERCTL name no programs",
)

USAGE, UNAVAILABLE, TEMPORARY, PROTOCOL, LOST = 64, 69, 75, 76, 79

# Says that it is ready, and sleeps until a signal ends it.
SLEEP = ("sh", "-c", "echo ready; exec sleep 1000")

# Says that it is ready, and counts signals until the end of its input. Handlers in Python would be
# too late for a signal just before a read, and could not print while the line before is printed.
COUNT = """
import os, select, signal, sys
taken, wakeup = os.pipe()
os.set_blocking(wakeup, False)
signal.set_wakeup_fd(wakeup)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda *_: None)
print("ready", os.getpgrp(), flush=True)
seen = {}
while True:
    if taken in select.select([0, taken], [], [])[0]:
        name = signal.Signals(os.read(taken, 1)[0]).name
        seen[name] = seen.get(name, 0) + 1
        print(name, seen[name], flush=True)
    elif not os.read(0, 4096):
        sys.exit(5)
"""


def text(daemon):
    return ("-s", ctl.at(daemon.text))


def binary(daemon):
    return ("-s", ctl.at(daemon.binary))


def wait_waiting(daemon, count):
    with daemon.text_client() as client:
        wire.poll(lambda: client.stat("waiting_workers") == count, "%d wait" % count)


def is_free(daemon, key):
    """True if a lock on `key` is free."""
    with daemon.text_client() as client:
        return client.ask("ACQ4ME %s 1 100 0" % key) == "LOCKED"


# --- the command's own end -----------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 3, 75, 255])
def test_its_exit_status_is_passed_through(daemon, status):
    done = ctl.run(*text(daemon), "run", "k", "--", "sh", "-c", "exit %d" % status)
    assert done == (status, "", "")
    assert is_free(daemon, "k")


@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV"])
def test_a_signal_that_ended_it_is_128_and_its_number(daemon, name):
    done = ctl.run(*text(daemon), "run", "k", "--", "sh", "-c", "ulimit -c 0; kill -%s $$" % name)
    assert done.status == 128 + getattr(signal, "SIG" + name)


def test_what_is_not_there_and_what_cannot_be_executed(daemon, tmp_path):
    done = ctl.run(*text(daemon), "run", "k", "--", "/no/such/command")
    assert done.status == 127 and "/no/such/command: No such file" in done.err
    assert ctl.run(*text(daemon), "run", "k", "--", "no-such-command-in-path").status == 127
    (tmp_path / "file").write_text("x")
    done = ctl.run(*text(daemon), "run", "k", "--", str(tmp_path / "file"))
    assert done.status == 126 and "ermission denied" in done.err
    assert ctl.run(*text(daemon), "run", "k", "--", str(tmp_path)).status == 126
    assert is_free(daemon, "k")


def test_its_input_and_output_are_ours(daemon):
    script = 'read line; echo "out $line"; echo "err $line" >&2; cat'
    done = ctl.run(*text(daemon), "run", "k", "--", "sh", "-c", script, stdin=b"one\ntwo\n")
    assert done == (0, "out one\ntwo\n", "err one\n")


def test_the_arguments_behind_the_dashes_are_its_own(daemon):
    done = ctl.run(*text(daemon), "run", "k", "-w", "2", "--", "echo", "-n", "--any", "--", "a b")
    assert done == (0, "--any -- a b", "")


def test_it_inherits_no_descriptor_mask_or_disposition(daemon):
    script = "ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    done = ctl.run(*text(daemon), "run", "k", "--", "sh", "-c", script)
    bare = subprocess.run(["sh", "-c", script], input=b"", capture_output=True, check=True)
    assert done.out == bare.stdout.decode()
    assert "SigIgn:\t0000000000001000" not in done.out or b"1000" in bare.stdout


def test_it_stays_in_our_process_group(daemon):
    script = "import os; print(os.getpgrp(), os.getsid(0))"
    with ctl.Running(*text(daemon), "run", "k", "--", sys.executable, "-c", script) as running:
        assert running.end().out.split() == [str(os.getpgrp()), str(os.getsid(0))]


def test_ignored_children_do_not_confuse_it(daemon):
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    done = ctl.run(*text(daemon), "run", "k", "--", "sh", "-c", "exit 4", preexec=ignore)
    assert done.status == 4


# --- the lock ------------------------------------------------------------------------------------


def test_the_lock_is_held_while_it_runs_and_no_longer(daemon):
    with ctl.Running(*text(daemon), "run", "k", "--", "cat") as running:
        running.say("held\n")
        assert running.line() == "held"
        assert not is_free(daemon, "k")
        assert running.end().status == 0
    assert is_free(daemon, "k")


def test_the_second_of_two_waits_for_the_first(daemon, tmp_path):
    log = tmp_path / "log"
    script = 'echo "begin $0" >>%s; cat >/dev/null; echo "end $0" >>%s' % (log, log)
    with ctl.Running(*text(daemon), "run", "k", "--", "sh", "-c", script, "1") as first:
        wire.poll(lambda: log.exists() and log.read_text() == "begin 1\n", "the first runs")
        with ctl.Running(*text(daemon), "run", "k", "--", "sh", "-c", script, "2") as second:
            wait_waiting(daemon, 1)
            assert first.end().status == 0
            assert second.end().status == 0
    assert log.read_text() == "begin 1\nend 1\nbegin 2\nend 2\n"


def test_as_many_run_at_once_as_workers(daemon):
    options = (*text(daemon), "run", "-w", "2", "k", "--", *SLEEP)
    with ctl.Running(*options) as one, ctl.Running(*options) as two:
        assert one.line() == "ready" and two.line() == "ready"
        done = ctl.run(*text(daemon), "run", "-w", "2", "-t", "0", "k", "--", "true")
        assert done.status == TEMPORARY


@pytest.mark.parametrize("timeout", ["0", "0.05"])
def test_a_timeout_is_75(daemon, timeout):
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 100 0") == "LOCKED"
        options = (*text(daemon), "run", "-t", timeout)
        done = ctl.run(*options, "k", "--", "echo", "ran")
        assert done.status == TEMPORARY and done.out == ""
        assert done.err.startswith("counterctl: lock k: ") and "--workers" in done.err
        assert ctl.run(*options, "-q", "k", "--", "echo", "ran") == (TEMPORARY, "", "")


def test_a_full_queue_is_69(daemon):
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 100 0") == "LOCKED"
        done = ctl.run(*text(daemon), "run", "-Q", "1", "k", "--", "echo", "ran")
        assert done.status == UNAVAILABLE and done.out == "" and "--queue" in done.err
        assert ctl.run(*text(daemon), "run", "-qQ1", "k", "--", "true") == (UNAVAILABLE, "", "")


def test_any_does_not_run_what_another_has_done(daemon):
    with ctl.Running(*text(daemon), "run", "k", "--", "cat") as first:
        first.say("x\n")
        assert first.line() == "x"
        with ctl.Running(*text(daemon), "run", "--any", "k", "--", "echo", "ran") as second:
            wait_waiting(daemon, 1)
            assert first.end().status == 0
            done = second.end()
            assert (done.status, done.out) == (0, "")
            assert "another client has just done the work" in done.err


def test_any_runs_what_another_has_failed_to_do(daemon):
    script = "echo x; cat; exit 1"
    with ctl.Running(*text(daemon), "run", "k", "--", "sh", "-c", script) as first:
        assert first.line() == "x"
        with ctl.Running(*text(daemon), "run", "--any", "k", "--", "echo", "ran") as second:
            wait_waiting(daemon, 1)
            assert first.end().status == 1
            assert second.end() == (0, "ran\n", "")


def test_a_space_is_sent_as_mediawiki_does(daemon):
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME a%20b%20 1 100 0") == "LOCKED"
        done = ctl.run(*text(daemon), "run", "-t", "0", "a b ", "--", "true")
        assert done.status == TEMPORARY


@pytest.mark.parametrize("key", ["a\nb", "a\tb", "a\x7f", ""])
def test_keys_with_controls_are_refused(daemon, key):
    done = ctl.run(*text(daemon), "run", key, "--", "echo", "ran")
    assert done.status == USAGE and done.out == "" and "key" in done.err + "key" * (key == "")
    assert done.err.count("\n") == 1


def test_odd_keys_are_locked_as_they_are(daemon):
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME \xff\xfe\\ 1 100 0") == "LOCKED"
        assert ctl.run(*text(daemon), "run", "-et0", "\\xff\\xfe\\\\", "--", "true").status == TEMPORARY


# --- signals -------------------------------------------------------------------------------------

PASSED_ON = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]


def test_signals_are_passed_on(daemon):
    command = (sys.executable, "-c", COUNT, *PASSED_ON)
    with ctl.Running(*text(daemon), "run", "k", "--", *command) as running:
        assert running.line().startswith("ready")
        for name in PASSED_ON:
            running.signal(getattr(signal, name))
            assert running.line() == name + " 1"
        assert running.end().status == 5


def test_a_command_that_a_passed_signal_ends_is_128_and_its_number(daemon):
    with ctl.Running(*text(daemon), "run", "k", "--", *SLEEP) as running:
        assert running.line() == "ready"
        running.signal(signal.SIGTERM)
        assert running.wait().status == 128 + signal.SIGTERM
    assert is_free(daemon, "k")


@pytest.mark.parametrize("name", PASSED_ON)
def test_a_signal_ends_the_wait(daemon, name):
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 100 0") == "LOCKED"
        with ctl.Running(*text(daemon), "run", "k", "--", "echo", "ran") as running:
            wait_waiting(daemon, 1)
            running.signal(getattr(signal, name))
            assert running.wait() == (128 + getattr(signal, name), "", "")
        wait_waiting(daemon, 0)


def test_a_signal_ends_connecting(tmp_path):
    # The server never answers the TLS handshake.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        options = ("-s", ctl.at(listener.getsockname()), "--tls")
        with ctl.Running(*options, "--connect-timeout", "1000", "run", "k", "--", "x") as running:
            with listener.accept()[0] as conn:
                assert conn.recv(1)
                running.signal(signal.SIGINT)
                assert running.wait() == (128 + signal.SIGINT, "", "")


def test_what_was_ignored_stays_ignored(daemon):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 100 0") == "LOCKED"
        with ctl.Running(*text(daemon), "run", "k", "--", "cat", preexec=ignore) as running:
            wait_waiting(daemon, 1)
            running.signal(signal.SIGHUP)
            assert client.ask("RELEASE k") == "RELEASED"
            running.say("still here\n")
            assert running.line() == "still here"
            assert running.end().status == 0


def state_of(pid):
    """Returns the letter of a process's state: S sleeps, T is stopped."""
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rpartition(")")[2].split()[0]


def own_group():
    """
    Makes a process group of our own. The test's group may have no parent that could continue it,
    and the kernel does not stop such groups.
    """
    os.setpgid(0, 0)


def test_a_stop_stops_both_and_the_lock_stays(daemon):
    command = ("sh", "-c", "echo $$; exec cat")
    with ctl.Running(*text(daemon), "run", "k", "--", *command, preexec=own_group) as running:
        pid = int(running.line())

        def states():
            return [state_of(running.pid), state_of(pid)]

        running.signal(signal.SIGTSTP)
        wire.poll(lambda: states() == ["T", "T"], "both have stopped")
        assert not is_free(daemon, "k")
        running.signal(signal.SIGCONT)
        wire.poll(lambda: states() == ["S", "S"], "both go on")
        running.say("on\n")
        assert running.line() == "on"
        assert running.end().status == 0


def test_a_stopped_wait_goes_on(daemon):
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 100 0") == "LOCKED"
        command = ("echo", "ran")
        with ctl.Running(*text(daemon), "run", "k", "--", *command, preexec=own_group) as running:
            wait_waiting(daemon, 1)
            running.signal(signal.SIGTSTP)
            wire.poll(lambda: state_of(running.pid) == "T", "it has stopped")
            running.signal(signal.SIGCONT)
            assert client.ask("RELEASE k") == "RELEASED"
            assert running.end() == (0, "ran\n", "")


def test_ctrl_c_reaches_the_command_once(daemon):
    command = (sys.executable, "-c", COUNT, "SIGINT", "SIGUSR1")
    with ctl.Terminal(*text(daemon), "run", "k", "--", *command) as terminal:
        terminal.wait_output("ready")
        # The command handles its signals while counterctl is stopped, so two SIGINTs would count as
        # two.
        os.kill(terminal.pid, signal.SIGSTOP)
        terminal.wait_stopped()
        terminal.type("\x03")
        terminal.wait_output("SIGINT 1")
        os.kill(terminal.pid, signal.SIGUSR1)
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.wait_output("SIGUSR1 1")
        assert b"SIGINT 2" not in terminal.output
        os.kill(terminal.pid, signal.SIGINT)
        terminal.wait_output("SIGINT 2")
        terminal.type("\x04")
        assert terminal.wait() == 5


def test_ctrl_z_stops_the_job_and_fg_goes_on(daemon):
    # A shell with job control, because the leader of a session can't be stopped.
    shell = "set -m\n\"$@\" </dev/tty\necho stopped $?\nfg >/dev/null\necho over $?\n"
    with ctl.Terminal("-c", shell, "sh", ctl.COUNTERCTL, *text(daemon), "run", "k", "--", "sh", "-c",
                      "echo ready; read line; echo read $line; exit 6",
                      program="/bin/bash") as terminal:  # fmt: skip
        terminal.wait_output("ready")
        terminal.type("\x1a")
        terminal.wait_output("stopped 148")
        assert not is_free(daemon, "k")
        terminal.type("line\n")
        terminal.wait_output("read line")
        terminal.wait_output("over 6")
        terminal.wait()


# --- a lost connection ---------------------------------------------------------------------------


def lose(daemon):
    """Kills the daemon."""
    daemon.is_expected_to_be_gone = True
    daemon.child.kill()
    daemon.wait()


def test_a_lost_connection_is_said_and_the_command_goes_on(start):
    daemon = start()
    with ctl.Running(*text(daemon), "run", "k", "--", "sh", "-c", "echo x; cat; exit 3") as running:
        assert running.line() == "x"
        lose(daemon)
        said = running.child.stderr.readline().decode()
        assert "goes on without it" in said
        running.say("still here\n")
        assert running.line() == "still here"
        assert running.end() == (3, "", "")


def test_strict_ends_the_command(start):
    daemon = start()
    script = "trap 'echo told; exit 0' TERM; echo x; while :; do sleep 0.01; done"
    with ctl.Running(*text(daemon), "run", "--strict", "k", "--", "sh", "-c", script) as running:
        assert running.line() == "x"
        lose(daemon)
        done = running.wait()
        assert (done.status, done.out) == (LOST, "told\n")
        assert "gets TERM" in done.err


def test_strict_kills_what_does_not_end(start):
    daemon = start()
    script = "trap '' TERM; echo x; while :; do sleep 0.01; done"
    options = ("run", "--strict", "--grace", "0.1", "k", "--", "sh", "-c", script)
    with ctl.Running(*text(daemon), *options) as running:
        assert running.line() == "x"
        lose(daemon)
        assert running.wait().status == LOST


def test_strict_ends_a_stopped_command(start):
    daemon = start()
    options = ("run", "--strict", "--grace", "1000", "k", "--", "sh", "-c", "echo $$; exec cat")
    with ctl.Running(*text(daemon), *options) as running:
        os.kill(int(running.line()), signal.SIGSTOP)
        lose(daemon)
        assert running.wait().status == LOST


def test_strict_ends_the_command_when_we_are_killed(daemon, tmp_path):
    told = tmp_path / "told"
    script = "trap 'echo told >%s; exit' TERM; echo x; while :; do sleep 0.01; done" % told
    with ctl.Running(*text(daemon), "run", "--strict", "k", "--", "sh", "-c", script) as running:
        assert running.line() == "x"
        running.signal(signal.SIGKILL)
        wire.poll(lambda: told.exists() and told.read_text() == "told\n", "the command is told")


def test_a_connection_lost_while_waiting_is_69(start):
    daemon = start()
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 100 0") == "LOCKED"
        with ctl.Running(*text(daemon), "run", "k", "--", "echo", "ran") as running:
            wait_waiting(daemon, 1)
            lose(daemon)
            done = running.wait()
            assert (done.status, done.out) == (UNAVAILABLE, "")
            assert "closed" in done.err or "reset" in done.err


# --- servers of other protocols ------------------------------------------------------------------


@pytest.fixture
def fake():
    """A server that sends the given bytes and then waits for the end."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    threads = []

    def serve(data):
        def talk():
            with listener.accept()[0] as conn:
                conn.recv(65536)
                try:
                    conn.sendall(data)
                    while conn.recv(65536):
                        pass
                except ConnectionError:
                    pass

        threads.append(threading.Thread(target=talk, daemon=True))
        threads[-1].start()
        return ("-s", ctl.at(listener.getsockname()))

    yield serve
    listener.close()


def test_no_server_is_69():
    port = servers.free_port()
    done = ctl.run("-s", "127.0.0.1:%d" % port, "run", "k", "--", "echo", "ran")
    assert (done.status, done.out) == (UNAVAILABLE, "")
    assert "can't connect to 127.0.0.1:%d: Connection refused" % port in done.err


def test_a_name_that_is_none_is_69():
    for host in ("no-such-host.invalid", "1.2.3.4.5", "[a:b]"):
        done = ctl.run("-s", host, "run", "k", "--", "echo", "ran")
        assert (done.status, done.out) == (UNAVAILABLE, "")
        assert "counter_" not in done.err


def test_names_of_hosts_are_looked_up(daemon):
    host = "localhost:%d" % daemon.text[1]
    assert ctl.run("-s", host, "run", "k", "--", "echo", "ran") == (0, "ran\n", "")


def test_a_server_that_does_not_answer_is_69(fake):
    done = ctl.run(*fake(b""), "--io-timeout", "0.1", "run", "-t", "0", "k", "--", "echo", "ran")
    assert (done.status, done.out) == (UNAVAILABLE, "") and "no answer in time" in done.err


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad\r\n", b"ERROR BAD_SYNTAX\n", b"RELEASED\n"])
def test_a_server_that_talks_nonsense_is_76(fake, data):
    done = ctl.run(*fake(data), "run", "k", "--", "echo", "ran")
    assert (done.status, done.out) == (PROTOCOL, "")
    assert done.err.count("\n") == 1


def test_an_endless_line_is_76(fake):
    done = ctl.run(*fake(b"x" * 1000000), "run", "k", "--", "echo", "ran")
    assert (done.status, done.out) == (PROTOCOL, "")


def test_controls_of_a_server_do_not_reach_the_terminal(fake):
    done = ctl.run(*fake(b"\x1b]0;title\x07\n"), "run", "k", "--", "echo", "ran")
    assert done.status == PROTOCOL and "\x1b" not in done.err and "\\x1b" in done.err


# --- other ways to the server --------------------------------------------------------------------


def test_over_a_unix_socket(start, tmp_path):
    path = str(tmp_path / "socket")
    daemon = start("poolcounter.socket=" + path, "counter.socket=@%s" % path)
    assert daemon.text_unix == path
    done = ctl.run("-s", "unix:" + path, "run", "k", "--", "echo", "ran")
    assert done == (0, "ran\n", "")
    done = ctl.run("-s", "unix:@" + path, "get", "k")
    assert done.status in (0, 1)


def test_the_server_is_named_by_the_environment(daemon):
    env = {"COUNTER_SERVER": ctl.at(daemon.text)}
    assert ctl.run("run", "k", "--", "echo", "ran", env=env) == (0, "ran\n", "")
    done = ctl.run("run", "k", "--", "echo", "ran", env={"COUNTER_SERVER": "a b"})
    assert done.status == USAGE and "$COUNTER_SERVER" in done.err


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """ca.pem, and server.pem of it for localhost with its key."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, capture_output=True, check=True)

    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(*new, "-subj", "/CN=test ca", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2")
    openssl(*new, "-subj", "/CN=other ca", "-keyout", "o.key", "-out", "other.pem", "-days", "2")
    openssl(*new, "-subj", "/CN=server", "-addext", "subjectAltName=DNS:counter.example",
            "-addext", "basicConstraints=CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-keyout", "server.key", "-out", "server.pem", "-days", "2")  # fmt: skip
    openssl(*new, "-subj", "/CN=client", "-CA", "ca.pem", "-CAkey", "ca.key", "-addext",
            "basicConstraints=CA:FALSE", "-keyout", "c.key", "-out", "c.pem", "-days", "2")  # fmt: skip
    return folder


def start_tls(start, certificates, *options):
    return start("poolcounter.tls_port=%d" % servers.free_port(),
                 "tls.cert=%s/server.pem" % certificates, "tls.key=%s/server.key" % certificates,
                 "tls.ca=%s/ca.pem" % certificates, *options)  # fmt: skip


def trusting(daemon, certificates):
    return ("-s", ctl.at(daemon.text_tls), "--tls", "--ca", str(certificates / "ca.pem"),
            "--tls-name", "counter.example")  # fmt: skip


def test_over_tls_name_and_chain_are_verified(start, certificates):
    daemon = start_tls(start, certificates)
    ca = ("--ca", str(certificates / "ca.pem"))
    name = ("--tls-name", "counter.example")
    command = ("run", "k", "--", "echo", "ran")
    tls = ("-s", ctl.at(daemon.text_tls), "--tls")
    assert ctl.run(*tls, *ca, *name, *command) == (0, "ran\n", "")
    own = ("--ca", str(certificates / "server.pem"))
    assert ctl.run(*tls, *own, *name, *command) == (0, "ran\n", "")
    for wrong in [(*ca,), (*ca, "--tls-name", "other.example"), (*name,),
                  (*name, "--ca", str(certificates / "other.pem"))]:  # fmt: skip
        done = ctl.run(*tls, *wrong, *command)
        assert (done.status, done.out) == (UNAVAILABLE, ""), done
        assert "its certificate is not accepted" in done.err, done
    done = ctl.run(*tls, "--ca", str(certificates / "none.pem"), *name, *command)
    assert done.status == UNAVAILABLE and "--ca" in done.err


def test_over_tls_with_a_certificate_of_ours(start, certificates):
    daemon = start_tls(start, certificates, "tls.verify_client=require")
    tls = trusting(daemon, certificates)
    command = ("run", "k", "--", "echo", "ran")
    ours = ("--cert", str(certificates / "c.pem"), "--key", str(certificates / "c.key"))
    assert ctl.run(*tls, *ours, *command) == (0, "ran\n", "")
    assert ctl.run(*tls, *command).status == UNAVAILABLE
    done = ctl.run(*tls, *ours[:2], "--key", str(certificates / "server.key"), *command)
    assert done.status == UNAVAILABLE and "--key" in done.err


def test_the_files_of_tls_are_read_again_but_not_for_each_try(certificates, tmp_path):
    ca = shutil.copy(certificates / "ca.pem", tmp_path)
    port = servers.free_port()
    tls = ("-s", "127.0.0.1:%d" % port, "--tls", "--ca", str(ca))
    with ctl.Running(*tls, "work", "--jobs=4", "tube", "--", "true") as running:
        assert b"Connection refused" in running.child.stderr.readline()
        os.unlink(ca)
        with socket.socket() as listener:
            listener.settimeout(wire.DEADLINE)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
            with listener.accept()[0] as conn:  # with what was read before
                assert conn.recv(1) == b"\x16"
        for line in running.child.stderr:
            if b"--ca" in line:
                break
        running.signal(signal.SIGTERM)
        assert running.end().status == 128 + signal.SIGTERM


def test_tls_where_there_is_none(daemon):
    done = ctl.run(*text(daemon), "--tls", "--connect-timeout", "2", "run", "k", "--", "true")
    assert done.status == UNAVAILABLE and "TLS" in done.err


def test_a_lock_over_tls_is_lost_as_any(start, certificates):
    daemon = start_tls(start, certificates)
    tls = trusting(daemon, certificates)
    with ctl.Running(*tls, "run", "--strict", "k", "--", *SLEEP) as running:
        assert running.line() == "ready"
        lose(daemon)
        assert running.wait().status == LOST


# --- acquire with a command ----------------------------------------------------------------------


def test_acquire_holds_units_while_a_command_runs(daemon):
    with ctl.Running(*binary(daemon), "acquire", "u", "2", "5", "--", "cat") as running:
        running.say("x\n")
        assert running.line() == "x"
        with daemon.binary_client() as client:
            assert client.get(b"u") == 2
            assert running.end().status == 0
            assert client.get(b"u") == 0


def test_acquire_passes_the_status_through_and_says_what_is_not_available(daemon):
    command = ("--", "sh", "-c", "exit 7")
    assert ctl.run(*binary(daemon), "acquire", "u", "1", "1", *command) == (7, "", "")
    with daemon.binary_client() as client:
        assert client.acquire(1, 1, b"u") == wire.OK
        done = ctl.run(*binary(daemon), "acquire", "u", "1", "1", *command)
        assert done.status == TEMPORARY and "Resource not available" in done.err
        assert ctl.run(*binary(daemon), "acquire", "-q", "u", "1", "1", *command) == (75, "", "")


def test_acquire_strict_ends_the_command(start):
    daemon = start()
    with ctl.Running(*binary(daemon), "acquire", "--strict", "u", "1", "1", "--", *SLEEP) as running:
        assert running.line() == "ready"
        lose(daemon)
        assert running.wait().status == LOST


if __name__ == "__main__":
    tap.main(__file__)
