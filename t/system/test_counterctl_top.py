"""`counterctl top` on a terminal: the screen, keys, sizes, and the terminal afterwards."""

import json
import os
import re
import signal
import termios

import tap
import pytest

import ctl
import mock_admin
import servers
import wire

pyte = pytest.importorskip("pyte", reason="python3-pyte is not installed")

pytestmark = pytest.mark.skipif(
    not servers.have_counterd() or not ctl.have_counterctl(),
    reason="COUNTERD and COUNTERCTL name no programs",
)

USAGE, UNAVAILABLE = 64, 69
FULL, RESTORED = b"\x1b[?1049h", b"\x1b[?1049l"


class Screen(ctl.Terminal):
    """`top` on a terminal with a screen that tests can read."""

    def __init__(self, *args, size=(24, 80), **kwargs):
        self.screen = pyte.Screen(size[1], size[0])
        self.stream = pyte.ByteStream(self.screen)
        super().__init__(*args, size=size, **kwargs)

    def read(self, seconds=0.05):
        data = super().read(seconds)
        self.stream.feed(data)
        return data

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, pattern):
        """Waits until the screen matches the pattern."""

        def is_seen():
            self.read()
            return re.search(pattern, self.text())

        try:
            return wire.poll(is_seen, "a screen with %r" % pattern)
        except wire.Timeout as e:
            raise wire.Timeout("%s:\n%s" % (e, self.text())) from None

    def wait_without(self, pattern):
        def is_gone():
            self.read()
            return not re.search(pattern, self.text())

        wire.poll(is_gone, "a screen without %r" % pattern)

    def selected(self):
        """Returns the text of the highlighted row that is no heading; "" if there is none yet."""
        for number, line in enumerate(self.screen.display):
            if number > 0 and self.screen.buffer[number][0].reverse and not re.search("NAME|POOL|TUBE", line):
                return line
        return ""

    def assert_restored(self):
        """
        top has left the alternate screen, the cursor is visible, and the modes are the initial
        ones.
        """
        assert self.output.rindex(RESTORED) > self.output.rindex(FULL)
        assert self.output.rindex(b"\x1b[?25h") > self.output.rindex(b"\x1b[?25l")
        assert termios.tcgetattr(self.fd)[:4] == self.modes[:4]


@pytest.fixture
def mock():
    server = mock_admin.MockAdmin()
    yield server
    server.stop()


@pytest.fixture
def top(mock):
    """A function that starts top against the mock."""
    screens = []

    def start(*args, **kwargs):
        screens.append(Screen("--admin", mock.address, "top", *args, **kwargs))
        return screens[-1]

    yield start
    for screen in screens:
        screen.__exit__()


def test_what_is_seen(top):
    screen = top()
    screen.wait_for(r"q quit")
    screen.wait_for(r"counterd 9\.8\.7")
    for part in ("requests 12.3k/s", "waits 12.3 ms/1.5 s", "holds 250 ms/12.0 s",
                 "names 1.2k  units 2.5k  waiting 17  conns 42", "most 4.9k/s", "▂▂",
                 "odd\\x0a\\\\name 中", "*LOAD"):  # fmt: skip
        screen.wait_for(re.escape(part))
    wire.poll(lambda: screen.read() is None or "enwiki" in screen.selected(), "the first is selected")
    screen.type("q")
    assert screen.wait() == 0
    screen.assert_restored()


def test_keys(top, mock):
    screen = top("--interval", "0.5")
    screen.wait_for("every 500 ms.*(?s:.)*enwiki")
    screen.type("\x1b[B")  # down, in another encoding of the cursor key
    screen.wait_for("enwiki")
    wire.poll(lambda: screen.read() is None or "odd" in screen.selected(), "the second is selected")
    screen.type("\r")
    screen.wait_for(r"holds +3\.2 s +1 +2 +0\.12\.3 +poolcounter +192\.0\.2\.1:4711")
    assert "/api/v1/names/odd%0A%5Cname" in mock.paths()
    screen.type("\r")
    screen.wait_for("q quit .* enter who")
    screen.type("s")
    screen.wait_for(r"\*REFUSED")
    assert wire.poll(lambda: "/api/v1/contended?by=refused&limit=100" in mock.paths(), "it asks")
    screen.type("h")
    screen.wait_for("the column that orders the list")
    screen.type("x")
    screen.wait_for("q quit .* enter who")
    screen.type("/ref")
    screen.wait_for(r"names with: ref_")
    screen.wait_without("enwiki")
    screen.type("\r")
    screen.wait_for(r'with "ref"')
    screen.type("\x1b")
    screen.wait_for("enwiki")
    screen.type(" ")
    screen.wait_for("PAUSED")
    screen.type(" +")
    screen.wait_for("every 500 ms")
    screen.type("--")
    screen.wait_for("every 2.0 s")
    screen.type("q")
    assert screen.wait() == 0


def test_pools(top, mock):
    screen = top(size=(24, 100))
    screen.wait_for("enwiki")
    assert not any("pools" in path for path in mock.paths())
    screen.type("o")
    screen.wait_for(r"(?m)^ +3 +2 +1 +2 +7 +4 +1h 2m +250 ms browsers$")
    screen.wait_for(r"(?m)^ +3 +2 +1 +2 +0 +- +1h 2m +- odd\\x1b\[2J\\xe2\\x80\\xae  \(dropped\)$")
    screen.wait_for("WANT +HELD +WAITED POOL")
    assert "/api/v1/pools?limit=100" in mock.paths()
    wire.poll(lambda: screen.read() is None or "browsers" in screen.selected(), "one is selected")
    screen.type("\r")
    screen.wait_for("nobody holds it or waits for it now")
    wire.poll(lambda: "/api/v1/names/pool%3Abrowsers" in mock.paths(), "it asks for the holders")
    screen.type("\x1b")
    screen.wait_for("browsers")
    screen.type("o")
    screen.wait_for("enwiki")
    screen.type("q")
    assert screen.wait() == 0


def test_tubes(top, mock):
    screen = top(size=(24, 100))
    screen.wait_for("enwiki:pcache")
    assert not any("tubes" in path for path in mock.paths())
    screen.type("t")
    screen.wait_for(r"(?m)^ +1\.2k +3 +5 +7 +- +20\.0k +18\.0k default  \(paused\)$")
    screen.wait_for(r"(?m)^ +1\.2k +3 +5 +7 +1h 2m +20\.0k +18\.0k enwiki/refreshLinks$")
    screen.wait_for("OLDEST +PUT +DONE TUBE")
    assert "/api/v1/tubes?limit=100" in mock.paths()
    wire.poll(lambda: screen.read() is None or "default" in screen.selected(), "one is selected")
    screen.type("\r")  # opens nothing
    screen.type("/wiki\r")
    screen.wait_without("default")
    screen.type("\x1bo")
    screen.wait_for("browsers")
    screen.type("t")
    screen.wait_for("default")
    screen.type("t")
    screen.wait_for("enwiki:pcache")
    assert not any("names/default" in path for path in mock.paths())
    screen.type("q")
    assert screen.wait() == 0


def test_a_pause_asks_for_nothing(top, mock):
    screen = top("--interval", "0.01")
    screen.wait_for("enwiki")
    screen.type(" ")
    screen.wait_for("PAUSED")
    wire.poll(lambda: screen.read(0.1) == b"", "nothing is drawn")
    before = len(mock.requests)
    # Keys still work, and each causes an iteration of its loop.
    for key in "jkjk":
        screen.type(key)
        screen.read(0.2)
    assert len(mock.requests) == before
    screen.type("r")
    wire.poll(lambda: len(mock.requests) > before, "it asks when told to")


@pytest.mark.parametrize("size", [(40, 140), (24, 80), (12, 60), (5, 30), (2, 10), (1, 1)])
def test_resizing(top, size):
    screen = top()
    screen.wait_for("enwiki")
    screen.screen.resize(*size)
    screen.resize(*size)
    if size[0] >= 12:
        screen.wait_for("q quit")
        screen.wait_for("enwiki")
    screen.screen.resize(24, 80)
    screen.resize(24, 80)
    screen.wait_for(r"(?m)^busy")
    screen.wait_for("q quit")
    screen.type("q")
    assert screen.wait() == 0
    screen.assert_restored()


def test_a_large_terminal_shows_more(top):
    screen = top(size=(40, 140))
    screen.wait_for("enwiki:pcache:idhash:15580374-0!canonical")
    bars = re.search(r"(?m)^busy +(\S+)", screen.text()).group(1)
    assert len(bars) > 80


@pytest.mark.parametrize("term", ["vt100", "dumb-not", "xterm-mono", "linux"])
def test_other_terminals(top, term):
    # ncurses leaks memory when it finds that a terminal is unknown.
    leaks = {"ASAN_OPTIONS": "detect_leaks=0"} if term == "dumb-not" else {}
    screen = top(env={"TERM": term, **leaks})
    if term == "dumb-not":
        assert screen.wait() == UNAVAILABLE
        assert b"dumb-not" in screen.output and b"--once" in screen.output
        return
    screen.wait_for("enwiki")
    wire.poll(lambda: screen.read() is None or "enwiki" in screen.selected(), "the first is selected")
    screen.type("q")
    assert screen.wait() == 0


def test_without_unicode_it_is_ascii(top):
    screen = top(env={"LC_ALL": "C", "TERM": "vt100"})
    screen.wait_for(r"odd\\x0a\\\\name \?\?")
    screen.wait_for(r"[.:=+*#-]{20}")
    assert all(ord(char) < 128 for char in screen.text())


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"])
def test_signals_restore_the_terminal(top, name):
    screen = top()
    screen.wait_for("enwiki")
    os.kill(screen.pid, getattr(signal, name))
    assert screen.wait() == 128 + getattr(signal, name)
    screen.assert_restored()


def test_ctrl_c_is_a_signal(top):
    screen = top()
    screen.wait_for("enwiki")
    screen.type("\x03")
    assert screen.wait() == 128 + signal.SIGINT
    screen.assert_restored()


@pytest.mark.parametrize("name", ["SIGABRT", "SIGALRM", "SIGXCPU", "SIGSYS", "SIGRTMAX"])
def test_other_signals_end_it_and_restore_the_terminal(top, name):
    screen = top()
    screen.wait_for("enwiki")
    os.kill(screen.pid, getattr(signal, name))
    assert screen.wait() == -getattr(signal, name)
    screen.assert_restored()


def test_a_terminal_that_is_gone_ends_it(top):
    screen = top()
    screen.wait_for("enwiki")
    screen.hang_up()
    assert screen.wait() == 128 + signal.SIGHUP


def test_a_stop_gives_the_terminal_back_and_fg_takes_it_again(mock):
    shell = 'set -m\n"$@" </dev/tty\necho stopped $?\nfg >/dev/null\necho over $?\n'
    screen = Screen("-c", shell, "sh", ctl.COUNTERCTL, "--admin", mock.address, "top",
                    program="/bin/bash")  # fmt: skip
    with screen:
        screen.wait_for("enwiki")
        screen.type("\x1a")
        screen.wait_output("stopped 148")
        before = screen.output[: screen.output.index(b"stopped 148")]
        assert before.rindex(RESTORED) > before.rindex(FULL)
        # bash runs the next line, fg, at once.
        wire.poll(lambda: screen.read() is None or screen.output.count(FULL) == 2, "it is back")
        screen.wait_for("enwiki")
        screen.type("q")
        screen.wait_output("over 0")
        screen.wait()


BACKGROUND = """
set -m
exec 3</dev/tty
"$@" <&3 %s
%s
pid=$(jobs -p %%1)
until grep -q '^State:.T' /proc/$pid/status; do sleep 0.05; done
kill %%1
while kill -0 $pid 2>/dev/null; do sleep 0.05; done
echo it has ended
"""


@pytest.mark.parametrize("begin, then", [("&", ":"), ("", "bg >/dev/null")])
def test_in_the_background_it_is_stopped_and_a_signal_ends_it(mock, begin, then):
    script = BACKGROUND % (begin, then)
    with Screen("-c", script, "sh", ctl.COUNTERCTL, "--admin", mock.address, "top",
                program="/bin/bash") as screen:  # fmt: skip
        if not begin:
            screen.wait_for("enwiki")
            screen.type("\x1a")
        screen.wait_output("it has ended")
        screen.wait()
        assert screen.output.count(RESTORED) == screen.output.count(FULL)


def test_a_stop_by_another_process_and_fg_takes_the_terminal_again(mock):
    shell = 'set -m\n"$@" </dev/tty\necho stopped $?\nstty sane\nfg >/dev/null\necho over $?\n'
    with Screen("-c", shell, "sh", ctl.COUNTERCTL, "--admin", mock.address, "top",
                program="/bin/bash") as screen:  # fmt: skip
        screen.wait_for("enwiki")
        raw = termios.tcgetattr(screen.fd)
        with open("/proc/%d/task/%d/children" % (screen.pid, screen.pid)) as children:
            os.kill(int(children.read()), signal.SIGSTOP)
        screen.wait_output("stopped 147")
        wire.poll(lambda: screen.read() is None or termios.tcgetattr(screen.fd) == raw, "it is raw")
        screen.type("q")
        screen.wait_output("over 0")
        screen.wait()


def test_a_server_that_is_gone_is_said_and_asked_again(mock):
    address = mock.server.server_address
    with Screen("--admin", mock.address, "top", "--interval", "0.1") as screen:
        screen.wait_for("enwiki")
        mock.stop()
        screen.wait_for(r"No answer for .*, trying again: ")
        assert "enwiki" in screen.text()  # the last answer is still shown
        again = mock_admin.MockAdmin(port=address[1])
        try:
            screen.wait_without("No answer")
            screen.wait_for("enwiki")
            screen.type("q")
            assert screen.wait() == 0
        finally:
            again.stop()


def test_a_server_that_was_never_there_is_said():
    with Screen("--admin", "127.0.0.1:%d" % servers.free_port(), "top") as screen:
        screen.wait_for("No answer, trying again: .*connect")
        screen.type("q")
        assert screen.wait() == 0


def test_a_name_that_has_gone_meanwhile(top, mock):
    screen = top()
    screen.wait_for("enwiki")
    screen.type("\r")  # the mock does not know this name
    screen.wait_for("nobody holds it or waits for it now")
    screen.type("\x1b")
    screen.wait_for("enter who")


def test_no_terminal(mock):
    done = ctl.run("--admin", mock.address, "top")
    assert done.status == USAGE and "--once" in done.err and done.out == ""
    done = ctl.run("--admin", mock.address, "top", "--json")
    assert done.status == USAGE and "--once" in done.err


def test_one_frame_as_text(mock):
    top = ("--admin", mock.address, "top", "--once")
    done = ctl.run(*top)
    assert done.status == 0 and done.err == "" and "\x1b" not in done.out
    lines = done.out.splitlines()
    assert lines[0].startswith("counterctl top - " + mock.address)
    assert max(map(len, lines)) <= 80 and "q quit" not in done.out
    assert any(line.startswith("busy ") for line in lines)
    assert lines[-1].endswith(" odd\\x1b[2J\\xe2\\")  # cut at 80 columns
    assert re.search(r" 1h 2m +250 ms browsers$", lines[-2]) and lines[-3].endswith(" POOL")
    wide = ctl.run(*top, env={"COLUMNS": "200"}).out
    assert "enwiki:pcache:idhash:15580374-0!canonical" in wide
    assert "enwiki" not in ctl.run(*top, "--filter", "refused").out
    assert len(ctl.run(*top, "--limit", "1").out.splitlines()) == len(lines) - 3
    assert "/api/v1/contended?by=waiting&limit=1" in mock.paths()
    pools = json.loads(ctl.run(*top, "--json").out)["pools"]
    assert pools == mock_admin.POOLS
    mock.canned["/api/v1/pools"] = (404, {"error": {"status": 404, "reason": "nothing here"}})
    assert "POOL" not in ctl.run(*top).out  # a server that knows no pools
    assert "pools" not in json.loads(ctl.run(*top, "--json").out)
    none = "127.0.0.1:%d" % servers.free_port()
    done = ctl.run("--admin", none, "top", "--once")
    assert (done.status, done.out) == (UNAVAILABLE, "") and none in done.err


def test_tubes_are_printed_once_some_are_used(mock):
    top = ("--admin", mock.address, "top", "--once")
    assert "TUBE" not in ctl.run(*top).out  # nothing says that any was used
    assert json.loads(ctl.run(*top, "--json").out)["tubes"] == mock_admin.TUBES
    used = dict(mock_admin.STATS, resources={"tubes": {"tubes": 2, "puts": 0}})
    mock.canned["/api/v1/stats"] = (200, used)
    lines = ctl.run(*top).out.splitlines()
    assert lines[-3].endswith(" TUBE") and lines[-1].endswith(" enwiki/refreshLinks")
    mock.canned["/api/v1/tubes"] = (404, {"error": {"status": 404, "reason": "nothing here"}})
    assert "TUBE" not in ctl.run(*top).out  # a server that knows no tubes
    assert "tubes" not in json.loads(ctl.run(*top, "--json").out)


def test_a_node_without_its_engine_is_said(mock):
    top = ("--admin", mock.address, "top", "--once")
    assert "cluster" not in json.loads(ctl.run(*top, "--json").out)
    cluster = {"enabled": True, "state": "refused", "refused": "use Redis 7.0 or later"}
    mock.canned["/api/v1/cluster"] = (200, cluster)
    assert ctl.run(*top).out.splitlines()[1] == "limits are not shared: use Redis 7.0 or later"
    assert json.loads(ctl.run(*top, "--json").out)["cluster"] == cluster
    mock.canned["/api/v1/cluster"] = (200, {"enabled": False})
    assert "cluster" not in json.loads(ctl.run(*top, "--json").out)


def test_the_daemon_itself_is_watched(start):
    daemon = start("counter.threads=2", admin=True)
    with daemon.text_client() as holder, daemon.text_client() as waiter:
        assert holder.ask("ACQ4ME watched 1 9 0") == "LOCKED"
        waiter.say("ACQ4ME watched 1 9 1000")
        with Screen("--admin", ctl.at(daemon.admin), "top", "--interval", "0.2") as screen:
            screen.wait_for(r"(?m)^ +1 +1 +1 +1 +\S+ +\S+ watched$")
            screen.type("\r")
            screen.wait_for(r"(?m)^holds .* poolcounter  127\.0\.0\.1:\d+$")
            screen.wait_for(r"(?m)^waits .* poolcounter  127\.0\.0\.1:\d+$")
            assert holder.ask("RELEASE watched") == "RELEASED"
            screen.wait_for(r"waiting 0")
            screen.type("\x1bo")
            screen.wait_for("there are no pools")
            assert holder.ask("POOL ADD watched-pool") == "OK"
            assert holder.ask("MEMBER ADD watched-pool m") == "OK"
            screen.wait_for(r"(?m)^ +1 +0 +0 +0 +0 +- +- +- watched-pool$")
            assert holder.ask("TAKE watched-pool").startswith("TAKEN watched-pool m ")
            screen.wait_for(r"(?m)^ +0 +1 +0 +0 +0 +- +\S+ m?s +- watched-pool$")
            screen.type("\r")
            screen.wait_for(r"(?m)^holds .* poolcounter  127\.0\.0\.1:\d+$")
            screen.type("q")
            assert screen.wait() == 0


if __name__ == "__main__":
    tap.main(__file__)
