"""What the suite measures: rows of subjects. A subject is a server under a load.

Within a round the subjects of a row run one after the other. The goals (goals.txt) name rows and
subjects.
"""

from collections import namedtuple

from load import Load

# name: the kind of server, as in tables; server, options: for kinds.KINDS; load; layout: of
# machine.LAYOUTS; before: loads to run first on the same server; a load of None: the server's next
# start is measured; engine: instead of all that, the arguments for load.run_engine; slow: --quick
# skips it; beside: a load that runs meanwhile.
Subject = namedtuple("Subject", "name server options load layout before engine slow beside",
                     defaults=[(), None, False, None])  # fmt: skip

# about: one or two sentences on the load, with notes on single subjects; rounds, seconds: factors
# for the requested values.
Row = namedtuple("Row", "name title about subjects rounds seconds")

# The options of a counterd with job queues.
JOBS = {"jobs.enable": "true", "jobs.port": 0, "jobs.listen": "127.0.0.1"}

# The servers to compare: kind of server, its options, the protocol.
CONTENDERS = {
    "counterd, text": ("counterd", {}, "text"),
    "counterd, binary": ("counterd", {}, "binary"),
    "counterd, pool": ("counterd", {"set": {"pools.max_members": 100000}}, "text"),
    "echo, text": ("floor", {"mode": "echo"}, "echo-text"),
    "echo, binary": ("floor", {"mode": "echo"}, "echo-binary"),
    "fixed words": ("floor", {"mode": "words"}, "text"),
    "poolcounterd": ("poolcounterd", {}, "text"),
    "yrmcds, 10 workers": ("yrmcds", {"workers": 10}, "binary"),
    "Redis INCR": ("redis", {}, "redis-incr"),
    "Redis Lua": ("redis", {}, "redis-lua"),
    "counterd, jobs": ("counterd", {"set": JOBS}, "beanstalk"),
    "beanstalkd": ("beanstalkd", {}, "beanstalk"),
    "counterd, own verbs": ("counterd", {"set": JOBS}, "jobs"),
    "counterd, full": ("counterd", {"set": JOBS, "keeps": "full"}, "beanstalk"),
    "beanstalkd -f0": ("beanstalkd", {"keeps": 0}, "beanstalk"),
    "Redis AOF always": ("redis", {"keeps": "always"}, "redis-jobs"),
    "counterd, full, own verbs": ("counterd", {"set": JOBS, "keeps": "full"}, "jobs"),
    "counterd, normal": ("counterd", {"set": JOBS, "keeps": "normal"}, "beanstalk"),
    "beanstalkd -f50": ("beanstalkd", {"keeps": 50}, "beanstalk"),
    "counterd, normal, own verbs": ("counterd", {"set": JOBS, "keeps": "normal"}, "jobs"),
    "counterd, 1 node": ("cluster", {"nodes": 1}, "text"),
    "counterd, 2 nodes": ("cluster", {"nodes": 2}, "text"),
}
OURS = ("counterd, text", "counterd, binary", "echo, text", "echo, binary")
ALL = (*OURS, "Redis INCR", "Redis Lua")

NAMES = 10000  # number of names to draw from, unless a row sets it


def row(name, title, about, subjects, rounds=1.0, seconds=1.0):
    return Row(name, title, about, tuple(subjects), rounds, seconds)


def subject(contender, workload, suffix="", layout="pinned", before=(), server_options=None,
            timed=True, **options):  # fmt: skip
    """
    One of CONTENDERS under a load; `options` are those of the load, or tls. `before`: workloads
    with their options.
    """
    kind, made_with, protocol = CONTENDERS[contender]
    load = Load(workload, protocol, timed=timed, **options)
    made_with = dict(made_with, **(server_options or {}))
    if options.get("tls"):
        made_with["tls"] = True
    first = tuple(Load(what, protocol, timed=False, **more) for what, more in before)
    return Subject(contender + suffix, kind, made_with, load, layout, first)


def pairs(contenders, connections, depth, suffix="", layout="pinned", **options):
    options.setdefault("k", NAMES)
    return [
        subject(name, "pairs", suffix, layout, c=connections, d=depth, **options)
        for name in contenders
    ]


def engine(name, **arguments):
    """A figure of the engine alone."""
    return Subject(name, None, {}, None, None, engine=arguments)


def at(x, one, several):
    """The suffix of a name on a curve."""
    return ", %s %s" % (format(x, ","), one if x == 1 else several)


def idle():
    for name in "counterd, text", "counterd, binary":
        yield subject(name, "idle", c=10000, timed=False)


def names_held():
    # In the text protocol a connection holds one lock.
    yield subject("counterd, binary", "names", ", 10^6 names", k=10**6, timed=False)
    yield subject("counterd, binary", "names", ", 10^7 names", k=10**7, timed=False)


def tls():
    for name in "counterd, text", "counterd, binary":
        yield from pairs((name,), 50, 1)
        yield from pairs((name,), 50, 1, ", TLS", tls=True)


def of_a_pool(suffix, locks, options, **pools):
    """Locks, and members of a pool, under loads that are alike."""
    yield subject("counterd, text", locks, suffix, **options)
    yield subject("counterd, pool", "pools", suffix, **pools)


def pools():
    for members in 10, 1000, 100000:
        yield from of_a_pool(at(members, "member", "members"), "pairs", {"c": 10, "k": members},
                             c=10, members=members)  # fmt: skip


def pool_waits():
    for waiters in 10, 1000, 10000:
        yield from of_a_pool(at(waiters, "waiter", "waiters"), "hot", {"waiters": waiters},
                             c=waiters, members=1)  # fmt: skip


QUEUES = ("counterd, jobs", "beanstalkd")


def jobs():
    for depth in 1, 32:
        for name in QUEUES:
            yield subject(name, "jobs", ", depth %d" % depth, c=10, d=depth)


KEEP_JOBS = ("counterd, full", "beanstalkd -f0", "Redis AOF always", "counterd, normal")


def fill(jobs, **more):
    """A load that puts so many jobs into one tube."""
    options = {"c": 4, "d": 64, "seconds": 60, "warmup": 0, "n": jobs}
    return ("put-jobs", dict(options, **more))


def kept_jobs():
    for connections, names in (1, ()), (50, ("counterd, full",)):
        for name in names + ("counterd, normal", "beanstalkd -f50"):
            yield subject(name, "jobs", at(connections, "client", "clients"), c=connections)


def job_batches():
    for jobs, what in (1, ", 1 job at once"), (100, ", 100 jobs at once"):
        yield subject("counterd, full, own verbs", "put-jobs", what, c=1, batch=jobs)


def job_starts():
    for name in "counterd, full", "counterd, normal":
        made = subject(name, "put-jobs", before=[fill(10**6)])
        yield made._replace(load=None, slow=True)


def job_memory():
    yield subject("counterd, jobs", "put-jobs", timed=False, **fill(10**6)[1])


def many_tubes():
    for name in "counterd, own verbs", "counterd, normal, own verbs":
        for tubes in 10, 10**5:
            yield subject(name, "jobs", at(tubes, "tube", "tubes"), c=10, k=tubes,
                          before=[fill(10**5, k=tubes)])  # fmt: skip


def full_memory():
    """Producers try again 100 times a second each, as clients do that wait for 10 ms."""
    name, limited = "counterd, normal", dict(JOBS, **{"jobs.memory_limit": "16M"})
    alone = subject(name, "take-jobs", ", alone", c=8, before=[fill(150000)], seconds=1, warmup=0,
                    n=40000, timed=False, server_options={"set": limited})  # fmt: skip
    producers = Load("put-jobs", "beanstalk", c=30, rate=3000, k=1, seconds=60, warmup=0)
    yield alone
    yield alone._replace(name=name + ", 30 producers beside", beside=producers)


def shared():
    """As many units as nobody is refused."""
    for clients in 1, 8, 32, 128:
        for name in "counterd, 1 node", "Redis Lua":
            yield subject(name, "pairs", at(clients, "client", "clients"), c=clients, k=100, limit=1000)


def told_again():
    made = subject("counterd, 1 node", "names", ", 10^5 names", server_options={"held": 10**5})
    yield made._replace(load=None)


ROWS = [
    row("pairs-50", "Pairs, 50 connections, depth 1",
        "Each connection acquires a unit of a random name and releases it, one request at a time.",
        pairs(ALL, 50, 1)),
    row("pairs-2000", "Pairs, 2,000 connections, depth 1",
        "The same load over many connections.",
        pairs(OURS, 2000, 1)),
    row("pairs-50-d32", "Pairs, 50 connections, depth 32",
        "The same with 32 requests in flight on each connection.",
        pairs(ALL, 50, 32)),
    row("two-workers", "Pairs, 50 connections, two workers and the load on both cores",
        "Server and load share two cores. yrmcds has its ten workers.",
        [one for depth in (1, 32)
         for one in pairs(("counterd, binary", "yrmcds, 10 workers"), 50, depth, ", depth %d" % depth, "free")]),
    row("churn-16", "Churn, 16 connections at once",
        "Connect, lock, release, close, as PHP does for each page.",
        [subject(name, "churn", c=16, k=NAMES)
         for name in ("counterd, text", "poolcounterd", "fixed words")]),
    row("churn-200", "Churn, 200 connections at once",
        "The same with more connections than fit in a short backlog.",
        [subject("counterd, text", "churn", c=200, k=NAMES)]),
    row("hot", "Hot: all queue on one name",
        "One unit goes from client to client: each release grants it to the oldest waiter.",
        [subject(name, "hot", ", %s waiters" % format(waiters, ","), waiters=waiters)
         for waiters, names in ((100, ("counterd, text", "poolcounterd")), (10000, ("counterd, text",)))
         for name in names]),
    row("pools", "Members of a pool, 10 connections",
        "Each connection takes a member and returns it by its fence; beside it ACQ4ME and RELEASE "
        "of as many names.",
        pools()),
    row("pool-waits", "All wait for the one member of a pool",
        "Each return hands it to the oldest waiter; beside it the same with a lock (`hot`).",
        pool_waits()),
    row("jobs", "Jobs, 10 connections",
        "Each connection puts a job of 64 bytes into its own tube, reserves it and deletes it; at "
        "depth 32 it does so with 32 jobs at once.",
        jobs()),
    row("jobs-puts", "Puts into a file",
        "Each connection puts jobs of 64 bytes into one tube. counterd's file is jobs.path, with "
        "jobs.sync full or normal; beanstalkd's log is synced for each job (-f0), Redis's AOF for each "
        "iteration.",
        [subject(name, "put-jobs", ", 50 clients", c=50) for name in KEEP_JOBS], rounds=0.6, seconds=0.5),
    row("jobs-kept", "Jobs in a file",
        "As `jobs`, in a tube of its own each; beanstalkd's log is synced every 50 ms.",
        kept_jobs(), rounds=0.6, seconds=0.5),
    row("jobs-full", "Workers while memory is full",
        "8 connections reserve and delete jobs of a tube that has filled jobs.memory_limit, alone "
        "and beside 30 that put and are refused, 3,000 times a second in total.",
        full_memory(), rounds=0.6, seconds=0.5),
    row("jobs-batches", "Batches of jobs",
        "One client puts jobs with put-into, and 100 at once with put-batch.",
        job_batches(), rounds=0.6, seconds=0.5),
    row("jobs-start", "Start with 10^6 jobs",
        "The server was killed after 10^6 jobs of 64 bytes had been put; the time until it answers "
        "again.",
        job_starts(), rounds=0.6),
    row("jobs-memory", "Memory of 10^6 jobs",
        "Jobs with a body of 64 bytes, put by four connections.",
        job_memory(), rounds=0.4),
    row("jobs-tubes", "Jobs in many tubes",
        "10 connections put a job into a tube at random, claim one of that tube and acknowledge "
        "it; 100,000 jobs are there before, spread over all tubes.",
        many_tubes(), rounds=0.6, seconds=0.5),
    row("shared", "Shared limits, one node",
        "Each client acquires a unit of one of 100 names and releases it. counterd is a node that shares "
        "all names through Redis; beside it, clients of Redis itself, with a semaphore in Lua, which does "
        "not give back what a client had that died. All servers share one core.",
        shared(), rounds=0.6),
    row("shared-hand-over", "Shared limits: all queue on one name",
        "One unit goes from client to client, each time from one node to the other. The time is "
        "from the release until the next client reads that it has the unit.",
        [subject("counterd, 2 nodes", "hot", ", 2 waiters", waiters=2)],
        rounds=0.6),
    row("shared-recovery", "Shared limits: the engine loses 10^5 held units",
        "One client holds 10^5 names when Redis loses its data and all connections; the time until "
        "Redis has all units again.",
        told_again(), rounds=0.6),
    row("herd", "Herd: one release wakes 5,000",
        "5,000 clients wait with ACQ4ANY for the work of one client; its release wakes them all.",
        [subject(name, "herd", waiters=5000) for name in ("counterd, text", "poolcounterd")]),
    row("herd-two-workers", "Herd, two workers and the load on both cores",
        "The same; poolcounterd has one thread.",
        [subject(name, "herd", layout="free", waiters=5000)
         for name in ("counterd, text", "poolcounterd")]),
    row("idle", "Idle connections",
        "10,000 connections that have each made one request, and the server's memory for them right "
        "after the last one has connected.",
        idle(), rounds=0.6),
    row("names", "Live names",
        "Names of 24 bytes, all held by one connection, with 64 requests in flight.",
        names_held(), rounds=0.4),
    row("dump", "Dump of 10^6 names while 50 connections work",
        "One connection holds the names, one dumps them again and again, 50 others work. The "
        "figures are those of the 50, during dumps and for the same time before.",
        [subject("counterd, binary", "dump", k=10**6, beside=50)], rounds=0.6),
    row("growth", "Growth under load",
        "A server sized for 10^5 names gets 10^7 from four connections, as fast as it takes them. "
        "The figures are those of 50 other connections that work meanwhile.",
        [subject("counterd, binary", "names", c=4, d=256, k=10**7, beside=50, timed=False,
                 server_options={"set": {"counter.buckets": 100000}})], rounds=0.4),
    row("tls", "TLS, 50 connections, depth 1",
        "Pairs as above, plain and with TLS.",
        tls()),
    row("engine", "The engine alone",
        "No sockets: nanoseconds for an acquire and its release in one thread; two threads in "
        "parallel halve the figure. The engine sees a batch of 32 before it carries out the first.",
        [engine("10^4 names, depth 32", names=10**4, threads=1),
         engine("10^7 names, depth 32", names=10**7, threads=1),
         engine("10^4 names, depth 32, two threads", names=10**4, threads=2)]),
]  # fmt: skip


def named(name):
    """The row of that name; None if there is none."""
    return next((one for one in ROWS if one.name == name), None)
