"""The completions of counterctl, each in its own shell.

t/unit/cli/manual_test checks that they know every command and option.
"""

import os
import pty
import shlex
import shutil
import subprocess
import time

import tap
import pytest

import wire

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../conf/completion")

# The line before completion (its last word is incomplete), and the possible completions.
CASES = {
    "log": ["loglevel"],
    "re": ["release", "reload"],
    "--ver": ["--version"],
    "loglevel ": ["debug", "error", "info", "warning"],
    "help no": ["noop"],
    "-s h:1 top --by ": ["peak", "refused", "waiting"],
    "dump --sort=p": ["peak"],
    "run --str": ["--strict"],
    "run --pool p --fail": ["--fail-on"],
    "run --pool p --fail-on non": ["nonzero"],
    "clean p --jo": ["--jobs"],
    "pool ": ["add", "drop", "list", "member", "set", "show", "watch"],
    "pool member ": ["add", "drop", "set"],
    "put t --un": ["--unique"],
    "work t --lock-s": ["--lock-server"],
    "jobs ": ["backup", "clear", "drain", "export", "import", "kick", "list", "peek", "tubes"],
    "jobs list t b": ["buried"],
    "cluster ": ["acl", "check"],
    "cluster acl --d": ["--db"],
    "kill --str": [],
    "run --workers 2 k --an": ["--any"],
    "-s h:1 run --any k --workers 2 --str": ["--strict"],
}
# The command after -- completes as usual.
COMMAND = "run --workers 2 --any k -- /usr/bin/en"


def by_bash(line):
    """The completions in bash, which splits words at =."""
    words = ["counterctl"]
    for word in line.split(" "):
        name, equals, value = word.partition("=")
        words += [name, "=", value] if equals else [word]
    script = "source %s; COMP_WORDS=(%s) COMP_CWORD=%d; _counterctl; printf '%%s\\n' \"${COMPREPLY[@]}\"" % (
        shlex.quote(FOLDER + "/counterctl"), " ".join(map(shlex.quote, words)), len(words) - 1,
    )  # fmt: skip
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=wire.DEADLINE,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(set(done.stdout.split()))


@pytest.mark.parametrize("line", CASES)
def test_bash_offers_what_can_follow(line):
    assert by_bash(line) == CASES[line]


def test_bash_completes_the_command_that_is_run():
    assert "/usr/bin/env" in by_bash(COMMAND)


def by_zsh(line, tmp_path):
    """The completions that an interactive zsh lists."""
    out = tmp_path / "offered"
    # zsh passes each match to compadd, so this compadd writes down the matches.
    setup = """
        fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D
        compadd() {
            local -a found; builtin compadd -O found "$@" 2>/dev/null
            print -l -- $found >>%s
            builtin compadd "$@"
        }
        finished() { print -r -- . >>%s; }
        zle -C offer complete-word _main_complete
        offer-all() { zle offer; finished; exit; }
        zle -N offer-all; bindkey '^X' offer-all
    """ % (shlex.quote(FOLDER), shlex.quote(str(out)), shlex.quote(str(out)))  # fmt: skip
    rc = tmp_path / ".zshrc"
    rc.write_text(setup + "PS1='ready> '\n")
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(ZDOTDIR=str(tmp_path), TERM="dumb")
        os.execvp("zsh", ["zsh", "-d", "-i"])
    try:
        os.set_blocking(fd, False)
        shown, until = b"", time.monotonic() + wire.DEADLINE
        typed = False
        while not (out.exists() and out.read_text().split()[-1:] == ["."]):
            assert time.monotonic() < until, shown
            try:
                shown += os.read(fd, 65536)
            except OSError:
                time.sleep(0.01)
            if not typed and b"ready> " in shown:
                os.write(fd, b"counterctl %s\x18" % line.encode())
                typed = True
        return sorted(set(out.read_text().split()) - {"."})
    finally:
        os.close(fd)
        os.kill(pid, 9)
        os.waitpid(pid, 0)


needs_zsh = pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh")


@needs_zsh
@pytest.mark.parametrize("line", CASES)
def test_zsh_offers_what_can_follow(line, tmp_path):
    assert by_zsh(line, tmp_path) == CASES[line]


@needs_zsh
def test_zsh_completes_the_command_that_is_run(tmp_path):
    assert "env" in by_zsh(COMMAND, tmp_path)


if __name__ == "__main__":
    tap.main(__file__)
