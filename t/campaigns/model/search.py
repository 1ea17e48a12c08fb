"""Builds a search of a Promela model with spin, and runs it."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Failed(Exception):
    """The model could not be built or searched."""


class Result:
    """The result of a search. `error` is None if the search was complete and found nothing."""

    def __init__(self, text):
        self.text = text
        found = re.search(r"^pan:1: (.*)", text, re.M)
        self.error = found and found.group(1)
        self.trail = ""
        self.states = self._number(r"(\d+) states, stored")
        self.transitions = self._number(r"(\d+) transitions")
        self.depth = self._number(r"depth reached (\d+)")
        if "Search not completed" in text and not self.error:
            raise Failed("the search was not completed:\n" + text)
        if "max search depth too small" in text:
            raise Failed("the search was too deep:\n" + text)
        if self.states == 0:
            raise Failed(text)

    def _number(self, pattern):
        found = re.search(pattern, self.text)
        return int(found.group(1)) if found else 0


def search(model, defines, build, run):
    """
    Builds and runs one search of `model`, a file beside this one. `build` are arguments of gcc, `run` of
    the search.
    """
    defines = ["-D%s=%d" % (name, value) for name, value in defines.items()]
    with tempfile.TemporaryDirectory(prefix="model-") as work:
        for part in glob.glob(os.path.join(HERE, "*.pml")):
            shutil.copy(part, work)
        for command in (
            ["spin", "-a", *defines, model],
            ["gcc", "-w", "-DSAFETY", "-DNOFAIR", *build, "-o", "pan", "pan.c"],
        ):
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failed("%s\n%s%s" % (" ".join(command), done.stdout, done.stderr))
        done = subprocess.run(
            ["./pan", *run], cwd=work, capture_output=True, text=True, check=False
        )
        result = Result(done.stdout)
        if result.error:
            trail = subprocess.run(
                ["spin", "-t", "-p", "-g", *defines, model],
                cwd=work, capture_output=True, text=True, check=False,
            )  # fmt: skip
            result.trail = trail.stdout
        return result
