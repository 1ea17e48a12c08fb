"""
What the tests of client libraries share, which import it first: the paths of other modules, programs that must end
well, what READMEs say, and the URL of a daemon.
"""

import os
import re
import subprocess
import sys

TOP = os.path.abspath(os.environ.get("TOP_SRCDIR") or os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path[:0] = [os.path.join(TOP, "t", "system"), os.path.join(TOP, "clients"), os.path.join(TOP, "clients", "python")]

EXAMPLES = ("lock", "units", "member", "put", "worker")
JOBS = ("jobs.enable=true", "jobs.port=0")
POOL = ("pool.gpu.members=gpu0=/dev/nvidia0",)


def run(*command, folder=None, seconds=300, **env):
    """Runs a program, which must end with status 0. `env` is added to ours. Returns what it wrote."""
    done = subprocess.run(
        command, cwd=folder, env=dict(os.environ, **env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, "%s: status %d\n%s" % (command, done.returncode, done.stdout)
    return done.stdout


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def blocks(language, fence):
    """The parts of a library's README in its language."""
    return re.findall(r"```%s\n(.*?)```" % fence, read("clients", language, "README.md"), re.S)


def printed(language, path, link=None):
    """What the README says that an example prints, indented below a link to it."""
    head = re.escape("[`%s`](%s) prints\n\n" % (path, link or path))
    found = re.search(head + r"((?:    .*\n)+)", read("clients", language, "README.md"))
    return re.sub(r"^    ", "", found.group(1), flags=re.M)


def version():
    return re.search(r"AC_INIT\(\[counterd\], \[([\d.]+)\]", read("configure.ac")).group(1)


def url(daemon, **more):
    """The URL of all ports of a daemon, which waits long enough for a machine that stands still."""
    parameters = {"binary": daemon.binary[1], "connect_timeout": 20, "io_timeout": 20, **more}
    if daemon.jobs:
        parameters.setdefault("jobs", daemon.jobs[1])
    words = "&".join("%s=%s" % pair for pair in parameters.items())
    return "counter://127.0.0.1:%d?%s" % (daemon.text[1], words)


def add_gpu(daemon, member="gpu0 /dev/nvidia0"):
    """Adds the pool of the READMEs, with a member."""
    with daemon.text_client() as operator:
        assert operator.ask("POOL ADD gpu") == "OK"
        assert operator.ask("MEMBER ADD gpu %s type=a100" % member) == "OK"
