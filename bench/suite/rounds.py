"""Measures rows, interleaved: a round runs each subject of a row once, one after the other.

Each run starts its own server, so the layout of its memory varies between runs, and no other server
disturbs the measurement. Every second round runs the subjects in reverse order.
"""

import sys
import time

import goals
import kinds
import load
import machine

import certificates  # of t/system, as kinds.py's servers


def say(text):
    print(text, file=sys.stderr, flush=True)


class Measuring:
    """
    `seconds` and `warmup` of each run. Begins no round that would not end before `until`.
    `hurries`: skips slow subjects.
    """

    def __init__(self, build, store, tree, seconds, warmup, until, hurries):
        self.build = build
        self.store = store
        self.tree = tree
        self.seconds = seconds
        self.warmup = warmup
        self.until = until
        self.hurries = hurries

    def run(self, row, subject):
        """Runs one subject. Returns the result."""
        seconds = self.seconds * row.seconds
        if subject.engine:
            return load.run_engine(self.build, **subject.engine)
        layout = machine.LAYOUTS[subject.layout]()
        kind = kinds.KINDS[subject.server]
        options = dict(subject.options)
        if options.get("tls"):
            options["tls"] = certificates.Authority(self.store.folder).issue("server")
        try:
            with kind(self.build, layout, **options) as server:
                for before in subject.before:
                    made = load.run(self.build, before, server, seconds, self.warmup)
                    if "failed" in made:
                        return made
                if subject.load is None:
                    return {"start_seconds": server.restart()}
                with load.beside(self.build, subject.beside, server):
                    result = load.run(self.build, subject.load, server, seconds, self.warmup)
                log_bytes = server.log_bytes()
                return result if log_bytes is None else dict(result, log_bytes=log_bytes)
        except (AssertionError, OSError, RuntimeError) as e:
            return {"failed": str(e)[-500:]}

    def _round(self, row, subjects, title):
        results = {}
        for subject in subjects:
            begun = time.monotonic()
            result = self.run(row, subject)
            results[subject.name] = result
            say("%s  %-36s %5.1f s  %s" % (
                title, subject.name, time.monotonic() - begun, in_short(result)))  # fmt: skip
        return results

    def row(self, row, rounds):
        """Measures a row in `rounds` rounds, or as many as time allows, and stores them."""
        kept = {"row": row.name, "tree": self.tree, "date": machine.today(), "rounds": []}
        kept.update(seconds=self.seconds * row.seconds, asked=rounds)
        took = 0.0
        for number in range(rounds):
            begun = time.monotonic()
            if begun + took > self.until:
                say("%s: no time left for %d of %d rounds" % (row.name, rounds - number, rounds))
                return
            subjects = [one for one in row.subjects if not (self.hurries and one.slow)]
            if number % 2:
                subjects.reverse()
            title = "%s %d/%d" % (row.name, number + 1, rounds)
            kept["rounds"].append(self._round(row, subjects, title))
            self.store.write(row.name, kept)
            took = time.monotonic() - begun


SHORT = [  # path in a result, and how the terminal says it
    ("server.cpu_us_per_operation", "%.2f µs of CPU each"),
    ("server.bytes_each", "%.0f bytes each"),
    ("per_second", "%.0f/s"),
    ("latency_us.p999", "99.9 %% %.0f µs"),
    ("latency_us.max", "worst %.0f µs"),
    ("start_seconds", "%.2f s until it was ready"),
    ("time_to_last_us", "the last after %.0f µs"),
    ("ns_per_operation", "%.0f ns"),
    ("errors", "%d errors"),
]


def in_short(result):
    """A result in one line, for the terminal."""
    if "failed" in result:
        return "failed: " + result["failed"].replace("\n", " ")[:160]
    parts = [text % goals.lookup(result, path) for path, text in SHORT if goals.lookup(result, path)]
    if result.get("others", 0) > machine.OTHERS_MAX:
        parts.append("others took %.0f %% of the cores" % (100 * result["others"]))
    return ", ".join(parts)
