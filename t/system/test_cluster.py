"""
Rows of the table of failures of shared limits, once each: real daemons, Redis, Sentinels, and proxies between
them. The seed chooses some of the rows, so that this is soon over; ./dev torture cluster has all.

Rows mostly wait for leases and for grace, so several run beside each other, each in a process of its own.
"""

import concurrent.futures
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(1, os.path.join(HERE, "..", "campaigns", "torture"))
import tap  # noqa: E402
import pytest  # noqa: E402

import cluster  # noqa: E402
import cluster_clocks  # noqa: E402
import redis_servers  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402
from cluster_rows_load import ROWS  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not redis_servers.have_redis(), reason="redis-server is not installed"),
]

SEED = int(os.environ.get("T_SEED") or random.randrange(2**31))
BESIDE = 6  # worlds beside each other
ROWS_PLAYED = 6


def seed_of(name):
    return "%s %d 0" % (name, SEED)


@pytest.fixture(scope="module")
def rows(request):
    """Row -> future of its results, for all that were chosen."""
    chosen = [item.callspec.params["name"] for item in request.session.items
              if getattr(item, "callspec", None)]  # fmt: skip
    with concurrent.futures.ThreadPoolExecutor(BESIDE) as pool:
        futures = {name: pool.submit(lambda n=name: list(cluster.results(n, [seed_of(n)])))
                   for name in chosen if not skipped(name)}  # fmt: skip
        yield futures
        for future in futures.values():
            future.cancel()


def skipped(name):
    return "clock" in name and (wire.SLOW or not cluster_clocks.have_clocks())


@pytest.mark.parametrize("name", random.Random(SEED).sample(list(ROWS), ROWS_PLAYED))
def test_row(name, rows):
    if skipped(name):
        pytest.skip("t/system/clock_shift.so is not built, or a sanitizer would have to come first")
    found = rows[name].result()
    wrong = ["%s\nlogs: %s" % (one["failed"], one.get("logs")) for one in found if "failed" in one]
    assert found and not wrong, "--row %s --exactly '%s'\n%s" % (name, seed_of(name), "\n".join(wrong))


if __name__ == "__main__":
    tap.main(__file__)
