# The load tool against the real daemon, and against servers that the test makes up.
if CLIENT
TESTS += t/system/test_counterbench.py
endif
EXTRA_DIST += t/system/test_counterbench.py
