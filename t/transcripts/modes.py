"""
Plays transcripts with trouble that they do not mention. README.md has the modes; run.py draws them.

`lost` and a signal come before a step, and the transcript ends there: nobody looks at what is printed from then on,
but at how counterctl ends.
"""

import contextlib
import itertools
import os
import random
import re
import signal
import socket
import tempfile
import time

import ctl
import player
import wire

SIGNALS = ("TERM", "INT", "HUP")
SAYS = ("<", "<<", "<=", "<*", "agree")
CRASHES = {128 + number for number in (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)}
READS = r"[|<]|\b(cat|read|put|acquire)\b"  # commands whose standard input is part of the transcript
PRINTS = r"[|>`]|\$\(|\b(run|work|clean|member|acquire|batch|watch)\b"  # likewise output: commands of theirs write
CLOSED = ("0", "1", "2", "012")
PROGRAMS = tempfile.TemporaryDirectory(prefix="ctl-")  # has counterctl with a closed descriptor, in a folder each
for descriptors in CLOSED:
    os.mkdir(os.path.join(PROGRAMS.name, descriptors))
    path = os.path.join(PROGRAMS.name, descriptors, "counterctl")
    with open(path, "w", encoding="utf-8") as f:
        closed = " ".join(descriptor + ">&-" for descriptor in descriptors)
        f.write('#!/bin/sh\nexec %s "$@" %s\n' % (os.path.abspath(ctl.COUNTERCTL), closed))
    os.chmod(path, 0o755)


def specs(case):
    """The modes that a transcript bears, by name; those with a number once for each."""
    steps, found = case.steps, {}
    commands = "\n".join(step.text for step in steps if step.what in ("$", "$$"))
    began = [number for number, step in enumerate(steps) if step.what[:1] == "$" and "counterctl" in step.text]
    if not began:
        return found
    names = {step.name for step in steps if step.what in ("$", "$$")}
    told = any(step.name in names and step.what in (*SAYS, "eof", "close") for step in steps)
    if "$$" not in {step.what for step in steps}:
        bears = {
            "0": not told and not re.search(READS, commands),
            "1": names == {""} and not re.search(PRINTS, commands),
            "2": not re.search(r"2>|\bscript\b", commands),
        }
        found["closed"] = ["closed-" + all_of for all_of in CLOSED if all(map(bears.get, all_of))]
    if any(step.what in SAYS and step.name not in names for step in steps):
        found["split"] = ["split"]
    if any(step.what == "daemon" for step in steps):
        found["upgrade"], found["reload"] = ["upgrade"], ["reload"]
    numbers = range(began[0] + 1, len(steps) + 1)
    found["lost"] = ["lost-%d" % number for number in numbers]
    found["signal"] = ["%s-%d" % (name, number) for name in SIGNALS for number in numbers]
    return {mode: all_of for mode, all_of in found.items() if all_of and mode not in case.cannot}


class Troubled(player.Player):
    """Plays one case in a mode."""

    def __init__(self, case, daemons, spec):
        super().__init__(case, daemons)
        self.mode, _, self.value = spec.partition("-")
        self.chance = random.Random(case.id)
        if self.mode == "closed":
            self.env["PATH"] = "%s/%s:%s" % (PROGRAMS.name, self.value, self.env["PATH"])

    def go(self):
        if self.mode != "lost" and self.mode not in SIGNALS:
            super().go()
            return
        self.begin(int(self.value))
        if self.mode == "lost":
            self.lose()
        self.watch_end(0 if self.mode == "lost" else getattr(signal, "SIG" + self.mode))

    def lose(self):
        """All servers are gone, and what commands may wait for."""
        while self.daemons:
            self.daemons.pop().kill()
        if self.pages:
            self.pages.stop()
        for sock in self.sockets:
            sock.close()
        for actor in self.actors.values():
            actor.close()

    def clients(self):
        """The processes of counterctl in this case's folder."""
        found = set()
        for word in filter(str.isdigit, os.listdir("/proc")):
            try:
                place, program = (os.readlink("/proc/%s/%s" % (word, what)) for what in ("cwd", "exe"))
            except OSError:
                continue
            if place == self.folder and program == os.path.realpath(ctl.COUNTERCTL):
                found.add(int(word))
        return found

    def watch_end(self, number):
        """What runs must end: by this signal; or after a loss by itself, or else by TERM."""
        actors = {actor.pid: actor for actor in self.actors.values() if isinstance(actor, player.Process)}
        first = left = self.clients()
        for turn in range(int(wire.DEADLINE * 5)):
            for pid in left if turn or number else ():
                try:
                    os.kill(pid, number or signal.SIGTERM)
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass
            for actor in actors.values() if turn else ():
                actor.close()
            until = time.monotonic() + (1 if turn or number else 3)
            while left and time.monotonic() < until:
                time.sleep(0.005)
                left = self.clients()
            if number or not turn:
                alone = first - left
            if not left:
                break
        else:
            raise player.Wrong("it goes on: %s" % [actors[pid].command for pid in left if pid in actors])
        for pid in alone & set(actors):
            self.judge(actors[pid], number)

    def judge(self, process, number):
        """How a command ended, by itself or by the signal."""
        status = process.child.wait(wire.DEADLINE * 5)
        status = status if status >= 0 else 128 - status
        connections = {name for name, actor in self.actors.items() if isinstance(actor, player.Connection)}
        rest = self.case.steps[int(self.value) :]
        is_needed = any(step.name in connections and step.what in SAYS for step in rest)
        is_needed = is_needed and not any(step.what == "signal" for step in self.case.steps)
        if any(step.what == "!" for step in self.case.steps[: int(self.value)]):  # it was ending: the first cause counts
            is_needed = is_needed and not any(step.what == "?" and step.rest == str(status) for step in rest)
        if status in CRASHES or (is_needed and status != 128 + number if number else is_needed and not status):
            raise player.Wrong("status %d: %s" % (status, process.command))

    # --- steps

    def step(self, number, step):
        is_turn = self.mode in ("upgrade", "reload") and step.what != "?" and not self.chance.randrange(3)
        if is_turn and not self.asks_admin():
            for daemon in self.daemons:
                if daemon.is_running() and not daemon.is_expected_to_be_gone:
                    self.change(daemon)
        super().step(number, step)
        for link in self.standard() if self.mode == "closed" else ():
            if link.startswith(("socket:", "anon_inode:")):
                raise player.Wrong("a standard descriptor is its own: " + link)

    def asks_admin(self):
        """True if the command without a name may await an answer of the admin interface: an upgrade ends its connections."""
        actor = self.actors.get("")
        at = self.values.get("admin")
        return isinstance(actor, player.Process) and at and at in actor.command and actor.child.poll() is None

    def standard(self):
        """What the standard descriptors of counterctl are."""
        for pid, descriptor in itertools.product(self.clients(), "012"):
            with contextlib.suppress(OSError):
                yield os.readlink("/proc/%d/fd/%s" % (pid, descriptor))

    def change(self, daemon):
        seen = len(daemon.log)
        daemon.child.send_signal(signal.SIGHUP if self.mode == "reload" else signal.SIGUSR1)
        over = r"info: ready\b|goes on as before|reload: (done|nothing was changed)"
        wire.poll(lambda: re.search(over, daemon.log[seen:]), "the %s is over" % self.mode, 100)
        if not re.search(r"info: ready\b|reload: done", daemon.log[seen:]):
            raise player.Wrong(daemon.log[seen:])

    def unheard(self, actor, descriptor):
        return isinstance(actor, player.Process) and self.mode == "closed" and descriptor in self.value

    def do_hear(self, actor, text):
        if not self.unheard(actor, "1"):
            super().do_hear(actor, text)

    def do_hear_error(self, actor, text):
        if not self.unheard(actor, "2"):
            super().do_hear_error(actor, text)

    def finish(self, actor, status):
        if self.unheard(actor, "1"):
            actor.err.skips, status = True, "any"
        super().finish(actor, status)

    def do_say(self, actor, text):
        if self.mode == "split" and isinstance(actor, player.Connection):
            actor.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            actor.piece = 1
        super().do_say(actor, text)
