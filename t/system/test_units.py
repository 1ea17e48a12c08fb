"""
The systemd units: how far they confine the service, that they allow everything that the daemon
needs, and that units, configuration and program fit together.

systemd itself need not run, only systemd-analyze, which reads unit files. "./dev package-check"
tests the units under systemd, with all options.
"""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import tap
import pytest

import certificates
import servers
import wire

SRCDIR = os.environ.get("TOP_SRCDIR", os.path.join(os.path.dirname(__file__), "..", ".."))
UNITS = os.path.join(SRCDIR, "conf", "systemd")
SERVICE = os.path.join(UNITS, "counterd.service")
SOCKET = os.path.join(UNITS, "counterd.socket")
SYSUSERS = os.path.join(SRCDIR, "conf", "sysusers", "counterd.conf")
CONFINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "confined.py")
EXPOSURE_MAX = 1.5  # systemd's rating: 0 is fully confined, 10 not at all


def run(*argv):
    """Returns the exit status, and output and errors together."""
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


needs_analyze = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed (package systemd)"
)
needs_counterd = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


def settings(path):
    """The settings of a unit: lists of values, by key."""
    found = {}
    with open(path) as f:
        for line in f:
            key, equals, value = line.strip().partition("=")
            if equals and not key.startswith("#"):
                found.setdefault(key, []).append(value)
    return found


# --- contents of the units -----------------------------------------------------------------------


@needs_analyze
def test_the_service_is_shut_in():
    _, text = run("systemd-analyze", "security", "--offline=yes", "--no-pager", SERVICE)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", text)
    assert found, text
    assert float(found.group(1)) <= EXPOSURE_MAX, text


@needs_analyze
@pytest.mark.parametrize("name", ["counterd.service", "counterd.socket"])
def test_systemd_understands_the_unit(name, tmp_path):
    for path in (SERVICE, SOCKET):  # each names the other
        with open(path) as f:
            text = f.read().replace("/usr/sbin/counterd", "/bin/true")
        (tmp_path / os.path.basename(path)).write_text(text)
    _, text = run("systemd-analyze", "verify", "--man=no", str(tmp_path / name))
    complaints = [line for line in text.splitlines() if "counterd" in line]
    assert not complaints, text


@needs_counterd
def test_what_the_service_executes_has_the_flags_it_is_given():
    status, text, commands = 0, run(servers.COUNTERD, "-h")[1], []
    for key in ("ExecStart", "ExecReload"):
        commands += [value.split() for value in settings(SERVICE)[key]]
    ours = [command for command in commands if command[0].endswith("/counterd")]
    assert status == 0 and len(ours) >= 2
    for command in ours:
        assert command[0] == "/usr/sbin/counterd"  # "make install" replaces this path
        for flag in command[1:]:
            assert re.search(r"^  %s\b" % re.escape(flag), text, re.M), flag


@needs_counterd
def test_the_sockets_are_those_of_the_sample():
    text = run(servers.COUNTERD, "-h")[1]
    default = {
        name: re.search(r"^  %s\.port = (\d+)" % name, text, re.M).group(1)
        for name in ("poolcounter", "counter")
    }
    with open(os.path.join(SRCDIR, "conf", "counter.conf")) as f:
        assert "\ncounter.enable = true\n" in f.read()  # else a socket for it would be an error
    wanted = {"%s:%s" % (host, port) for host in ("127.0.0.1", "[::1]") for port in default.values()}
    assert set(settings(SOCKET)["ListenStream"]) == wanted


def test_the_user_is_the_one_that_sysusers_makes():
    user = settings(SERVICE)["User"]
    assert settings(SERVICE)["Group"] == user
    with open(SYSUSERS) as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    assert [line[:2] for line in lines] == [["u", user[0]]]


# --- system calls ----------------------------------------------------------------------------


def members(name):
    """The system calls of a set, including those of its subsets; for a call, its own name."""
    if not name.startswith("@"):
        return {name}
    status, text = run("systemd-analyze", "syscall-filter", "--no-pager", name)
    assert status == 0, text
    found = set()
    for line in text.splitlines():
        word = line.strip()
        if word and not word.startswith("#") and word != name:
            found |= members(word)
    return found


def allowed_calls():
    """The system calls that SystemCallFilter= of the service allows. The lines apply in order."""
    allowed = members("@default")
    for value in settings(SERVICE)["SystemCallFilter"]:
        for name in value.lstrip("~").split():
            allowed = allowed - members(name) if value.startswith("~") else allowed | members(name)
    return allowed


def calls_of(*lists):
    """The system calls in lists of src/daemon/sandbox.c."""
    with open(os.path.join(SRCDIR, "src", "daemon", "sandbox.c")) as f:
        source = f.read()
    found = [re.search(r"int %s\[\] = \{(.*?)\};" % name, source, re.S).group(1) for name in lists]
    return set(re.findall(r"CALL\((\w+)\)", "".join(found)))


@needs_analyze
def test_the_service_refuses_what_the_daemon_refuses_itself():
    """
    The calls that no thread of the daemon makes (security.sandbox), by the list in the source.
    """
    names = calls_of("never")
    assert len(names) > 50 and not names & allowed_calls(), names & allowed_calls()


@needs_analyze
def test_the_service_allows_what_threads_are_allowed():
    """Except for calls that this systemd does not know, of other machines or newer kernels."""
    names = calls_of("always_allowed", "accepting", "connecting", "opening", "looking", "writing")
    names |= {"seccomp", "capset", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
    refused = names & members("@known") - allowed_calls()
    assert len(names) > 80 and not refused, refused


def test_the_jobs_of_the_sample_are_in_the_folder_that_the_service_makes():
    with open(os.path.join(SRCDIR, "conf", "counter.conf")) as f:
        (path,) = re.findall(r"^jobs\.path = (\S+)$", f.read(), re.M)
    assert [os.path.dirname(path)] == ["/var/lib/" + name for name in settings(SERVICE)["StateDirectory"]]


@pytest.fixture
def confined():
    """A function that returns the words before a command that confine it to system calls."""
    if wire.SLOW:
        pytest.skip("a sanitizer makes system calls of its own")
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed, which knows the numbers of system calls")

    def words(calls):
        return [sys.executable, "-B", CONFINED, ",".join(sorted(calls))]

    try:
        everything = subprocess.run([*words(members("@known") | allowed_calls()), "true"], check=False)
    except OSError as e:
        pytest.skip(str(e))
    if everything.returncode != 0:
        pytest.skip("system calls can't be filtered here")
    return words


@needs_analyze
def test_confinement_works(confined, tmp_path):
    # Else the next test would prove nothing.
    calls = allowed_calls()
    assert run(*confined(calls), "cat", "/dev/null")[0] == 0
    assert run(*confined(calls), "chown", "0", str(tmp_path))[0] == -signal.SIGSYS
    assert {"mount", "setuid", "ptrace", "bpf", "setrlimit"}.isdisjoint(calls)


def ask_admin(address, path, token=None):
    """Returns the status of a GET, or of a POST if there is a token. Reads the whole answer."""
    request = urllib.request.Request(
        "http://%s:%d%s" % (address[0], address[1], path), method="POST" if token else "GET"
    )
    if token:
        request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=wire.DEADLINE) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as e:
        return e.code


@needs_analyze
def test_the_daemon_makes_no_system_call_that_the_service_refuses(start, confined, tmp_path):
    """Uses everything in the daemon. If it is killed, "strace -f" shows the call."""
    cert, key = certificates.Authority(tmp_path).issue("localhost")
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    calls = allowed_calls()
    if os.geteuid() == 0:
        calls.add("fchown")  # SQLite gives root's new files to the owner of the database
    daemon = start(
        "counter.threads=2",
        "tls.cert=" + cert,
        "tls.key=" + key,
        "poolcounter.tls_port=%d" % servers.free_port(),
        "poolcounter.socket=%s" % (tmp_path / "text.sock"),
        "counter.socket=%s" % (tmp_path / "binary.sock"),
        "pid_file=%s" % (tmp_path / "pid"),
        "admin.token_file=%s" % token,
        "limits.request_timeout=1",
        "jobs.enable=true",
        "jobs.port=0",
        "jobs.path=%s" % (tmp_path / "jobs.db"),
        prefix=confined(calls),
        admin=True,
    )
    assert daemon.status_field("Seccomp") == "2"
    with daemon.text_client() as one, daemon.text_client() as two, daemon.binary_client() as binary:
        assert one.ask("ACQ4ME k 1 2 5") == "LOCKED"
        two.say("ACQ4ME k 1 2 5")  # waits, maybe on another worker
        assert one.ask("RELEASE") == "RELEASED"
        assert two.line() == "LOCKED"
        binary.noop()
    for path in ("text.sock", "binary.sock"):
        with socket.socket(socket.AF_UNIX) as unix:
            unix.connect(str(tmp_path / path))
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with socket.create_connection(daemon.text_tls, timeout=wire.DEADLINE) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as tls:
            tls.sendall(b"ACQ4ME t 1 2 5\nRELEASE\n")
            assert tls.recv(7) == b"LOCKED\n"
    with socket.create_connection(daemon.text, timeout=wire.DEADLINE) as slow:
        slow.sendall(b"ACQ4")
        assert slow.recv(100) == b""  # it timed out
    for path in ("/healthz", "/metrics", "/", "/api/v1/stats", "/api/v1/config", "/api/v1/connections"):
        assert ask_admin(daemon.admin, path) == 200, path
    assert ask_admin(daemon.admin, "/api/v1/loglevel?level=debug", "t0ken") == 200
    assert ask_admin(daemon.admin, "/api/v1/reload", "t0ken") in (200, 409)
    assert ask_admin(daemon.admin, "/api/v1/connections/0.0.0/kill", "t0ken") == 404
    with daemon.job_client() as jobs:
        assert jobs.put(1000 * b"x") == 1
        assert jobs.ask("pause-tube default 9") == "PAUSED"
    daemon.reload()
    daemon.child.send_signal(signal.SIGUSR2)
    daemon.wait_log(r"stats: ")


if __name__ == "__main__":
    tap.main(__file__)
