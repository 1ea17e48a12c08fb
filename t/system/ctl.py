"""Runs counterctl: to its end, beside the test, or on a terminal."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time
from collections import namedtuple

import wire

COUNTERCTL = os.environ.get("COUNTERCTL", "")

Done = namedtuple("Done", "status out err")


def have_counterctl():
    """True if there is a client to test; like servers.have_counterd."""
    return bool(COUNTERCTL)


def at(address):
    """Returns the address in counterctl's form."""
    if isinstance(address, str):
        return "unix:" + address
    host, port = address[:2]
    return ("[%s]:%d" if ":" in host else "%s:%d") % (host, port)


def environment(extra=None):
    """The environment, without variables that name a server."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("COUNTER_")}
    env.pop("COLUMNS", None)
    env["LC_ALL"] = "C.UTF-8"
    env.update(extra or {})
    return env


def check_sane(err):
    assert "Sanitizer" not in err and "runtime error" not in err and "CHECK" not in err, err


def run(*args, stdin=b"", env=None, preexec=None, cwd=None):
    """Runs counterctl to its end."""
    done = subprocess.run(
        [COUNTERCTL, *args],
        input=stdin,
        capture_output=True,
        timeout=wire.DEADLINE * 2,
        env=environment(env),
        preexec_fn=preexec,
        cwd=cwd,
        check=False,
    )
    result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
    check_sane(result.err)
    return result


def run_json(*args, **kwargs):
    """Returns the JSON that a command prints, and its exit status."""
    done = run(*args, **kwargs)
    return json.loads(done.out), done.status


class Running:
    """counterctl beside the test, with pipes for its standard input and output."""

    def __init__(self, *args, env=None, preexec=None):
        self.child = subprocess.Popen(
            [COUNTERCTL, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(env),
            preexec_fn=preexec,
        )
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def line(self):
        """Returns the next line of its standard output. Fails if there is none."""
        line = self.child.stdout.readline()
        if not line:
            raise AssertionError("counterctl has ended without a line: %r" % (self.wait(),))
        return line.decode().rstrip("\n")

    def say(self, text):
        self.child.stdin.write(text.encode())
        self.child.stdin.flush()

    def signal(self, number):
        self.child.send_signal(number)

    def end(self):
        """
        Closes its standard input and waits. Returns the rest of its output, and its exit status.
        """
        out, err = self.child.communicate(timeout=wire.DEADLINE * 2)
        result = Done(self.child.returncode, out.decode(), err.decode())
        check_sane(result.err)
        return result

    def wait(self):
        """Waits for its end without closing its standard input."""
        status = self.child.wait(wire.DEADLINE * 2)
        out, err = self.child.stdout.read().decode(), self.child.stderr.read().decode()
        check_sane(err)
        return Done(status, out, err)


class Terminal:
    """
    Runs counterctl (or another program) on a terminal of its own, as the leader of its session.
    `modes` are the terminal's initial modes.
    """

    def __init__(self, *args, size=(24, 80), env=None, program=None):
        self.output = b""
        env = environment(dict({"TERM": "xterm"}, **(env or {})))
        held, go = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.close(go)
                os.read(held, 1)  # until the terminal is set up
                program = program or COUNTERCTL
                os.execve(program, [program, *args], env)
            finally:
                os._exit(255)
        self.status = None
        self.modes = termios.tcgetattr(self.fd)
        self.resize(*size)
        os.close(held)
        os.close(go)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.fd >= 0:
            os.close(self.fd)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode() if isinstance(text, str) else text)

    def read(self, seconds=0.05):
        """Returns available output; b"" if there is none, or the other side has ended."""
        import select

        if not select.select([self.fd], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return b""
        self.output += data
        return data

    def wait_output(self, text):
        """Waits until it has written `text`."""
        wanted = text.encode() if isinstance(text, str) else text
        until = time.monotonic() + wire.DEADLINE
        while wanted not in self.output:
            if time.monotonic() > until:
                raise wire.Timeout("%r awaited, got %r" % (wanted, self.output[-2000:]))
            self.read()

    def hang_up(self):
        os.close(self.fd)
        self.fd = -1

    def wait_stopped(self):
        """Waits until the program is stopped by a signal."""

        def is_stopped():
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            return pid == self.pid and os.WIFSTOPPED(status)

        wire.poll(is_stopped, "it has stopped")

    def wait(self):
        """Waits for its end, and reads its output. Returns the exit status."""

        def is_over():
            if self.fd >= 0:
                self.read(0.01)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)
            return self.status is not None

        wire.poll(is_over, "it has ended", wire.DEADLINE * 2)
        while self.fd >= 0 and self.read():
            pass
        check_sane(self.output.decode("utf-8", "replace"))
        return self.status
