"""What the tests of client libraries share: programs that must end well, and the URL of a daemon."""

import os
import subprocess

EXAMPLES = ("lock", "units", "member", "put", "worker")
JOBS = ("jobs.enable=true", "jobs.port=0")
POOL = ("pool.gpu.members=gpu0=/dev/nvidia0",)


def run(*command, folder=None, seconds=300, **env):
    """Runs a program, which must end with status 0. `env` is added to ours. Returns what it wrote."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(os.environ, **env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, "%s: status %d\n%s" % (command, done.returncode, done.stdout)
    return done.stdout


def url(daemon, **more):
    """The URL of all ports of a daemon, which waits long enough for a machine that stands still."""
    parameters = {"binary": daemon.binary[1], "connect_timeout": 20, "io_timeout": 20, **more}
    if daemon.jobs:
        parameters.setdefault("jobs", daemon.jobs[1])
    words = "&".join("%s=%s" % pair for pair in parameters.items())
    return "counter://127.0.0.1:%d?%s" % (daemon.text[1], words)
