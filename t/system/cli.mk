# The client tool against the real daemon; its admin commands also against a stand-in.
if CLIENT
TESTS += $(counterctl_tests)
endif
counterctl_tests = \
	t/system/test_counterctl.py \
	t/system/test_counterctl_run.py \
	t/system/test_counterctl_top.py \
	t/system/test_completion.py
EXTRA_DIST += $(counterctl_tests) t/system/ctl.py t/system/mock_admin.py
