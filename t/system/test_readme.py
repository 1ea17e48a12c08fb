"""The examples of README.md: each block is pasted into a bash, and what it prints is what follows it there."""

import os
import re
import shutil
import subprocess

import tap
import pytest

import servers
import wire

TOP = os.environ.get("TOP_SRCDIR", os.getcwd())
BUILD = os.environ.get("TOP_BUILDDIR", os.path.join(TOP, "build"))

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

# What differs each time: a connection and its port, and how long something has lasted.
VARIES = (
    (r"^  \d+\.\d+\.\d+ +(\S+ +\d+ +\d+) +[\d.]+ \S+ +127\.0\.0\.1:\d+$", r"  0.0.0 \1 HELD CLIENT"),
    (r"^(  CONNECTION .* LIMIT) +HELD  CLIENT$", r"\1 HELD CLIENT"),  # as wide as what is below it
    (r"^( +3( +0){4}) +[\d.]+( s)?(  numbers)$", r"\1 AGE\4"),
)


def examples():
    """Title, commands and output of each example."""
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        text = f.read().split("## Eight things to try", 1)[1].split("\n## ", 1)[0]
    for part in text.split("\n**")[1:]:
        commands, printed = part.split("\nprints\n")
        yield part.split("**")[0], *("".join(re.findall(r"^    (.*\n)", of, re.M)) for of in (commands, printed))


def packages(name):
    """Those of a variable of the script dev."""
    with open(os.path.join(TOP, "dev"), encoding="utf-8") as f:
        return re.search(r"^%s=\((.*?)\)" % name, f.read(), re.M | re.S).group(1).split()


def query(*args):
    return subprocess.run(["dpkg-query", *args], stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.fixture
def programs(tmp_path):
    """A folder of the programs on a machine that has what `./dev run` installs, and nothing more."""
    if not shutil.which("dpkg-query"):
        pytest.skip("only dpkg knows which package has which program")
    asked = [*packages("build_packages"), *packages("example_packages")]
    shown = query("-W", "-f", "${Package} ${Essential} ${Pre-Depends} ${Depends}\n")
    depends = {line.split()[0]: line.split(" ", 2) for line in shown.splitlines()}
    if any(name not in depends for name in packages("example_packages")):
        pytest.skip("not everything is installed by packages")
    names = {name for name, (_, essential, _) in depends.items() if essential == "yes"}
    for name in asked:
        names |= {name} | set(re.findall(r"[a-z0-9.+-]+", re.sub(r"\(.*?\)", "", depends[name][2])))
    folder = tmp_path / "bin"
    folder.mkdir()
    for path in query("-L", *sorted(names & set(depends))).splitlines():
        if re.fullmatch(r"(/usr)?/s?bin/[^/]+", path) and os.access(path, os.X_OK):
            for name in {os.path.basename(path), os.path.basename(path).replace("nc.openbsd", "nc")}:
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to(path)
    return str(folder)


def plain(text):
    for pattern, instead in VARIES:
        text = re.sub(pattern, instead, text, flags=re.M)
    return text.splitlines()


def test_what_the_examples_print(tmp_path, programs):
    if os.geteuid() != 0:
        pytest.skip("only root can make a network with free ports")
    (tmp_path / "build").mkdir()
    for name in ("counterd", "counterctl"):
        (tmp_path / "build" / name).symlink_to(os.environ[name.upper()])
    for name in ("clients", "conf"):
        (tmp_path / name).symlink_to(os.path.join(TOP, name))
    with open(os.path.join(TOP, "dev"), encoding="utf-8") as f:
        run = re.search(r'^ +exec build/counterd (.*) "\$@"$', f.read(), re.M).group(1)
    daemon = servers.Counterd(
        "poolcounter.port=None", "counter.port=None", "counter.enable=None", "admin.port=None",
        prefix=["unshare", "--net", "sh", "-c", 'ip link set lo up && cd "$1" && exec build/counterd ' + run, "sh", str(tmp_path)],
    )  # fmt: skip
    shell = ["nsenter", "--net=/proc/%d/ns/net" % daemon.pid, "bash", "--norc", "--noprofile", "--noediting", "-i"]
    env = {"PATH": programs, "HOME": str(tmp_path), "PS1": "", "PS2": "", "LC_ALL": "C.UTF-8", "HISTFILE": ""}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        env[name] = os.environ.get(name, "")
    try:
        found = list(examples())
        assert len(found) == 8
        for title, commands, printed in found:
            # It reads the block as it would from a terminal, so what reads its standard input takes some of it.
            said = subprocess.run(
                shell, input="echo BEGIN\n%s\necho END\nexec 2>/dev/null\n" % commands, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                cwd=tmp_path, env=env, text=True, timeout=wire.DEADLINE * 6, check=False,
            ).stdout  # fmt: skip
            assert "BEGIN\n" in said and "END\n" in said, said
            assert plain(said.split("BEGIN\n")[1].split("END\n")[0]) == plain(printed), "%s:\n%s" % (title, said)
        daemon.stop()
    finally:
        daemon.kill()


if __name__ == "__main__":
    tap.main(__file__)
