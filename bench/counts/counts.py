#!/usr/bin/env python3
"""
Counts how many instructions requests cost, compares them with the record, and updates the record.

`./dev counts` prints the counts; `./dev counts --accept 'REASON'` makes them the record.
test_counts.py fails when a count has grown. The program `requests` plays the script, and callgrind
counts instructions in user space. The counts are split by layer: our code by source file (inline
functions count where they are written), other code by library. System calls are counted too.

Only counts that are the same on every machine are judged: our own code if compiler and flags match
the record, our code plus libraries if the C library matches too, and system calls always. The C
library has variants of functions for each CPU; an environment variable selects the plainest.
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
REQUESTS = os.environ.get("REQUESTS") or os.path.join(
    os.environ.get("TOP_BUILDDIR", "."), "bench", "counts", "requests"
)

# Per cent: growth that fails, shrinkage that is reported.
GROWTH = 5
SHRINKAGE = 5

# The sources of each layer, and the prefixes of library names.
LAYERS = {
    "net": "src/net/",
    "service": "src/service/",
    "proto": "proto/",
    "engine": "src/engine/",
    "jobs": "src/jobs/",
    "base": "src/base/",
}
LIBRARIES = {"libevent": "libevent", "libc": ("libc.so", "libm.so")}
REST = "rest"
COLUMNS = [*LAYERS, *LIBRARIES, REST]

# What callgrind counts: functions of requests.c.
COUNTED = "counts_serve*"
NOT_COUNTED = "counts_await"
BEGIN, END = "counts_begin", "counts_end"

# CPU features hidden from the C library, so that it copies and compares alike on every CPU.
BETTER_CPUS = "AVX AVX2 AVX_Fast_Unaligned_Load AVX512VL AVX512BW BMI2 ERMS FSRM LZCNT MOVBE SSSE3 "
BETTER_CPUS += "SSE4_1 SSE4_2"
ENVIRONMENT = {
    "LD_BIND_NOW": "1",  # the linker's work at a first call does not belong to a request
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join("-" + f for f in BETTER_CPUS.split()),
}

# Facts about the build, and the ones that affect our own code.
BUILT = ("machine", "compiler", "flags", "libc")
BUILT_OURS = BUILT[:3]


class Count:
    """The cost of one unit: instructions by layer, and system calls."""

    def __init__(self, unit, total, calls, layers):
        self.unit, self.total, self.calls, self.layers = unit, total, calls, layers

    @property
    def own(self):
        """The instructions of our own code."""
        return sum(self.layers.get(layer, 0) for layer in LAYERS)

    def grown(self, recorded, judged=("calls", "own", "total")):
        """The judged counts that have grown too much since the record."""
        growth = {what: change(getattr(recorded, what), getattr(self, what)) for what in judged}
        return [what for what in judged if round(growth[what], 3) > GROWTH]

    def has_shrunk(self, recorded):
        """True if it costs so much less that the record should be updated."""
        return change(recorded.total, self.total) < -SHRINKAGE


def change(old, new):
    """The change in per cent; 100 if there was nothing before."""
    return 100 * (new - old) / old if old else 100 * (new > old)


# ---- counting --------------------------------------------------------------------------------


def look_up(known, text):
    """The name of one of callgrind's abbreviations: "(12) name" the first time, "(12)" afterwards."""
    number, _, name = text.partition(" ")
    return known.setdefault(number, name)


class Profile:
    """
    Reads callgrind's output line by line. `parts`: for each count, a dictionary of instructions
    by layer, and `calls`.
    """

    def __init__(self):
        self.parts = []
        self._files, self._objects, self._functions = {}, {}, {}
        self._part = None
        self._file = self._own_file = self._object = self._called = ""
        self._inclusive = False

    def _layer(self):
        if os.path.basename(self._object) == "requests":
            # Code from system headers belongs to the function around it.
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
            self._object = look_up(self._objects, value)
        elif key == "fl":
            self._file = self._own_file = look_up(self._files, value)
        elif key in ("fi", "fe"):
            self._file = look_up(self._files, value)
        elif key == "fn":
            look_up(self._functions, value)
        elif key == "cob":
            look_up(self._objects, value)
        elif key in ("cfi", "cfl"):
            look_up(self._files, value)
        elif key == "cfn":
            self._called = look_up(self._functions, value)
        elif key == "calls" and is_pair:
            self._inclusive = True
        elif self._part is not None and re.match(r"[0-9*+-]", line):
            self._cost(line)


def cannot_count():
    """The reason why counting is impossible here; "" if it is possible."""
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
    """The compiler flags that affect the generated code."""
    return " ".join(
        f for f in text.split() if not re.match(r"-(g|W|ffile-prefix|fdebug-prefix)", f)
    )


def measure():
    """Plays the script. Returns the facts about the build, and each Count by name."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind")
        command = ["valgrind", "-q", "--command-line-only=yes", "--tool=callgrind"]
        command += ["--callgrind-out-file=" + out, "--combine-dumps=yes"]
        command += ["--collect-atstart=no", "--collect-systime=yes"]
        command += ["--toggle-collect=" + function for function in (COUNTED, NOT_COUNTED)]
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
`./dev counts` shows what is now, `./dev counts --accept 'REASON'` puts it on record. git has the earlier ones.
"""


class Record:
    """The recorded counts, and the build they belong to."""

    def __init__(self, text=""):
        self.built, self.counts = {}, {}
        rows = text.partition("\nLast change\n\n")[0]
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
    def read(cls):
        if not os.path.exists(RECORD):
            return cls()
        with open(RECORD, encoding="utf-8") as f:
            return cls(f.read())

    def judged(self, built):
        """What can be judged for a program built like this, and why the rest can't."""
        other = [key for key in BUILT if built.get(key) != self.built.get(key)]
        why = ["%s %s, not %s" % (key, built.get(key), self.built.get(key)) for key in other]
        judged = ["calls"]
        if not set(other) & set(BUILT_OURS):
            judged.append("own")
        if not other:
            judged.append("total")
        return judged, "; ".join(why)

    def write(self, built, counts, reason):
        """Makes `counts` the record."""
        entry = "%s  %s\n" % (datetime.date.today().isoformat(), reason)
        with open(RECORD, "w", encoding="utf-8") as f:
            f.write(textwrap.indent(OPENING, "# ") + "\n")
            f.write("".join("%-9s %s\n" % item for item in built.items()) + "\n")
            f.write("\n".join(table(counts)) + "\n\nLast change\n\n" + entry)


def table(counts):
    """The counts as lines; omits empty columns."""
    columns = [c for c in COLUMNS if any(round(count.layers[c]) for count in counts.values())]
    lines = ["%-17s %-9s %6s %6s" % ("count", "unit", "total", "calls")]
    lines[0] += "".join("%9s" % column for column in columns)
    for name, count in counts.items():
        line = "%-17s %-9s %6d %6.2f" % (name, count.unit, count.total, count.calls)
        lines.append(line + "".join("%9.0f" % count.layers[column] for column in columns))
    return lines


def compare(name, old, new):
    """A line that shows the change of a count, and the layers that changed."""
    layers = [(c, round(old.layers.get(c, 0)), round(new.layers[c])) for c in COLUMNS]
    where = ", ".join("%s %d -> %d" % layer for layer in layers if layer[1] != layer[2])
    line = "%-17s %+6.1f %%  %d -> %d" % (name, change(old.total, new.total), old.total, new.total)
    if old.calls != new.calls:
        line += ", calls %.2f -> %.2f" % (old.calls, new.calls)
    return line + (" (%s)" % where if where else "")


def main(arguments):
    accept = len(arguments) == 2 and arguments[0] == "--accept" and arguments[1].strip()
    if arguments and not accept:
        sys.exit("usage: counts [--accept REASON]")
    why = cannot_count()
    if why:
        sys.exit("counts: " + why)
    built, counts = measure()
    record = Record.read()
    if accept:
        record.write(built, counts, arguments[1].strip())
    print("\n".join(table(counts)) + "\n\nbeside the record%s:" % (" so far" if accept else ""))
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
