"""./dev check-history: records histories of a real daemon (record.py) and checks them (check.c).

With --planted it does so with bugs: it applies each patch in planted/ to a scratch copy of the
tree, builds it, and records histories until one is wrong. This shows that the campaign can fail.
With --tsan the daemon has ThreadSanitizer, which alone can find planted/race.patch.
"""

import argparse
import contextlib
import filecmp
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "t", "system"))

import record
import servers
import wire

BUILD = os.environ.get("TOP_BUILDDIR", os.path.join(TOP, "build"))
PLANTED = os.path.join(HERE, "planted")
CALL_TIMEOUT = 600  # seconds; only ends hangs
GOING_TIMEOUT = 5  # seconds that a daemon has to end by itself, where something went wrong
PER_DAEMON = 20  # histories that one daemon serves
RACE = "race.patch"  # only a sanitizer can find it
CHECK = os.path.join(BUILD, "t", "campaigns", "history", "check")


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
    return sorted(os.path.join(PLANTED, name) for name in os.listdir(PLANTED) if name.endswith(".patch"))


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
    Records and checks one history. Returns the most states possible at one moment. Removes the file, except when it
    raises Found.
    """
    try:
        lines, wrong = record.record(daemon.text, daemon.binary, operations, seed)
    except (AssertionError, OSError) as e:
        lines, wrong = [], str(e)
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(["# seed %d" % seed, *lines, ""]))
    by_checker, verdict = call(CHECK, path)
    if wrong:
        raise_if_ended(daemon)
    if wrong or by_checker != 0:
        raise Found(verdict + wrong)
    os.unlink(path)
    return int(verdict.split("at most ")[1].split()[0])


@contextlib.contextmanager
def upgrades(daemon, are_made):
    """Upgrades the daemon in place and has it reload, again and again meanwhile. Each must succeed."""
    over, wrong = threading.Event(), []

    def upgrade():
        number = signal.SIGHUP
        while not over.wait(0.02) and daemon.is_running() and not wrong:
            seen = len(daemon.log)
            number = signal.SIGHUP if number == signal.SIGUSR1 else signal.SIGUSR1
            daemon.child.send_signal(number)
            try:
                wire.poll(lambda: re.search(ENDS_UPGRADE, daemon.log[seen:]), "the upgrade is over", 60)
            except AssertionError as e:
                wrong.append(str(e))
            if re.search("goes on as before|nothing was changed", daemon.log[seen:]):
                wrong.append(daemon.log[seen:])

    thread = threading.Thread(target=upgrade)
    if are_made:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if are_made:
            thread.join()
    if wrong and daemon.is_running():
        raise Found("it was not upgraded: " + wrong[0])


ENDS_UPGRADE = "info: ready|goes on as before|reload: (done|nothing was changed)"


def run(histories, operations, seed, folder):
    """
    Raises Found at the first wrong history. Returns the most states possible at one moment. During every second
    history the daemon is upgraded, and reloads.
    """
    os.makedirs(folder, exist_ok=True)
    daemon, most = None, 0
    try:
        for i in range(histories):
            if i % PER_DAEMON == 0:
                if daemon:
                    daemon.stop()
                threads = 2 + (seed + i) // PER_DAEMON % 3
                daemon = servers.Counterd("counter.threads=%d" % threads, "counter.stats_interval=4294967295")
            path = os.path.join(folder, "history-%d" % (seed + i))
            try:
                with upgrades(daemon, i % 2 == 1):
                    most = max(most, one_history(daemon, operations, seed + i, path))
            except Found as e:
                raise Found("seed %d: %s" % (seed + i, e)) from None
        daemon.stop()
    except AssertionError as e:
        raise Found(str(e)) from None
    finally:
        if daemon:
            daemon.kill()
    return most


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def copy_folder(from_, to, left_out=()):
    """
    Makes `to` a copy of a folder, but for some names. A file with the same content is left as it is;
    one that differed is new, so that make builds what was made of it.
    """
    os.makedirs(to, exist_ok=True)
    for name in set(os.listdir(to)) - set(os.listdir(from_)) - set(left_out):
        remove(os.path.join(to, name))
    for name in set(os.listdir(from_)) - set(left_out):
        source, copy = os.path.join(from_, name), os.path.join(to, name)
        if os.path.isdir(source) and not os.path.islink(source):
            copy_folder(source, copy)
        elif not os.path.lexists(copy):
            shutil.copy2(source, copy, follow_symlinks=False)
        elif not os.path.islink(source) and not filecmp.cmp(source, copy, shallow=False):
            shutil.copy(source, copy)


def copy_tree(to):
    """Copies the tree, to build bugs in the copy. Keeps what an earlier copy has built."""
    copy_folder(TOP, to, ("build", ".git", "autom4te.cache"))


def build(tree):
    """Builds the daemon of a tree. Returns its path."""
    status, said = call(os.path.join(tree, "dev"), "build")
    if status != 0:
        raise RuntimeError("can't be built:\n" + said)
    return os.path.join(tree, "build", "counterd")


def build_with_tsan(tree):
    """As build; the daemon has ThreadSanitizer."""
    folder = os.path.join(tree, "build", "tsan")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "Makefile")):
        script = "cd '%s' && ../../configure -q --enable-sanitize=thread CFLAGS='-O1 -g'" % folder
        if call("sh", "-c", script)[0] != 0:
            raise RuntimeError("can't be configured: " + folder)
    jobs = os.environ.get("JOBS") or str(os.cpu_count())
    status, said = call("make", "-s", "-C", folder, "-j", jobs, "counterd", timeout=1800)
    if status != 0:
        raise RuntimeError("can't be built:\n" + said)
    return os.path.join(folder, "counterd")


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


def main():
    parser = argparse.ArgumentParser(prog="./dev check-history", description=__doc__)
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--histories", default=200, help="how many (200; of a bug: 60)", **number)
    parser.add_argument("--operations", default=10000, help="of each (10000)", **number)
    parser.add_argument("--seed", help="of the first; the others follow", **number)
    parser.add_argument("--tsan", action="store_true", help="of a daemon with ThreadSanitizer")
    parser.add_argument("--planted", nargs="*", metavar="BUG", help="look for all planted bugs, or these")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.randrange(2**31)
    folder = os.path.join(BUILD, "history")
    print("seed %d (of the plan; the processes race)" % seed, flush=True)

    def look():
        bound = min(args.histories, 60)
        return "%d histories, at most %d" % (bound, run(bound, args.operations, seed, folder))

    if args.planted is not None:
        paths = [os.path.join(PLANTED, name + ".patch") for name in args.planted]
        paths = paths or [path for path in patches() if path.endswith(RACE) == args.tsan]
        sys.exit(1 if planted(paths, look, build_with_tsan if args.tsan else build) else 0)
    begun = time.monotonic()
    try:
        most = run(args.histories, args.operations, seed, folder)
    except Found as e:
        print(e)
        print("histories are in %s; t/README.md says what looks at one again" % folder)
        sys.exit(1)
    print(
        "%d histories of %d operations, 0 violations, at most %d states at once, %.0f s"
        % (args.histories, args.operations, most, time.monotonic() - begun)
    )


if __name__ == "__main__":
    main()
