"""
Runs test programs beside each other, counts what they report in TAP, and says meanwhile how far it is.

Most tests wait rather than compute. So another program starts when a core is idle, up to MOST for each
core; those that took longest the last time (times.json, beside the logs) start first. Logs are beside
the programs in the build folder, which is where this runs; `make` sets the environment (t/local.mk).

With --repeat all programs run several times, in another order and with another T_SEED each time. With
--busy four processes burn processors in bursts, one writes and syncs, and programs that bear it are
stopped at random for at most half a second. What is done is kept in repeat.json: the next run with the
same arguments goes on there.
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

MOST = 3  # programs for each core: some of them start ten at once
LIMIT_S = 1800  # ends hangs only
STOP_S = 0.5
REPORT = r"(ERROR|WARNING): \w+Sanitizer: |runtime error: "  # of a sanitizer


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def read_json(path):
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def write_json(path, value):
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(value, f)
    os.replace(path + ".new", path)


# --- one program ------------------------------------------------------------------------------------


class Result:
    """What a program reported: counts, and the lines of its log that say why it failed."""

    def __init__(self, log, status):
        self.passed = self.skipped = count = 0
        self.failed, self.skips, planned, left = [], [], None, 0
        for line in log.splitlines():
            found = re.match(r"(not )?ok\b(?: \d+)?(.*)", line)
            if found:
                count += 1
                is_bad, what = found.groups()
                is_skipped = not is_bad and re.search(r"# SKIP", what, re.I)
                if is_skipped:
                    self.skips.append(what.strip(" -"))
                elif is_bad:
                    self.failed.append(line)
                    left = 20
                else:
                    self.passed += 1
            elif re.match(r"1\.\.\d+", line):
                planned = int(line[3:].split()[0])
                if planned == 0 and re.search(r"# SKIP", line, re.I):
                    self.skips.append(line[4:].strip())
                elif planned == 0:
                    self.failed.append("it has no tests")
            elif line.startswith("Bail out!"):
                self.failed.append(line)
            elif re.search(REPORT, line) and not line.startswith("#"):
                self.failed.append(line)
            elif left and re.match(r"# (E |[^ ]+:[0-9]+: )", line):
                self.failed.append("    " + line[2:300])
                left -= 1
        self.skipped = len(self.skips)
        self.seeds = set(re.findall(r"T_SEED=(\d+)", log))
        if status is None:
            self.failed.append("it did not end within %d s" % LIMIT_S)
        elif planned is None or planned != count:
            self.failed.append("it reported %d tests and planned %s" % (count, planned))
        if status and not self.failed:
            self.failed.append("it ended with %d" % status)
        if self.failed and not any(line.startswith(("not ok", "Bail")) for line in self.failed):
            self.failed += ["    " + line[:300] for line in log.splitlines()[-15:]]

    @property
    def failures(self):
        return sum(not line.startswith("    ") for line in self.failed)


class Program:
    """A program that runs, in a session of its own, with a folder for its temporary files."""

    def __init__(self, name, seed=None):
        self.name, self.seed = name, seed
        self.log = re.sub(r"\.py$", "", name) + ".log"
        source = os.path.join(os.environ["TOP_SRCDIR"], name)
        argv = [sys.executable, "-B", source] if name.endswith(".py") else [os.path.abspath(name)]
        self.tmp = tempfile.mkdtemp(prefix="t.")
        os.chmod(self.tmp, 0o1777)  # tests drop their rights and go on writing
        env = dict(os.environ, TMPDIR=self.tmp, **({"T_SEED": str(seed)} if seed else {}))
        os.makedirs(os.path.dirname(self.log), exist_ok=True)
        self.start, self.is_late, self.cpu_s = time.monotonic(), False, 0
        with open(self.log, "wb") as log:
            try:
                self.child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                              stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
                self.pid = self.child.pid
            except OSError as e:
                log.write(("Bail out! " + str(e)).encode())
                self.pid = None

    @property
    def seconds(self):
        return time.monotonic() - self.start

    def ended(self):
        """Its result; None while it runs."""
        status = 127
        if self.pid:
            if self.seconds > LIMIT_S:
                self.is_late = True
                self.kill()
            pid, status, usage = os.wait4(self.pid, 0 if self.is_late else os.WNOHANG)
            if pid == 0:
                return None
            status = self.child.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s = usage.ru_utime + usage.ru_stime
        self.wall_s = self.seconds
        self.kill()
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return Result(log.read(), None if self.is_late else status)

    def kill(self):
        """Ends it and what it started, and removes its temporary files."""
        for _ in range(3):  # a process that starts another in the meantime
            send(processes_of(self.pid, but="Z"), signal.SIGKILL)
        shutil.rmtree(self.tmp, ignore_errors=True)


# --- the machine -----------------------------------------------------------------------------------


class Cores:
    """Tells whether a core is idle. What runs at a lower priority than this does not count."""

    def __init__(self, count):
        self.count, self.at, self.idle, self.total = count, 0, 0, 0
        self.is_nice = os.nice(0) > 0

    def is_idle(self):
        if time.monotonic() < self.at:
            return False
        self.at = time.monotonic() + 0.3
        with open("/proc/stat", encoding="ascii") as f:
            times = [int(n) for n in f.readline().split()[1:9]]
        idle, total = times[3] + times[4] + (0 if self.is_nice else times[1]), sum(times)
        share = (idle - self.idle) / max(1, total - self.total)
        self.idle, self.total = idle, total
        return share * os.cpu_count() > 0.3


def keep_busy():
    """Starts processes that burn processors in bursts, and one that syncs files. They end with this one."""
    parent = os.getpid()
    for number in range(5):
        if os.fork():
            continue
        for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(one) != signal.SIG_IGN:
                signal.signal(one, signal.SIG_DFL)
        while os.getppid() == parent:
            end = time.monotonic() + random.uniform(0.02, 0.8)
            while time.monotonic() < end and number:
                pass
            if not number:
                with open("synced", "wb") as f:
                    f.write(bytes(1 << 20))
                    os.fsync(f.fileno())
            time.sleep(random.uniform(0, 0.4))
        os._exit(0)


def processes_of(session, but="TtZ"):
    """The processes of a session, but those in these states: stopped ones and zombies."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as f:
                state, _, _, of = f.read().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == session and state not in but:
            found.append(int(pid))
    return found


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def stop_at_random(running, unstopped):
    """A thread: stops some processes of a program for a moment, again and again."""
    while True:
        time.sleep(random.uniform(0, 0.3))
        some = [p for p in list(running) if p.name not in unstopped and p.pid]
        if not some:
            continue
        share = random.choice([0.3, 0.6, 1])
        chosen = [p for p in processes_of(random.choice(some).pid) if random.random() < share]
        send(chosen, signal.SIGSTOP)
        try:
            time.sleep(random.uniform(0, STOP_S) if random.random() < 0.4 else 0.003)
        finally:
            send(chosen, signal.SIGCONT)


# --- all of them -----------------------------------------------------------------------------------


class Run:
    """Runs a list of programs once."""

    def __init__(self, cores, kind):
        self.cores, self.kind, self.running = cores, kind, []
        self.times = read_json("times.json")
        self.passed = self.failed = self.skipped = 0
        self.why = []
        self.shown = 0

    def show(self, count, left, start):
        """The line of progress: rewritten on a terminal, else every 15 seconds."""
        is_terminal = sys.stderr.isatty()
        if time.monotonic() - self.shown < (0.5 if is_terminal else 15):
            return
        self.shown = time.monotonic()
        names = ["%s %.0f" % (os.path.basename(p.name), p.seconds) for p in self.running]
        line = "%d of %d, %.0f s: %s" % (
            count - left - len(names), count, time.monotonic() - start, ", ".join(names))  # fmt: skip
        if is_terminal:
            print("\r\033[K" + line[: os.get_terminal_size(2).columns - 1], end="", file=sys.stderr)
            sys.stderr.flush()
        else:
            say(line)

    def note(self, program, result):
        self.times[program.name] = [round(program.wall_s, 2), round(program.cpu_s, 2)]
        write_json("times.json", self.times)
        self.passed += result.passed
        self.failed += result.failures
        self.skipped += result.skipped
        clear = "\r\033[K" if sys.stderr.isatty() else ""
        reasons = collections.Counter(skip.partition("SKIP ")[2] for skip in result.skips)
        for reason, times in reasons.items():
            say(clear + "skipped: %d of %s: %s" % (times, program.name, reason))
        if not result.failed:
            return
        say(clear + "FAILED: %s: %s" % (program.name, result.failed[0]))
        self.why += ["%s: %s" % (program.log, result.failed[0])] + result.failed[1:]
        self.why += ["    again: " + self.again(program, result)]

    def again(self, program, result):
        """The command that runs a program again, with its seed."""
        seeds = [program.seed] if program.seed else list(result.seeds)
        seed = "T_SEED=%s " % seeds[0] if len(seeds) == 1 else ""
        return "%s./dev test %s%s" % (seed, self.kind, program.name)

    def all(self, names, seeds=None, done=lambda program, result: None):
        order = sorted(names, key=lambda name: -self.times.get(name, [0])[0])
        todo, start = seeds and list(names) or order, time.monotonic()
        while todo or self.running:
            has_room = len(self.running) <= self.cores.count or (
                len(self.running) < MOST * self.cores.count and self.cores.is_idle())  # fmt: skip
            if todo and has_room:
                name = todo.pop(0)
                self.running.append(Program(name, seeds and seeds.randrange(1, 1 << 32)))
            for program in list(self.running):
                result = program.ended()
                if result:
                    self.running.remove(program)
                    self.note(program, result)
                    done(program, result)
            self.show(len(names), len(todo), start)
            time.sleep(0.02)


def repeat(run, names, rounds, is_busy, unstopped):
    """Runs all `rounds` times; goes on where an earlier run was cut off."""
    kept, path = {"names": sorted(names), "rounds": rounds, "busy": is_busy}, "repeat.json"
    state = read_json(path)
    if any(state.get(key) != value for key, value in kept.items()):
        state = dict(kept, round=0, done=[], runs=0, failures={})
    if is_busy:
        keep_busy()
        threading.Thread(target=stop_at_random, args=(run.running, unstopped), daemon=True).start()

    def done(program, result):
        state["done"].append(program.name)
        state["runs"] += 1
        if result.failed:
            log = "%s.%d" % (program.log, state["round"])
            os.replace(program.log, log)
            lines = state["failures"].setdefault(program.name, [])
            lines.append("%s: %s; %s" % (log, result.failed[0], run.again(program, result)))
        write_json(path, state)

    while state["round"] < rounds:
        seeds = random.Random()
        left = [name for name in names if name not in state["done"]]
        seeds.shuffle(left)
        say("round %d of %d: %d programs" % (state["round"] + 1, rounds, len(left)))
        run.all(left, seeds, done)
        state["round"] += 1
        state["done"] = []
        write_json(path, state)
    os.remove(path)
    run.why = []
    for name, lines in sorted(state["failures"].items()):
        run.why += ["%s failed %d of %d times:" % (name, len(lines), rounds)] + [
            "    " + line for line in lines
        ]
    run.failed = sum(map(len, state["failures"].values()))
    run.passed = state["runs"] - run.failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--kind", default="", help="what ./dev test needs to run a program of this build"
    )
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--unstopped", default="", help="programs that are not stopped")
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    if not a.names:
        parser.error("no tests")
    run = Run(Cores(a.jobs), a.kind and a.kind + " ")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda *_: sys.exit(1))
    try:
        if a.repeat:
            repeat(run, a.names, a.repeat, a.busy, set(a.unstopped.split()))
        else:
            run.all(a.names)
    except KeyboardInterrupt:
        sys.exit(1)
    finally:
        for program in run.running:
            program.kill()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    with open("failed.log", "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in run.why)
    print(run.passed, run.failed, run.skipped)


if __name__ == "__main__":
    main()
