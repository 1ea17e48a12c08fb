"""./dev torture vanished: units and jobs of peers that vanish are free after 35 seconds.

Each round has a daemon and clients in two network namespaces joined by a cable, and removes the
clients' address: holders of both protocols, workers of jobs, waiters, and some with an answer or a
job on its way. The checks are those of t/system/test_vanished.py. Needs root.
"""

import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.join(HERE, "..", "..", "system", "test_vanished.py")
PROMISE = 35  # seconds
ROUND_SECONDS = 180  # more than any round takes


class Round:
    """A run of the test. Records after how many seconds all was free."""

    def __init__(self, folder, number):
        self.path = os.path.join(folder, str(number))
        environment = dict(os.environ, T_PYTEST_REPORT="", T_VANISHED_TIME=self.path)
        self.child = subprocess.Popen(
            [sys.executable, "-B", TEST], env=environment, stdout=subprocess.PIPE, text=True
        )

    def judge(self):
        """Returns the verdict on the round, and a message."""
        try:
            out = self.child.communicate(timeout=ROUND_SECONDS)[0]
        except subprocess.TimeoutExpired:
            self.child.kill()
            return False, "it did not end\n" + self.child.communicate()[0]
        if "# SKIP" in out or self.child.returncode != 0:
            return False, out
        with open(self.path) as f:
            seconds = float(f.read())
        return seconds <= PROMISE, "free after %.1f s" % seconds


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev torture vanished", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how many (default: 10)")
    parser.add_argument("--jobs", type=int, default=5, help="so many at once: they wait (default: 5)")
    chosen = parser.parse_args(argv)
    done = failed = 0
    with tempfile.TemporaryDirectory(prefix="vanished-") as folder:
        while done < chosen.rounds:
            numbers = range(done, min(done + chosen.jobs, chosen.rounds))
            for one in [Round(folder, number) for number in numbers]:
                done += 1
                is_passed, out = one.judge()
                failed += not is_passed
                print("round %d: %s%s" % (done, "" if is_passed else "FOUND: ", out), flush=True)
    print("%d rounds, %d failed" % (done, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
