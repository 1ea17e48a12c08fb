"""The bugs planted in the pools and in the jobs can be planted, and name a test that is there."""

import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "system"))

import tap

import planted


def test_each_bug_still_applies():
    if not shutil.which("patch"):
        tap.pytest.skip("patch is not installed")
    paths = [path for kind in planted.KINDS for path in planted.patches(kind)]
    assert len(paths) > 40
    for path in paths:
        applies, said = planted.patch(planted.TOP, path, "--dry-run")
        assert applies, "%s:\n%s" % (path, said)


def test_each_bug_names_its_test():
    for path in [path for kind in planted.KINDS for path in planted.patches(kind)]:
        program = planted.test_of(path)[0]
        source = program if program in planted.PROGRAMS else program + ".c"
        assert os.path.exists(os.path.join(planted.TOP, source)), path


if __name__ == "__main__":
    tap.main(__file__)
