"""Runs the two programs that measure: counterbench against a server, engine_bench without one.

A result is the JSON that they print, plus "others", the share of the processors used by unrelated
processes. The result of a failed run has "failed", a text that says why.
"""

import contextlib
import json
import os
import subprocess

import machine
from machine import cpu_ns, cpu_of_ended, in_child

# Extra seconds beyond the time of a run: to connect, to fill a server with names, to end.
SPARE = 90.0

# The share of requests that may fail in a valid run; the report mentions them.
ERRORS_MAX = 0.01


class Load:
    """A workload of counterbench with its options: Load("pairs", "text", c=50, d=1)."""

    def __init__(self, workload, protocol, tls=False, timed=True, **options):
        self.workload = workload
        self.protocol = protocol
        self.tls = tls
        self.timed = timed  # False: it ends by itself
        self.options = options

    @property
    def family(self):
        """The family of the server's address to use."""
        family = self.protocol.rpartition("echo-")[2]
        return family + "+tls" if self.tls else family

    def arguments(self):
        """The options for the command line, without address, threads and times."""
        argv = [self.workload, "-p", self.protocol]
        for name, value in self.options.items():
            argv += ["-" + name if len(name) == 1 else "--" + name.replace("_", "-"), str(value)]
        return argv + (["--tls"] if self.tls else [])


def _result(argv, seconds, cpus=None):
    """Runs a program that prints a result. Returns the result, or an object with "failed"."""
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=in_child(cpus),
    )
    try:
        out, err = child.communicate(timeout=seconds + SPARE)
    except subprocess.TimeoutExpired:
        return {"failed": "it did not end within %g s" % (seconds + SPARE)}
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
    return judged(json.loads(out or "{}"), child.returncode, err.strip()[-500:])


def judged(result, status, said):
    """The result, with "failed" added if it is not valid."""
    if status == 0 and result:
        return result
    if status == 1 and 0 < result.get("errors", 0) <= result.get("requests", 0) * ERRORS_MAX:
        result["said"] = said
        return result
    if status == 0:
        return {"failed": "it printed no JSON"}
    return dict(result, failed="exit status %d: %s" % (status, said))


def run(build, load, server, seconds, warmup):
    """Runs counterbench once against a running server. Returns the result."""
    layout = server.layout
    argv = [os.path.join(build, "counterbench"), *load.arguments()]
    for address in server.addresses(load.family):
        argv += ["--target", address]
    for _, pid in server.parts:
        argv += ["--pid", str(pid)]
    argv += ["--threads", str(layout.load_threads), "--quiet", "--json"]
    if load.timed:
        argv += ["--seconds", "%g" % seconds, "--warmup", "%g" % warmup]
    with machine.Others(
        layout.server_cpus | layout.load_cpus,
        lambda: sum(cpu_ns(pid) for _, pid in server.parts) / 1e9 + cpu_of_ended(),
    ) as others:
        result = _result(argv, seconds + warmup, layout.load_cpus)
    return dict(by_part(result, server.parts), others=others.share)


@contextlib.contextmanager
def beside(build, load, server):
    """Runs a load while the block runs. None: nothing."""
    if not load:
        yield
        return
    argv = [os.path.join(build, "counterbench"), *load.arguments(), "--quiet"]
    for address in server.addresses(load.family):
        argv += ["--target", address]
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, preexec_fn=in_child(server.layout.load_cpus))  # fmt: skip
    try:
        yield
        if child.poll() is not None:
            raise RuntimeError("the load beside it has ended: status %d" % child.returncode)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()


def by_part(result, parts):
    """The result, with the CPU time of each kind of process: "engine", "nodes"."""
    each = result.get("servers") or [result.get("server", {})]
    for (part, _), used in zip(parts, each):
        if part != "server":
            of = result.setdefault(part, {})
            for key in "cpu_us_per_request", "cpu_us_per_operation":
                of[key] = of.get(key, 0) + used.get(key, 0)
    return result


def run_engine(build, names, threads):
    """Runs engine_bench for one figure. Returns the result."""
    argv = [os.path.join(build, "bench", "engine_bench"), str(names), str(threads)]
    with machine.Others(machine.two_cpus(), cpu_of_ended) as others:
        result = _result(argv, 0)
    return dict(result, others=others.share)
