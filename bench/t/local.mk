# Tests of ./dev bench. None of them asserts on speed.
suite_tests = bench/t/test_suite.py
TESTS += $(suite_tests)
EXTRA_DIST += $(suite_tests)
