"""
./dev torture clients: workers of four languages and asyncio run 20,000 jobs of a daemon with a store,
while one thing after another goes wrong.

Producers in Python, PHP, JavaScript and Go put jobs, half of them with keys, some in batches, into tubes with
leases and without. Four workers of each language run them. Meanwhile, by the seed, the daemon is killed and
started again, or upgraded in place; connections are reset, half-closed, stalled, and cut amid a request
or an answer; workers are killed, and stopped for longer than a ttr.

Each job whose put was answered runs to its end; twice only with a fault that explains it. A handler
whose job was given to another is told in time. Jobs are acked by who ran them, and after that. In the
end nothing is left in the queues. judge.py has the rules.
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
sys.path.insert(0, HERE)

import judge
import proxy
import servers
import wire

LIBRARIES = {
    name: os.environ.get("COUNTERD_" + name.upper()) or os.path.join(TOP, "clients", name)
    for name in ("python", "php", "node", "go")
}
BUILD = os.environ.get("TOP_BUILDDIR") or os.path.join(TOP, "build")
TUBES, LEASES = ["plain", "steady", "lease", "hold"], {"lease", "hold"}
TTR = 5  # s, of all jobs; 3 in the short form
IO_TIMEOUT = 2
PUTS = 15  # jobs a second, for each worker
FAULTS = 0.25  # a second, for each worker
DAEMON_FAULTS = 0.05  # kills a second, and as many upgrades
STOP = (1.2, 1.6)  # ttr that a worker is stopped or cut off


class Found(AssertionError):
    """Something is wrong."""


WORK_PY = ["/usr/bin/python3", "-B", os.path.join(HERE, "work.py")]
GO = "GO"  # stands for the program that `go_program` makes
GO_FLAGS = []  # the campaign has the race detector in it; the short form would wait for that
KINDS = {
    "python": [*WORK_PY, "sync"],
    "asyncio": [*WORK_PY, "aio"],
    "php": ["php", os.path.join(HERE, "work.php"), "work"],
    "node": ["node", os.path.join(HERE, "work.mjs"), "work"],
    "go": [GO, "work"],
}
PRODUCERS = {
    "python": [*WORK_PY, "produce"],
    "php": ["php", os.path.join(HERE, "work.php"), "produce"],
    "node": ["node", os.path.join(HERE, "work.mjs"), "produce"],
    "go": [GO, "produce"],
}
PLACES = {"python": 3, "asyncio": 3, "php": 1, "node": 3, "go": 3}


def installed():
    """The kinds whose language is on this machine."""
    return [kind for kind, command in KINDS.items() if shutil.which("go" if command[0] == GO else command[0])]


def go_program(library, folder):
    """Builds work.go with a library, in a folder. Returns the program's path."""
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(HERE, "work.go"), folder)
    module = "example.org/counterd/clients/go"
    with open(os.path.join(folder, "go.mod"), "w") as f:
        f.write("module work\n\ngo 1.19\n\nrequire %s v0.0.0\n\nreplace %s => %s\n" % (module, module, library))
    env = dict(os.environ, GOFLAGS="", GO111MODULE="on", GOPROXY="off", GOWORK="off")
    env["GOCACHE"] = os.path.join(BUILD, "go-cache")
    made = subprocess.run(["go", "build", *GO_FLAGS, "-o", "work", "."], cwd=folder, env=env, capture_output=True, text=True)
    if made.returncode:
        raise Found("go build: " + made.stderr[-2000:])
    return os.path.join(folder, "work")


class Peer:
    """A slot: a worker or producer, in one process after another."""

    def __init__(self, storm, slot, command, settings):
        self.storm, self.slot, self.command, self.settings = storm, slot, command, settings
        self.number, self.child, self.paths, self.stopped = 0, None, [], False

    def start(self):
        self.number += 1
        path = os.path.join(self.storm.folder, "%s-%d" % (self.slot, self.number))
        self.paths.append(path)
        url = "counter://127.0.0.1?jobs=127.0.0.1:%d&io_timeout=%d" % (self.storm.proxy.ports[self.slot], IO_TIMEOUT)
        with open(path + ".err", "w") as errors:
            self.child = subprocess.Popen(
                self.command + [url, path + ".notes", json.dumps(self.settings)],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=self.storm.env,
            )  # fmt: skip

    def signal(self, number):
        self.child.send_signal(number)

    def end(self):
        if self.child and self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    def rows(self):
        """What its processes noted. The last line of a killed one may be cut."""
        for number, path in enumerate(self.paths, 1):
            rows = []
            if os.path.exists(path + ".notes"):
                with open(path + ".notes") as f:
                    for line in f:
                        if line.endswith("\n"):
                            rows.append(json.loads(line))
            yield self.slot, number, rows

    def errors(self):
        with open(self.paths[-1] + ".err") as f:
            return f.read()[-2000:]


class Stillness(threading.Thread):
    """Notes when the machine, or this program, stood still."""

    def __init__(self, notes):
        super().__init__(daemon=True)
        self.notes, self.is_over = notes, False

    def run(self):
        last = time.monotonic()
        while not self.is_over:
            time.sleep(0.02)
            now = time.monotonic()
            if now - last > judge.STILL:
                self.notes.faults.append(proxy.Fault(last, now, "the machine stood still", None, None))
            last = now


class Storm:
    def __init__(self, folder, seed, jobs, workers, libraries, kinds, deadline, ttr):
        self.folder, self.seed, self.workers, self.deadline, self.ttr = folder, seed, workers, deadline, ttr
        self.rng = random.Random(seed)
        self.env = dict(os.environ, PYTHONPATH=libraries["python"], PYTHONDONTWRITEBYTECODE="1")
        self.env.update(COUNTERD_PHP=libraries["php"], COUNTERD_NODE=libraries["node"], GORACE="halt_on_error=1")
        self.env.pop("COUNTER_URL", None)
        programs = {}
        if "go" in kinds:
            as_usual = libraries["go"] == LIBRARIES["go"]
            programs[GO] = go_program(
                libraries["go"], os.path.join(BUILD if as_usual else folder, "t", "campaigns", "clients", "go")
            )
        self.kinds = kinds
        self.program = os.path.join(folder, "counterd")
        shutil.copy(servers.COUNTERD, self.program)
        self.upgrades = collections.Counter()
        self.daemon = None
        self.plans = {}
        worker_slots = [(kind, "%s-%d" % (kind, n)) for kind in kinds for n in range(workers)]
        producer_slots = [(kind, "puts-" + kind) for kind in PRODUCERS if kind in kinds or kind == "python"]
        self.proxy = proxy.Proxy([slot for _, slot in worker_slots + producer_slots], random.Random(seed + 1))
        batches = self.jobs(jobs)
        self.peers = [
            Peer(self, slot, [programs.get(word, word) for word in KINDS[kind]], {"tubes": TUBES, "concurrency": PLACES[kind], "ttr": ttr})
            for kind, slot in worker_slots
        ]
        self.producers = []
        for number, (kind, slot) in enumerate(producer_slots):
            pause = jobs / len(batches) * len(producer_slots) / (PUTS * len(worker_slots))
            settings = {"ttr": ttr, "seed": seed, "pause": pause, "jobs": batches[number :: len(producer_slots)]}
            path = os.path.join(folder, slot + ".json")
            with open(path, "w") as f:
                json.dump(settings, f)
            command = [programs.get(word, word) for word in PRODUCERS[kind]]
            self.producers.append(Peer(self, slot, command, {"file": path}))
        self.stillness = Stillness(self.proxy)

    def jobs(self, count):
        """What producers put: lists of rows (label, tube, plan, key), those of a batch together."""
        rng, batches, number = self.rng, [], 0
        while number < count:
            rows, tube, keyed = [], rng.choice(TUBES), rng.random() < 0.5
            for _ in range(rng.choice((1, 1, 1, 1, 1, 1, 10))):
                label = "job%d" % number
                chance = rng.random()
                plan = "quick"
                if chance < 0.02:
                    plan = "long %.2f" % rng.uniform(0.3, rng.choice((1.2, 1.2, 2.5)) * self.ttr)
                elif chance < 0.03:
                    plan = rng.choice(("raise", "retry", "bury"))
                key = "key%d" % number if keyed else None
                self.plans[label] = (plan, key)
                rows.append((label, tube, plan, key))
                number += 1
            batches.append(rows)
        return batches

    # --- the daemon

    def start_daemon(self):
        self.daemon = servers.Counterd(
            "counter.threads=2", "jobs.enable=true", "jobs.port=0", "counter.enable=false", "poolcounter.enable=false",
            "jobs.path=" + os.path.join(self.folder, "jobs.db"), program=self.program,
        )  # fmt: skip

    def kill_daemon(self):
        begin = time.monotonic()
        self.proxy.note_fault("daemon killed")
        self.daemon.kill()
        self.proxy.aim(None)
        time.sleep(self.rng.choice((0, 0.2, 1.0)))
        self.start_daemon()
        self.proxy.aim(self.daemon.jobs)
        self.proxy.note_fault("daemon killed", begin=begin, until=time.monotonic())

    def upgrade(self):
        fresh = self.program + ".new"
        shutil.copy(servers.COUNTERD, fresh)
        os.replace(fresh, self.program)
        with self.daemon.changed:
            seen = len(self.daemon.lines)
        self.daemon.child.send_signal(signal.SIGUSR1)

        def is_over():
            with self.daemon.changed:
                if None in self.daemon.lines:
                    raise Found("the daemon ended at an upgrade:\n" + self.daemon.log[-2000:])
                said = "\n".join(self.daemon.lines[seen:])
            return "info: ready: " in said or "goes on as before" in said

        wire.poll(is_over, "the upgrade is over", 60)
        with self.daemon.changed:
            refused = any("goes on as before" in line for line in self.daemon.lines[seen:])
        self.upgrades["refused" if refused else "done"] += 1

    # --- faults

    def kill_worker(self):
        peer = self.rng.choice(self.peers)
        if not peer.stopped:
            self.proxy.note_fault("worker killed", peer.slot)
            peer.end()
            peer.start()

    def stop_worker(self):
        peer = self.rng.choice(self.peers)
        if sum(bool(p.stopped) for p in self.peers) * 4 < len(self.peers) and not peer.stopped:
            seconds = self.rng.uniform(*STOP) * self.ttr
            peer.stopped = time.monotonic() + seconds
            self.proxy.note_fault("worker stopped", peer.slot, until=peer.stopped + 0.5)
            peer.signal(signal.SIGSTOP)

    def go_on(self, every=False):
        for peer in self.peers:
            if peer.stopped and (every or time.monotonic() >= peer.stopped):
                peer.stopped = False
                peer.signal(signal.SIGCONT)

    def go_wrong(self):
        rng = self.rng
        chance = rng.random()
        daemon = DAEMON_FAULTS / (FAULTS * len(self.peers))
        if chance < daemon:
            self.kill_daemon()
        elif chance > 1 - daemon:
            self.upgrade()
            return
        chance = rng.random()
        if chance < 0.07:
            self.kill_worker()
        elif chance < 0.13:
            self.stop_worker()
        elif chance < 0.2:
            self.proxy.cut_off([peer.slot for peer in self.peers if not peer.stopped], rng.uniform(*STOP) * self.ttr)
        else:
            puts = rng.random() < 0.15
            kinds = ("request dropped", "answer dropped") if puts else proxy.CUTS
            self.proxy.cut(rng.choice(kinds), rng.choice(self.producers).slot if puts else None)

    # --- all

    def left(self):
        """What the queues have: the sums over all tubes of ready, delayed, reserved, buried, abandoned."""
        sums = collections.Counter()
        with self.daemon.job_client() as client:
            for tube in TUBES:
                row = client.stats("tube " + tube)
                for state in ("ready", "delayed", "reserved", "buried", "abandoned"):
                    sums[state] += int(row["current-jobs-" + state])
        return sums

    def check_alive(self):
        for peer in self.peers + self.producers:
            status = peer.child.poll()
            if status is not None and (status or peer in self.peers):
                raise Found("%s ended with %s:\n%s" % (peer.slot, status, peer.errors()))

    def run(self):
        begin = time.monotonic()
        self.start_daemon()
        try:
            with self.daemon.job_client() as client:
                for tube in TUBES:  # a setting that differs keeps the tube there
                    claim = "lease" if tube in LEASES else "connection"
                    client.stats("tube %s claim=%s remember=3601" % (tube, claim))
            self.proxy.target = self.daemon.jobs
            self.proxy.start()
            self.stillness.start()
            for peer in self.peers + self.producers:
                peer.start()
            calm = False
            while True:
                time.sleep(min(self.rng.expovariate(len(self.peers) * FAULTS), 1))
                self.go_on(every=calm)
                self.check_alive()
                over = all(peer.child.poll() is not None for peer in self.producers)
                left = self.left()
                if over and left["ready"] < 20:
                    calm = True  # what is left runs without further faults
                if over and not left["ready"] + left["delayed"] + left["reserved"]:
                    break
                if not calm:
                    self.go_wrong()
                if time.monotonic() - begin > self.deadline:
                    raise Found("not over after %d s: %s, producers ended: %s" % (self.deadline, dict(left), over))
            self.go_on(every=True)
            for peer in self.peers:
                peer.signal(signal.SIGTERM)
            for peer in self.peers:
                try:
                    status = peer.child.wait(40)
                except subprocess.TimeoutExpired:
                    raise Found("%s does not end after SIGTERM:\n%s" % (peer.slot, peer.errors())) from None
                if status:
                    raise Found("%s ended with %s after SIGTERM:\n%s" % (peer.slot, status, peer.errors()))
            buried = self.buried()
            self.stillness.is_over = True
            self.proxy.stop()
            self.daemon.stop()
        finally:
            for peer in self.peers + self.producers:
                peer.end()
            self.daemon.kill()
        return self.verdict(buried, time.monotonic() - begin)

    def buried(self):
        labels = []
        with self.daemon.job_client() as client:
            for tube in TUBES:
                head = client.ask("list-jobs %s all 0 1000" % tube)
                for _ in range(int(head.split()[1]) if head != "NOT_FOUND" else 0):
                    line, body = client.job()
                    label = body.decode().split(" ")[0]
                    if line.split()[3] != "buried" or self.plans[label][0] != "bury":
                        raise Found("left: %s %r" % (line, body))
                    labels.append(label)
        return labels

    def verdict(self, buried, seconds):
        rows = [part for peer in self.peers + self.producers for part in peer.rows()]
        seen = judge.Judge(self.proxy, rows, self.plans, LEASES, self.ttr, IO_TIMEOUT)
        seen.judge()
        for label, (plan, _) in self.plans.items():
            if plan == "bury" and label in seen.answered and label not in buried:
                seen.wrong("%s is not buried", label)
        faults = collections.Counter(fault.kind for fault in self.proxy.faults)
        faults["daemon killed"] //= 2  # each is noted as it begins, and then with its end
        text = "%d jobs, %d puts answered, %d runs in %.0f s" % (
            len(self.plans), len(seen.answered), len(seen.by_token), seconds)  # fmt: skip
        lines = [text, "faults: " + listed(faults + self.upgrades_counted())]
        lines.append("run twice: " + listed(seen.twice))
        lines.append("also: " + listed(seen.counts) + "; the longest beside the next run: %.1f s" % seen.worst)
        for text in seen.found[:3]:
            for number in re.findall(r"\(id (\d+)", text)[:1]:
                lines += ["trace of job %s: %s" % (number, row) for row in seen.trace(int(number))]
        return lines, seen.found

    def upgrades_counted(self):
        return collections.Counter({"upgrade " + how: n for how, n in self.upgrades.items()})


def listed(counter):
    return ", ".join("%s %d" % pair for pair in sorted(counter.items())) or "nothing"


def storm(seed, jobs, workers, libraries=None, kinds=tuple(KINDS), deadline=900, ttr=TTR):
    """One storm. Returns lines to print, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="clients-") as folder:
        return Storm(folder, seed, jobs, workers, libraries or LIBRARIES, kinds, deadline, ttr).run()


def main():
    parser = argparse.ArgumentParser(prog="./dev torture clients", description=__doc__.split("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=20000)
    parser.add_argument("--workers", type=int, default=4, help="of each language")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--seconds", type=int, default=1200, help="it must be over then")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--planted", nargs="*", metavar="BUG", help="find the bugs of planted/, or these of them")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # ends what it has started
    GO_FLAGS.append("-race")
    if options.planted is not None:
        import planted

        sys.exit(planted.main(options.planted, options.seed))
    print("clients: --seed %d" % options.seed, flush=True)
    try:
        lines, found = storm(
            options.seed, options.jobs, options.workers, kinds=options.kinds, deadline=options.seconds
        )
    except (Found, wire.Timeout) as e:
        lines, found = [], [str(e)]
    for line in lines:
        print("clients: " + line)
    for text in found[:30]:
        print("clients: FOUND: " + text)
    print("clients: seed %d: %s" % (options.seed, "%d found" % len(found) if found else "nothing found"))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    sys.modules["clients"] = sys.modules["__main__"]
    main()
