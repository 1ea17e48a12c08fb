"""
What the daemon gives up, seen from outside, and machines where it can't. What each kind of thread may still do:
t/unit/daemon/sandbox_test.c.
"""

import errno
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import urllib.request

import tap
import pytest

import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


@pytest.fixture
def confined(start):
    """
    Skips the test where threads can't be confined (a sanitizer, a kernel without filters), after a
    check that the daemon logs it.
    """
    daemon = start("counter.threads=1")
    if "not confined" in daemon.log:
        assert re.search(r"info: security.sandbox: threads are not confined: ", daemon.log)
        pytest.skip("threads can't be confined here")


def fields(daemon, task=None):
    """The fields of a thread's /proc/PID/status."""
    with open("/proc/%d/task/%s/status" % (daemon.pid, task or daemon.pid)) as f:
        return dict(re.findall(r"^(\w+):\s*(.*)$", f.read(), re.M))


CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")


# --- given up ------------------------------------------------------------------------------------


def test_every_thread_has_given_up_its_rights(start, confined, tmp_path):
    jobs = "jobs.enable=true", "jobs.port=0", "jobs.path=%s/jobs.db" % tmp_path
    daemon = start("counter.threads=2", *jobs, admin=True)
    tasks = [fields(daemon, task) for task in os.listdir("/proc/%d/task" % daemon.pid)]
    outside = int(fields_of_self().get("Seccomp_filters", 0))
    assert sorted(task["Name"] for task in tasks) == ["admin", "counterd", "job store", "worker 0", "worker 1"]
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


@pytest.mark.parametrize("option", ["admin.token", "admin.token_file"])
def test_a_token_is_not_kept(start, tmp_path, option):
    tokens = secrets.token_hex(20), secrets.token_hex(20)
    config, file = tmp_path / "counter.conf", tmp_path / "token"

    def give(token):
        file.write_text(token + "\n")
        value = token if option == "admin.token" else file
        config.write_text("#" + 3000 * "-" + "\n%s = %s\n" % (option, value))

    give(tokens[0])
    daemon = start(args=("-f", str(config)), admin=True)
    try:
        assert occurrences(daemon, str(config)) > 0
    except PermissionError:
        pytest.skip("others' memory can't be read here")
    assert occurrences(daemon, tokens[0]) == 0
    give(tokens[1])
    assert "token has changed" in daemon.reload()
    assert occurrences(daemon, tokens[0]) == occurrences(daemon, tokens[1]) == 0


# --- machines without a sandbox ------------------------------------------------------------------


def without_call(name, error):
    """The words before a command that make this system call fail."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed, which knows the numbers of system calls")
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "confined.py")
    return [sys.executable, "-B", program, "%s=%d" % (name, error)]


@pytest.fixture
def without(confined):
    """The words before a command that make the kernel seem to have no filters."""
    return without_call("seccomp", errno.ENOSYS)


def test_asked_for_by_name_it_is_had_or_an_error(confined, without):
    argv = [servers.COUNTERD, "-o", "poolcounter.port=0", "-o", "admin.port=0", "-o", "security.sandbox=true"]
    for more in ([], ["-t"]):
        done = subprocess.run(
            [*without, *argv, *more], stdin=subprocess.DEVNULL, capture_output=True, timeout=wire.DEADLINE, check=False
        )
        said = done.stderr.decode()
        assert done.returncode == 2, said
        assert re.search("security.sandbox: .*can't filter system calls: .*; .*false", said), said
    assert subprocess.run([*argv, "-t"], capture_output=True, timeout=wire.DEADLINE, check=False).returncode == 0


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
