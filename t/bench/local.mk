# What ./dev bench makes of its measurements. None of these asserts on speed.
suite_tests = t/bench/test_suite.py
TESTS += $(suite_tests)
EXTRA_DIST += $(suite_tests)
