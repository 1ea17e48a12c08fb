"""What the daemon gives up, seen from outside.

The program "misbehaving" is the daemon, but a request makes the thread that serves it open a file,
execute a shell or connect to another address. When confined, the kernel kills it for that; when not
confined, it survives, which shows that these tests can fail.
"""

import errno
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

import tap
import pytest

import servers
import wire

# In the build folder of the daemon under test.
MISBEHAVING = os.path.join(os.path.dirname(servers.COUNTERD), "t", "system", "misbehaving")

# When confined, each of these ends the process.
KILLED_FOR = [
    "open",
    "write",
    "system",
    "exec",
    "fork",
    "thread",
    "connect",
    "listen",
    "shut-listener",
    "fastopen",
    "give-descriptor",
    "make-code",
    "map-code",
    "trace",
    "kill",
    "tgkill",
    "ask-upgrade",
]
# Libraries do these without an attack, or might. They may be refused, but must not kill.
HARMLESS = ["name", "unknown", "datagrams", "stat", "memory"]
# The last message before the process ends by SIGABRT.
LAST_WORDS = {"check": r"check failed: getpid\(\) == 0", "free-twice": r"double free|free\(\)"}

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


@pytest.fixture
def misbehave(start, monkeypatch):
    """
    Starts the misbehaving daemon, confined or not, and makes it do one thing. A client is connected
    to its unix socket.
    """
    monkeypatch.setattr(servers, "COUNTERD", MISBEHAVING)
    accomplices = []

    def act(what, *options, thread="worker"):
        path = "@misbehaving-%d-%d" % (os.getpid(), len(accomplices))
        daemon = start("counter.threads=1", "poolcounter.socket=" + path, *options, admin=True)
        daemon.is_expected_to_be_gone = True
        accomplice = socket.socket(socket.AF_UNIX)
        accomplices.append(accomplice)
        accomplice.connect("\0" + path[1:])
        accomplice.sendall(b"RELEASE\n")
        assert accomplice.recv(100) == b"NOT_LOCKED\n"
        if thread == "worker":
            client = daemon.text_client()
            client.say("MISBEHAVE " + what)
        else:
            client = socket.create_connection(daemon.admin, timeout=wire.DEADLINE)
            client.sendall(b"GET /misbehave/%s HTTP/1.0\r\n\r\n" % what.encode())
        daemon.wait_log("^misbehaving: %s$" % what)
        return daemon

    yield act
    for accomplice in accomplices:
        accomplice.close()


def is_confined(daemon):
    return "not confined" not in daemon.log


@pytest.fixture
def confined(start):
    """
    Skips the test where threads can't be confined (a sanitizer, a kernel without filters), after a
    check that the daemon logs it.
    """
    daemon = start("counter.threads=1")
    if not is_confined(daemon):
        assert re.search(r"info: security.sandbox: threads are not confined: ", daemon.log)
        pytest.skip("threads can't be confined here")


def fields(daemon, task=None):
    """The fields of a thread's /proc/PID/status."""
    with open("/proc/%d/task/%s/status" % (daemon.pid, task or daemon.pid)) as f:
        return dict(re.findall(r"^(\w+):\s*(.*)$", f.read(), re.M))


CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")


# --- given up ------------------------------------------------------------------------------------


def test_every_thread_has_given_up_its_rights(start, confined):
    daemon = start("counter.threads=2", admin=True)
    tasks = [fields(daemon, task) for task in os.listdir("/proc/%d/task" % daemon.pid)]
    outside = int(fields_of_self().get("Seccomp_filters", 0))
    assert sorted(task["Name"] for task in tasks) == ["admin", "counterd", "worker 0", "worker 1"]
    for task in tasks:
        assert [int(task[name], 16) for name in CAPABILITIES] == [0, 0, 0, 0], task
        assert task["NoNewPrivs"] == "1" and task["Seccomp"] == "2", task
        if "Seccomp_filters" in task:  # kernels since 5.9
            wanted = 1 if task["Name"] == "counterd" else 2
            assert int(task["Seccomp_filters"]) == outside + wanted, task


def fields_of_self():
    with open("/proc/self/status") as f:
        return dict(re.findall(r"^(\w+):\s*(.*)$", f.read(), re.M))


def test_false_leaves_all_as_it_was(start):
    daemon = start("security.sandbox=false")
    ours, its = fields_of_self(), fields(daemon)
    for name in (*CAPABILITIES, "NoNewPrivs", "Seccomp"):
        assert its[name] == ours[name], name


@pytest.mark.skipif(os.geteuid() != 0, reason="root's rights are needed to be given up")
def test_a_capability_held_at_the_start_is_given_up(start, confined):
    """
    The capability of a unit with AmbientCapabilities=CAP_NET_BIND_SERVICE, for a port below 1024.
    """
    hold = as_nobody("--inh-caps=-all,+net_bind_service", "--ambient-caps=-all,+net_bind_service")
    held = subprocess.run([*hold, "cat", "/proc/self/status"], capture_output=True, check=True)
    assert re.search(rb"^CapEff:\s*0*400$", held.stdout, re.M)
    port = next((p for p in range(1000, 600, -1) if is_free(p)), None)
    daemon = start("poolcounter.port=%d" % port, "poolcounter.listen=127.0.0.1", prefix=hold)
    assert daemon.text == ("127.0.0.1", port)
    assert [int(fields(daemon)[name], 16) for name in CAPABILITIES] == [0, 0, 0, 0]


def as_nobody(*more):
    """The words before a command that execute it as a user other than root."""
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *more]
    look = ["test", "-x", servers.COUNTERD, "-a", "-r", os.path.abspath(__file__)]
    if subprocess.run([*become, *look], check=False).returncode != 0:
        pytest.skip("nobody else can execute the daemon here, or rights can't be handed over")
    return become


def is_free(port):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_is_given_up_with_all_that_it_may(start, confined):
    daemon = start("user=nobody")
    its = fields(daemon)
    assert set(its["Uid"].split()) != {"0"} and "warning: running as root" not in daemon.log
    assert [int(its[name], 16) for name in CAPABILITIES] == [0, 0, 0, 0]
    assert "warning: running as root" in start().log


# A sanitizer's shadow memory is terabytes, nearly all unmapped. The daemon's own mappings are
# smaller.
SHADOW_BYTES = 1 << 30


def occurrences(daemon, text):
    """How often `text` occurs in the daemon's memory."""
    count = 0
    with open("/proc/%d/maps" % daemon.pid) as maps, open("/proc/%d/mem" % daemon.pid, "rb") as memory:
        for line in maps:
            begin, end, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            size = int(end, 16) - int(begin, 16)
            if "r" in rights and "[v" not in line and size < SHADOW_BYTES:  # "[v": kernel memory
                memory.seek(int(begin, 16))
                count += memory.read(size).count(text.encode())
    return count


def test_a_token_from_a_file_is_not_kept(start, tmp_path):
    first, second = secrets.token_hex(20), secrets.token_hex(20)
    path = tmp_path / "token"
    path.write_text(first + "\n")
    daemon = start("admin.token_file=%s" % path, admin=True)
    try:
        assert occurrences(daemon, str(path)) > 0
    except PermissionError:
        pytest.skip("others' memory can't be read here")
    assert occurrences(daemon, first) == 0
    path.write_text(second + "\n")
    assert "the token has changed" in daemon.reload()
    assert occurrences(daemon, first) == occurrences(daemon, second) == 0


def test_a_token_from_the_configuration_is_not_kept(start, tmp_path):
    first, second = secrets.token_hex(20), secrets.token_hex(20)
    path = tmp_path / "counter.conf"
    path.write_text("#" + 3000 * "-" + "\nadmin.token = %s\n" % first)
    daemon = start(args=("-f", str(path)), admin=True)
    try:
        assert occurrences(daemon, str(path)) > 0
    except PermissionError:
        pytest.skip("others' memory can't be read here")
    assert occurrences(daemon, first) == 0
    path.write_text("admin.token = %s\n" % second)
    assert "admin.token has changed" in daemon.reload()
    assert occurrences(daemon, first) == occurrences(daemon, second) == 0


# --- machines without a sandbox ------------------------------------------------------------------


def run(*args):
    argv = [servers.COUNTERD, "-o", "poolcounter.port=0", "-o", "admin.port=0", *args]
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=wire.DEADLINE,
        check=False,
    )
    return done.returncode, done.stdout.decode()


# Executes argv[4:]; its system call argv[2] fails with the error argv[3].
_WITHOUT = """
import ctypes, os, struct, sys
sys.path.insert(0, sys.argv[1])
import confined
number, error = confined.call_numbers()[sys.argv[2]], int(sys.argv[3])
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x00050000 | error), (6, 0, 0, 0x7fff0000)]
code = b"".join(struct.pack("=HBBI", *step) for step in steps)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
program = confined.Program(len(steps), code)
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execvp(sys.argv[4], sys.argv[4:])
"""


def without_call(name, error):
    """The words before a command that make this system call fail."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed, which knows the numbers of system calls")
    here = os.path.dirname(os.path.abspath(__file__))
    return [sys.executable, "-B", "-c", _WITHOUT, here, name, str(error)]


@pytest.fixture
def without(confined):
    """The words before a command that make the kernel seem to have no filters."""
    return without_call("seccomp", errno.ENOSYS)


def test_asked_for_by_name_it_is_had_or_an_error(without):
    argv = [*without, servers.COUNTERD, "-o", "poolcounter.port=0", "-o", "admin.port=0"]
    for more in (["-o", "security.sandbox=true"], ["-o", "security.sandbox=true", "-t"]):
        done = subprocess.run(
            argv + more, stdin=subprocess.DEVNULL, capture_output=True, timeout=wire.DEADLINE, check=False
        )
        said = done.stderr.decode()
        assert done.returncode == 2, said
        assert re.search("security.sandbox: .*can't filter system calls: .*; .*false", said), said


def test_by_default_it_does_without(start, without):
    daemon = start(prefix=without)
    daemon.wait_log("info: security.sandbox: threads are not confined: .*can't filter")
    assert [int(fields(daemon)[name], 16) for name in CAPABILITIES] == [0, 0, 0, 0]
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 2 5") == "LOCKED"


def test_who_has_no_capabilities_needs_no_right_to_give_them_up(start, confined):
    """As under a unit with SystemCallFilter=~@privileged."""
    prefix = without_call("capset", errno.EPERM)
    if os.geteuid() == 0:
        prefix = as_nobody() + prefix
    daemon = start(prefix=prefix)
    assert [int(fields(daemon)[name], 16) for name in CAPABILITIES] == [0, 0, 0, 0]
    assert fields(daemon)["Seccomp"] == "2"


def test_the_check_of_a_configuration_knows_it(confined):
    assert run("-o", "security.sandbox=true", "-t")[0] == 0


# --- misbehaviour --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thread, what",
    [("worker", what) for what in KILLED_FOR] + [("admin", what) for what in ("open", "exec", "connect", "fastopen", "give-descriptor")],
)
def test_misbehaving_is_the_end(misbehave, confined, thread, what):
    daemon = misbehave(what, thread=thread)
    assert daemon.wait() == -signal.SIGSYS, daemon.log
    assert "misbehaving: %s: " % what not in daemon.log


def all_done(daemon, acts):
    """Checks that the daemon keeps running after each of them."""
    with daemon.text_client() as client:
        for what in acts:
            assert client.ask("MISBEHAVE " + what) == "ERROR BAD_COMMAND"
            daemon.wait_log("^misbehaving: %s: done$" % what)
    daemon.stop()


@pytest.mark.parametrize("thread", ["worker", "admin"])
def test_not_confined_the_same_goes_through(misbehave, thread):
    daemon = misbehave("open", "security.sandbox=false", thread=thread)
    all_done(daemon, [what for what in KILLED_FOR if what != "exec"])


def test_not_confined_it_becomes_another_program(misbehave):
    assert misbehave("exec", "security.sandbox=false").wait() == 42


@pytest.mark.parametrize("thread", ["worker", "admin"])
def test_what_libraries_do_is_no_end(misbehave, confined, thread):
    all_done(misbehave(HARMLESS[0], thread=thread), HARMLESS)


def test_memory_is_given_back_whatever_is_set_for_that(misbehave, confined, monkeypatch):
    """After the first large free, the C library reads the kernel's overcommit setting."""
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", str(8 << 20))
    all_done(misbehave("memory"), ["memory"])


@pytest.mark.parametrize("what", sorted(LAST_WORDS))
def test_last_words_are_heard(misbehave, confined, what):
    daemon = misbehave(what)
    assert daemon.wait() == -signal.SIGABRT, daemon.log
    assert re.search(LAST_WORDS[what], daemon.log), daemon.log


# --- normal work ---------------------------------------------------------------------------------


def test_metrics_still_tell_of_the_process(start, confined):
    daemon = start("counter.threads=1", admin=True)

    def metric(name):
        with urllib.request.urlopen("http://%s:%d/metrics" % daemon.admin, timeout=wire.DEADLINE) as page:
            return float(re.search(r"^%s (\S+)$" % name, page.read().decode(), re.M).group(1))

    before = metric("process_open_fds")
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 2 5") == "LOCKED"
        assert metric("process_open_fds") == before + 1
    assert abs(metric("process_resident_memory_bytes") / 1024 - daemon.resident_kib()) < 8192
    with open("/proc/%d/stat" % daemon.pid) as f:
        ticks = float(f.read().rpartition(")")[2].split()[19])
    with open("/proc/stat") as f:
        boot = float(re.search(r"^btime (\d+)$", f.read(), re.M).group(1))
    started = boot + ticks / os.sysconf("SC_CLK_TCK")
    assert abs(metric("process_start_time_seconds") - started) < 20


if __name__ == "__main__":
    tap.main(__file__)
