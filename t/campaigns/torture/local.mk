# The soak, with its short form.
torture_tests = t/campaigns/torture/test_soak.py
TESTS += $(torture_tests)
EXTRA_DIST += $(torture_tests) t/campaigns/torture/soak.py
