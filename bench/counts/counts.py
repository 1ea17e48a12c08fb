#!/usr/bin/env python3
"""
How many instructions requests cost: counts them, shows them beside the record, changes the record.

`./dev counts` shows what is, `./dev counts --accept 'REASON'` puts it on record; test_counts.py
fails when a count has grown. The program `requests` plays the script, callgrind counts (user space
only), and what it found is split by layer: by source file for what is ours, inline functions where
they are written; by library for what is not. System calls are counted beside it.

What is the same on any machine is judged: our own code where compiler and flags are the record's,
with that of libraries where the C library is the record's too, and system calls always. The C
library has functions for each kind of CPU; it is told to take the plainest.
"""

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "record")
# The one from before connections got one state for each direction.
BEFORE = RECORD + ".before"
REQUESTS = os.environ.get("REQUESTS") or os.path.join(
    os.environ.get("TOP_BUILDDIR", "."), "bench", "counts", "requests"
)

# What a count may grow by, from where on one that has shrunk is told of, and what is worth a line
# in the history: per cent.
GROWTH = 5
SHRINKAGE = 5
NOTED = 0.5

# Where a layer's sources are, and what the names of its libraries begin with.
LAYERS = {
    "net": "src/net/",
    "service": "src/service/",
    "proto": "proto/",
    "engine": "src/engine/",
    "base": "src/base/",
}
LIBRARIES = {"libevent": "libevent", "libc": ("libc.so", "libm.so")}
REST = "rest"
COLUMNS = [*LAYERS, *LIBRARIES, REST]

# How callgrind is told what to count: the functions of requests.c.
COUNTED = ("counts_serve*", "counts_use_engine*")
NOT_COUNTED = "counts_await"
BEGIN, END = "counts_begin", "counts_end"

# What no CPU has as far as the C library is concerned, so that it copies and compares alike on all.
BETTER_CPUS = "AVX AVX2 AVX_Fast_Unaligned_Load AVX512VL AVX512BW BMI2 ERMS FSRM LZCNT MOVBE SSSE3 "
BETTER_CPUS += "SSE4_1 SSE4_2"
ENVIRONMENT = {
    "LD_BIND_NOW": "1",  # what the linker does at the first call is not the request's
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join("-" + f for f in BETTER_CPUS.split()),
}

# What the program was built with, and what decides over our own code.
BUILT = ("machine", "compiler", "flags", "libc")
BUILT_OURS = BUILT[:3]


class Count:
    """What one thing costs: instructions by layer, and system calls, each per unit."""

    def __init__(self, unit, total, calls, layers):
        self.unit, self.total, self.calls, self.layers = unit, total, calls, layers

    @property
    def own(self):
        """The instructions of our own code."""
        return sum(self.layers.get(layer, 0) for layer in LAYERS)

    def grown(self, recorded, judged=("calls", "own", "total")):
        """Which of the things that are judged have become too much more than was recorded."""
        growth = {what: change(getattr(recorded, what), getattr(self, what)) for what in judged}
        return [what for what in judged if round(growth[what], 3) > GROWTH]

    def has_shrunk(self, recorded):
        """Whether it costs so much less that the record should say so."""
        return change(recorded.total, self.total) < -SHRINKAGE


def change(old, new):
    """By how many per cent; 100 where there was nothing."""
    return 100 * (new - old) / old if old else 100 * (new > old)


# ---- counting --------------------------------------------------------------------------------


class Names:
    """callgrind's abbreviations: "(12) name" the first time, "(12)" afterwards."""

    def __init__(self):
        self.known = {}

    def look_up(self, text):
        number, _, name = text.partition(" ")
        if name:
            self.known[number] = name
        return self.known[number]


class Profile:
    """
    Reads callgrind's output, a line at a time. `parts`: for each count, a dictionary of instructions
    by layer, and `calls`.
    """

    def __init__(self):
        self.parts = []
        self._files, self._objects, self._functions = Names(), Names(), Names()
        self._part = None
        self._file = self._own_file = self._object = self._called = ""
        self._inclusive = False

    def _layer(self):
        if os.path.basename(self._object) == "requests":
            # What headers of the system put in belongs to the function that it is in.
            for path in (self._file, self._own_file):
                for layer, folder in LAYERS.items():
                    if ("/" + folder) in ("/" + path):
                        return layer
            return REST
        for layer, start in LIBRARIES.items():
            if os.path.basename(self._object).startswith(start):
                return layer
        return REST

    def _cost(self, line):
        numbers = [int(n) for n in line.split()[1:3]] + [0, 0]
        if not self._inclusive:
            layer = self._layer()
            self._part[layer] = self._part.get(layer, 0) + numbers[0]
        elif self._called == NOT_COUNTED:
            self._part["calls"] -= numbers[1]
        self._inclusive = False

    def line(self, line):
        key, is_pair, value = line.partition("=")
        if line.startswith("part:"):
            self._part = {"calls": 0}
        elif line.startswith("desc: Trigger:") and line.endswith("=" + END):
            self.parts.append(self._part)
        elif line.startswith("summary:"):
            self._part["calls"] += int((line.split() + ["0"])[2])
        elif key == "ob":
            self._object = self._objects.look_up(value)
        elif key == "fl":
            self._file = self._own_file = self._files.look_up(value)
        elif key in ("fi", "fe"):
            self._file = self._files.look_up(value)
        elif key == "fn":
            self._functions.look_up(value)
        elif key == "cob":
            self._objects.look_up(value)
        elif key in ("cfi", "cfl"):
            self._files.look_up(value)
        elif key == "cfn":
            self._called = self._functions.look_up(value)
        elif key == "calls" and is_pair:
            self._inclusive = True
        elif self._part is not None and re.match(r"[0-9*+-]", line):
            self._cost(line)


def cannot_count():
    """Why nothing can be counted here; "" when it can."""
    if not shutil.which("valgrind"):
        return "valgrind is not installed"
    if not os.access(REQUESTS, os.X_OK):
        return "%s is not built" % REQUESTS
    with open(REQUESTS, "rb") as f:
        program = f.read()
    if b"-fsanitize" in program or b"--coverage" in program:
        return "built with a sanitizer or for coverage"
    return ""


def said_flags(text):
    """The compiler flags that make a difference to what is executed."""
    return " ".join(f for f in text.split() if not re.match(r"-(g|W|ffile-prefix|fdebug-prefix)", f))


def measure():
    """Plays the script: what it was built with, and each Count by its name."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind")
        command = ["valgrind", "-q", "--command-line-only=yes", "--tool=callgrind"]
        command += ["--callgrind-out-file=" + out, "--combine-dumps=yes"]
        command += ["--collect-atstart=no", "--collect-systime=yes"]
        command += ["--toggle-collect=" + function for function in (*COUNTED, NOT_COUNTED)]
        command += ["--dump-before=" + function for function in (BEGIN, END)]
        said = subprocess.run(
            command + [REQUESTS],
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        profile = Profile()
        with open(out, encoding="utf-8", errors="replace") as f:
            for line in f:
                profile.line(line.rstrip())
    built, counted = {"machine": os.uname().machine}, []
    for line in said.splitlines():
        key, _, value = line.partition(" ")
        if key == "count":
            counted.append(value.split())
        else:
            built[key] = said_flags(value) if key == "flags" else value
    assert len(counted) == len(profile.parts), "callgrind did not see every count"
    counts = {}
    for (name, units, unit), part in zip(counted, profile.parts):
        layers = {layer: part.get(layer, 0) / int(units) for layer in COLUMNS}
        calls = part["calls"] / int(units)
        counts[name] = Count(unit, round(sum(layers.values())), round(calls, 2), layers)
    return built, counts


# ---- the record ------------------------------------------------------------------------------

OPENING = """\
What requests cost: instructions in user space, and system calls (counts.py). Not to be edited:
`./dev counts` shows what is now, `./dev counts --accept 'REASON'` puts it on record.
"""


class Record:
    """What was counted last, with what, and how it came about."""

    def __init__(self, text=""):
        self.built, self.counts = {}, {}
        rows, _, self.history = text.partition("\nHistory\n\n")
        columns = []
        for line in rows.splitlines():
            words = line.split()
            if not words or line.startswith("#"):
                continue
            if words[0] in BUILT:
                self.built[words[0]] = line.partition(" ")[2].strip()
            elif words[0] == "count":
                columns = words[4:]
            else:
                layers = dict(zip(columns, (float(n) for n in words[4:])))
                self.counts[words[0]] = Count(words[1], int(words[2]), float(words[3]), layers)

    @classmethod
    def read(cls, path=RECORD):
        if not os.path.exists(path):
            return cls()
        with open(path, encoding="utf-8") as f:
            return cls(f.read())

    def judged(self, built):
        """What can be judged of a program that was built so, and why nothing else can."""
        other = [key for key in BUILT if built.get(key) != self.built.get(key)]
        why = ["%s %s, not %s" % (key, built.get(key), self.built.get(key)) for key in other]
        judged = ["calls"]
        if not set(other) & set(BUILT_OURS):
            judged.append("own")
        if not other:
            judged.append("total")
        return judged, "; ".join(why)

    def changes(self, counts):
        """Lines for the history: what differs from the record by enough to be noted."""
        lines = []
        for name in {**counts, **self.counts} if self.counts else ():
            old, new = self.counts.get(name), counts.get(name)
            if not old:
                lines.append("%s %d, new" % (name, new.total))
            elif not new:
                lines.append("%s %d, no more" % (name, old.total))
            elif abs(change(old.total, new.total)) >= NOTED or old.calls != new.calls:
                lines.append("%s %s" % (name, moved(old, new)))
        return lines

    def write(self, built, counts, reason):
        """Puts `counts` on record."""
        entry = "%s  %s\n" % (datetime.date.today().isoformat(), reason)
        entry += "".join("    %s\n" % line for line in self.changes(counts))
        with open(RECORD, "w", encoding="utf-8") as f:
            f.write(textwrap.indent(OPENING, "# ") + "\n")
            f.write("".join("%-9s %s\n" % item for item in built.items()) + "\n")
            f.write("\n".join(table(counts)) + "\n\nHistory\n\n" + entry + self.history)


def table(counts):
    """The counts as lines; columns where nothing is are left out."""
    columns = [c for c in COLUMNS if any(round(count.layers[c]) for count in counts.values())]
    lines = ["%-17s %-9s %6s %6s" % ("count", "unit", "total", "calls")]
    lines[0] += "".join("%9s" % column for column in columns)
    for name, count in counts.items():
        line = "%-17s %-9s %6d %6.2f" % (name, count.unit, count.total, count.calls)
        lines.append(line + "".join("%9.0f" % count.layers[column] for column in columns))
    return lines


def moved(old, new):
    """How a count has changed, in words."""
    calls = ", calls %.2f -> %.2f" % (old.calls, new.calls) if old.calls != new.calls else ""
    return "%d -> %d%s" % (old.total, new.total, calls)


def compare(name, old, new):
    """A line that shows how much a count has changed, and where."""
    layers = [(c, round(old.layers.get(c, 0)), round(new.layers[c])) for c in COLUMNS]
    where = ", ".join("%s %d -> %d" % layer for layer in layers if layer[1] != layer[2])
    line = "%-17s %+6.1f %%  %s" % (name, change(old.total, new.total), moved(old, new))
    return line + (" (%s)" % where if where else "")


def main(arguments):
    accept = len(arguments) == 2 and arguments[0] == "--accept" and arguments[1].strip()
    before = arguments == ["--before"]
    if arguments and not accept and not before:
        sys.exit("usage: counts [--accept REASON | --before]")
    why = cannot_count()
    if why:
        sys.exit("counts: " + why)
    built, counts = measure()
    record = Record.read(BEFORE if before else RECORD)
    if accept:
        record.write(built, counts, arguments[1].strip())
    which = " so far" if accept else " from before" if before else ""
    print("\n".join(table(counts)) + "\n\nbeside the record%s:" % which)
    judged, why = record.judged(built)
    if why:
        print("only %s are judged: %s" % (" and ".join(judged), why))
    for name in {**counts, **record.counts}:
        if name not in record.counts:
            print(name, "is not on it")
        elif name not in counts:
            print(name, "is not counted any more")
        else:
            print(compare(name, record.counts[name], counts[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
