"""The examples of doc/pools, as their README files describe them."""

import http.server
import os
import shutil
import signal
import subprocess
import threading

import tap
import pytest

import ctl
import servers
import wire

TOP = os.environ.get("TOP_SRCDIR", ".")
EXAMPLES = os.path.join(TOP, "doc", "pools")

pytestmark = pytest.mark.skipif(
    not servers.have_counterd() or not ctl.have_counterctl(),
    reason="COUNTERD and COUNTERCTL name no programs",
)


class Example:
    """Runs counterctl in the folder of an example."""

    def __init__(self, daemon, name):
        self.at = ("-s", ctl.at(daemon.text))
        self.folder = os.path.join(EXAMPLES, name)
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.started:
            if child.poll() is None:
                child.terminate()
        for child in self.started:
            child.communicate(timeout=wire.DEADLINE * 2)

    def start(self, *words):
        """Starts it beside the test."""
        child = subprocess.Popen(
            [ctl.COUNTERCTL, *self.at, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=ctl.environment(),
        )
        self.started.append(child)
        return child

    def run(self, *words):
        done = ctl.run(*self.at, *words, cwd=self.folder)
        assert done.status == 0, done
        return done.out


# --- browsers ------------------------------------------------------------------------------------


class Pages:
    """A web server whose pages are served when the test says `go`."""

    def __init__(self):
        self.go = threading.Event()
        self.asked = set()
        pages = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                if self.path != "/favicon.ico":
                    pages.asked.add(self.path)
                    pages.go.wait(wire.DEADLINE * 6)
                body = b"<h1>page %s</h1>" % self.path.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d/" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


def processes():
    """Returns the parent and the words of every process."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % entry) as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
            with open("/proc/%s/cmdline" % entry, "rb") as f:
                found[int(entry)] = parent, f.read().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def children(pid):
    """Returns the children of a process, with their words."""
    return {child: words for child, (parent, words) in processes().items() if parent == pid}


def starters(supplier):
    """Returns the processes of ./start-browser, one for each browser."""
    for supervisor in children(supplier.pid):
        return [pid for pid, words in children(supervisor).items() if b"./start-browser" in words]
    return []


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
@pytest.mark.skipif(wire.SLOW, reason="with the plain build only")
def test_browsers(daemon, tmp_path):
    with Example(daemon, "browsers") as example, Pages() as pages:
        example.run("pool", "add", "browsers", "kind=joined")
        supplier = example.start("member", "browsers", "--init", "1", "--max", "2", "--ready", "--", "./start-browser")

        def browsers():
            found = starters(supplier)
            assert len(found) <= 2
            return found

        def poll(condition, what):
            wire.poll(lambda: browsers() is not None and condition(), what, wire.DEADLINE * 6)

        def shoot(number):
            path = tmp_path / ("%d.png" % number)
            url = pages.url + str(number)
            return example.start(
                *("run", "--pool", "browsers", "--fail-on", "2"),
                *("--", "./screenshot", url, str(path)),
            )

        users = [shoot(i) for i in range(4)]
        poll(lambda: len(pages.asked) == 2, "two pages are being loaded")
        (chromium,) = children(browsers()[0])
        os.kill(chromium, signal.SIGKILL)
        poll(lambda: sum(user.poll() is not None for user in users) == 1, "its user has failed")
        poll(lambda: len(pages.asked) == 3, "it is replaced")
        pages.go.set()
        poll(lambda: all(user.poll() is not None for user in users), "all have ended")
        failed = [i for i, user in enumerate(users) if user.returncode != 0]
        assert len(failed) == 1, [users[i].communicate() for i in failed]
        again = shoot(failed[0])
        poll(lambda: again.poll() is not None, "the one that failed has its picture")
        for i in range(4):
            assert (tmp_path / ("%d.png" % i)).read_bytes().startswith(b"\x89PNG")

        example.run("pool", "set", "browsers", "cull_after=0.5")
        poll(lambda: len(browsers()) == 1, "one is left")
        supplier.terminate()
        poll(lambda: not browsers(), "none is left at the end")


if __name__ == "__main__":
    tap.main(__file__)
