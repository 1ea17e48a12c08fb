"""Some order explains what clients of a real daemon saw; and the planted bugs can be planted."""

import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "system"))

import tap

import random

import campaign
import servers
import wire

TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))


def test_an_order_explains_what_clients_saw(tmp_path):
    if not servers.have_counterd():
        tap.pytest.skip("COUNTERD names no daemon")
    seed = int(os.environ.get("T_SEED") or random.randrange(2**31))
    print("seed %d" % seed)
    try:
        campaign.run(3, wire.scaled(8000, 4000), seed, str(tmp_path))
    except campaign.Found as e:
        raise AssertionError(str(e)) from None


VERDICTS = {"good": "good", "bad": "no order explains it", "early": "an answer came before its time"}


def verdict_of(folder, lines):
    path = folder / "made"
    path.write_text("".join(lines))
    status, said = campaign.call(campaign.CHECK, str(path))
    return said.split("at once: ")[1].splitlines()[0] if status < 2 else "can't be read"


def test_the_checker_judges_histories_made_by_hand(tmp_path):
    with open(os.path.join(HERE, "made.txt"), encoding="ascii") as f:
        histories = re.findall(r"^(\w+): (.*)\n((?:\d.*\n)+)", f.read(), re.M)
    assert len(histories) > 40
    for verdict, title, lines in histories:
        assert verdict_of(tmp_path, lines) == VERDICTS[verdict], title
    held = ["%d 0 acquire ok 1 200 0 0 %%d - - %%d\n" % i for i in range(100)]
    assert verdict_of(tmp_path, [line % (10, 20) for line in held]) == "too hard to decide"
    held = [line % (10 * i, 10 * i + 1) for i, line in enumerate(held)]
    held += ["%d 0 close ok 0 0 0 0 %d - - -\n" % (i, 10 * i + 2) for i in range(100)]
    held += ["100 0 get ok 57 0 0 0 2000 - - 2010\n", "100 0 get ok 56 0 0 0 2020 - - 2030\n"]
    assert verdict_of(tmp_path, held) == "good"
    assert verdict_of(tmp_path, held + ["100 0 get ok 57 0 0 0 2040 - - 2050\n"]) == VERDICTS["bad"]
    for wrong in ("1 0 get ok 0 0 0 0 10 - -\n", "1 0 take ok 0 0 0 0 10 - - 20\n", "1 0 get ok -1 0 0 0 10 - - 20\n"):
        assert verdict_of(tmp_path, wrong) == "can't be read"


def test_each_planted_bug_still_applies():
    if not shutil.which("patch"):
        tap.pytest.skip("patch is not installed")
    for path in campaign.patches():
        applies, said = campaign.patch(TOP, path, "--dry-run")
        assert applies, "%s:\n%s" % (path, said)


if __name__ == "__main__":
    tap.main(__file__)
