"""
./dev bench clients: what a call of the client libraries costs the program that makes it, beside a bare socket
with the same bytes, beside other clients, and with TLS. Writes bench/CLIENTS.md.

Each subject is a process that stays. A round has each make so many calls, one subject after the other,
every second round in reverse order. Ratios are taken within a round.
"""

import argparse
import json
import os
import platform
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.dont_write_bytecode = True
os.environ.setdefault("TOP_BUILDDIR", os.path.join(TOP, "build"))
sys.path[:0] = [os.path.join(TOP, "t", "system"), os.path.join(TOP, "t", "clients")]

import certificates
import npm_modules
import servers
import wire

BUILD = os.environ["TOP_BUILDDIR"]
OUT = os.path.join(BUILD, "bench", "clients")
LIBRARIES = {
    name: os.environ.get("COUNTERD_" + name.upper()) or os.path.join(TOP, "clients", name)
    for name in ("python", "php", "node", "go")
}
C, GO = [os.path.join(BUILD, "bench", "clients", "calls")], [os.path.join(OUT, "go", "calls")]
PYTHON, PHP = ["/usr/bin/python3", "-B", os.path.join(HERE, "calls.py")], ["php", os.path.join(HERE, "calls.php")]
NODE = ["node", os.path.join(HERE, "calls.mjs")]
ALL, JOBS = ("lock", "put", "claim"), ("put", "claim")
SILENT = 300  # s that a subject may take for a round
LIBRARY = ("c", "go", "sync", "aio", "node", "php")  # these are also measured with TLS
SUBJECTS = {  # command, calls, what it is
    "bare-c": (C, ALL, "C, bare `send` and `recv`"),
    "c": (C, ALL, "C, `libcounter`"),
    "bare-go": (GO, ALL, "Go, bare `Write` and `Read`"),
    "go": (GO, ALL, "Go, `counterd`"),
    "bare": (PYTHON, ALL, "Python, bare socket"),
    "sync": (PYTHON, ALL, "Python, `counterd`"),
    "redis": (PYTHON, ("lock",), "Python, redis-py with a semaphore in Lua"),
    "bare-aio": (PYTHON, ALL, "asyncio, bare streams"),
    "aio": (PYTHON, ALL, "asyncio, `counterd.aio`"),
    "redis-aio": (PYTHON, ("lock",), "asyncio, redis-py with a semaphore in Lua"),
    "bare-node": (NODE, ALL, "Node, bare `net` socket"),
    "node": (NODE, ALL, "Node, `counterd`"),
    "ioredis": (NODE, ("lock",), "Node, ioredis with a semaphore in Lua"),
    "jackd": (NODE, JOBS, "Node, jackd"),
    "bare-php": (PHP, ALL, "PHP, bare stream"),
    "php": (PHP, ALL, "PHP, `Counterd`"),
    "pheanstalk": (PHP, JOBS, "PHP, pheanstalk"),
}
SUBJECTS = {
    name + end: (command, calls, title + (end and ", TLS"))
    for name, (command, calls, title) in SUBJECTS.items()
    for end in ("", "-tls")
    if not end or name in LIBRARY
}
CALLS = {"lock": "lock and release", "put": "put of 100 bytes", "claim": "claim and ack"}
GOALS = [  # subject, beside, at most
    ("c", "bare-c", 1.15),
    ("go", "bare-go", 1.15),
    ("sync", "bare", 1.3),
    ("sync", "redis", 1.1),
    ("aio", "bare-aio", 1.3),
    ("aio", "redis-aio", 1.1),
    ("node", "bare-node", 1.3),
    ("node", "ioredis", 1.1),
    ("node", "jackd", 1.1),
    ("php", "bare-php", 1.3),
    ("php", "pheanstalk", 1.1),
]


class Subject:
    def __init__(self, name, arguments, env):
        self.name, (command, self.calls, _) = name, SUBJECTS[name]
        self.child = subprocess.Popen(command + [name.removesuffix("-tls")] + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      env=env, text=True, preexec_fn=lambda: on_core(0))  # fmt: skip
        self.answer()

    def answer(self):
        if not select.select([self.child.stdout], [], [], SILENT)[0]:
            raise SystemExit("bench clients: %s does not end its calls" % self.name)
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit("bench clients: %s ended with %s" % (self.name, self.child.wait()))
        return json.loads(line)

    def run(self, call, count, tube):
        """Microseconds of time and of processor for a call."""
        self.child.stdin.write("%s %d %s\n" % (call, count, tube))
        self.child.stdin.flush()
        got = self.answer()
        return got["seconds"] / count * 1e6, got["cpu"] / count * 1e6

    def end(self):
        self.child.stdin.close()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def on_core(number):
    """Programs that make calls have one processor, servers the other, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[number]})


def make_programs(subjects):
    """Builds the Go program below the build folder. Returns the folder of what npm has, if one is asked for that."""
    if any(SUBJECTS[name][0] is GO for name in subjects):
        folder, module = os.path.dirname(GO[0]), "example.org/counterd/clients/go"
        os.makedirs(folder, exist_ok=True)
        shutil.copy(os.path.join(HERE, "calls.go"), folder)
        with open(os.path.join(folder, "go.mod"), "w") as f:
            f.write("module calls\n\ngo 1.19\n\nrequire %s v0.0.0\n\n" % module)
            f.write("replace %s => %s\n" % (module, LIBRARIES["go"]))
        env = dict(os.environ, GOFLAGS="", GO111MODULE="on", GOPROXY="off", GOWORK="off")
        env["GOCACHE"] = os.path.join(BUILD, "go-cache")
        subprocess.run(["go", "build", "-o", "calls", "."], cwd=folder, env=env, check=True)
    return npm_modules.installed() if {"ioredis", "jackd"}.intersection(subjects) else ""


def fill(daemon, tube, count):
    """Puts so many jobs."""
    record = b"1024 0 60 100\r\n" + b"x" * 100 + b"\r\n"
    with daemon.job_client() as client:
        while count:
            part = min(count, 1000)
            client.send(b"put-batch %s %d %d\r\n%s\r\n" % (tube.encode(), part, part * len(record), record * part))
            line, _ = client.job()
            if not line.startswith("OK "):
                raise SystemExit("bench clients: put-batch: " + line)
            count -= part


def measure(daemon, subjects, calls, rounds, count):
    """Pairs of time and processor of each round, by call and subject."""
    results = {}
    for call in calls:
        able = [subject for subject in subjects if call in subject.calls]
        for number in range(-1, rounds):  # the first is to warm up
            made = count // 5 if number < 0 else count
            for subject in able if number % 2 else reversed(able):
                tube = "bench-" + subject.name
                if call == "claim":
                    fill(daemon, tube, made)
                pair = subject.run(call, made, tube)
                if call == "put":
                    with daemon.job_client() as client:
                        client.ask("clear %s ready" % tube)
                if number >= 0:
                    results.setdefault((call, subject.name), []).append(pair)
        print("%s: measured" % CALLS[call], file=sys.stderr, flush=True)
    return results


def spread(values, form="%.1f (%.1f to %.1f)"):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return form % (middle, low, high)


def ratios(results, call, subject, other, which):
    pairs = zip(results.get((call, subject), ()), results.get((call, other), ()))
    return [a[which] / b[which] for a, b in pairs]


def line(*cells):
    return "| %s |" % " | ".join(cells)


def report(results, rounds, count, loads):
    calls = [call for call in CALLS if any(key[0] == call for key in results)]
    lines = [
        "# What a call of a client library costs",
        "",
        "`./dev bench clients` writes this. Time and processor time (user and system) of the program that makes the",
        "calls, in microseconds a call: medians and quartiles of %d rounds of %d calls each. A lock with its release, and"
        % (rounds, count),
        "a claim with its ack, are two requests. The daemon keeps jobs in memory, all traffic is loopback, and the",
        "calls and the servers have a processor each. The bare sockets send the same bytes, have a time limit of",
        "10 s, and compare the answers; they check no connection before use and know no errors. With TLS the same calls",
        "go over connections that stay.",
        "",
        line("client", *("%s: time | processor" % CALLS[call] for call in calls)),
        line("---", *["---"] * 2 * len(calls)),
    ]
    for name in SUBJECTS:
        made = [results.get((call, name)) for call in calls]
        if any(made):
            cells = ["%s | %s" % tuple(map(spread, zip(*pairs))) if pairs else "– | –" for pairs in made]
            lines.append(line(SUBJECTS[name][2], *cells))
    lines += ["", "## Ratios", "", "Medians and quartiles of the ratios of each round; bold: the median is above the goal.", ""]
    lines.append(line("of", "beside", "goal", *("%s: time | processor" % CALLS[call] for call in calls)))
    lines.append(line("---", "---", "---", *["---"] * 2 * len(calls)))
    missed = 0
    for subject, other, goal in GOALS:
        cells = []
        for call in calls:
            for which in 0, 1:
                values = ratios(results, call, subject, other, which)
                is_missed = bool(values) and statistics.median(values) > goal
                missed += is_missed
                said = spread(values, "%.2f (%.2f to %.2f)") if values else "–"
                cells.append("**%s**" % said if is_missed else said)
        lines.append(line(SUBJECTS[subject][2], SUBJECTS[other][2], "%.4g" % goal, *cells))
    lines += ["", "## The machine", "", machine(loads), ""]
    return "\n".join(lines), missed


def machine(loads):
    with open("/proc/cpuinfo") as f:
        model = re.search(r"model name\s*: (.*)", f.read())
    versions = ["Python " + platform.python_version()]
    for name, command in (("Node", ["node", "--version"]), ("", ["go", "version"])):
        said = subprocess.run(command, capture_output=True, text=True)
        versions.append((name + " " + said.stdout.strip().removeprefix("v").removeprefix("go version ")).strip())
    for name in ("redis-server", "python3-redis", "php-cli", "php-pda-pheanstalk"):
        said = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True)
        versions.append("%s %s" % (name, said.stdout or "?"))
    with open(npm_modules.NAMED) as f:
        versions += ["%s %s" % (k, v) for k, v in json.load(f)["dependencies"].items() if k in ("ioredis", "jackd")]
    return "%s, %d processors; Linux %s; %s. Load average before and after: %.1f, %.1f." % (
        model.group(1) if model else "?", os.cpu_count(), platform.release(), ", ".join(versions), *loads)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(prog="./dev bench clients", description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--count", type=int, default=2000, help="calls of a subject in a round")
    parser.add_argument("--only", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--calls", nargs="+", choices=list(CALLS), default=list(CALLS))
    parser.add_argument("--out", default=os.path.join(HERE, "..", "CLIENTS.md"), help="'-': print it")
    options = parser.parse_args()
    env = dict(os.environ)
    env.pop("COUNTER_URL", None)
    env.update(PYTHONPATH=LIBRARIES["python"], COUNTERD_PHP=LIBRARIES["php"], COUNTERD_NODE=LIBRARIES["node"])
    env["BENCH_MODULES"] = make_programs(options.only)
    loads, subjects, redis, daemon = [os.getloadavg()[0]], [], None, None
    folder = tempfile.mkdtemp(prefix="bench-tls-")
    try:
        authority = certificates.Authority(folder)
        cert, key = authority.issue("server")
        daemon = servers.Counterd("counter.threads=1", "jobs.enable=true", "jobs.port=0",
                                  "poolcounter.tls_port=%d" % servers.free_port(),
                                  "jobs.tls_port=%d" % servers.free_port(), "tls.cert=" + cert, "tls.key=" + key,
                                  preexec=lambda: on_core(1))  # fmt: skip
        port = servers.free_port()
        redis = servers.Process([shutil.which("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                                 "--appendonly", "no"], preexec=lambda: on_core(1))  # fmt: skip
        servers.wait_listening(redis, ("127.0.0.1", port))
        plain = [str(daemon.text[1]), str(daemon.jobs[1]), str(port)]
        secure = [str(daemon.text_tls[1]), str(daemon.jobs_tls[1]), str(port), authority.cert]
        for name in options.only:
            subjects.append(Subject(name, secure if name.endswith("-tls") else plain, env))
        begin = time.monotonic()
        results = measure(daemon, subjects, options.calls, options.rounds, options.count)
        loads.append(os.getloadavg()[0])
        text, missed = report(results, options.rounds, options.count, loads)
    finally:
        for subject in subjects:
            subject.end()
        for server in (redis, daemon):
            if server:
                server.kill()
        shutil.rmtree(folder)
    if options.out == "-":
        print(text)
    else:
        with open(options.out, "w") as f:
            f.write(text)
    print("bench clients: %.0f s, %d ratios above their goal" % (time.monotonic() - begin, missed), file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, wire.Timeout) as e:
        raise SystemExit("bench clients: %s" % e) from None
