"""The extension for MediaWiki, in Debian's MediaWiki on SQLite, beside the daemon.

`mediawiki/unpack build/mediawiki` must have put MediaWiki below the build folder; nothing is installed.
Each group of checks has a daemon of its own and runs beside the others; a test waits for one.
"""

import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import programs
from programs import TOP
import tap
import pytest

import servers
import wire

wire.DEADLINE = max(wire.DEADLINE, 300)  # of scripts that start MediaWiki on a busy machine

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mediawiki")
EXTENSION = os.path.join(TOP, "clients", "mediawiki")
ROOT = os.path.join(os.environ.get("TOP_BUILDDIR", "build"), "mediawiki", "root")
SHARE = os.path.join(os.path.abspath(ROOT), "usr", "share", "mediawiki")
MODULES = {"sqlite3", "intl", "mbstring", "xml", "pcntl", "posix", "zlib"}


def missing():
    """What keeps the tests from running, or an empty text."""
    if not servers.have_counterd():
        return "COUNTERD names no daemon"
    if not os.path.exists(SHARE):
        return "there is no MediaWiki in %s: run t/clients/mediawiki/unpack build/mediawiki" % ROOT
    if not shutil.which("php"):
        return "PHP is not installed"
    said = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True).stdout
    lacking = MODULES - set(said.split())
    return "PHP lacks %s" % ", ".join(sorted(lacking)) if lacking else ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


class Wiki:
    """An installed wiki, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.tree = os.path.join(folder, "wiki")
        self.data = os.path.join(folder, "data")
        for name in ("cache", "images", "extensions"):
            os.makedirs(os.path.join(self.tree, name))
        for name in os.listdir(SHARE):
            source = os.path.join(SHARE, name)
            if not os.path.islink(source):  # those lead to /var and /etc
                os.symlink(source, os.path.join(self.tree, name))
        os.mkdir(self.data)
        subprocess.run(
            ["php", self.script("install"), "--dbtype=sqlite", "--dbname=wiki", "--dbpath", self.data, "--server",
             "http://127.0.0.1", "--scriptpath=/w", "--pass=correct-horse", "--confpath", folder, "Wiki", "Admin"],
            env=self.environment(), check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.symlink(
            os.path.join(HERE, "LocalSettings.php"), os.path.join(self.tree, "LocalSettings.php")
        )

    def script(self, name):
        return os.path.join(self.tree, "maintenance", name + ".php")

    def environment(self, **more):
        return dict(
            os.environ,
            MW_INSTALL_PATH=self.tree,
            T_MW_DATA=self.data,
            T_MW_EXTENSION=EXTENSION,
            **more,
        )


class Site:
    """A wiki beside a daemon, and the record of its runs."""

    def __init__(self, wiki, name):
        self.wiki = wiki
        self.runs = os.path.join(wiki.folder, name + ".runs")
        self.daemon = servers.Counterd("jobs.port=0", "jobs.enable=true")
        open(self.runs, "w").close()

    @property
    def url(self):
        return programs.url(self.daemon)

    def start(self, script, *arguments, **more):
        """Starts a script: of MediaWiki by name, else by path."""
        path = script if os.path.isabs(script) else self.wiki.script(script)
        more = {"T_MW_URL": self.url, "T_MW_RUNS": self.runs, **more}
        return subprocess.Popen(["php", path, *arguments], env=self.wiki.environment(**more), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip

    def run(self, script, *arguments, status=0, **more):
        """Runs a script to its end. Returns what it wrote."""
        return self.end(self.start(script, *arguments, **more), status)

    @staticmethod
    def end(child, status=0):
        try:
            said = child.communicate(timeout=wire.DEADLINE * 2)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            raise AssertionError("it did not end: " + child.communicate()[0]) from None
        assert child.returncode == status, "it ended with %d: %s" % (child.returncode, said)
        return said

    def push(self, *jobs, **more):
        """Pushes jobs: pairs of type and parameters."""
        self.run(os.path.join(HERE, "push.php"), json.dumps(jobs), **more)

    def notes(self, *begin):
        """The notes that begin with these words, each a list of words."""
        with open(self.runs) as f:
            rows = [line.split() for line in f]
        return [row for row in rows if row[: len(begin)] == list(begin)]

    def await_notes(self, count, *begin):
        wire.poll(lambda: len(self.notes(*begin)) >= count, "%d notes of %s" % (count, begin))

    def tube(self, kind):
        """The numbers of a type's tube."""
        with self.daemon.job_client() as client:
            line, text = client.fetch("tube wiki/" + kind)
        return {} if text is None else dict(re.findall(r"current-jobs-(\w+): (\d+)", text.decode()))


# --- what runs side by side ----------------------------------------------------------------------


def run_cases(site):
    """The cases of cases.php. Returns what it says of each."""
    mortal = servers.Counterd("jobs.port=0", "jobs.enable=true")
    mortal.is_expected_to_be_gone = True
    try:
        where = "%d %s" % (mortal.pid, programs.url(mortal, io_timeout=5))
        said = site.run(os.path.join(HERE, "cases.php"), T_MW_MORTAL=where)
    finally:
        mortal.kill()
    found = {}
    for line in said.splitlines():
        told = json.loads(line) if line.startswith("{") else {"case": "PHP", "error": line}
        found[told["case"]] = told["error"]
    return found


def run_side_by_side(site):
    """300 jobs of three types and four runners; duplicates; a superseded root; a delayed job."""
    params = {"together": 4}
    jobs = [(kind, dict(params, n=n)) for n in range(100) for kind in ("one", "two", "three")]
    double = ("moved", {"n": "double", "removeDuplicates": True})
    root = {"rootJobSignature": "task", "rootJobTimestamp": "20260101000000"}
    newer = dict(root, rootJobTimestamp="20260101000001")
    jobs += (
        [double] * 50
        + [("root", dict(root, n=n)) for n in range(5)]
        + [("root", dict(newer, n="new"))]
    )
    release = int(time.time()) + 6
    jobs.append(("later", {"n": "later", "jobReleaseTimestamp": release}))
    site.push(*jobs)
    for child in [site.start("runJobs") for _ in range(4)]:
        site.end(child)
    assert len({row[-2] for row in site.notes("run")}) == 4
    # The delayed one, which no runner had: the one for a farm waits for it.
    farm = site.start(os.path.join(EXTENSION, "maintenance", "runCounterdJobs.php"))
    site.await_notes(1, "run", "later")
    wire.poll(lambda: site.tube("later") == {}, "the job is acknowledged")
    farm.kill()
    farm.communicate()
    for kind in ("one", "two", "three"):
        assert sorted(int(row[2]) for row in site.notes("run", kind)) == list(range(100))
    assert [row[2] for row in site.notes("run", "moved")] == ["double"]
    assert [row[2] for row in site.notes("run", "root")] == ["new"]
    (row,) = site.notes("run", "later")
    assert float(row[-1]) >= release, row


def run_farm(site):
    """runCounterdJobs.php, once; and for a second."""
    site.push(*[(kind, {"n": n, "fail": kind == "three"}) for n in range(5) for kind in ("one", "two", "three")])
    with site.daemon.job_client() as client:  # of nobody, of another program, of a wiki that is not there
        for tube in ("wiki/unknown", "mail", "nowhere/one"):
            client.put(b"x", into=tube)
    script = os.path.join(EXTENSION, "maintenance", "runCounterdJobs.php")
    said = site.run(script, "--once", "--maxjobs", "3")
    site.run(script, "--maxtime", "1")
    for kind in ("one", "two"):
        assert len(site.notes("run", kind)) == 5
        assert re.findall(r"wiki %s: (\d) run, 0 failed" % kind, said) == ["3", "2"], said
    assert len(site.notes("run", "three")) == 5, said
    assert site.tube("three")["delayed"] == "5", said
    assert said.count("wiki unknown: 0 run, 0 failed") == 1, said
    assert "mail" not in said and "nowhere" not in said, said
    turns = re.findall(r"^wiki (one|two|three): ", said, re.M)
    assert turns[:3] == ["one", "three", "two"], said


def run_failing(site):
    """Jobs that fail, for a runner for a farm whose server is started again."""
    path = os.path.join(site.wiki.folder, "failing.jobs")
    options = ("jobs.port=0", "jobs.enable=true", "jobs.socket=" + path)
    url = "counter://127.0.0.1?jobs=unix:%s" % path
    script = os.path.join(EXTENSION, "maintenance", "runCounterdJobs.php")
    site.daemon.kill()
    site.daemon.is_expected_to_be_gone = True
    runner = None
    try:
        site.daemon = servers.Counterd(*options)
        runner = site.start(script, "--maxjobs", "2", T_MW_URL=url)
        site.push(("one", {"n": 0}), T_MW_URL=url)
        site.await_notes(1, "run", "one")
        site.daemon.kill()
        said = ""
        while "asked again" not in said and (line := runner.stdout.readline()):
            said += line
        assert "Counterd is asked again in 1 s: " in said, said
        once = site.run(script, "--once", status=1, T_MW_URL=url)
        assert "Counterd does not say which queues have jobs: " in once, once
        site.daemon = servers.Counterd(*options)
        site.push(*[("failing", {"n": n, "fail": True}) for n in range(3)], T_MW_URL=url)
        wire.poll(lambda: site.tube("failing").get("abandoned") == "3", "they are abandoned")
    finally:
        if runner:
            runner.kill()
            runner.communicate()
    # Each waits for 1 s, then for 2 s; and their queue as long as a turn had failures.
    times = [(row[2], float(row[-1])) for row in site.notes("run", "failing")]
    assert len(times) == 9, times
    for n in "012":
        first, second, third = (time for number, time in times if number == n)
        assert second - first >= 1 and third - second >= 2, times
    assert times[2][1] - times[1][1] >= 2, times


def run_killed(site):
    """A runner that is killed, and a job that kills its runners: three times."""
    site.push(("long", {"n": "long", "hang": True}), ("fatal", {"n": "fatal", "kill": True}))
    long = site.start("runJobs", "--type", "long")
    site.await_notes(1, "run", "long")
    for _ in range(3):
        assert site.tube("fatal")["ready"] == "1"
        site.run("runJobs", "--type", "fatal", status=-signal.SIGKILL)
        wire.poll(lambda: site.tube("fatal")["reserved"] == "0", "the job is back")
    assert len(site.notes("run", "fatal")) == 3
    long.kill()
    long.communicate()
    wire.poll(lambda: site.tube("long")["ready"] == "1", "the job is back")
    site.run("runJobs", "--type", "long")
    assert len(site.notes("run", "long")) == 2
    assert site.tube("long") == {}
    group = site.run("showJobs", "--group")
    assert "fatal: 0 queued; 1 claimed (0 active, 1 abandoned); 0 delayed\n" in group, group


def run_moves(site):
    """Jobs go to the database and back; and a job of a lease is acknowledged by another process."""
    site.push(*[("moved", {"n": n}) for n in range(7)])
    for source, target, ready in (("counterd", "db", "7"), ("db", "counterd", None)):
        assert site.tube("moved").get("ready") == ready
        text = site.run("copyJobQueue", "--src", source, "--dst", target, "--type", "moved")
        assert "Copied 7/7 queued moved jobs." in text, text
        assert site.tube("moved")["ready"] == "7"
        if source == "counterd":
            site.run("manageJobs", "--type", "moved", "--action", "delete")
    with site.daemon.job_client() as client:
        client.fetch("tube wiki/leased claim=lease")
    site.push(("leased", {"n": 1}))
    script = os.path.join(HERE, "push.php")
    popped = site.run(script, "pop", "leased").split()
    assert site.tube("leased")["reserved"] == "1"
    site.run(script, "ack", "leased", *popped)
    after = site.tube("leased")
    assert (after["reserved"], after["ready"]) == ("0", "0"), after


GROUPS = {
    "cases": run_cases,
    "failing": run_failing,
    "beside": run_side_by_side,
    "farm": run_farm,
    "runners": run_killed,
    "moves": run_moves,
}


@pytest.fixture(scope="session", name="groups")
def all_groups():
    """Runs all groups, at most four at a time. Returns the future of each."""
    with tempfile.TemporaryDirectory(prefix="mediawiki-") as folder:
        wiki = Wiki(folder)
        sites = {name: Site(wiki, name) for name in GROUPS}
        try:
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                ends = {name: pool.submit(run, sites[name]) for name, run in GROUPS.items()}
            yield ends
            for site in sites.values():
                if not site.daemon.is_expected_to_be_gone:
                    site.daemon.stop()
        finally:
            for site in sites.values():
                site.daemon.kill()


# --- tests ---------------------------------------------------------------------------------------

with open(os.path.join(HERE, "cases.php"), encoding="utf-8") as source:
    CASES = re.findall(r"^            '([^']+)' => function", source.read(), re.M)


@pytest.mark.parametrize("case", CASES)
def test_case(groups, case):
    found = groups["cases"].result()
    assert case in found, "not run; PHP says: %s" % found.get("PHP")
    assert found[case] is None, found[case]


@pytest.mark.parametrize("name", [name for name in GROUPS if name != "cases"])
def test_group(groups, name):
    groups[name].result()


def test_runner_for_a_farm_finds_mediawiki(tmp_path):
    """Its folder may be a link; the script may be called by any path to it, and by run.php."""
    (tmp_path / "maintenance").mkdir()
    (tmp_path / "extensions").mkdir()
    (tmp_path / "maintenance" / "Maintenance.php").write_text("<?php exit('found in ' . __DIR__);")
    (tmp_path / "maintenance" / "run.php").write_text("<?php require $argv[1];")
    os.symlink(os.path.abspath(EXTENSION), tmp_path / "extensions" / "Counterd")
    script = "extensions/Counterd/maintenance/runCounterdJobs.php"
    environment = {key: value for key, value in os.environ.items() if key != "MW_INSTALL_PATH"}

    def run(*words):
        argv = ["php", *words]
        return subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    whole = os.path.join(tmp_path, script)
    for words in ([script], [whole], ["maintenance/run.php", whole]):
        assert run(*words).stdout == "found in %s" % (tmp_path / "maintenance"), words
    bare = run(os.path.join(os.path.abspath(EXTENSION), "maintenance", "runCounterdJobs.php"))
    assert bare.returncode == 1 and "set MW_INSTALL_PATH" in bare.stderr, bare


def test_library_that_is_not_there(tmp_path):
    shutil.copy(os.path.join(EXTENSION, "src", "Setup.php"), tmp_path)
    code = "require '%s/Setup.php'; Counterd\\MediaWiki\\Setup::register(); var_dump(class_exists('%s'));"
    said = subprocess.run(
        ["php", "-r", code % (tmp_path, "Counterd\\MediaWiki\\Nope")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.stdout, said.returncode) == ("bool(false)\n", 0), said


def test_classes_of_later_versions():
    """The parents that MediaWiki 1.44 has are used, and no alias is made."""
    script = os.path.join(HERE, "names.php")
    said = subprocess.run(["php", script, EXTENSION], capture_output=True, text=True, check=False)
    assert (said.stdout, said.returncode) == ("ok\n", 0), said


if __name__ == "__main__":
    tap.main(__file__)
