# Exhaustion, clocks, soak: the campaigns and their short forms.
torture_tests = \
	t/campaigns/torture/test_clock.py \
	t/campaigns/torture/test_exhaustion.py \
	t/campaigns/torture/test_soak.py
TESTS += $(torture_tests)
EXTRA_DIST += $(torture_tests) \
	t/campaigns/torture/clock.py \
	t/campaigns/torture/cluster.py \
	t/campaigns/torture/exhaustion.py \
	t/campaigns/torture/soak.py \
	t/campaigns/torture/soak_cluster.py
