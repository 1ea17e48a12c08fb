"""What the suite measures: rows of subjects. A subject is a server under a load.

Within a round the subjects of a row run one after the other. RESULTS.md has a part for each row.
The goals (goals.py) refer to rows and subjects by name.
"""

from collections import namedtuple

import columns as c
from load import Load

# name: the kind of server, as in tables; server, options: for servers.KINDS; load; layout: of
# machine.LAYOUTS; before: loads to run first on the same server; a load of None: the server's next
# start is measured; engine: instead of all that, the arguments for load.run_engine; ours: the
# subject of the row to compare with; slow: --quick skips it; beside:
# a load that runs meanwhile.
Subject = namedtuple("Subject", "name server options load layout before engine ours slow beside",
                     defaults=[None])  # fmt: skip

# about: one or two sentences on the load, with notes on single subjects; columns: of its table;
# rounds, seconds: factors for the requested values.
Row = namedtuple("Row", "name title about subjects columns rounds seconds")

# The options of a counterd with job queues.
JOBS = {"jobs.enable": "true", "jobs.port": 0, "jobs.listen": "127.0.0.1"}

# The servers to compare: kind of server, its options, the protocol, and the one of ours to compare
# it with.
CONTENDERS = {
    "counterd, text": ("counterd", {}, "text", None),
    "counterd, binary": ("counterd", {}, "binary", None),
    "counterd, pool": ("counterd", {"set": {"pools.max_members": 100000}}, "text", "counterd, text"),
    "echo, text": ("floor", {"mode": "echo"}, "echo-text", "counterd, text"),
    "echo, binary": ("floor", {"mode": "echo"}, "echo-binary", "counterd, binary"),
    "fixed words": ("floor", {"mode": "words"}, "text", "counterd, text"),
    "poolcounterd": ("poolcounterd", {}, "text", "counterd, text"),
    "yrmcds": ("yrmcds", {}, "binary", "counterd, binary"),
    "yrmcds, 10 workers": ("yrmcds", {"workers": 10}, "binary", "counterd, binary"),
    "Redis INCR": ("redis", {}, "redis-incr", "counterd, text"),
    "Redis Lua": ("redis", {}, "redis-lua", "counterd, text"),
    "Redis pool": ("redis", {}, "redis-pool", "counterd, pool"),
    "counterd, jobs": ("counterd", {"set": JOBS}, "beanstalk", None),
    "beanstalkd": ("beanstalkd", {}, "beanstalk", "counterd, jobs"),
    "Redis jobs": ("redis", {}, "redis-jobs", "counterd, jobs"),
    "counterd, own verbs": ("counterd", {"set": JOBS}, "jobs", None),
    "counterd, full": ("counterd", {"set": JOBS, "keeps": "full"}, "beanstalk", None),
    "beanstalkd -f0": ("beanstalkd", {"keeps": 0}, "beanstalk", "counterd, full"),
    "Redis AOF always": ("redis", {"keeps": "always"}, "redis-jobs", "counterd, full"),
    "counterd, full, own verbs": ("counterd", {"set": JOBS, "keeps": "full"}, "jobs", None),
    "counterd, normal": ("counterd", {"set": JOBS, "keeps": "normal"}, "beanstalk", None),
    "beanstalkd -f50": ("beanstalkd", {"keeps": 50}, "beanstalk", "counterd, normal"),
    "Redis AOF everysec": ("redis", {"keeps": "everysec"}, "redis-jobs", "counterd, normal"),
    "counterd, normal, own verbs": ("counterd", {"set": JOBS, "keeps": "normal"}, "jobs", None),
    "counterd, 1 node": ("cluster", {"nodes": 1}, "text", None),
    "counterd, 2 nodes": ("cluster", {"nodes": 2}, "text", "counterd, 1 node"),
    "Redis lists": ("redis", {}, "redis-tokens", "counterd, 1 node"),
}
ALL = ("counterd, text", "counterd, binary", "echo, text", "echo, binary", "poolcounterd", "yrmcds",
       "Redis INCR", "Redis Lua")  # fmt: skip
PIPELINED = tuple(name for name in ALL if name != "poolcounterd")  # it drops all but the first

NAMES = 10000  # number of names to draw from, unless a row sets it


def row(name, title, about, subjects, shown, rounds=1.0, seconds=1.0):
    return Row(name, title, about, tuple(subjects), shown, rounds, seconds)


def subject(contender, workload, suffix="", layout="pinned", before=(), ours="",
            server_options=None, slow=False, timed=True, **options):  # fmt: skip
    """
    One of CONTENDERS under a load; `options` are those of the load, or tls. `before`: workloads
    with their options.
    """
    kind, made_with, protocol, compared = CONTENDERS[contender]
    load = Load(workload, protocol, timed=timed, **options)
    made_with = dict(made_with, **(server_options or {}))
    if options.get("tls"):
        made_with["tls"] = True
    first = tuple(Load(what, protocol, timed=False, **more) for what, more in before)
    ours = ours or (compared + suffix if compared else None)
    return Subject(
        contender + suffix, kind, made_with, load, layout, first, None, ours, slow,
    )  # fmt: skip


def pairs(contenders, connections, depth, suffix="", layout="pinned", **options):
    options.setdefault("k", NAMES)
    return [
        subject(name, "pairs", suffix, layout, c=connections, d=depth, **options)
        for name in contenders
    ]


def engine(name, ours=None, **arguments):
    """A figure of the engine alone."""
    return Subject(name, None, {}, None, None, (), arguments, ours, False)


def at(x, one, several):
    """The suffix of a name on a curve."""
    return ", %s %s" % (format(x, ","), one if x == 1 else several)


PAIR_COLUMNS = (c.CPU_REQUEST, c.COMPARED_REQUEST, c.REQUESTS, c.P50, c.P999, c.WORST)
KEPT_COLUMNS = (c.CPU_OPERATION, c.COMPARED_OPERATION, c.OPERATIONS, c.COMPARED_RATE, c.P50,
                c.P999, c.WORST, c.LOG)  # fmt: skip
BATCH_COLUMNS = (c.CPU_OPERATION, c.COMPARED_OPERATION, c.OPERATIONS, c.COMPARED_RATE, c.P50,
                 c.WORST)  # fmt: skip
CYCLE_COLUMNS = (c.CPU_OPERATION, c.COMPARED_OPERATION, c.OPERATIONS, c.P50, c.P999, c.WORST)


def idle():
    for name in "counterd, text", "counterd, binary", "poolcounterd", "yrmcds", "Redis INCR":
        yield subject(name, "idle", c=10000, timed=False)
    yield subject("counterd, text", "idle", ", TLS", ours="counterd, text", c=5000, timed=False,
                  tls=True)  # fmt: skip


def names_held():
    # In the text protocol a connection holds one lock.
    yield subject("counterd, binary", "names", ", 10^6 names", k=10**6, timed=False)
    yield subject("yrmcds", "names", ", 10^6 names", k=10**6, timed=False)
    yield subject("counterd, binary", "names", ", 10^7 names", k=10**7, timed=False)


def tls():
    for name in "counterd, text", "counterd, binary":
        yield from pairs((name,), 50, 1)
        yield from pairs((name,), 50, 1, ", TLS", tls=True, ours=name)


def of_a_pool(suffix, locks, options, **pools):
    """Locks, members of a pool, and those of a pool on Redis, under loads that are alike."""
    yield subject("counterd, text", locks, suffix, **options)
    yield subject("counterd, pool", "pools", suffix, **pools)
    yield subject("Redis pool", "pools", suffix, **pools)


def pools():
    for members in 10, 1000, 100000:
        yield from of_a_pool(at(members, "member", "members"), "pairs", {"c": 10, "k": members},
                             c=10, members=members)  # fmt: skip


def pool_waits():
    for waiters in 10, 1000, 10000:
        yield from of_a_pool(at(waiters, "waiter", "waiters"), "hot", {"waiters": waiters},
                             c=waiters, members=1)  # fmt: skip


QUEUES = ("counterd, jobs", "beanstalkd", "Redis jobs")


def jobs():
    for depth in 1, 32:
        for name in QUEUES:
            yield subject(name, "jobs", ", depth %d" % depth, c=10, d=depth)


SYNCED = ("counterd, full", "beanstalkd -f0", "Redis AOF always")
NEARLY_SYNCED = ("counterd, normal", "beanstalkd -f50", "Redis AOF everysec")
KEEP_JOBS = SYNCED + NEARLY_SYNCED


def fill(jobs, **more):
    """A load that puts so many jobs into one tube."""
    options = {"c": 4, "d": 64, "seconds": 60, "warmup": 0, "n": jobs}
    return ("put-jobs", dict(options, **more))


def kept_jobs():
    for connections in 1, 50:
        for name in KEEP_JOBS:
            yield subject(name, "jobs", at(connections, "client", "clients"), c=connections)


def job_batches():
    single = subject("counterd, full, own verbs", "put-jobs", ", 1 job at once", c=1)
    yield single
    yield subject("counterd, full, own verbs", "put-jobs", ", 100 jobs at once", c=1, batch=100,
                  ours=single.name)  # fmt: skip


def job_starts():
    for name in "counterd, full", "counterd, normal", "beanstalkd -f50", "Redis AOF everysec":
        made = subject(name, "put-jobs", before=[fill(10**6)])
        yield made._replace(load=None, ours=None, slow=True)


def job_memory():
    for name in QUEUES + NEARLY_SYNCED:
        yield subject(name, "put-jobs", timed=False, **fill(10**6)[1])


def many_tubes():
    for name in "counterd, own verbs", "counterd, normal, own verbs":
        for tubes in 10, 10**5:
            few = name + at(10, "tube", "tubes")
            yield subject(name, "jobs", at(tubes, "tube", "tubes"), c=10, k=tubes,
                          before=[fill(10**5, k=tubes)], ours=few if tubes > 10 else "")  # fmt: skip


def full_memory():
    """Producers try again 100 times a second each, as clients do that wait for 10 ms."""
    name, limited = "counterd, normal", dict(JOBS, **{"jobs.memory_limit": "16M"})
    alone = subject(name, "take-jobs", ", alone", c=8, before=[fill(150000)], seconds=1, warmup=0,
                    n=40000, timed=False, server_options={"set": limited})  # fmt: skip
    producers = Load("put-jobs", "beanstalk", c=30, rate=3000, k=1, seconds=60, warmup=0)
    yield alone
    yield alone._replace(name=name + ", 30 producers beside", ours=alone.name, beside=producers)


def shared():
    """As many units as nobody is refused, and few enough for lists."""
    for clients in 1, 8, 32, 128:
        suffix = at(clients, "client", "clients")
        for name in "counterd, 1 node", "Redis Lua", "Redis lists":
            yield subject(name, "pairs", suffix, ours="" if "node" in name else "counterd, 1 node" + suffix,
                          c=clients, k=100, limit=1000)  # fmt: skip


def told_again():
    made = subject("counterd, 1 node", "names", ", 10^5 names", server_options={"held": 10**5})
    yield made._replace(load=None)


ROWS = [
    row("pairs-50", "Pairs, 50 connections, depth 1",
        "Each connection acquires a unit of a random name and releases it, one request at a time.",
        pairs(ALL, 50, 1), PAIR_COLUMNS),
    row("pairs-2000", "Pairs, 2,000 connections, depth 1",
        "The same load over many connections.",
        pairs(ALL, 2000, 1), PAIR_COLUMNS),
    row("pairs-50-d32", "Pairs, 50 connections, depth 32",
        "The same with 32 requests in flight on each connection. poolcounterd is missing: it takes "
        "one request at a time and drops those behind it.",
        pairs(PIPELINED, 50, 32), PAIR_COLUMNS),
    row("two-workers", "Pairs, 50 connections, two workers and the load on both cores",
        "Server and load share two cores. yrmcds has its ten workers.",
        [one for depth in (1, 32)
         for one in pairs(("counterd, binary", "yrmcds, 10 workers"), 50, depth, ", depth %d" % depth, "free")],
        PAIR_COLUMNS),
    row("churn-16", "Churn, 16 connections at once",
        "Connect, lock, release, close, as PHP does for each page.",
        [subject(name, "churn", c=16, k=NAMES)
         for name in ("counterd, text", "counterd, binary", "poolcounterd", "fixed words")],
        CYCLE_COLUMNS),
    row("churn-200", "Churn, 200 connections at once",
        "The same with more connections than fit in a short backlog.",
        [subject(name, "churn", c=200, k=NAMES)
         for name in ("counterd, text", "poolcounterd", "fixed words")],
        CYCLE_COLUMNS),
    row("hot", "Hot: all queue on one name",
        "One unit goes from client to client: each release grants it to the oldest waiter.",
        [subject(name, "hot", ", %s waiters" % format(waiters, ","), waiters=waiters)
         for waiters in (100, 10000) for name in ("counterd, text", "poolcounterd")],
        CYCLE_COLUMNS),
    row("pools", "Members of a pool, 10 connections",
        "Each connection takes a member and returns it by its fence; beside it ACQ4ME and RELEASE "
        "of as many names, which the column of ratios compares it with, and a pool on Redis's "
        "lists: BLMOVE to a list of the client, LREM and LPUSH back.",
        pools(), CYCLE_COLUMNS),
    row("pool-waits", "All wait for the one member of a pool",
        "Each return hands it to the oldest waiter; beside it the same with a lock (`hot`).",
        pool_waits(), (c.CPU_OPERATION, c.COMPARED_OPERATION, c.OPERATIONS)),
    row("jobs", "Jobs, 10 connections",
        "Each connection puts a job of 64 bytes into its own tube, reserves it and deletes it; at "
        "depth 32 it does so with 32 jobs at once. Redis's queue is a list: LPUSH, BLMOVE to a "
        "list of the client, LREM.",
        jobs(), CYCLE_COLUMNS),
    row("jobs-puts", "Puts into a file",
        "Each connection puts jobs of 64 bytes into one tube. counterd's file is jobs.path, with "
        "jobs.sync full or normal; beanstalkd's log is synced for each job (-f0) or every 50 ms; "
        "Redis's AOF for each iteration (always) or every second.",
        [subject(name, "put-jobs", ", 50 clients", c=50) for name in KEEP_JOBS], KEPT_COLUMNS, rounds=0.6, seconds=0.5),
    row("jobs-kept", "Jobs in a file",
        "As `jobs`: each connection puts, reserves and deletes, in a tube of its own.",
        kept_jobs(), KEPT_COLUMNS, rounds=0.6, seconds=0.5),
    row("jobs-full", "Workers while memory is full",
        "8 connections reserve and delete jobs of a tube that has filled jobs.memory_limit, alone "
        "and beside 30 that put and are refused, 3,000 times a second in total.",
        full_memory(), CYCLE_COLUMNS, rounds=0.6, seconds=0.5),
    row("jobs-batches", "Batches of jobs",
        "One client puts jobs with put-into, and 100 at once with put-batch.",
        job_batches(), BATCH_COLUMNS, rounds=0.6, seconds=0.5),
    row("jobs-start", "Start with 10^6 jobs",
        "The server was killed after 10^6 jobs of 64 bytes had been put; the time until it answers "
        "again.",
        job_starts(), (c.START,), rounds=0.6),
    row("jobs-memory", "Memory of 10^6 jobs",
        "Jobs with a body of 64 bytes, put by four connections.",
        job_memory(), (c.JOB_BYTES, c.CPU_OPERATION), rounds=0.4),
    row("jobs-tubes", "Jobs in many tubes",
        "10 connections put a job into a tube at random, claim one of that tube and acknowledge "
        "it; 100,000 jobs are there before, spread over all tubes.",
        many_tubes(), CYCLE_COLUMNS, rounds=0.6, seconds=0.5),
    row("shared", "Shared limits, one node",
        "Each client acquires a unit of one of 100 names and releases it. counterd is a node that shares "
        "all names through Redis; beside it, clients of Redis itself: a semaphore in Lua, and one on "
        "lists (LPOP, RPUSH). All servers share one core. Neither of the two gives back what a client "
        "had that died.",
        shared(), (c.ENGINE_REQUEST, c.COMPARED_ENGINE, c.NODES_REQUEST, c.REQUESTS, c.P50, c.P999,
                   c.WORST), rounds=0.6),
    row("shared-hand-over", "Shared limits: all queue on one name",
        "One unit goes from client to client. With two nodes each hand-over goes from one node to "
        "the other. Clients of Redis's lists wait with BLPOP. The time is from the release until "
        "the next client reads that it has the unit.",
        [subject(name, "hot", ", 2 waiters", waiters=2)
         for name in ("counterd, 1 node", "counterd, 2 nodes", "Redis lists")],
        (c.P50, c.P999, c.WORST, c.OPERATIONS, c.ENGINE_OPERATION, c.NODES_OPERATION),
        rounds=0.6),
    row("shared-recovery", "Shared limits: the engine loses 10^5 held units",
        "One client holds 10^5 names when Redis loses its data and all connections; the time until "
        "Redis has all units again.",
        told_again(), (c.TOLD,), rounds=0.6),
    row("herd", "Herd: one release wakes 5,000",
        "5,000 clients wait with ACQ4ANY for the work of one client; its release wakes them all.",
        [subject(name, "herd", waiters=5000) for name in ("counterd, text", "poolcounterd")],
        (c.CPU_OPERATION, c.COMPARED_OPERATION, c.TO_LAST)),
    row("herd-two-workers", "Herd, two workers and the load on both cores",
        "The same; poolcounterd has one thread.",
        [subject(name, "herd", layout="free", waiters=5000)
         for name in ("counterd, text", "poolcounterd")],
        (c.CPU_OPERATION, c.COMPARED_OPERATION, c.TO_LAST)),
    row("idle", "Idle connections",
        "10,000 connections that have each made one request (5,000 with TLS), and the server's "
        "memory for them right after the last one has connected. Redis starts with large buffers "
        "and frees most of them within half a minute.",
        idle(), (c.BYTES,), rounds=0.6),
    row("names", "Live names",
        "Names of 24 bytes, all held by one connection, with 64 requests in flight.",
        names_held(), (c.BYTES, c.CPU_OPERATION, c.P999, c.WORST), rounds=0.4),
    row("dump", "Dump of 10^6 names while 50 connections work",
        "One connection holds the names, one dumps them again and again, 50 others work. The "
        "figures are those of the 50, during dumps and for the same time before.",
        [subject(name, "dump", k=10**6, beside=50) for name in ("counterd, binary", "yrmcds")],
        (c.P50, c.P999, c.WORST, c.BEFORE_P50, c.BEFORE_P999, c.BEFORE_WORST, c.DUMP), rounds=0.6),
    row("growth", "Growth under load",
        "A server sized for 10^5 names gets 10^7 from four connections, as fast as it takes them. "
        "The figures are those of 50 other connections that work meanwhile.",
        [subject("counterd, binary", "names", c=4, d=256, k=10**7, beside=50, timed=False,
                 server_options={"set": {"counter.buckets": 100000}})],
        (c.P50, c.P999, c.WORST), rounds=0.4),
    row("tls", "TLS, 50 connections, depth 1",
        "Pairs as above, plain and with TLS.",
        tls(), PAIR_COLUMNS),
    row("engine", "The engine alone",
        "No sockets: nanoseconds for an acquire and its release in one thread; two threads in "
        "parallel halve the figure. The engine sees a batch of 32 before it carries out the first.",
        [engine("10^4 names, depth 32", names=10**4, threads=1),
         engine("10^7 names, depth 32", names=10**7, threads=1),
         engine("10^4 names, depth 32, two threads", "10^4 names, depth 32", names=10**4, threads=2)],
        (c.NS, c.COMPARED_NS)),
]  # fmt: skip


def named(name):
    """The row of that name; None if there is none."""
    return next((one for one in ROWS if one.name == name), None)
