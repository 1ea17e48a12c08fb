# Every test reports in TAP, so that `make check` counts single tests, not programs.
TEST_EXTENSIONS = .py
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
PY_LOG_DRIVER = $(LOG_DRIVER)
PY_LOG_COMPILER = $(PYTHON)
AM_TESTS_ENVIRONMENT = \
	COUNTERD='$(abs_top_builddir)/counterd'; export COUNTERD; \
	COUNTERCTL='$(abs_top_builddir)/counterctl'; export COUNTERCTL; \
	COUNTERBENCH='$(abs_top_builddir)/counterbench'; export COUNTERBENCH; \
	TOP_SRCDIR='$(abs_top_srcdir)'; export TOP_SRCDIR; \
	TOP_BUILDDIR='$(abs_top_builddir)'; export TOP_BUILDDIR; \
	ASAN_OPTIONS=abort_on_error=0:detect_leaks=1:strict_string_checks=1; export ASAN_OPTIONS; \
	UBSAN_OPTIONS=print_stacktrace=1; export UBSAN_OPTIONS; \
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1; export TSAN_OPTIONS;

EXTRA_DIST += t/README.md t/FOUND.md t/words/banned t/campaigns/campaigns.sh \
	t/mutants/generate.py t/mutants/kills.tsv t/mutants/mutant.h t/mutants/mutant_plugin.py t/mutants/mutants.py t/unit/manual.h t/unit/unit.h \
	t/unit/words.h t/unit/random.h t/unit/rng.h t/unit/serving.h t/unit/http_client.h
UNIT_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)

include t/unit/proto/local.mk
include t/unit/base/local.mk
include t/unit/engine/local.mk
include t/unit/jobs/local.mk
include t/unit/jobs/store.mk
include t/unit/jobs/commit.mk
include t/unit/net/local.mk
include t/unit/cluster/local.mk
include t/unit/service/local.mk
include t/unit/jobs/keys.mk
include t/unit/admin/local.mk
include t/unit/admin/page.mk
include t/unit/daemon/local.mk
include t/unit/cli/local.mk
include t/unit/lib/local.mk
include t/unit/bench/local.mk
include t/scenario/local.mk
include bench/counts/local.mk
include t/campaigns/simulate/local.mk
include t/system/local.mk
include t/echo/local.mk
include bench/t/local.mk
include t/campaigns/torture/splits.mk
include t/campaigns/torture/malformed.mk
include t/campaigns/model/local.mk
include t/campaigns/torture/exhaustion.mk
include t/system/bench.mk
include t/system/cli.mk
include t/campaigns/torture/upgrade.mk
include t/browser/local.mk
include t/clients/local.mk
include t/campaigns/history/local.mk
include t/campaigns/pools/local.mk
include t/campaigns/clients/local.mk
include t/campaigns/jobs/local.mk
include t/campaigns/cluster/local.mk
include t/campaigns/cluster/simulate.mk
include t/campaigns/torture/storm.mk

# Tests that need no peers, root, browser or machine of their own: for building packages.
.PHONY: check-quick
check-quick:
	$(MAKE) $(AM_MAKEFLAGS) check \
		TESTS='$(filter-out %/load_test %/threads_test,$(filter t/unit/% t/scenario/%,$(TESTS)))'

# All tests. Those that take longest start first, so that none of them runs on alone at the end.
long_tests = t/system/test_cluster.py t/system/test_cluster_basics.py t/system/test_cluster_audit.py t/system/test_vanished.py t/browser/test_page.py t/unit/engine/model_test t/unit/jobs/store_test \
	t/system/test_sidebyside.py t/scenario/run.py t/campaigns/simulate/test_simulate.py bench/counts/test_counts.py \
	t/system/test_upgrade.py t/system/test_storm.py t/system/test_process.py t/system/test_completion.py \
	t/system/test_counterctl_top.py t/system/test_reload.py $(library_tests) \
	t/campaigns/clients/test_clients_storm.py
# They test Redis, models, client libraries and the tests' own tools: a sanitizer shows nothing.
without_programs = t/system/test_cluster_scripts.py t/system/test_cluster_sessions.py t/system/test_cluster_world.py \
	t/campaigns/cluster/test_engine.py t/campaigns/model/test_model.py t/campaigns/model/test_cluster_model.py \
	t/campaigns/pools/test_planted.py t/campaigns/clients/test_clients_storm.py $(library_tests)
.PHONY: check-all check-sanitized
check-all:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(long_tests) $(filter-out $(long_tests),$(TESTS))'
check-sanitized:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(filter-out $(without_programs),$(long_tests) $(filter-out $(long_tests),$(TESTS)))'

# Programs of one thread, and other servers, show nothing under TSan that they do not show under ASan.
single_threaded = $(filter t/unit/proto/% fuzz/%,$(TESTS)) \
	t/unit/engine/arena_test t/unit/engine/contention_test t/unit/engine/index_test \
	t/unit/engine/model_test t/unit/engine/sketch_test t/unit/engine/state_test \
	t/unit/engine/pool_test t/unit/engine/pool_model_test t/unit/engine/pool_state_test \
	t/unit/jobs/store_test t/unit/jobs/commit_test t/unit/jobs/commit_model_test \
	t/unit/jobs/commit_disk_test t/unit/base/tree_test t/unit/base/ring_test \
	t/unit/engine/table_test t/unit/engine/expiry_test t/unit/engine/names_test \
	t/unit/engine/verdicts_test t/unit/engine/walk_test t/unit/engine/no_memory_test \
	t/unit/engine/reserve_test t/unit/engine/waitq_test t/unit/jobs/job_tree_test \
	t/unit/jobs/jobs_model_test t/unit/jobs/jobs_state_test \
	t/campaigns/history/check_test t/campaigns/torture/splits \
	t/campaigns/history/test_pools_check.py \
	t/campaigns/simulate/test_simulate.py t/campaigns/cluster/engine_test t/campaigns/cluster/test_nodes.py \
	$(filter t/unit/cluster/node_%,$(TESTS)) \
	t/unit/cluster/url_test t/unit/cluster/where_test t/unit/cluster/wire_test $(without_programs) \
	t/unit/net/dial_test t/scenario/run.py t/system/test_completion.py \
	t/system/test_sidebyside.py t/system/test_units.py bench/t/test_suite.py \
	t/system/test_jobs_clients.py t/system/test_jobs_transcripts.py \
	t/browser/test_page.py
threaded = $(filter-out $(single_threaded),$(TESTS))
# Programs that only those tests need.
unthreaded_programs = $(single_threaded:=$(EXEEXT)) t/scenario/fakenet$(EXEEXT) \
	t/campaigns/simulate/simulate$(EXEEXT) t/campaigns/simulate/sockets$(EXEEXT) t/campaigns/cluster/serve$(EXEEXT)
threaded_programs = $(filter-out $(unthreaded_programs),$(check_PROGRAMS))
.PHONY: check-threads check-threads-made
check-threads:
	$(MAKE) $(AM_MAKEFLAGS) check check_PROGRAMS='$(threaded_programs)' \
		TESTS='$(filter $(long_tests),$(threaded)) $(filter-out $(long_tests),$(threaded))'
check-threads-made: all
	$(MAKE) $(AM_MAKEFLAGS) $(threaded_programs)
