"""
Plays every transcript of counterctl: on the real daemon, and on servers that the transcript plays. Some are played
again in a mode that T_SEED draws (modes.py); `--all`: all in all modes, and nothing else.
"""

import concurrent.futures
import copy
import glob
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import ctl  # noqa: E402
import modes  # noqa: E402
import player  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

pytestmark = pytest.mark.skipif(
    not servers.have_counterd() or not ctl.have_counterctl(),
    reason="COUNTERD and COUNTERCTL name no programs",
)

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [case for path in sorted(glob.glob(os.path.join(HERE, "*.ctl"))) for case in player.read(path)]
AT_ONCE = 6  # they wait most of the time
DRAWN = 0 if wire.SLOW else 60  # plays in modes
SEED = int(os.environ.get("T_SEED") or random.randrange(2**32))
os.environ["T_SEED"] = str(SEED)  # pytest imports this file again


def troubled():
    """The cases in modes: all of them, or a sample with as many of each mode and of each file."""
    found = [(case, mode, spec) for case in CASES for mode, all_of in modes.specs(case).items() for spec in all_of]
    if "--all" not in sys.argv:
        chance, parts = random.Random(SEED), {}
        for case, mode, spec in found:
            parts.setdefault(mode, {}).setdefault(case.file, []).append((case, mode, spec))
        files = [list(parts[name].values()) for name in sorted(parts)]
        found = [chance.choice(chance.choice(files[number % len(files)])) for number in range(DRAWN)]
    for case, _, spec in found:
        again = copy.copy(case)
        again.mode, again.id = spec, "%s in %s" % (case.id, spec)
        yield again


def play(case, daemons):
    """Plays a case. Raises Wrong, with what was seen, if anything is not as it says."""
    (modes.Troubled(case, daemons, case.mode) if case.mode else player.Player(case, daemons)).run()


CASES = ([] if "--all" in sys.argv else CASES) + list(troubled())


@pytest.fixture(scope="session", name="played")
def begin_all(request):
    """All chosen cases are begun together, in their order; one by one for ./dev mutants, which notes what each does."""
    daemons = player.Daemons()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        if os.environ.get("MUTANT_RECORD"):
            yield lambda case: pool.submit(play, case, daemons)
        else:
            chosen = [item.callspec.params["case"] for item in request.session.items]
            yield {case: pool.submit(play, case, daemons) for case in chosen}.get
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
        again = "T_SEED=%d %s -k '%s'" % (SEED, __file__, " and ".join(sorted(words)))
        pytest.fail("%s\nrepeat it: %s" % (wrong, again), pytrace=False)
    future.result()


if __name__ == "__main__":
    print("# T_SEED=%d" % SEED, flush=True)
    tap.main(__file__, arguments=[word for word in sys.argv[1:] if word != "--all"])
