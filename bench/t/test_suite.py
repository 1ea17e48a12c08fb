"""Tests how ./dev bench evaluates measurements, and that it runs and cleans up."""

import json
import os
import signal
import subprocess
import sys
import time

SOURCE = os.environ.get("TOP_SRCDIR") or os.path.join(os.path.dirname(__file__), "..", "..")
SUITE = os.path.join(os.path.abspath(SOURCE), "bench", "suite")
BUILD = os.environ.get("TOP_BUILDDIR", "")
sys.path.append(os.path.join(os.path.abspath(SOURCE), "t", "system"))
sys.path.insert(0, SUITE)

import tap  # noqa: E402  (before pytest, which may not be installed)

import pytest  # noqa: E402

import figures  # noqa: E402
import goals  # noqa: E402
import load  # noqa: E402
import machine  # noqa: E402
import plots  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
import rows  # noqa: E402
from store import Store  # noqa: E402

# ---- arithmetic ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, middle", [([3], 3), ([9, 1, 5], 5), ([4, 1, 3, 100], 3.5), ([2, 2, 1], 2)]
)
def test_median(values, middle):
    assert figures.median(values) == middle


def test_median_of_nothing_is_refused():
    with pytest.raises(ValueError):
        figures.median([])


def test_summary_passes_over_rounds_that_failed():
    assert figures.summary([4, None, 1, 3]) == figures.Figure(3, 1, 4, 3)
    assert figures.summary([4, 9, 1], max) == figures.Figure(9, 1, 9, 3)
    assert figures.summary([None, None]) is None


def test_ratios_are_taken_within_a_round():
    # The second round was slow for both; a ratio of medians would say 12 / 5.
    assert figures.ratios([10, 40, 12], [5, 20, 4]) == [2, 2, 3]
    assert figures.ratios([1, None, 3, 4], [None, 2, 0, 2]) == [None, None, None, 2]


def test_lookup():
    result = {"server": {"cpu": 1.5}, "errors": 0}
    assert figures.lookup(result, "server.cpu") == 1.5
    assert figures.lookup(result, "errors") == 0
    assert figures.lookup(result, "server.memory") is None
    assert figures.lookup(result, "errors.of") is None
    assert figures.lookup(None, "errors") is None


def test_histograms_of_rounds_are_added():
    merged = figures.merged([[[10, 5], [20, 1]], [[20, 2], [5, 1]]])
    assert merged == [(5, 1), (10, 5), (20, 3)]
    assert figures.percentile(merged, 0.5) == 10
    assert figures.percentile(merged, 1) == 20
    assert figures.percentile([], 0.5) is None


def test_tail_ends_with_the_rarest():
    # Of 1,000 answers: 900 in 10 µs, 99 in 20, and one in 300.
    assert figures.tail([(10, 900), (20, 99), (30, 0), (300, 1)]) == [
        (1, 10), (10, 20), (pytest.approx(1000), 300),
    ]  # fmt: skip
    assert figures.tail([(10, 6), (20, 4)]) == [(1, 10), (2.5, 20), (10, 20)]
    assert figures.tail([]) == []


# ---- verdicts ------------------------------------------------------------------------------------


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


def test_a_worst_answer_is_the_worst_of_all_rounds(store):
    keep(store, "r", {"a": {"n": 1000}}, {"a": {"n": 9000}}, {"a": {"n": 2000}})
    goal = goals.at_most(5, "w", "m", goals.Value("r", "a", "n", max), "ms")
    assert goals.judged(goal, store) == ((9, 1, 9, 3), False)


def test_a_ratio_goes_by_rounds(store):
    keep(store, "r", {"a": {"n": 10}, "b": {"n": 5}}, {"a": {"n": 40}, "b": {"n": 20}},
         {"a": {"n": 12}, "b": {"n": 4}})  # fmt: skip
    goal = goals.at_most(2, "w", "m", goals.Ratio("r", "a", "b", "n"))
    assert goals.judged(goal, store) == ((2, 2, 3, 3), True)


def test_what_failed_or_was_not_run_has_no_verdict(store):
    goal = goals.at_most(2, "w", "m", goals.Ratio("r", "a", "b", "n"))
    assert goals.judged(goal, store) == (None, None)
    keep(store, "r", {"a": {"n": 1}, "b": {"n": 1, "failed": "it fell over"}})
    assert goals.judged(goal, store) == (None, None)
    assert store.failures("r") == [("b", "it fell over")]


# ---- tables --------------------------------------------------------------------------------------


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
    for plot in plots.PLOTS:
        assert rows.named(plot.row), plot.file
    assert len({plot.file for plot in plots.PLOTS}) == len(plots.PLOTS)


@pytest.mark.parametrize(
    "value, text",
    [(0, "0"), (0.123456, "0.12"), (1.1249, "1.12"), (12.34, "12.3"), (123.4, "123"),
     (1234.5, "1,234"), (1234567, "1,235,000"), (9999.7, "10,000")],
)  # fmt: skip
def test_numbers_have_no_digits_that_mean_nothing(value, text):
    assert report.number(value) == text


def test_what_misses_its_limit_by_little_does_not_look_like_it():
    assert report.beside(1.124, 1.12) == "1.124"
    assert report.beside(1.12, 1.12) == "1.12"
    assert report.beside(1.126, 1.12) == "1.13"


def test_report(store):
    result = {"server": {"cpu_us_per_request": 4.0}, "errors": 2, "requests": 1000}
    slower = {"server": {"cpu_us_per_request": 5.0}}
    keep(store, "pairs-50", {"echo, text": result, "counterd, text": slower,
                             "yrmcds": {"failed": "not installed"}})  # fmt: skip
    text = "\n".join(report.whole("/nowhere", store, "1 (commit 2)", [], ""))
    assert "0 of %d are met, %d have not been measured" % (
        len(goals.GOALS), len(goals.GOALS) - 1) in text  # fmt: skip
    assert "| ≤ 1.12 | 1.25 | – | **no** |" in text
    assert "| echo, text | 4.00 | 0.80 |" in text
    assert "- yrmcds failed at least once: `not installed`" in text
    assert "- echo, text: 2 requests went wrong" in text


def test_objects_among_other_text():
    assert load.objects_in('one {"a": {"b": 1}}\ntwo\n{\n"c": 2\n}\n') == [{"a": {"b": 1}}, {"c": 2}]


def test_few_errors_are_told_and_many_are_a_failure():
    def outcome(status, errors):
        result = {"requests": 1000, "seconds": 2.0, "errors": errors}
        return load.judged(result, status, "why")

    assert outcome(0, 0)["requests_per_second"] == 500
    assert "failed" not in outcome(1, 10)
    assert outcome(1, 11)["failed"] == "exit status 1: why"
    assert outcome(-9, 0)["failed"]
    assert load.judged({}, 0, "")["failed"] == "it printed no JSON"


# ---- rounds --------------------------------------------------------------------------------------


def measured(store, until, asked, hurries=False):
    """The order of runs of three subjects that take 10 s each; the last one is slow."""
    now, order = [0.0], []

    class Measuring(rounds.Measuring):
        def run(self, row, subject):
            now[0] += 10
            order.append(subject.name)
            return {"n": 1}

    subjects = [rows.engine(name)._replace(slow=name == "c") for name in "abc"]
    measuring = Measuring("", store, "tree", 1, 0, until, hurries, clock=lambda: now[0])
    measuring.row(rows.row("r", "", "", subjects, ()), asked)
    return "".join(order)


def test_rounds_are_interleaved_and_every_second_one_goes_backwards(store):
    assert measured(store, 1000, 3) == "abccbaabc"
    assert [len(one) for one in store.read("r")["rounds"]] == [3, 3, 3]


def test_no_round_is_begun_that_would_not_end_in_time(store):
    assert measured(store, 60, 3) == "abccba"
    assert len(store.read("r")["rounds"]) == 2


def test_in_a_hurry_what_is_slow_is_left_out(store):
    assert measured(store, 1000, 2, True) == "abba"


def test_what_others_use_is_told_apart():
    cpu = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        # The measured process uses no time, so this process is the others.
        with machine.Others({cpu}, lambda: 0) as others, machine.Others({cpu}, time.process_time) as ours:
            begun, until = time.monotonic(), time.process_time() + 0.5
            while time.process_time() < until:
                pass
        elapsed = time.monotonic() - begun
    finally:
        os.sched_setaffinity(0, before)
    # The kernel counts hundredths of a second.
    assert others.share * elapsed > 0.4
    assert (others.share - ours.share) * elapsed > 0.4


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
