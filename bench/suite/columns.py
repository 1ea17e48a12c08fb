"""The columns of tables: where a result has the number, and how to print it."""

from collections import namedtuple

# path: dotted, in a result; scale: factor; compared: the subject's number divided by ours in the
# same round; spread: print least and greatest too.
Column = namedtuple("Column", "title path scale compared spread")


def _column(title, path, scale=1.0, compared=False, spread=False):
    return Column(title, path, scale, compared, spread)


CPU_REQUEST = _column("CPU, µs per request", "server.cpu_us_per_request", spread=True)
CPU_OPERATION = _column("CPU, µs each", "server.cpu_us_per_operation", spread=True)
COMPARED_REQUEST = _column("÷ counterd's", CPU_REQUEST.path, compared=True)
COMPARED_OPERATION = _column("÷ counterd's", CPU_OPERATION.path, compared=True)
ENGINE_REQUEST = _column("Redis, µs per request", "engine.cpu_us_per_request", spread=True)
ENGINE_OPERATION = _column("Redis, µs each", "engine.cpu_us_per_operation", spread=True)
COMPARED_ENGINE = _column("÷ counterd's", ENGINE_REQUEST.path, compared=True)
NODES_REQUEST = _column("nodes, µs per request", "nodes.cpu_us_per_request")
NODES_OPERATION = _column("nodes, µs each", "nodes.cpu_us_per_operation")
REQUESTS = _column("thousand requests/s", "requests_per_second", 1e-3)
OPERATIONS = _column("thousand/s", "per_second", 1e-3)
P50 = _column("50 %, µs", "latency_us.p50")
P999 = _column("99.9 %, µs", "latency_us.p999")
WORST = _column("worst, µs", "latency_us.max", spread=True)
BEFORE_P50 = _column("before: 50 %, µs", "before_us.p50")
BEFORE_P999 = _column("99.9 %, µs", "before_us.p999")
BEFORE_WORST = _column("worst, µs", "before_us.max")
BYTES = _column("resident bytes each", "server.bytes_each", spread=True)
JOB_BYTES = _column("resident bytes each, with its body", "server.bytes_each", spread=True)
LOG = _column("log, MiB", "log_bytes", 1 / 1048576)
START = _column("to the first answer, s", "start_seconds", spread=True)
TOLD = _column("until all is told, s", "start_seconds", spread=True)
COMPARED_RATE = _column("rate ÷ counterd's", "per_second", compared=True)
TO_LAST = _column("to the last, ms", "time_to_last_us", 1e-3, spread=True)
DUMP = _column("the dump, s", "dump.seconds")
NS = _column("ns per pair", "ns_per_operation", spread=True)
COMPARED_NS = _column("÷ one thread's", NS.path, compared=True)
