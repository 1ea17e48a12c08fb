"""
The environment of the measurements: the machine, the versions of all servers, the cores, and what
all processes that the suite starts have in common.
"""

import ctypes
import datetime
import os
import platform
import re
import resource
import signal
import subprocess
import time
from collections import namedtuple

# The processors of the server and of the load, and their numbers of workers and threads.
Layout = namedtuple("Layout", "name workers server_cpus load_cpus load_threads")


class Unfit(Exception):
    """This machine can't run the suite; the message says why."""


def two_cpus():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Unfit("two cores are needed: one for the server, one for the load")
    return cpus[:2]


def pinned():
    """One worker on one core, the load on another."""
    first, second = two_cpus()
    return Layout("pinned", 1, {first}, {second}, 1)


def free():
    """Two workers and two threads of load on the same two cores, scheduled by the kernel."""
    both = set(two_cpus())
    return Layout("free", 2, both, both, 2)


LAYOUTS = {"pinned": pinned, "free": free}

# Report other processes that use more than this share of the cores.
OTHERS_MAX = 0.05


def _busy_seconds(cpus):
    """Seconds since boot that these processors were busy or taken by the hypervisor."""
    wanted = {"cpu%d" % cpu for cpu in cpus}
    ticks = 0
    with open("/proc/stat") as f:
        for line in f:
            name, *spent = line.split()
            if name in wanted:
                user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, spent[:8])
                ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


class Others:
    """
    Measures the `share` (0 to 1) of the processors that unrelated processes used during a
    measurement. `used`: returns the seconds that the related processes have used.
    """

    def __init__(self, cpus, used):
        self._cpus = cpus
        self._used = used
        self.share = 0.0

    def __enter__(self):
        self._begun = time.monotonic()
        self._busy, self._ours = _busy_seconds(self._cpus), self._used()
        return self

    def __exit__(self, *exception):
        available = (time.monotonic() - self._begun) * len(self._cpus)
        others = _busy_seconds(self._cpus) - self._busy - (self._used() - self._ours)
        self.share = min(1.0, max(0.0, others / available))


# The compared servers, by the names of their Debian packages.
PACKAGES = ("poolcounter", "yrmcds", "redis-server", "beanstalkd", "libevent-2.1-7", "libssl3", "gcc")


def raise_limits():
    """Raises the limit of descriptors for us and our children. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (65536, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
            return wanted
        except (ValueError, OSError):
            pass
    return soft


def _first_match(path, pattern):
    try:
        with open(path) as f:
            found = re.search(pattern, f.read(), re.M)
    except OSError:
        found = None
    return found.group(1) if found else "?"


def _said_by(*argv, cwd=None):
    try:
        done = subprocess.run(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def version(source):
    """The source tree's version, its commit if git knows it, and if it was changed."""
    release = _first_match(os.path.join(source, "configure.ac"), r"^AC_INIT\(\[.*?\], \[(.*?)\]\)")
    git = ["git", "-c", "safe.directory=" + source, "-C", source]
    commit = _said_by(*git, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return release
    # Results do not count as a change: the suite writes them.
    changed = _said_by(
        *git, "status", "--porcelain", "-uno", "--", ".", ":!bench/RESULTS.md"
    )
    return "%s (commit %s%s)" % (release, commit, ", changed" if changed else "")


def today():
    return datetime.date.today().isoformat()


def facts(build):
    """Pairs of label and value, for the report."""
    memory = _first_match("/proc/meminfo", r"^MemTotal:\s+(\d+) kB")
    flags = _first_match("/proc/cpuinfo", r"^flags\s*:(.*)")
    cpu = _first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)")
    rows = [
        ("processor", "%s, %d cores" % (cpu, len(os.sched_getaffinity(0)))),
        ("memory", "%.0f GiB" % (int(memory) / 1048576) if memory != "?" else "?"),
        ("kernel", "%s %s%s" % (
            platform.system(), platform.release().split("-")[0],
            ", in a virtual machine" if " hypervisor" in flags else "",
        )),
        ("huge pages", _first_match("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]")),
        ("compiled with", _first_match(os.path.join(build, "Makefile"), r"^CFLAGS = (.*)")),
    ]  # fmt: skip
    for package in PACKAGES:
        found = _said_by("dpkg-query", "-W", "-f=${Version}", package)
        rows.append((package, found or "not installed"))
    return rows


_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def in_child(cpus=None):
    """
    What a child does first. It gets its own session, so that Ctrl-C reaches only us, and we end it.
    The kernel kills it when we are killed. With `cpus` it runs only on these processors.
    """

    def begin():
        os.setsid()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if cpus is not None:
            os.sched_setaffinity(0, cpus)

    return begin


def cpu_ns(pid):
    """Processor time used by all threads of a process."""
    used = 0
    folder = "/proc/%d/task" % pid
    for task in os.listdir(folder):
        try:
            with open("%s/%s/schedstat" % (folder, task)) as f:
                used += int(f.read().split()[0])
        except FileNotFoundError:
            pass
    return used


def cpu_of_ended():
    """Processor seconds of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
