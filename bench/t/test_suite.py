"""
Tests how ./dev bench evaluates measurements, and that it runs and cleans up; and compares counterbench(1) with what the
program's help says of workloads, protocols and options.
"""

import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys

SOURCE = os.environ.get("TOP_SRCDIR") or os.path.join(os.path.dirname(__file__), "..", "..")
SUITE = os.path.join(os.path.abspath(SOURCE), "bench", "suite")
BUILD = os.environ.get("TOP_BUILDDIR", "")
COUNTERBENCH = os.path.join(BUILD, "counterbench")
sys.path.append(os.path.join(os.path.abspath(SOURCE), "t", "system"))
sys.path.insert(0, SUITE)

import tap  # noqa: E402  (before pytest, which may not be installed)

import pytest  # noqa: E402

import goals  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402
from store import Store  # noqa: E402


needs_counterbench = pytest.mark.skipif(not os.access(COUNTERBENCH, os.X_OK), reason="counterbench is not built")


def test_whatever_is_named_is_there():
    subjects = {(row.name, subject.name) for row in rows.ROWS for subject in row.subjects}
    assert len(subjects) == sum(len(row.subjects) for row in rows.ROWS), "names are not unique"
    assert {one for goal in goals.GOALS for one in goal.formula.needs} == subjects


def test_report(tmp_path):
    result = {"server": {"cpu_us_per_request": 4.0}, "errors": 2, "requests": 1000}
    slower = {"server": {"cpu_us_per_request": 5.0}}
    row = {"echo, text": result, "counterd, text": slower, "Redis Lua": {"failed": "not installed"}}
    kept = {
        "row": "pairs-50",
        "tree": "1 (commit 2)",
        "date": "2000-01-01",
        "seconds": 1,
        "asked": 1,
    }
    store = Store(str(tmp_path / "rows"))
    store.write("pairs-50", dict(kept, rounds=[row]))
    text = "\n".join(report.whole("/nowhere", store, "1 (commit 2)", ""))
    assert "0 of %d are met, %d have not been measured" % (
        len(goals.GOALS), len(goals.GOALS) - 1) in text  # fmt: skip
    assert "| ≤ 1.12 | 1.25 | – | 5.00 ÷ 4.00 µs | **no** |" in text
    assert "- Redis Lua failed at least once: `not installed`" in text
    assert "- echo, text: 2 requests went wrong" in text


# ---- the whole, with the programs that measure ---------------------------------------------------


@pytest.fixture
def bench(tmp_path):
    """Returns a function that starts ./dev bench; its servers use folders in `folder`."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")
    folder = tmp_path / "servers"
    folder.mkdir()
    build = tmp_path / "build"
    build.mkdir()
    for name in os.listdir(BUILD):  # results go to a build folder of our own
        if name != "bench":
            (build / name).symlink_to(os.path.join(BUILD, name))
    argv = [sys.executable, "-B", os.path.join(SUITE, "bench.py"), "--build", str(build), "--quick"]
    argv += ["--only", "tls"]
    children = []

    def start(*arguments):
        child = subprocess.Popen(
            argv + list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=str(folder)),
        )  # fmt: skip
        children.append(child)
        return child

    start.folder, start.build = str(folder), build
    yield start
    for child in children:
        child.kill()
        child.communicate()


def left_behind(folder):
    """The processes that use the folder for their files, and the files in it."""
    found = os.listdir(folder)
    for path in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(path, "rb") as f:
            if os.fsencode("TMPDIR=" + folder) in f.read().split(b"\0"):
                found.append(path)
    return found


@needs_counterbench
def test_a_row_is_measured_and_reported(bench):
    child = bench()
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    with open(bench.build / "bench" / "quick" / "rows" / "tls.json") as f:
        kept = json.load(f)
    assert [sorted(one) for one in kept["rounds"]] == [
        ["counterd, binary", "counterd, binary, TLS", "counterd, text", "counterd, text, TLS"]
    ]
    for result in kept["rounds"][0].values():
        assert "failed" not in result, result
        assert result["requests"] > 0 and result["server"]["cpu_us_per_request"] > 0
    with open(out.strip()) as f:
        text = f.read()
    assert re.search(r"^\| TLS, 50 connections, depth 1, binary .* ÷ [\d.]+ µs \|", text, re.M)
    assert left_behind(bench.folder) == []


@needs_counterbench
def test_ended_amid_a_run_it_leaves_nothing(bench):
    child = bench()
    assert "counterd" in child.stderr.readline()  # the first run is done, the second has begun
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 130
    assert left_behind(bench.folder) == []


# ---- the manual ------------------------------------------------------------------------------


def items(head, macro):
    """The items of a part of the manual: what follows the macro, and their text."""
    with open(os.path.join(SOURCE, "man", "counterbench.1"), encoding="utf-8") as f:
        part = re.search(r"^\.Sh %s\n(.*?)(?=^\.Sh |\Z)" % head, f.read(), re.S | re.M)[1]
    found = re.findall(r"^\.It ?%s ?([^\n]*)\n(.*?)(?=^\.It|^\.El)" % macro, part, re.S | re.M)
    assert len(dict(found)) == len(found)
    return dict(found)


def helped(head):
    """A part of the help."""
    said = subprocess.run([COUNTERBENCH, "-h"], capture_output=True, text=True, check=True).stdout
    return said.partition(head + ":\n")[2].partition("\n\n")[0]


@needs_counterbench
def test_workloads_and_what_they_take():
    rows = re.findall(r"^  ([\w-]+) +\S.*\n {18}(.*)", helped("Workloads"), re.M)
    listed = items("WORKLOADS", "Ic")
    assert list(listed) and sorted(listed) == sorted(name for name, _ in rows)
    for name, takes in rows:
        wanted = dict(re.findall(r"--([\w-]+)(?: (\d+))?", takes))
        shown = re.findall(r"^\.Fl -([\w-]+)[^\n]*(?:\n\(([\d,]+)[);:])?", listed[name].rpartition("\nTakes\n")[2], re.M)
        assert dict((option, value.replace(",", "")) for option, value in shown) == wanted, name


@needs_counterbench
def test_protocols_and_their_ports():
    rows = dict(re.findall(r"^  ([\w-]+) .*\(port (\d+)\)$", helped("Protocols"), re.M))
    listed = items("PROTOCOLS", "Cm")
    assert rows and set(listed) == set(rows)
    for name, port in rows.items():
        assert re.search(r"\bport %s\b" % port, listed[name]), name


@needs_counterbench
def test_options_and_their_defaults():
    rows = re.findall(r"^  (?:-(\w), |    )--([\w-]+)(\[?)=?(\w*)\]? +(.*)", helped("Options"), re.M)
    heads = {}
    for letter, name, is_optional, argument, text in rows:
        head = (letter and letter + " , Fl ") + "-" + name
        head += (" Op" if is_optional else "") + (" Ar " + argument if argument else "")
        heads[head] = re.findall(r"\(default: (\S+)\)$", text)
    letters = [letter for letter, *_ in rows if letter]
    assert len(set(letters)) == len(letters)
    listed = items("OPTIONS", "Fl")
    assert heads and set(listed) == set(heads)
    for head, default in heads.items():
        assert re.findall(r"^Default: (\S+)\.$", listed[head], re.M) == default, head


@needs_counterbench
def test_exit_statuses():
    assert list(items("EXIT STATUS", "")) == ["0", "1", "2"]


if __name__ == "__main__":
    tap.main(__file__)
