# The load tool against the real daemon, and against fake servers.
if CLIENT
TESTS += t/system/test_counterbench.py
endif
EXTRA_DIST += t/system/test_counterbench.py
