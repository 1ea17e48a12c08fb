#!/usr/bin/env python3
"""
How large are files and functions in C, and which modules include each other in a circle?

    shape.py          prints code lines by folder (without comments and blanks), and what is too large
    shape.py --lint   fails for a file of more than 800 lines, a function of more than 60, and a circle
                      of includes

A module is NAME.c, NAME.h and NAME_internal.h. A function has the lines from its brace to the last one.
"""

import collections
import concurrent.futures
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILE_MAX, FUNCTION_MAX = 800, 60


def sources():
    """The lines of each C file, by name."""
    files = {}
    for top in "src", "proto", "lib", "bench", "fuzz", "t":
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".c", ".h")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as f:
                        files[os.path.relpath(path, ROOT)] = f.read().splitlines()
    return dict(sorted(files.items()))


def functions(name, lines):
    """The functions of a file, as FILE:NAME, with their lines."""
    opened = None
    for number, line in enumerate(lines):
        if line == "{":
            opened = number
        elif line == "}" and opened is not None:
            start = opened - 1
            while start > 0 and lines[start].startswith(" "):
                start -= 1
            found = re.search(r"(\w+)\(", lines[start])
            yield "%s:%s" % (name, found[1] if found else start + 1), number - opened + 1
            opened = None


def module(name):
    return re.sub(r"(_internal)?\.[ch]$", "", name)


def includes(files):
    """The modules that each module includes."""
    graph = collections.defaultdict(set)
    for name, lines in files.items():
        for line in lines:
            found = re.match(r'#include "([^"]+)"', line)
            if found:
                near = os.path.normpath(os.path.join(os.path.dirname(name), found[1]))
                there = [path for path in (near, found[1], "src/" + found[1]) if path in files]
                graph[module(name)].update(map(module, there[:1]))
    return graph


def circles(graph):
    """Lists of the modules that reach each other."""

    def reached(start):
        seen, left = set(), [start]
        while left:
            new = graph[left.pop()] - seen
            seen |= new
            left += new
        return seen

    reach = {name: reached(name) - {name} for name in [*graph]}
    groups = {tuple(sorted({name} | {o for o in reach[name] if name in reach.get(o, ())})) for name in reach}
    return sorted(group for group in groups if len(group) > 1)


def code_lines(path):
    said = subprocess.run(["gcc", "-fpreprocessed", "-dD", "-E", "-P", path], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True).stdout  # fmt: skip
    return sum(bool(line.strip()) for line in said.splitlines())


def print_code_lines(files):
    counts, sums = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for name, count in zip(files, pool.map(code_lines, files)):
            counts["/".join(name.split("/")[:-1][:2])] += count
            top = name.split("/")[0]
            sums["src and proto" if top in ("src", "proto") else top] += count
    for what in counts, sums:
        for name, count in what.items():
            print("%7d  %s" % (count, name))
        print()


def main():
    files = sources()
    large = {name: len(lines) for name, lines in files.items() if len(lines) > FILE_MAX}
    long = {f: size for name, lines in files.items() for f, size in functions(name, lines) if size > FUNCTION_MAX}
    rings = circles(includes(files))
    if sys.argv[1:] != ["--lint"]:
        print_code_lines(files)
        for found in large, long:
            print("".join("%7d  %s\n" % (size, name) for name, size in found.items()))
        print("".join("circle: %s\n" % " ".join(ring) for ring in rings), end="")
        return
    bad = ["%s: a file of %d lines" % item for item in large.items()]
    bad += ["%s: a function of %d lines" % item for item in long.items()]
    bad += ["a circle of includes: " + " ".join(ring) for ring in rings]
    sys.exit("\n".join(bad) or 0)


if __name__ == "__main__":
    main()
