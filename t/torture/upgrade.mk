EXTRA_DIST += t/torture/upgrade.py
