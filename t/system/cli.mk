# The client tool against the real daemon, and against servers that the tests play.
if CLIENT
TESTS += $(counterctl_tests)
endif
counterctl_tests = \
	t/transcripts/run.py \
	t/system/test_pool_examples.py
EXTRA_DIST += $(counterctl_tests) t/system/ctl.py \
	t/transcripts/README.md t/transcripts/modes.py t/transcripts/player.py t/transcripts/shell t/transcripts/ask.py $(transcripts)
transcripts = \
	t/transcripts/activation.ctl \
	t/transcripts/admin-daemon.ctl \
	t/transcripts/admin.ctl \
	t/transcripts/api.ctl \
	t/transcripts/api-resources.ctl \
	t/transcripts/bench.ctl \
	t/transcripts/clean.ctl \
	t/transcripts/cluster.ctl \
	t/transcripts/command-line.ctl \
	t/transcripts/config.ctl \
	t/transcripts/completion.ctl \
	t/transcripts/hostile.ctl \
	t/transcripts/jobs.ctl \
	t/transcripts/leases.ctl \
	t/transcripts/manual.ctl \
	t/transcripts/manual.py \
	t/transcripts/member.ctl \
	t/transcripts/names.ctl \
	t/transcripts/pool.ctl \
	t/transcripts/run-pool.ctl \
	t/transcripts/process.ctl \
	t/transcripts/run.ctl \
	t/transcripts/sandbox.ctl \
	t/transcripts/single.ctl \
	t/transcripts/tls.ctl \
	t/transcripts/top.ctl
