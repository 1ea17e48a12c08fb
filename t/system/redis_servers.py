"""Starts redis-server for tests: on a unix socket of its own, on a free port of 127.0.0.1, or both.

A server's data is in a folder of its own, which goes with the server. `stop` ends it, also when a test
has failed; a server that is a context manager stops at the end of the block.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time

import resp
import servers

REDIS_SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
DEADLINE = 60  # seconds


def have_redis():
    """True if there is a redis-server to start."""
    return REDIS_SERVER is not None


class RedisServer:
    """
    One redis-server. `options` are settings such as maxmemory="2mb" or appendonly="yes" (an underscore
    stands for a hyphen). `tcp` chooses a free port, which stays the same over restarts; otherwise the
    server has only its unix socket. `sentinel` starts a Sentinel. `config` has further lines for the settings, or the Sentinel's.
    """

    def __init__(self, tcp=False, sentinel=False, config="", **options):
        if not have_redis():
            raise RuntimeError("redis-server is not installed")
        self.folder = tempfile.mkdtemp(prefix="redis.", dir="/tmp")
        self.path = os.path.join(self.folder, "socket")
        self.port = servers.free_port() if tcp or sentinel else 0
        self.is_sentinel = sentinel
        self.config = config
        self.options = options
        self.process = None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        """The address as the option cluster.engine takes it."""
        return "redis://127.0.0.1:%d" % self.port if self.port else "unix:" + self.path

    @property
    def log(self):
        """What the server has logged."""
        try:
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def _settings(self):
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "unixsocket": self.path,
            "dir": self.folder,
            "daemonize": "no",
        }
        if not self.is_sentinel:
            settings.update({"save": '""', "appendonly": "no"})
            settings.update({k.replace("_", "-"): v for k, v in self.options.items()})
        lines = ["%s %s" % item for item in settings.items()]
        return "\n".join(lines + [self.config, ""])

    def start(self):
        """Starts the server, again after `end`, and waits until it has loaded its data and answers."""
        file = os.path.join(self.folder, "conf")
        if not (self.is_sentinel and os.path.exists(file)):  # a Sentinel writes its own file
            with open(file, "w", encoding="utf-8") as f:
                f.write(self._settings())
        argv = [REDIS_SERVER, file] + (["--sentinel"] if self.is_sentinel else [])
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        until = time.monotonic() + DEADLINE
        while not self._is_ready():
            if self.process.poll() is not None:
                raise RuntimeError("redis-server ended: " + self.log)
            if time.monotonic() > until:
                raise RuntimeError("redis-server does not answer: " + self.log)
            time.sleep(0.005)

    def _is_ready(self):
        try:
            with resp.Client(self.path) as client:
                client.ask("PING")
        except resp.Error as e:
            # NOAUTH: a password is set, and the server answers.
            return e.word in ("NOAUTH", "NOPERM")
        except OSError:
            return False
        return True

    def ask(self, *arguments):
        """One command on a connection of its own."""
        with resp.Client(self.path) as client:
            return client.ask(*arguments)

    def pause(self):
        """Stops the process where it is (SIGSTOP)."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        """Lets a paused process go on."""
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        """Ends the process and keeps the folder, for `start`. Data that was not saved is gone."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(DEADLINE)
        self.process = None
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass

    def info(self, section):
        """INFO of one section, on a connection of its own."""
        with resp.Client(self.path) as client:
            return client.info(section)

    def stop(self):
        """Ends the server and removes its folder."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
