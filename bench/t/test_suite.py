"""Tests how ./dev bench evaluates measurements, and that it runs and cleans up."""

import json
import os
import signal
import subprocess
import sys

SOURCE = os.environ.get("TOP_SRCDIR") or os.path.join(os.path.dirname(__file__), "..", "..")
SUITE = os.path.join(os.path.abspath(SOURCE), "bench", "suite")
BUILD = os.environ.get("TOP_BUILDDIR", "")
sys.path.append(os.path.join(os.path.abspath(SOURCE), "t", "system"))
sys.path.insert(0, SUITE)

import tap  # noqa: E402  (before pytest, which may not be installed)

import pytest  # noqa: E402

import goals  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402
from store import Store  # noqa: E402


def test_whatever_is_named_is_there():
    subjects = {(row.name, subject.name) for row in rows.ROWS for subject in row.subjects}
    assert len(subjects) == sum(len(row.subjects) for row in rows.ROWS), "names are not unique"
    for goal in goals.GOALS:
        assert set(goal.formula.needs) <= subjects, goal
    for row in rows.ROWS:
        for subject in row.subjects if any(one.compared for one in row.columns) else ():
            assert subject.ours is None or (row.name, subject.ours) in subjects, subject.name


def test_report(tmp_path):
    result = {"server": {"cpu_us_per_request": 4.0}, "errors": 2, "requests": 1000}
    slower = {"server": {"cpu_us_per_request": 5.0}}
    row = {"echo, text": result, "counterd, text": slower, "yrmcds": {"failed": "not installed"}}
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
    assert "| ≤ 1.12 | 1.25 | – | **no** |" in text
    assert "| echo, text | 4.00 | 0.80 |" in text
    assert "- yrmcds failed at least once: `not installed`" in text
    assert "- echo, text: 2 requests went wrong" in text


# ---- the whole, with the programs that measure ---------------------------------------------------


@pytest.fixture
def bench(tmp_path):
    """Returns a function that starts ./dev bench; its servers use folders in `folder`."""
    if not os.access(os.path.join(BUILD, "counterbench"), os.X_OK):
        pytest.skip("counterbench is not built")
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
    """The processes that work in the folder, and the files in it."""
    found = os.listdir(folder)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            where = os.readlink("/proc/%s/cwd" % pid)
        except OSError:
            continue
        if where.startswith(folder):
            found.append("process %s" % pid)
    return found


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
    assert "| counterd, binary, TLS |" in text
    assert left_behind(bench.folder) == []


def test_ended_amid_a_run_it_leaves_nothing(bench):
    child = bench()
    assert "counterd" in child.stderr.readline()  # the first run is done, the second has begun
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 130
    assert left_behind(bench.folder) == []


if __name__ == "__main__":
    tap.main(__file__)
