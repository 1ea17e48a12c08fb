"""Plays every transcript of counterctl: on the real daemon, and on servers that the transcript plays."""

import concurrent.futures
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import ctl  # noqa: E402
import player  # noqa: E402
import servers  # noqa: E402

pytestmark = pytest.mark.skipif(
    not servers.have_counterd() or not ctl.have_counterctl(),
    reason="COUNTERD and COUNTERCTL name no programs",
)

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [case for path in sorted(glob.glob(os.path.join(HERE, "*.ctl"))) for case in player.read(path)]
AT_ONCE = 6  # they wait most of the time


@pytest.fixture(scope="session", name="played")
def begin_all(request):
    """All chosen cases are begun together, in their order; one by one for ./dev mutants, which notes what each does."""
    daemons = player.Daemons()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        if os.environ.get("MUTANT_RECORD"):
            yield lambda case: pool.submit(player.play, case, daemons)
        else:
            chosen = [item.callspec.params["case"] for item in request.session.items]
            yield {case: pool.submit(player.play, case, daemons) for case in chosen}.get
        pool.shutdown(cancel_futures=True)
    daemons.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_transcript(case, played):
    future = played(case)
    wrong = future.exception()
    if isinstance(wrong, player.Skipped):
        pytest.skip(str(wrong))
    if isinstance(wrong, player.Wrong):
        words = set(re.findall(r"\w+", case.title.split(" [")[0])) - {"and", "or", "not"}
        again = "%s -k '%s'" % (__file__, " and ".join(sorted(words)))
        pytest.fail("%s\nrepeat it: %s" % (wrong, again), pytrace=False)
    future.result()


if __name__ == "__main__":
    tap.main(__file__)
