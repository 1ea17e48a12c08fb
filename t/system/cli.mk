# The client tool against the real daemon; its commands of pools and its admin commands also against stand-ins.
if CLIENT
TESTS += $(counterctl_tests)
endif
counterctl_tests = \
	t/system/test_counterctl.py \
	t/system/test_counterctl_run.py \
	t/system/test_counterctl_member.py \
	t/system/test_counterctl_jobs.py \
	t/system/test_counterctl_lies.py \
	t/system/test_counterctl_pool.py \
	t/system/test_counterctl_cluster.py \
	t/system/test_counterctl_top.py \
	t/system/test_pool_examples.py \
	t/system/test_completion.py
EXTRA_DIST += $(counterctl_tests) t/system/ctl.py t/system/mock_admin.py t/system/mock_pools.py \
	t/system/played_pools.py
