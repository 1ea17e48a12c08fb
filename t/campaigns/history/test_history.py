"""Some order explains what clients of a real daemon saw; and the planted bugs can be planted."""

import os
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
        campaign.run(2, wire.scaled(4000, 2000), seed, str(tmp_path))
    except campaign.Found as e:
        raise AssertionError(str(e)) from None


def test_clients_of_pools_saw_no_rule_broken(tmp_path):
    if not servers.have_counterd():
        tap.pytest.skip("COUNTERD names no daemon")
    seed = int(os.environ.get("T_SEED") or random.randrange(2**31))
    print("seed %d" % seed)
    try:
        campaign.run(3, wire.scaled(6000, 3000), seed, str(tmp_path), campaign.pools_history)
    except campaign.Found as e:
        raise AssertionError(str(e)) from None


def test_each_planted_bug_still_applies():
    if not shutil.which("patch"):
        tap.pytest.skip("patch is not installed")
    paths = campaign.patches() + [os.path.join(TOP, "t", "campaigns", "torture", "storm_race.patch")]
    assert len(paths) > 10
    for path in paths:
        exactly = ["-F0"] if campaign.is_of_pools(path) else []
        applies, said = campaign.patch(TOP, path, "--dry-run", *exactly)
        assert applies, "%s:\n%s" % (path, said)


if __name__ == "__main__":
    tap.main(__file__)
