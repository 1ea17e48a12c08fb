"""Runs counterctl to its end."""

import json
import os
import subprocess
from collections import namedtuple

import wire

COUNTERCTL = os.environ.get("COUNTERCTL", "")

Done = namedtuple("Done", "status out err")


def have_counterctl():
    """True if there is a client to test; like servers.have_counterd."""
    return bool(COUNTERCTL)


def at(address):
    """Returns the address in counterctl's form."""
    if isinstance(address, str):
        return "unix:" + address
    host, port = address[:2]
    return ("[%s]:%d" if ":" in host else "%s:%d") % (host, port)


def environment(extra=None):
    """The environment, without variables that name a server."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("COUNTER_")}
    env.pop("COLUMNS", None)
    env["LC_ALL"] = "C.UTF-8"
    env.update(extra or {})
    return env


def check_sane(err):
    assert "Sanitizer" not in err and "runtime error" not in err and "CHECK" not in err, err


def run(*args, stdin=b"", env=None, cwd=None):
    """Runs counterctl to its end."""
    done = subprocess.run(
        [COUNTERCTL, *args],
        input=stdin,
        capture_output=True,
        timeout=wire.DEADLINE * 2,
        env=environment(env),
        cwd=cwd,
        check=False,
    )
    result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
    check_sane(result.err)
    return result


def run_json(*args, **kwargs):
    """Returns the JSON that a command prints, and its exit status."""
    done = run(*args, **kwargs)
    return json.loads(done.out), done.status
