"""
Which tests notice a small fault? `./dev mutants` builds the daemon once with 300 faults (mutants;
generate.py has the kinds) that an environment variable switches on, records which test program comes
to which of them, and runs these programs, the quickest first, until one fails in each suite.

    ./dev mutants                    goes on where it was cut off, and compares with kills.tsv at its end
    ./dev mutants --keep             writes what it found to kills.tsv
    ./dev mutants --table            what is known
    ./dev mutants --only TEXT        only mutants whose name has TEXT, again
    ./dev mutants --suites unit,stories
    ./dev mutants --sanitizers       bounds and locks that survive, under ASan and TSan
    ./dev mutants --list FILE --choose SEED --count N --of src/net
                                     draws others into FILE, for a look at one folder
    ./dev mutants --list FILE --each does not end with the first kill: which programs find what?

A row of kills.tsv has a mutant's name, why nobody can see it if it changes nothing (by hand), and the
first program of each suite that killed it; `-`: none did; nothing: not tried. A mutant is killed by a
program that fails, or takes three times as long as without it, in two of three runs. System tests
run only for mutants that no other suite kills, and for each those of SYSTEM_S seconds.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import generate  # noqa: E402  (Debian's python3-clang)

WORK = os.path.join(ROOT, "build", "mutants")
TREE = os.path.join(WORK, "tree")
KILLS = os.path.join(HERE, "kills.tsv")
SHARES = {"compare": 76, "branch": 86, "bound": 20, "constant": 46, "call": 61, "lock": 15}
SUITES = ["unit", "stories", "models", "system"]  # those of clients test the libraries
BUILDS = {
    "build": "-O1 -g",
    "asan": "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all",
    "tsan": "-O1 -g1 -fsanitize=thread",
}
SANITIZED = ("bound", "lock")
SEEN_BYTES = 4096
# The counts judge the instructions of a build without mutants.
LEFT_OUT = ("bench/counts/", "t/mutants/")
LONGEST_S = 400
SYSTEM_S = 120
FIXED = {"T_SEED": "1", "T_MODEL_STEPS": "100000", "TSAN_OPTIONS": "halt_on_error=1"}


def suite_of(program):
    name = os.path.basename(program)
    if program.startswith(("t/scenario/run", "t/vectors/")):
        return "stories"
    if program.startswith(("t/campaigns/simulate/", "t/campaigns/cluster/", "t/models/")):
        return "models"
    if program.startswith(("t/unit/", "fuzz/")):
        is_model = "model" in name or name in (
            "threads_test",
            "contention_test",
            "store_test",
        )
        return "models" if is_model else "unit"
    return "clients" if program.startswith("t/clients/") else "system"


# --- the mutants ---------------------------------------------------------------------------------


class Mutants:
    """The rows of a list. A mutant's number is its place."""

    def __init__(self, path):
        self.path = path
        self.notes, self.kept, self.head = {}, {}, "# Nothing is chosen.\n"
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as f:
            self.head = next(f)
            for line in f:
                name, note, *killers = line.rstrip("\n").split("\t") + [""]
                self.notes[name] = note
                self.kept[name] = dict(zip(SUITES + ["asan", "tsan"], killers))
        self.names = list(self.notes)
        self.numbers = {name: number for number, name in enumerate(self.names, 1)}

    def write(self, known=None):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(self.head)
            for name, note in self.notes.items():
                row = known(name) if known else {}
                f.write("\t".join([name, note] + [row.get(s, "") for s in SUITES + ["asan", "tsan"]]) + "\n")

    def of(self, bits):
        """The names of the bytes that are set."""
        return [name for name in self.names if bits[self.numbers[name]]]


def arguments_of_clang():
    resources = subprocess.check_output(["clang", "-print-resource-dir"], text=True).strip()
    return ["-std=gnu17", "-D_GNU_SOURCE", "-DHAVE_CONFIG_H", "-I%s/src" % ROOT, "-I" + ROOT,
            "-I%s/build" % ROOT, '-DSYSCONFDIR="/etc"', "-I%s/include" % resources]  # fmt: skip


def choose(mutants, seed, count, of):
    """Draws `count` mutants of files whose names begin with `of`."""
    shares = {operator: round(share * count / sum(SHARES.values())) for operator, share in SHARES.items()}
    found = generate.find(ROOT, arguments_of_clang(), lambda name: name.startswith(of))
    chosen = generate.choose(found, random.Random(seed), shares)
    mutants.head = "# mutant, why it changes nothing, the first to kill it of: %s (seed %d)\n" % (
        ", ".join(SUITES + ["asan", "tsan"]), seed)  # fmt: skip
    mutants.notes = {c.name: "" for c in sorted(chosen) if compiles(c)}
    mutants.write()
    say("%d mutants" % len(mutants.notes))


def compiles(candidate):
    edits = [(s, e, new % 1) for s, e, new in candidate.edits]
    with open(os.path.join(ROOT, candidate.file), "rb") as f:
        content = generate.rewrite(f.read(), edits)
    done = subprocess.run(["gcc", "-fsyntax-only", "-include", os.path.join(HERE, "mutant.h"), "-w", "-x", "c"]
                          + arguments_of_clang()[:-1] + ["-I" + os.path.dirname(os.path.join(ROOT, candidate.file)), "-"],
                          input=content, stderr=subprocess.DEVNULL)  # fmt: skip
    return done.returncode == 0


# --- the build -----------------------------------------------------------------------------------


def say(*words):
    print(*words, flush=True)


def command(arguments, cwd):
    with open(os.path.join(WORK, "build.log"), "ab") as out:
        done = subprocess.run(arguments, cwd=cwd, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit("mutants: %s failed: see build/mutants/build.log" % " ".join(arguments[:3]))


def plant(mutants):
    """Copies the tree and plants the mutants. Returns the operators of those that are there."""
    files = {name.partition(":")[0] for name in mutants.names}
    found = {c.name: c for c in generate.find(ROOT, arguments_of_clang(), files.__contains__)}
    planted = {mutants.numbers[name]: found[name] for name in mutants.names if name in found}
    for name in mutants.names:
        if name not in found:
            say("gone from the sources:", name)
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    for name in files:
        source, to = os.path.join(ROOT, name), os.path.join(TREE, name)
        if any(c.file == name for c in planted.values()) or os.path.isdir(source) or not os.path.lexists(source):
            continue
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if not os.path.exists(to) or not same(source, to):
            shutil.copy2(source, to, follow_symlinks=False)
    generate.write(ROOT, TREE, planted)
    return {candidate.name: candidate.operator for candidate in planted.values()}


def build(kind):
    """Builds all programs and tests of the copy."""
    folder = os.path.join(WORK, kind)
    say("building build/mutants/" + kind)
    if not os.path.exists(os.path.join(TREE, "configure")):
        command(["autoreconf", "-fi"], TREE)
    if not os.path.exists(os.path.join(folder, "Makefile")):
        os.makedirs(folder, exist_ok=True)
        flags = "CFLAGS=%s -Wno-error -w -include %s" % (
            BUILDS[kind],
            os.path.join(HERE, "mutant.h"),
        )
        command([os.path.join(TREE, "configure"), "-q", flags], folder)
    command(["make", "-s", "-j3", "all"], folder)
    command(["make", "-s", "-j3", "check", "TESTS="], folder)


def same(one, other):
    a, b = os.stat(one), os.stat(other)
    return a.st_size == b.st_size and int(a.st_mtime) == int(b.st_mtime)


def programs():
    print_it = ["make", "-s", "--eval", "print-tests: ; @echo $(TESTS)", "print-tests"]
    listed = subprocess.check_output(print_it, cwd=os.path.join(WORK, "build"), text=True).split()
    return [p for p in listed if not p.startswith(LEFT_OUT) and suite_of(p) in SUITES]


# --- runs ----------------------------------------------------------------------------------------


def run(program, number, limit_s, seen=None, cases=None, kind="build"):
    """
    Runs a program, or only these cases of it, with a mutant on (-1: none). With `monitor` the places it
    comes to are recorded there. Returns (passed, None if it took too long; seconds; [what each case
    comes to]).
    """
    builds = os.path.join(WORK, kind)
    folder = tempfile.mkdtemp(prefix="mutant", dir="/tmp")  # short: for unix sockets
    os.chmod(folder, 0o755)
    env = dict(os.environ, **FIXED, TMPDIR=folder, TOP_SRCDIR=TREE, TOP_BUILDDIR=builds, COUNTERD_MUTANT=str(number),
               COUNTERD=builds + "/counterd", COUNTERCTL=builds + "/counterctl", COUNTERBENCH=builds + "/counterbench",
               PYTEST_PLUGINS="mutant_plugin", PYTHONPATH=HERE)  # fmt: skip
    if seen:
        env.update(COUNTERD_MUTANT_SEEN=seen, MUTANT_RECORD=folder + "/cases")
    if cases:
        env["MUTANT_CASES"] = folder + "/chosen"
        with open(env["MUTANT_CASES"], "w", encoding="utf-8") as f:
            json.dump(cases, f)
    if program.endswith(".py"):
        argv = [sys.executable, "-B", os.path.join(TREE, program)] + (["-x"] if cases else [])
    else:
        argv = [next(p for p in (os.path.join(builds, program), os.path.join(TREE, program)) if os.path.exists(p))]
    start = time.monotonic()
    with open(os.path.join(folder, "log"), "wb") as log:
        child = subprocess.Popen(argv, cwd=builds, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)  # fmt: skip
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        end_session(child.pid)
        child.wait()
    with open(os.path.join(folder, "log"), "rb") as log:
        said = log.read()
    passed = status if status is None else status == 0 and b"\nnot ok" not in b"\n" + said
    if number < 0 and not passed:
        shutil.copy(folder + "/log", os.path.join(WORK, "failed-" + program.replace("/", "_")))
    rows = []
    if seen and os.path.exists(folder + "/cases"):
        with open(folder + "/cases", encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
    shutil.rmtree(folder, ignore_errors=True)
    return passed, time.monotonic() - start, rows


def end_session(leader):
    """Ends what a program has left running: tests run in process groups of their own."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getsid(int(name)) == leader:
                os.kill(int(name), signal.SIGKILL)
        except ProcessLookupError:
            pass


def judged(program, number, usual, cases, kind):
    """Runs a program with a mutant on. Too long is three times what it takes now without one."""
    passed, seconds, _ = run(program, number, max(3 * usual, usual + 10), cases=cases, kind=kind)
    if passed is None:
        _, usual, _ = run(program, -1, LONGEST_S, cases=cases, kind=kind)
        passed, again, _ = run(program, number, max(3 * usual, usual + 10), cases=cases, kind=kind)
        seconds += usual + again
    return bool(passed), seconds


def kills(program, number, usual, cases, kind):
    """True if two of three runs fail; and the seconds."""
    results, spent = [], 0.0
    while results.count(False) < 2 and results.count(True) < 1 + (False in results):
        passed, seconds = judged(program, number, usual, cases, kind)
        results.append(passed)
        spent += seconds
    return results.count(False) == 2, spent


class Results:
    """
    What is known, kept after each run. `reach`: for a program whether it passes, its seconds and the
    mutants it comes to, for its cases, too. `kills`: for a mutant and a suite the first killer, the
    seconds until then, and with --each all killers.
    """

    def __init__(self, path):
        self.path = path
        self.reach, self.kills = self.read("reach"), self.read("kills")
        self.lock = threading.Lock()

    def read(self, what):
        if not os.path.exists(self.path % what):
            return {}
        with open(self.path % what, encoding="utf-8") as f:
            return json.load(f)

    def save(self, what):
        with self.lock:
            with open(self.path % "new", "w", encoding="utf-8") as f:
                json.dump(getattr(self, what), f, indent=0, sort_keys=True)
            os.replace(self.path % "new", self.path % what)

    def killer(self, name, suite):
        """The first of a suite to kill a mutant; "-": none did; "": not tried."""
        found = self.kills.get(name, {}).get(suite)
        return "" if found is None else os.path.basename(found["by"] or "-")

    def is_dead(self, name):
        return any(found["by"] for found in self.kills.get(name, {}).values())


def find_reach(results, mutants, jobs):
    """Runs each program once, without a fault."""

    def one(program):
        seen = os.path.join(WORK, "seen-" + program.replace("/", "_"))
        with open(seen, "wb") as f:
            f.truncate(SEEN_BYTES)
        passed, seconds, rows = run(program, -1, LONGEST_S, seen)
        with open(seen, "rb") as f:
            bits = bytearray(f.read())
        os.unlink(seen)
        cases = {}
        for row in rows:
            case = bytearray(SEEN_BYTES)
            for number in row["seen"]:
                case[number] = bits[number] = 1
            cases[row["case"]] = [row["s"], mutants.of(case)]
        found = {
            "passes": bool(passed),
            "s": round(seconds, 2),
            "seen": mutants.of(bits),
            "cases": cases,
        }
        results.reach[program] = found
        results.save("reach")
        end = "" if passed else ": FAILS, so it judges nothing"
        say("%6.1f s %3d mutants %s%s" % (seconds, len(found["seen"]), program, end))

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, [p for p in programs() if p not in results.reach]))


def runs_for(results, name, suite):
    """The programs that come to a mutant: (usual seconds, program, its cases that do; None: all)."""
    for program, row in results.reach.items():
        if not row["passes"] or name not in row["seen"] or suite_of(program) != suite:
            continue
        cases = sorted((s, case) for case, (s, seen) in row["cases"].items() if name in seen)
        if cases:
            yield sum(s for s, _ in cases) + 1, program, [case for _, case in cases]
        elif not row["cases"]:
            yield row["s"], program, None


def kill(results, mutants, name, suites, each):
    known = results.kills.setdefault(name, {})
    for suite in suites:
        if suite in known or (suite == "system" and results.is_dead(name) and not each):
            continue
        kind = suite if suite in BUILDS else "build"
        runs = sorted(r for s in (SUITES[:-1] if kind != "build" else [suite]) for r in runs_for(results, name, s))
        killers, spent, planned, slower = [], 0.0, 0.0, 1 if kind == "build" else 4
        for usual, program, cases in runs:
            planned += usual
            if suite == "system" and planned > SYSTEM_S and planned > usual:
                break
            killed, seconds = kills(program, mutants.numbers[name], slower * usual, cases, kind)
            spent += seconds
            if killed:
                killers.append(program)
                if not each:
                    break
        known[suite] = {"by": killers[0] if killers else None, "s": round(spent, 1)}
        if each:
            known[suite]["all"] = killers
        results.save("kills")
    found = ["%s: %s" % (s, k["by"]) for s, k in known.items() if k["by"]]
    say("%3d %s\n      %s" % (mutants.numbers[name], name, "; ".join(found) or "survives"))


# --- what people read ----------------------------------------------------------------------------


def table(results, mutants):
    """Prints what is known by folder, operator and suite, and what differs from the list."""
    real = [n for n in mutants.names if n in results.kills and not mutants.notes[n]]
    dead = {n for n in real if results.is_dead(n)}
    say("%d mutants; %d change nothing; of the others %d were tried, %d are killed, %d survive"
        % (len(mutants.names), sum(map(bool, mutants.notes.values())), len(real), len(dead), len(real) - len(dead)))  # fmt: skip
    suites = SUITES + ["asan", "tsan"]
    rows = collections.defaultdict(collections.Counter)
    for name in real:
        folder = name.split("/")[1] if name.startswith("src/") else name.split("/")[0]
        for key in (folder, "operator " + name.split(":")[2], "all"):
            rows[key].update(["mutants"] + ["killed"] * (name in dead))
            rows[key].update(suite for suite, found in results.kills[name].items() if found["by"])
    say("%-20s" % "" + "".join("%9s" % s for s in ["mutants", "killed"] + suites))
    for key in sorted(rows):
        say("%-20s" % key + "".join("%9d" % rows[key][s] for s in ["mutants", "killed"] + suites))
    for suite in SUITES:
        seconds = sum(row["s"] for p, row in results.reach.items() if suite_of(p) == suite)
        say("%-8s %7.1f s of tests, %.2f kills for a second" % (suite, seconds, rows["all"][suite] / max(seconds, 1)))
    programs_that_kill = collections.Counter(
        p for n in real for found in results.kills[n].values() for p in found.get("all", []))  # fmt: skip
    for program, count in programs_that_kill.most_common():
        say("%3d killed by %s" % (count, program))
    for name in real:
        was = {k for k in mutants.kept[name].values() if k}
        if name not in dead:
            say("LOST:" if was - {"-"} else "survives:", name)
        elif was == {"-"}:
            say("new kill:", name)


def main():
    parser = argparse.ArgumentParser(
        prog="./dev mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", default=KILLS, metavar="FILE")
    parser.add_argument("--choose", type=int, metavar="SEED")
    parser.add_argument("--count", type=int, default=304, metavar="N")
    parser.add_argument("--of", default="", metavar="PATH")
    parser.add_argument("--only", metavar="TEXT")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--sanitizers", action="store_true")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    os.makedirs(TREE, exist_ok=True)
    mutants = Mutants(options.list)
    if options.choose is not None:
        choose(mutants, options.choose, options.count, options.of)
        return
    results = Results(os.path.join(WORK, os.path.basename(options.list)[:-4] + "-%s.json"))
    if not options.table and not options.keep:
        operators = plant(mutants)
        build("build")
        find_reach(results, mutants, options.jobs)
        todo, suites = list(operators), options.suites.split(",")
        if options.only:
            todo = [name for name in todo if options.only in name]
            for name in todo:
                results.kills.pop(name, None)
        if options.sanitizers:
            suites = ["asan", "tsan"]
            todo = [n for n in todo if operators[n] in SANITIZED and n in results.kills and not results.is_dead(n)]
            for kind in suites:
                build(kind)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda name: kill(results, mutants, name, suites, options.each), todo))
    table(results, mutants)
    if options.keep:
        mutants.write(lambda name: {s: results.killer(name, s) for s in SUITES + ["asan", "tsan"]})


if __name__ == "__main__":
    main()
