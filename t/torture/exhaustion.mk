# Exhaustion, clocks, soak: the short forms of the campaigns, and these.
torture_tests = \
	t/torture/test_clock.py \
	t/torture/test_exhaustion.py \
	t/torture/test_soak.py
TESTS += $(torture_tests)
EXTRA_DIST += $(torture_tests) \
	t/torture/clock.py \
	t/torture/exhaustion.py \
	t/torture/exhaustion_names.py \
	t/torture/soak.py \
	t/torture/vanished.py
