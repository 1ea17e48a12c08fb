"""Plays stories in modes: under faults, on other numbers of workers, with upgrades between steps.

    modes.py [--modes split,nomem] [--seed N] [-k TEXT] [--seconds S] [--mode SPEC]

A mode makes trouble that a story does not mention (README.md has the list). The answers must be the
same, or what the mode allows; and when all clients have left, nothing of them may be left.
"""

import argparse
import os
import random
import re
import shlex
import sys
import time

import backends
import player
from story import Failed, read_folder

HERE = os.path.dirname(os.path.abspath(__file__))
FAKENET = os.environ.get("FAKENET") or os.path.join(
    os.environ.get("TOP_BUILDDIR", os.path.join(HERE, "..", "..", "build")),
    "t",
    "scenario",
    "fakenet",
)

# Each mode: the key of fakenet's `start` that it sets (fakenet.c), and numbers to choose from.
# `upgrade`, `spread`, `reload` and `drain` happen before one step in so many; those of `nomem` and `fail` are
# of an allocation and of a call, which a run without trouble counts.
MODES = {
    "split": ("split", (1, 1, 3, 40)),
    "short": ("short", (1, 2, 9, 300)),
    "slow": ("slow", (1, 7, 100)),
    "workers": ("workers", (2, 3)),
    "upgrade": (None, (1, 1, 3)),
    "spread": (None, (1, 3)),
    "amid": ("amid", (1, 3)),
    "reload": (None, (1, 2)),
    "drain": (None, (2, 5, 20)),
    "nomem": ("refuse", None),
    "fail": ("break", None),
}
COUNTED = {"nomem": "allocations", "fail": "calls"}
# What answers to a refused allocation look like, and what their end is called.
SHUTTING_DOWN = re.compile(rb"SHUTTING_DOWN|(?:^|\n)DRAINING|Shutting down")
NO_MEMORY = re.compile(rb"OUT_OF_MEMORY|(?:^|\n)LOST |\x91.\x82\x00", re.S)


class Mode:
    """One or more modes with their numbers: `split=1+workers=3`, and a seed for their choices."""

    def __init__(self, spec, seed):
        self.spec = spec
        self.parts = {}
        for part in filter(None, spec.split("+")):
            name, _, number = part.partition("=")
            if name not in MODES:
                raise SystemExit("no mode is named %s" % name)
            self.parts[name] = int(number or 1)
        self.workers = self.parts.get("workers", 1)
        self.seed = seed
        self.random = random.Random(seed)
        self.reorders = bool(set(self.parts) - {"nomem", "fail", "reload"})

    def settings(self, story):
        """The story's settings, and those of the mode."""
        keys = {MODES[name][0]: number for name, number in self.parts.items() if MODES[name][0]}
        if "amid" in keys:
            keys = {"slow": 7, "split": 3, **keys}
        return {**story.settings, **keys, "seed": self.seed}

    def before(self, backend, number):
        """Does what the mode does before a step."""
        for name, workers in ("upgrade", (self.workers,)), ("spread", (1, 2, 3)):
            if number and name in self.parts and not self.random.randrange(self.parts[name]):
                backend.command("upgrade", str(self.random.choice(workers)))
        if "reload" in self.parts and not self.random.randrange(self.parts["reload"]):
            backend.command("reload")
        if "drain" in self.parts and not self.random.randrange(self.parts["drain"]):
            backend.command("drain", "on")
            backend.faults = backend.faults or ["drains"]

    def explains(self, backend):
        """Returns whether an answer may differ now."""
        if "fail" in self.parts:
            broken = [fault.split()[1] for fault in backend.faults if fault.startswith("broke ")]
            return any(backend.connections[name].closed is not None for name in broken)
        if not backend.faults or not {"nomem", "drain"} & set(self.parts):
            return bool(backend.faults)
        for name in backend.connections:
            backend.window(name, "all")  # what it was not told yet
        if "drain" in self.parts:
            return any(SHUTTING_DOWN.search(conn.since_fault) for conn in backend.connections.values())
        return any(
            conn.closed in ("memory", "unopened") or NO_MEMORY.search(conn.since_fault)
            for conn in backend.connections.values()
        )


def play(story, backend, mode):
    """Plays a story in a mode. A failure says how to repeat it."""
    try:
        backend.start(mode.settings(story))
        player.play(story, backend, mode)
    except Failed as e:
        backend.kill()
        raise Failed(
            "%s\nagain: ./dev torture stories --mode %s --seed %d -k %s"
            % (e, mode.spec or "''", mode.seed, shlex.quote(story.name))
        ) from e
    except Exception:
        backend.kill()
        raise


def counts(story, backend):
    """The numbers of allocations and of calls in a run without trouble."""
    play(story, backend, Mode("", 0))
    return backend.info


def stories(text=""):
    return [story for story in read_folder(HERE) if "fake" in story.servers and not story.broken and text in story.name]


def some(names, chance):
    """These modes together, with numbers."""
    return "+".join("%s=%d" % (name, chance.choice(MODES[name][1])) for name in names)


def specs(story, names, backend, chance):
    """Every mode of a story, for the campaign: all numbers of those that are counted."""
    free = [name for name in names if name not in story.cannot]
    for name in free:
        if name in COUNTED:
            last = counts(story, backend)[COUNTED[name]]
            yield from ("%s=%d" % (name, number) for number in range(1, last + 1))
        else:
            yield from ("%s=%d" % (name, number) for number in sorted(set(MODES[name][1])))
    free = [name for name in free if name not in COUNTED]
    if len(free) > 1:
        yield from (some(chance.sample(free, 2), chance) for _ in range(3))


def sample(story, info, chance):
    """One mode of a story: of those with counted numbers, or of the others, also two together."""
    free = [name for name in MODES if name not in story.cannot]
    counted = [name for name in free if name in COUNTED]
    if counted and chance.randrange(2):
        name = chance.choice(counted)
        return "%s=%d" % (name, 1 + chance.randrange(max(1, info[COUNTED[name]])))
    uncounted = [name for name in free if name not in COUNTED]
    return some(chance.sample(uncounted, min(len(uncounted), chance.choice((1, 1, 2)))), chance)


def main():
    parser = argparse.ArgumentParser(description="stories under faults")
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--mode", help="this alone, as a failure names it: split=1+workers=3")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--seconds", type=float, help="begin no story after that time")
    parser.add_argument("-k", default="", metavar="TEXT", help="stories by a part of their name")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    print("# --seed %d" % options.seed, flush=True)
    backend = backends.FakeBackend(FAKENET)
    began, runs, failed, played = time.monotonic(), {}, 0, 0
    chosen = stories(options.k)
    if options.seconds:
        chance.shuffle(chosen)
    for story in chosen:
        if options.seconds and time.monotonic() - began > options.seconds:
            break
        played += 1
        if options.mode is not None:
            todo = [] if story.cannot & set(Mode(options.mode, 0).parts) else [options.mode]
        else:
            todo = specs(story, options.modes.split(","), backend, chance)
        for spec in todo:
            seed = options.seed if options.mode is not None else chance.randrange(2**32)
            runs[spec.partition("=")[0]] = runs.get(spec.partition("=")[0], 0) + 1
            try:
                play(story, backend, Mode(spec, seed))
            except Failed as e:
                failed += 1
                print("%s\n%s\n" % (story.name, e), flush=True)
    backend.close()
    print(
        "%d stories of %d, %s; %d failed; %.0f s"
        % (
            played,
            len(chosen),
            ", ".join("%s %d" % pair for pair in runs.items()),
            failed,
            time.monotonic() - began,
        )
    )
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
