EXTRA_DIST += t/campaigns/torture/upgrade.py
