"""
Installs what package.json names here, and what that needs as it was on a fixed day, below the build folder, once.
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
NAMED = os.path.join(HERE, "package.json")
# With the exact versions of package.json the day fixes the versions of all others. Change both together.
DAY = "2026-11-20"
INSTALL = ["npm", "install", "--before=" + DAY, "--no-package-lock", "--include=dev"]
INSTALL += ["--ignore-scripts", "--no-audit", "--no-fund"]


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
        wanted = read(NAMED) + DAY.encode()
        if read(done) == wanted:
            return folder
        shutil.copy(NAMED, OUT)
        try:
            npm = subprocess.run(
                INSTALL,
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
        with open(done, "wb") as f:
            f.write(wanted)
        return folder


if __name__ == "__main__":
    try:
        print(installed())
    except Missing as e:
        sys.exit(str(e))
