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
import load  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
import rows  # noqa: E402
from store import Store  # noqa: E402


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "rows"))


def keep(store, row, *results):
    """Stores a row; each argument is a round: subject -> result."""
    store.write(row, {"row": row, "tree": "1 (commit 2)", "date": "2000-01-01", "seconds": 1,
                      "asked": len(results), "rounds": list(results)})  # fmt: skip


def test_a_goal_is_met_up_to_its_limit(store):
    keep(store, "r", *({"a": {"n": n}} for n in (3, 1, 2)))
    value = goals.Value("r", "a", "n")
    assert goals.judged(goals.at_most(2, "w", "m", value), store) == ((2, 1, 3, 3), True)
    assert goals.judged(goals.at_most(1.9, "w", "m", value), store)[1] is False
    assert goals.judged(goals.at_least(2, "w", "m", value), store)[1] is True
    assert goals.judged(goals.at_least(2.1, "w", "m", value), store)[1] is False


def test_a_ratio_goes_by_rounds(store):
    keep(store, "r", {"a": {"n": 10}, "b": {"n": 5}}, {"a": {"n": 40}, "b": {"n": 20}},
         {"a": {"n": 12}, "b": {"n": 4}})  # fmt: skip
    goal = goals.at_most(2, "w", "m", goals.Ratio("r", "a", "b", "n"))
    assert goals.judged(goal, store) == ((2, 2, 3, 3), True)


def test_whatever_is_named_is_there():
    subjects = {(row.name, subject.name) for row in rows.ROWS for subject in row.subjects}
    assert len(subjects) == sum(len(row.subjects) for row in rows.ROWS), "names are not unique"
    for goal in goals.GOALS:
        assert set(goal.formula.needs) <= subjects, goal
    for row in rows.ROWS:
        for subject in row.subjects if any(one.compared for one in row.columns) else ():
            assert subject.ours is None or (row.name, subject.ours) in subjects, subject.name
    for title, row, _, behind in rows.OVERVIEW:
        assert any((row, name + behind) in subjects for name in rows.CONTENDERS), title


def test_report(store):
    result = {"server": {"cpu_us_per_request": 4.0}, "errors": 2, "requests": 1000}
    slower = {"server": {"cpu_us_per_request": 5.0}}
    keep(store, "pairs-50", {"echo, text": result, "counterd, text": slower,
                             "yrmcds": {"failed": "not installed"}})  # fmt: skip
    text = "\n".join(report.whole("/nowhere", store, "1 (commit 2)", ""))
    assert "0 of %d are met, %d have not been measured" % (
        len(goals.GOALS), len(goals.GOALS) - 1) in text  # fmt: skip
    assert "| ≤ 1.12 | 1.25 | – | **no** |" in text
    assert "| echo, text | 4.00 | 0.80 |" in text
    assert "- yrmcds failed at least once: `not installed`" in text
    assert "- echo, text: 2 requests went wrong" in text


# ---- servers that keep jobs ----------------------------------------------------------------------


def test_a_server_that_keeps_jobs_is_started_again(tmp_path):
    if not os.access(os.path.join(BUILD, "counterbench"), os.X_OK):
        pytest.skip("counterbench is not built")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two cores are needed")
    for name in "counterd", "counterbench":
        (tmp_path / name).symlink_to(os.path.join(BUILD, name))
    kept = [one for one in rows.named("jobs-start").subjects if one.name == "counterd, full"]
    before = [load.Load("put-jobs", "beanstalk", timed=False, c=2, n=500, seconds=60, warmup=0)]
    measuring = rounds.Measuring(str(tmp_path), None, "tree", 1, 0, 0)
    result = measuring.run(rows.named("jobs-start"), kept[0]._replace(before=before))
    assert 0 < result["start_seconds"] < 60, result
    puts = [one for one in rows.named("jobs-puts").subjects if one.name.startswith("counterd, normal")]
    result = measuring.run(rows.named("jobs-puts"), puts[0]._replace(load=before[0]))
    assert result["log_bytes"] > 0, result
    assert os.listdir(tmp_path / "bench" / "disk") == []


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
