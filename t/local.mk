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

EXTRA_DIST += t/README.md t/FOUND.md t/run_tests.py t/shape/shape.py t/shape/unused.py t/words/banned t/campaigns/campaigns.sh \
	t/mutants/generate.py t/mutants/kills.tsv t/mutants/mutant.h t/mutants/mutant_plugin.py t/mutants/mutants.py t/unit/manual.h t/unit/unit.h \
	t/unit/words.h t/unit/random.h t/unit/rng.h t/unit/serving.h t/unit/http_client.h
UNIT_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)

include t/vectors/local.mk
include t/unit/base/local.mk
include t/models/table.mk
include t/models/pools.mk
include t/unit/engine/local.mk
include t/unit/jobs/local.mk
include t/unit/jobs/store.mk
include t/unit/jobs/commit.mk
include t/models/jobs.mk
include t/unit/net/local.mk
include t/unit/cluster/local.mk
include t/unit/service/local.mk
include t/unit/admin/local.mk
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
include t/campaigns/torture/local.mk
include t/system/bench.mk
include t/system/cli.mk
include t/browser/local.mk
include t/clients/local.mk
include t/campaigns/history/local.mk
include t/campaigns/pools/local.mk
include t/campaigns/jobs/local.mk
include t/campaigns/cluster/local.mk

# Tests that need no peers, root, browser or machine of their own: for building packages.
.PHONY: check-quick
check-quick:
	$(MAKE) $(AM_MAKEFLAGS) check \
		TESTS='$(filter-out %/load_test %/threads_test,$(filter t/unit/% t/models/% t/vectors/% t/scenario/run.py,$(TESTS)))'

# All tests, by t/run_tests.py; RUN has its options. Until it knows how long they take, these start first.
long_tests = t/browser/test_page.py t/system/test_cluster.py t/scenario/real.py \
	t/system/test_vanished.py t/system/test_jobs_clients.py $(library_tests) \
	t/transcripts/run.py t/system/test_jobs.py t/campaigns/simulate/test_simulate.py \
	t/system/test_pool_examples.py t/scenario/run.py bench/counts/test_counts.py
all_tests = $(filter $(TESTS),$(long_tests)) $(filter-out $(long_tests),$(TESTS))

# Unit tests, stories and short models.
unit_tests = $(filter t/unit/% fuzz/% t/scenario/run.py t/vectors/% t/models/% t/campaigns/simulate/% t/campaigns/cluster/%,$(all_tests))

# Real clusters, peers, browsers, client libraries and the tests' own tools: a
# sanitizer shows nothing that other tests do not show with it.
plain_tests = $(filter t/system/test_cluster%,$(TESTS)) $(filter-out t/clients/test_stories_c.py,$(library_tests)) \
	t/campaigns/cluster/test_engine.py t/campaigns/pools/test_planted.py \
	t/browser/test_page.py t/scenario/real.py \
	t/system/test_jobs_clients.py \
	t/system/test_units.py t/system/test_vanished.py t/system/test_readme.py \
	bench/counts/test_counts.py $(suite_tests)
sanitized_tests = $(filter-out $(plain_tests),$(all_tests))

# Programs of one thread show nothing under TSan that they do not show under ASan.
single_threaded = $(filter t/vectors/% fuzz/%,$(TESTS)) \
	t/unit/engine/contention_test t/unit/engine/index_test \
	t/models/pools_test \
	t/models/table_test \
	t/unit/jobs/store_test t/unit/jobs/commit_test t/unit/jobs/commit_model_test \
	t/unit/base/tree_test \
	t/unit/engine/table_test t/unit/engine/waitq_test \
	t/models/jobs_test \
	t/campaigns/simulate/test_simulate.py t/campaigns/cluster/simulate \
	$(filter t/unit/cluster/node_%,$(TESTS)) \
	t/unit/cluster/url_test t/unit/cluster/location_test t/unit/cluster/wire_test \
	t/unit/net/dial_test t/unit/net/dial_tls_test t/unit/net/script_test t/scenario/run.py t/clients/test_stories_c.py
threads_tests = $(filter-out $(single_threaded),$(sanitized_tests))

# They stop processes themselves, or look at processes that others stop.
unstopped = $(filter t/system/test_cluster%,$(TESTS)) $(library_tests) \
	t/transcripts/run.py

run_tests = @$(AM_TESTS_ENVIRONMENT) exec $(PYTHON) -B $(abs_top_srcdir)/t/run_tests.py --unstopped '$(unstopped)' $(RUN)
.PHONY: run-all run-unit run-sanitized run-threads run-one sanitized-made threads-made
run-all:
	$(run_tests) $(all_tests)
run-unit:
	$(run_tests) $(unit_tests)
run-sanitized:
	$(run_tests) $(sanitized_tests)
run-threads:
	$(run_tests) $(threads_tests)
# One program, with its arguments, in RUN.
run-one:
	@$(AM_TESTS_ENVIRONMENT) set -- $(RUN); case $$1 in *.py) set -- $(PYTHON) -B $(abs_top_srcdir)/"$$@";; esac; exec "$$@"

# What those tests need.
unthreaded_programs = $(single_threaded:=$(EXEEXT)) t/scenario/fakenet$(EXEEXT) \
	t/campaigns/simulate/simulate$(EXEEXT)
sanitized-made: all
	$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS) $(check_DATA)
threads-made: all
	$(MAKE) $(AM_MAKEFLAGS) $(filter-out $(unthreaded_programs),$(check_PROGRAMS)) $(check_DATA)
