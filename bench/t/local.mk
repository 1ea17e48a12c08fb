# Tests of ./dev bench and of the manual of counterbench. None of them asserts on speed.
suite_tests = bench/t/test_suite.py
TESTS += $(suite_tests)
EXTRA_DIST += $(suite_tests)
