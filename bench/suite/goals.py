"""The goals: one table, each with the formula for its measured value.

A formula gives a number for each round. The median of these is compared with the goal; for goals
about the worst case, the greatest.
"""

from collections import namedtuple

import figures

CPU_REQUEST = "server.cpu_us_per_request"
CPU_OPERATION = "server.cpu_us_per_operation"
BYTES = "server.bytes_each"
P999 = "latency_us.p999"
WORST = "latency_us.max"
RATE = "per_second"
TO_LAST = "time_to_last_us"
NS = "ns_per_operation"


class Value:
    """A number measured for one subject, by its path in the results."""

    def __init__(self, row, subject, path, choose=figures.median):
        self.row = row
        self.subject = subject
        self.path = path
        self.choose = choose

    @property
    def needs(self):
        """Pairs of a row and a subject."""
        return [(self.row, self.subject)]

    def by_round(self, store):
        return [figures.lookup(result, self.path) for result in store.results(self.row, self.subject)]

    def figure(self, store):
        return figures.summary(self.by_round(store), self.choose)


class Ratio:
    """The ratio of a number of two subjects of a row, or of two rows, within each round."""

    choose = staticmethod(figures.median)

    def __init__(self, row, over, under, path, under_path=None, under_row=None):
        self.over = Value(row, over, path)
        self.under = Value(under_row or row, under, under_path or path)

    @property
    def needs(self):
        return self.over.needs + self.under.needs

    def by_round(self, store):
        return figures.ratios(self.over.by_round(store), self.under.by_round(store))

    def figure(self, store):
        return figures.summary(self.by_round(store))


# at_most, at_least: one of the two is None.
Goal = namedtuple("Goal", "workload measure formula at_most at_least unit")


def at_most(limit, workload, measure, formula, unit=""):
    return Goal(workload, measure, formula, limit, None, unit)


def at_least(limit, workload, measure, formula, unit=""):
    return Goal(workload, measure, formula, None, limit, unit)


def _beside_echo():
    for limit, row, depth, connections in (
        (1.12, "pairs-50", 1, "50"), (1.12, "pairs-2000", 1, "2,000"),
    ):  # fmt: skip
        for protocol in "text", "binary":
            yield at_most(
                limit, "pairs, %s connections, depth %d, %s" % (connections, depth, protocol),
                "CPU per request ÷ echo's",
                Ratio(row, "counterd, " + protocol, "echo, " + protocol, CPU_REQUEST),
            )  # fmt: skip
    for limit, protocol in (2.5, "binary"), (3.0, "text"):
        yield at_most(
            limit, "pairs, 50 connections, depth 32, " + protocol, "CPU per request ÷ echo's",
            Ratio("pairs-50-d32", "counterd, " + protocol, "echo, " + protocol, CPU_REQUEST),
        )  # fmt: skip


def _beside_yrmcds():
    for limit, depth in (0.3, 1), (0.12, 32):
        yield at_most(
            limit, "pairs, 50 connections, binary, depth %d, two workers on both cores" % depth,
            "CPU per request ÷ yrmcds's with 10 workers",
            Ratio("two-workers", "counterd, binary, depth %d" % depth,
                  "yrmcds, 10 workers, depth %d" % depth, CPU_REQUEST),
        )  # fmt: skip


def _beside_redis():
    for limit, depth, peer in (
        (0.75, 1, "Redis INCR"), (0.6, 32, "Redis INCR"),
        (0.6, 1, "Redis Lua"), (0.15, 32, "Redis Lua"),
    ):  # fmt: skip
        for protocol in "text", "binary":
            yield at_most(
                limit, "pairs, 50 connections, depth %d, %s" % (depth, protocol),
                "CPU per request ÷ " + ("Redis INCR's" if "INCR" in peer else "the Lua semaphore's"),
                Ratio("pairs-50" if depth == 1 else "pairs-50-d32", "counterd, " + protocol, peer,
                      CPU_REQUEST),
            )  # fmt: skip


def _of_pools():
    for members in "10", "1,000", "100,000":
        yield at_most(
            1.5, "pool of %s members, 10 connections" % members,
            "CPU per pair ÷ ACQ4ME and RELEASE's",
            Ratio("pools", "counterd, pool, %s members" % members,
                  "counterd, text, %s members" % members, CPU_OPERATION),
        )  # fmt: skip
    for waiters in "10", "1,000", "10,000":
        yield at_most(
            1.5, "pool of one member, %s waiters" % waiters, "CPU per hand-over ÷ a lock's",
            Ratio("pool-waits", "counterd, pool, %s waiters" % waiters,
                  "counterd, text, %s waiters" % waiters, CPU_OPERATION),
        )  # fmt: skip


def _of_jobs():
    for limit, depth in (1.0, 1), (0.33, 32):
        yield at_most(
            limit, "jobs, 10 connections, depth %d" % depth,
            "CPU per put, reserve and delete ÷ beanstalkd's",
            Ratio("jobs", "counterd, jobs, depth %d" % depth, "beanstalkd, depth %d" % depth,
                  CPU_OPERATION),
        )  # fmt: skip


def _of_kept_jobs():
    for limit, clients in (2.0, "1 client"), (1.5, "50 clients"):
        yield at_most(
            limit, "jobs in a file, jobs.sync normal, %s" % clients,
            "CPU per put, reserve and delete ÷ beanstalkd's with -f50",
            Ratio("jobs-kept", "counterd, normal, " + clients, "beanstalkd -f50, " + clients,
                  CPU_OPERATION),
        )  # fmt: skip
    for limit, peer in (1.0, "Redis AOF always"), (2.0, "beanstalkd -f0"):
        yield at_least(
            limit, "puts into a file, jobs.sync full, 50 clients", "puts a second ÷ %s" % peer,
            Ratio("jobs-puts", "counterd, full, 50 clients", peer + ", 50 clients", RATE),
        )  # fmt: skip
    yield at_least(
        10, "puts into a file, jobs.sync full, one client", "jobs a second in batches of 100 ÷ single",
        Ratio("jobs-batches", "counterd, full, own verbs, 100 jobs at once",
              "counterd, full, own verbs, 1 job at once", RATE),
    )  # fmt: skip
    yield at_least(
        0.5, "8 workers, jobs.memory_limit is full", "jobs a second beside 30 producers ÷ alone",
        Ratio("jobs-full", "counterd, normal, 30 producers beside", "counterd, normal, alone", RATE),
    )  # fmt: skip
    for sync in "full", "normal":
        of = "counterd, %s, 50 clients" % sync
        yield at_most(50, "jobs in a file, jobs.sync %s, 50 clients" % sync, "99.9th percentile",
                      Value("jobs-kept", of, P999), "ms")  # fmt: skip
        yield at_most(4, "puts into a file, jobs.sync %s, 50 clients" % sync, "the log, greatest",
                      Value("jobs-puts", of, "log_bytes", max), "MiB")  # fmt: skip
        yield at_most(5, "10^6 jobs in a file, jobs.sync %s" % sync, "start to the first answer",
                      Value("jobs-start", "counterd, " + sync, "start_seconds"), "s")  # fmt: skip
    yield at_most(224, "10^6 jobs with a body of 64 bytes", "resident bytes each",
                  Value("jobs-memory", "counterd, jobs", BYTES), "bytes")  # fmt: skip
    for name, said in ("counterd, own verbs", ""), ("counterd, normal, own verbs", ", in a file"):
        yield at_most(1.2, "jobs in 100,000 tubes" + said, "CPU per job ÷ with 10 tubes",
                      Ratio("jobs-tubes", name + ", 100,000 tubes", name + ", 10 tubes",
                            CPU_OPERATION))  # fmt: skip


def _of_shared_limits():
    for limit, clients in (1.1, "1 client"), (1.2, "8 clients"), (0.5, "32 clients"), (0.25, "128 clients"):
        yield at_most(
            limit, "shared limits, one node, %s" % clients,
            "CPU of Redis per request ÷ the Lua semaphore's",
            Ratio("shared", "counterd, 1 node, " + clients, "Redis Lua, " + clients,
                  "engine.cpu_us_per_request"),
        )  # fmt: skip
    yield at_most(
        2, "shared limits, two nodes, 2 waiters",
        "median hand-over ÷ a round trip to Redis (the Lua semaphore's, 1 client)",
        Ratio("shared-hand-over", "counterd, 2 nodes, 2 waiters", "Redis Lua, 1 client", "latency_us.p50",
              under_row="shared"),
    )  # fmt: skip
    yield at_most(1, "shared limits, 10^5 held units", "told again",
                  Value("shared-recovery", "counterd, 1 node, 10^5 names", "start_seconds"), "s")  # fmt: skip


GOALS = [
    *_beside_echo(),
    *_beside_yrmcds(),
    *_beside_redis(),
    at_most(0.90, "churn, 16 connections at once", "CPU per cycle ÷ poolcounterd's",
            Ratio("churn-16", "counterd, text", "poolcounterd", CPU_OPERATION)),
    at_most(1.02, "churn, 16 connections at once", "CPU per cycle ÷ the floor's (fixed words)",
            Ratio("churn-16", "counterd, text", "fixed words", CPU_OPERATION)),
    at_most(20, "churn, 200 connections at once", "99.9th percentile",
            Value("churn-200", "counterd, text", P999), "ms"),
    at_most(0.95, "hot, 100 waiters", "CPU per hand-over ÷ poolcounterd's",
            Ratio("hot", "counterd, text, 100 waiters", "poolcounterd, 100 waiters",
                  CPU_OPERATION)),
    at_most(1.2, "hot, 10,000 waiters", "CPU per hand-over ÷ with 100 waiters",
            Ratio("hot", "counterd, text, 10,000 waiters", "counterd, text, 100 waiters",
                  CPU_OPERATION)),
    *_of_pools(),
    *_of_jobs(),
    *_of_kept_jobs(),
    *_of_shared_limits(),
    at_most(0.82, "herd, 5,000 waiters", "CPU per waiter ÷ poolcounterd's",
            Ratio("herd", "counterd, text", "poolcounterd", CPU_OPERATION)),
    at_most(1.0, "herd, 5,000 waiters, two workers", "time to the last ÷ poolcounterd's",
            Ratio("herd-two-workers", "counterd, text", "poolcounterd", TO_LAST)),
    at_most(400, "idle connection, text", "resident bytes each",
            Value("idle", "counterd, text", BYTES), "bytes"),
    at_most(400, "idle connection, binary", "resident bytes each",
            Value("idle", "counterd, binary", BYTES), "bytes"),
    at_most(96, "10^6 live names of 24 bytes, held by one connection", "resident bytes each",
            Value("names", "counterd, binary, 10^6 names", BYTES), "bytes"),
    at_most(96, "10^7 live names of 24 bytes, held by one connection", "resident bytes each",
            Value("names", "counterd, binary, 10^7 names", BYTES), "bytes"),
    at_most(5, "dump of 10^6 names while 50 connections work", "their worst answer",
            Value("dump", "counterd, binary", WORST, max), "ms"),
    at_most(1.5, "dump of 10^6 names while 50 connections work",
            "their 99.9th percentile ÷ without dump",
            Ratio("dump", "counterd, binary", "counterd, binary", P999, "before_us.p999")),
    at_most(5, "table growth from 10^5 to 10^7 names under load", "worst answer",
            Value("growth", "counterd, binary", WORST, max), "ms"),
    at_most(2, "engine alone, batches of 32", "cost at 10^7 names ÷ at 10^4",
            Ratio("engine", "10^7 names, depth 32", "10^4 names, depth 32", NS)),
    at_least(1.85, "engine alone, two threads on distinct names", "throughput ÷ one thread's",
             Ratio("engine", "10^4 names, depth 32", "10^4 names, depth 32, two threads", NS)),
    at_most(1.6, "TLS, 50 connections, depth 1, text", "CPU per request ÷ plain",
            Ratio("tls", "counterd, text, TLS", "counterd, text", CPU_REQUEST)),
    at_most(1.6, "TLS, 50 connections, depth 1, binary", "CPU per request ÷ plain",
            Ratio("tls", "counterd, binary, TLS", "counterd, binary", CPU_REQUEST)),
]  # fmt: skip

# Results are in microseconds, bytes and seconds.
SCALES = {"ms": 1e-3, "MiB": 1 / 1048576}


def judged(goal, store):
    """A Figure in the goal's unit, and True if the goal is met; None, None without results."""
    figure = goal.formula.figure(store)
    if figure is None:
        return None, None
    scale = SCALES.get(goal.unit, 1)
    value, low, high, count = figure
    figure = figures.Figure(value * scale, low * scale, high * scale, count)
    if goal.at_most is not None:
        return figure, figure.value <= goal.at_most
    return figure, figure.value >= goal.at_least
