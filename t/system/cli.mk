# The client tool against the real daemon, and its admin commands against a stand-in, too.
if CLIENT
TESTS += $(counterctl_tests)
endif
counterctl_tests = \
	t/system/test_counterctl.py \
	t/system/test_counterctl_run.py \
	t/system/test_counterctl_top.py \
	t/system/test_completion.py
EXTRA_DIST += $(counterctl_tests) t/system/ctl.py t/system/mock_admin.py
