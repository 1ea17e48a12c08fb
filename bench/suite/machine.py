"""What the figures were measured on: the machine, the versions of what is compared, its cores."""

import datetime
import os
import platform
import re
import resource
import subprocess
import time
from collections import namedtuple

# Where the server and the load run, and with how many workers and threads.
Layout = namedtuple("Layout", "name workers server_cpus load_cpus load_threads")


class Unfit(Exception):
    """This machine can't run the suite; the message says why."""


def two_cpus():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Unfit("two cores are needed: one for the server, one for the load")
    return cpus[:2]


def pinned():
    """One worker on a core of its own, the load on another one."""
    first, second = two_cpus()
    return Layout("pinned", 1, {first}, {second}, 1)


def free():
    """Two workers and two threads of load on the same two cores, as the kernel has it."""
    both = set(two_cpus())
    return Layout("free", 2, both, both, 2)


LAYOUTS = {"pinned": pinned, "free": free}

# The share of the cores that other processes may take before it is told of.
OTHERS_MAX = 0.05


def _busy_seconds(cpus):
    """How long these processors have not been idle, or have been kept from us, since the start."""
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
    Tells how much processes that have nothing to do with a measurement used of its processors
    meanwhile: `share`, 0 to 1. `used`: says the seconds that those that belong to it have used.
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


# What is compared, by Debian's names.
PACKAGES = ("poolcounter", "yrmcds", "redis-server", "memcached", "libevent-2.1-7", "libssl3", "gcc")


def raise_limits():
    """As many descriptors as one may have, for us and whatever we start; returns how many."""
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
    """Of the tree: its version, its commit where git knows it, and whether it has been changed."""
    release = _first_match(os.path.join(source, "configure.ac"), r"^AC_INIT\(\[.*?\], \[(.*?)\]\)")
    git = ["git", "-c", "safe.directory=" + source, "-C", source]
    commit = _said_by(*git, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return release
    # The results themselves do not count: writing them is what this is for.
    changed = _said_by(
        *git, "status", "--porcelain", "-uno", "--", ".", ":!bench/RESULTS.md", ":!bench/plots"
    )
    return "%s (commit %s%s)" % (release, commit, ", changed" if changed else "")


def today():
    return datetime.date.today().isoformat()


def facts(build):
    """Pairs of a label and what it is, for the report."""
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
