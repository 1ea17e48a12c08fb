"""The status page in a real browser, against the real daemon.

This file only prepares: it finds Chromium, Node.js and npm, lets npm install playwright-core (the
version in package.json) below the build folder, and executes page_test.mjs, which reports in
TAP. The installation stays in t/browser/out below the build folder.
"""

import filecmp
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CHROMIUM = "/usr/bin/chromium"


def skip(why):
    print("1..0 # SKIP " + why)
    sys.exit(0)


def install(folder):
    """Installs in `folder` what package.json names: one exact version, which needs no other package."""
    named = os.path.join(HERE, "package.json")
    done = os.path.join(folder, "node_modules", "installed-of.json")
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(done) and filecmp.cmp(named, done, shallow=False):
        return
    shutil.copy(named, folder)
    npm = subprocess.run(
        ["npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if npm.returncode != 0:
        for line in npm.stdout.splitlines():
            print("# " + line)
        skip("npm can't install playwright-core (its words are above)")
    shutil.copyfile(named, done)


def main():
    if not os.environ.get("COUNTERD"):
        skip("COUNTERD names no daemon")
    if os.environ.get("T_SLOW", "0") not in ("", "0"):
        skip("the page is tested with the plain build only")
    if not os.access(CHROMIUM, os.X_OK):
        skip("chromium is not installed")
    for program in ("node", "npm"):
        if not shutil.which(program):
            skip(program + " is not installed")
    folder = os.path.join(os.environ.get("TOP_BUILDDIR", os.getcwd()), "t", "browser", "out")
    install(folder)
    sys.stdout.flush()
    os.environ["T_BROWSER"] = folder
    os.environ["T_CHROMIUM"] = CHROMIUM
    os.execvp("node", ["node", os.path.join(HERE, "page_test.mjs")] + sys.argv[1:])


if __name__ == "__main__":
    main()
