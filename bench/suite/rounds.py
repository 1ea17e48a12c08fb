"""Measures rows, interleaved: a round runs each subject of a row once, one after the other.

Each run starts its own server, so the layout of its memory varies between runs, and no other server
disturbs the measurement. Every second round runs the subjects in reverse order.
"""

import os
import sys
import time

import load
import machine
import servers

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "t", "system"))
import certificates  # pylint: disable=wrong-import-position


def say(text):
    print(text, file=sys.stderr, flush=True)


class Measuring:
    """
    `seconds` and `warmup` of each run. Begins no round that would not end before `until`.
    `hurries`: skips slow subjects.
    """

    def __init__(self, build, store, tree, seconds, warmup, until, hurries=False,
                 clock=time.monotonic):  # fmt: skip
        self.build = build
        self.store = store
        self.tree = tree
        self.seconds = seconds
        self.warmup = warmup
        self.until = until
        self.hurries = hurries
        self.clock = clock

    def run(self, row, subject):
        """Runs one subject. Returns the result."""
        seconds = self.seconds * row.seconds
        if subject.engine:
            return load.run_engine(self.build, **subject.engine)
        layout = machine.LAYOUTS[subject.layout]()
        kind = servers.KINDS[subject.server]
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
        except (servers.Trouble, RuntimeError) as e:
            return {"failed": str(e)[-500:]}

    def _round(self, row, subjects, title):
        results = {}
        for subject in subjects:
            begun = self.clock()
            result = self.run(row, subject)
            results[subject.name] = result
            say("%s  %-36s %5.1f s  %s" % (
                title, subject.name, self.clock() - begun, in_short(result)))  # fmt: skip
        return results

    def row(self, row, rounds):
        """Measures a row in `rounds` rounds, or as many as time allows, and stores them."""
        kept = {"row": row.name, "tree": self.tree, "date": machine.today(), "rounds": []}
        kept.update(seconds=self.seconds * row.seconds, asked=rounds)
        took = 0.0
        for number in range(rounds):
            begun = self.clock()
            if begun + took > self.until:
                say("%s: no time left for %d of %d rounds" % (row.name, rounds - number, rounds))
                return
            subjects = [one for one in row.subjects if not (self.hurries and one.slow)]
            if number % 2:
                subjects.reverse()
            title = "%s %d/%d" % (row.name, number + 1, rounds)
            kept["rounds"].append(self._round(row, subjects, title))
            self.store.write(row.name, kept)
            took = self.clock() - begun


def in_short(result):
    """A result in one line, for the terminal."""
    if "failed" in result:
        return "failed: " + result["failed"].replace("\n", " ")[:160]
    parts = []
    server = result.get("server", {})
    if "cpu_us_per_operation" in server and result.get("workload") != "idle":
        parts.append("%.2f µs of CPU each" % server["cpu_us_per_operation"])
    if "bytes_each" in server and result.get("workload") in ("idle", "names"):
        parts.append("%.0f bytes each" % server["bytes_each"])
    if result.get("per_second"):
        parts.append("%.0f/s" % result["per_second"])
    if "latency_us" in result:
        parts.append("99.9 %% %.0f µs, worst %.0f µs" % (
            result["latency_us"]["p999"], result["latency_us"]["max"]))  # fmt: skip
    if "start_seconds" in result:
        parts.append("%.2f s until it was ready" % result["start_seconds"])
    if "time_to_last_us" in result:
        parts.append("the last after %.1f ms" % (result["time_to_last_us"] / 1e3))
    if "ns_per_operation" in result:
        parts.append("%.0f ns" % result["ns_per_operation"])
    if result.get("errors"):
        parts.append("%d errors" % result["errors"])
    if result.get("others", 0) > machine.OTHERS_MAX:
        parts.append("others took %.0f %% of the cores" % (100 * result["others"]))
    return ", ".join(parts)
