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
import subprocess

import tap
import pytest

import confined
import servers
from confined import allowed_calls, members, settings

SRCDIR = os.environ.get("TOP_SRCDIR", os.path.join(os.path.dirname(__file__), "..", ".."))
UNITS = os.path.join(SRCDIR, "conf", "systemd")
SERVICE = os.path.join(UNITS, "counterd.service")
SOCKET = os.path.join(UNITS, "counterd.socket")
SYSUSERS = os.path.join(SRCDIR, "conf", "sysusers", "counterd.conf")
EXPOSURE_MAX = 1.5  # systemd's rating: 0 is fully confined, 10 not at all


def run(*argv):
    """Returns the exit status, and output and errors together."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


needs_analyze = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed (package systemd)"
)
needs_counterd = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


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
    (status, text), commands = run(servers.COUNTERD, "-h"), []
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
        name: re.search(r"^  %s\.port = (\d+)" % name, text, re.M).group(1) for name in ("poolcounter", "counter")
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
    assert len(names) > 50 and not names & allowed_calls(SERVICE), names & allowed_calls(SERVICE)


@needs_analyze
def test_the_service_allows_what_threads_are_allowed():
    """Except for calls that this systemd does not know, of other machines or newer kernels."""
    names = calls_of("always_allowed", "accepting", "connecting", "opening", "looking", "writing")
    names |= {"seccomp", "capset", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
    refused = names & members("@known") - allowed_calls(SERVICE)
    assert len(names) > 80 and not refused, refused


def test_the_jobs_of_the_sample_are_in_the_folder_that_the_service_makes():
    with open(os.path.join(SRCDIR, "conf", "counter.conf")) as f:
        (path,) = re.findall(r"^jobs\.path = (\S+)$", f.read(), re.M)
    assert [os.path.dirname(path)] == ["/var/lib/" + name for name in settings(SERVICE)["StateDirectory"]]


@needs_analyze
def test_confinement_works(tmp_path):
    """Else the mode `service` of stories (t/scenario/daemon.py) would prove nothing."""
    if not confined.works():
        pytest.skip("system calls can't be filtered here")
    assert run(*confined.words(SERVICE), "cat", "/dev/null")[0] == 0
    assert run(*confined.words(SERVICE), "chroot", str(tmp_path))[0] == -signal.SIGSYS
    assert {"mount", "setuid", "ptrace", "bpf", "setrlimit"}.isdisjoint(allowed_calls(SERVICE))


if __name__ == "__main__":
    tap.main(__file__)
