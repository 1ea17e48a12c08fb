"""./dev check-history: records histories of a real daemon (record.c) and checks them (check.c).

With --planted it does so with bugs: it applies each patch in planted/ to a scratch copy of the
tree, builds it, and records histories until one is wrong. This shows that the campaign can fail.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "t", "system"))

import servers
import wire

BUILD = os.environ.get("TOP_BUILDDIR", os.path.join(TOP, "build"))
PROGRAMS = os.path.join(BUILD, "t", "campaigns", "history")
PLANTED = os.path.join(HERE, "planted")
CALL_TIMEOUT = 600  # seconds; only ends hangs
GOING_TIMEOUT = 5  # seconds that a daemon has to end by itself, where something went wrong
PER_DAEMON = 20  # histories that one daemon serves


class Found(Exception):
    """A history is wrong. The message says which program found it, and what is wrong."""


def call(*argv, timeout=CALL_TIMEOUT):
    """Runs a command. Returns its exit status and its output."""
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def patches():
    """The planted bugs: paths of patches."""
    return sorted(
        os.path.join(PLANTED, name) for name in os.listdir(PLANTED) if name.endswith(".patch")
    )


def patch(tree, path, *options):
    """Applies a planted bug to a tree. Returns True on success, and the output of `patch`."""
    status, said = call("patch", "-p1", "--force", "-d", tree, "-i", path, "-r", "-", *options)
    return status == 0, said


def raise_if_ended(daemon):
    """After a failure: raises Found if the daemon has ended, else returns."""
    try:
        daemon.wait(GOING_TIMEOUT)
    except wire.Timeout:
        return
    summary = re.search(r"^SUMMARY: .*", daemon.log, re.M)
    why = summary.group() if summary else " / ".join(daemon.log.splitlines()[-3:])
    raise Found("the daemon ended: %s\n%s" % (why, daemon.log[-4000:]))


def one_history(daemon, operations, seed, path):
    """
    Records and checks one history. Returns the checker's output. Removes the file, except when it
    raises Found.
    """
    host, port = daemon.text
    status, said = call(
        os.path.join(PROGRAMS, "record"),
        *(host, str(port), str(daemon.binary[1]), str(operations), str(seed), path),
    )
    by_checker, verdict = call(os.path.join(PROGRAMS, "check"), path)
    if status != 0 and not daemon.is_running():
        raise_if_ended(daemon)
    if by_checker == 1:
        raise Found(verdict + said)
    if status != 0 or by_checker != 0:
        raise_if_ended(daemon)
        raise Found(said + verdict)
    os.unlink(path)
    return verdict


def run(histories, operations, seed, folder):
    """Raises Found at the first wrong history. Returns the most states possible at one moment."""
    os.makedirs(folder, exist_ok=True)
    daemon, most = None, 0
    try:
        for i in range(histories):
            if i % PER_DAEMON == 0:
                if daemon:
                    daemon.stop()
                threads = 2 + (seed + i) // PER_DAEMON % 3
                daemon = servers.Counterd(
                    "counter.threads=%d" % threads, "counter.stats_interval=4294967295"
                )
            path = os.path.join(folder, "history-%d" % (seed + i))
            try:
                verdict = one_history(daemon, operations, seed + i, path)
            except Found as e:
                raise Found("seed %d: %s" % (seed + i, e)) from None
            most = max(most, int(verdict.split("at most ")[1].split()[0]))
        daemon.stop()
    finally:
        if daemon:
            daemon.kill()
    return most


def copy_tree(to):
    """Copies the tree, to build bugs in the copy. Keeps what an earlier copy has built."""
    os.makedirs(to, exist_ok=True)
    for name in os.listdir(to):
        if name != "build":
            path = os.path.join(to, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    for name in os.listdir(TOP):
        if name in ("build", ".git", "autom4te.cache"):
            continue
        path = os.path.join(TOP, name)
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(to, name), symlinks=True)
        else:
            shutil.copy2(path, to)


def build(tree):
    """Builds the daemon of a tree. Returns its path."""
    status, said = call(os.path.join(tree, "dev"), "build")
    if status != 0:
        raise RuntimeError("can't be built:\n" + said)
    return os.path.join(tree, "build", "counterd")


def planted(paths, look, build_daemon=build):
    """
    Plants each bug in a scratch copy of the tree, builds it and looks for it: `look` raises Found,
    or returns what it has checked. Returns the number of bugs that were not found.
    """
    tree = os.path.join(BUILD, "planted")
    copy_tree(tree)
    missed = 0
    for path in paths:
        name = os.path.basename(path)[: -len(".patch")]
        went_well, said = patch(tree, path)
        if not went_well:
            raise RuntimeError("%s does not apply:\n%s" % (name, said))
        try:
            servers.COUNTERD = build_daemon(tree)
            begun = time.monotonic()
            try:
                said = look()
                missed += 1
                print("%-28s NOT FOUND: %s" % (name, said))
            except Found as e:
                said = str(e).splitlines()
                print("%-28s found in %.0f s: %s" % (name, time.monotonic() - begun, said[0][:300]))
        finally:
            patch(tree, path, "-R")
        sys.stdout.flush()
    print("planted %d, found %d" % (len(paths), len(paths) - missed))
    return missed


def named(names, otherwise):
    """The planted bugs with these names; `otherwise` if there are no names."""
    return [os.path.join(PLANTED, name + ".patch") for name in names] or otherwise


def main():
    parser = argparse.ArgumentParser(prog="./dev check-history", description=__doc__)
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--histories", default=200, help="how many (200; of a bug: 60)", **number)
    parser.add_argument("--operations", default=10000, help="of each (10000)", **number)
    parser.add_argument("--seed", help="of the first; the others follow", **number)
    parser.add_argument("--planted", nargs="*", metavar="BUG", help="look for all planted bugs, or these")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.randrange(2**31)
    folder = os.path.join(BUILD, "history")
    print("seed %d (of the plan; the threads race)" % seed, flush=True)
    if args.planted is not None:
        bound = min(args.histories, 60)
        missed = planted(
            named(args.planted, patches()),
            lambda: "most states %d" % run(bound, args.operations, seed, folder),
        )
        sys.exit(1 if missed else 0)
    begun = time.monotonic()
    try:
        most = run(args.histories, args.operations, seed, folder)
    except Found as e:
        print(e)
        print("histories are in %s; build/t/campaigns/history/check FILE looks at one again" % folder)
        sys.exit(1)
    print(
        "%d histories of %d operations, 0 violations, at most %d states at once, %.0f s"
        % (args.histories, args.operations, most, time.monotonic() - begun)
    )


if __name__ == "__main__":
    main()
