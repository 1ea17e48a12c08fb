"""
Installs what package.json names here, in the versions of the lock file, below the build folder, once.
As a program it prints that folder, or says on stderr why it can't.
"""

import fcntl
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("TOP_BUILDDIR") or os.getcwd()
OUT = os.path.join(BUILD, "t", "clients", "out")
FILES = ("package.json", "package-lock.json")


class Missing(Exception):
    """Why it is not installed."""


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def installed():
    """The folder node_modules. Missing: there is no npm, or it can't install."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Missing(program + " is not installed")
    folder = os.path.join(OUT, "node_modules")
    done = os.path.join(folder, "installed-of.json")
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests need it
        if read(done) == read(os.path.join(HERE, FILES[1])):
            return folder
        for name in FILES:
            shutil.copyfile(os.path.join(HERE, name), os.path.join(OUT, name))
        try:
            npm = subprocess.run(
                ["npm", "ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund"],
                cwd=OUT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Missing("npm did not install what t/clients needs within 5 minutes") from None
        if npm.returncode != 0:
            raise Missing("npm can't install what t/clients needs: " + npm.stdout.strip()[-300:])
        shutil.copyfile(os.path.join(OUT, FILES[1]), done)
        return folder


if __name__ == "__main__":
    try:
        print(installed())
    except Missing as e:
        sys.exit(str(e))
