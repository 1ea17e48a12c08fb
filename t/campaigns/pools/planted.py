"""./dev torture planted-pools, planted-jobs, planted-history, planted-nodes, planted-scripts: plants bugs, and
runs the test that must find each.

A bug is a patch in planted/, here, in ../jobs, ../history, ../cluster or ../cluster/nodes. Its first line says what
is wrong; its second one names the test, as t/README.md runs it. The tests run in a scratch copy of the
tree: first without a bug, when they must pass, then with each, when they must fail. So nothing is built
that was built with another bug.
"""

import argparse
import filecmp
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
BUILD = os.environ.get("TOP_BUILDDIR", os.path.join(TOP, "build"))
CAMPAIGNS = os.path.dirname(HERE)
KINDS = ("pools", "jobs", "history", "cluster", "cluster/nodes")
TREE = os.path.join(BUILD, "planted")
CCACHE = "/usr/lib/ccache"
FOUND_BY = "found by: "
TEST_TIMEOUT = 300  # seconds; a test that hangs has found its bug
SHOWN = 240  # bytes of a report
PROGRAMS = {  # what the tests in Python run
    "t/scenario/run.py": "t/scenario/fakenet",
    "t/campaigns/history/test_history.py": "t/campaigns/history/check counterd",
    "t/campaigns/cluster/test_engine.py": "libbase.a",  # it runs no program of ours
}


def call(*argv):
    """Runs a command. Returns its exit status and its output."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def copy_tree(to):
    """Copies the tree, to build bugs in the copy. What has not changed is left as it is, with what was built of it."""
    listed = subprocess.check_output(["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    for name in listed.decode().split("\0")[:-1]:
        source, copy = os.path.join(TOP, name), os.path.join(to, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if os.path.isfile(source) and not (os.path.exists(copy) and filecmp.cmp(source, copy, shallow=False)):
            shutil.copy(source, copy)


def path_of(kind, name):
    """The path of a patch of the pools or of the jobs."""
    return os.path.join(CAMPAIGNS, kind, "planted", name + ".patch")


def patches(kind):
    """The planted bugs of a kind: paths of patches."""
    names = sorted(os.listdir(os.path.join(CAMPAIGNS, kind, "planted")))
    return [path_of(kind, name[:-6]) for name in names if name.endswith(".patch")]


def test_of(path):
    """The test that must find a bug, and its arguments."""
    with open(path, encoding="ascii") as f:
        second = f.read().splitlines()[1]
    if not second.startswith(FOUND_BY):
        raise RuntimeError("%s names no test in its second line" % path)
    return shlex.split(second[len(FOUND_BY) :])


def patch(tree, path, *options):
    """Applies a planted bug, only exactly where it was. Returns True on success, and the output of `patch`."""
    status, said = call("patch", "-p1", "--force", "-F0", "-d", tree, "-i", path, "-r", "-", *options)
    return status == 0, said


def build(*programs):
    """Builds these programs in the scratch copy."""
    jobs = "-j%s" % os.environ.get("JOBS", os.cpu_count())
    status, said = call("make", "-s", jobs, "-C", os.path.join(TREE, "build"), *programs)
    if status != 0:
        raise RuntimeError("can't be built:\n" + said)


def run(test):
    """Builds and runs a test in the scratch copy. Returns "", or what is wrong."""
    program = test[0]
    build(*PROGRAMS.get(program, program).split())
    if program in PROGRAMS:
        argv = ["/usr/bin/python3", "-B", os.path.join(TREE, program)]
    else:
        argv = [os.path.join(TREE, "build", program)]
    with subprocess.Popen(
        argv + test[1:],
        cwd=TREE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=TEST_TIMEOUT)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "it does not end"
    failed = re.search(r"^(not ok|seed \d+, step) .*", said, re.M)
    if failed:
        return failed.group().replace(TREE + "/", "")[:SHOWN]
    good = re.search(r"^ok\b", said, re.M)
    if process.returncode != 0 or not good:
        return "status %d: %s" % (process.returncode, said[-SHOWN:])
    return ""


def prepare(paths):
    """Makes the scratch copy and builds it. All tests must pass there."""
    copy_tree(TREE)
    for path in paths:  # what an earlier run built of it may have a bug
        with open(path, encoding="ascii") as f:
            for name in re.findall(r"^--- a/(\S+)", f.read(), re.M):
                os.utime(os.path.join(TREE, name))
    status, said = call(os.path.join(TREE, "dev"), "build")
    if status != 0:
        raise RuntimeError("can't be built:\n" + said)
    os.environ.update(
        TOP_SRCDIR=TREE,
        TOP_BUILDDIR=os.path.join(TREE, "build"),
        FAKENET=os.path.join(TREE, "build", "t", "scenario", "fakenet"),
        COUNTERD=os.path.join(TREE, "build", "counterd"),
    )
    for test in sorted({tuple(test_of(path)) for path in paths}):
        wrong = run(list(test))
        if wrong:
            raise RuntimeError("%s fails without a bug: %s" % (shlex.join(test), wrong))


def look(path):
    """Plants a bug and runs its test. Returns False if it was not found."""
    name = os.path.basename(path)[: -len(".patch")]
    test = test_of(path)
    went_well, said = patch(TREE, path)
    if not went_well:
        raise RuntimeError("%s does not apply:\n%s" % (name, said))
    begun = time.monotonic()
    try:
        wrong = run(test)
    finally:
        patch(TREE, path, "-R")
    seconds = time.monotonic() - begun
    print("%-30s %s (%s, %.0f s)" % (name, wrong or "NOT FOUND", shlex.join(test), seconds))
    sys.stdout.flush()
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(prog="./dev torture planted-pools", description=__doc__)
    parser.add_argument("bugs", nargs="*", metavar="BUG", help="of these names (all)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the random tests (1)")
    parser.add_argument("--in", dest="kind", choices=KINDS, default="pools", help="of these (pools)")
    args = parser.parse_args()
    paths = [path_of(args.kind, name) for name in args.bugs] or patches(args.kind)
    os.environ["T_SEED"] = str(args.seed)
    os.environ["T_HISTORIES"] = "30"
    if os.path.isdir(CCACHE):
        os.environ["PATH"] = CCACHE + os.pathsep + os.environ["PATH"]
    print("seed %d" % args.seed, flush=True)
    prepare(paths)
    found = sum(look(path) for path in paths)
    print("planted %d, found %d" % (len(paths), found))
    sys.exit(0 if found == len(paths) else 1)


if __name__ == "__main__":
    main()
