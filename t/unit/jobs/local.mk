jobs_unit_tests = \
	t/unit/jobs/jobs_test \
	t/unit/jobs/jobs_threads_test
check_PROGRAMS += $(jobs_unit_tests)
TESTS += $(jobs_unit_tests)
t_unit_jobs_jobs_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_jobs_test_LDADD = libjobs.a libbase.a $(CHECK_LIBS)
t_unit_jobs_jobs_threads_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_jobs_threads_test_LDADD = libjobs.a libbase.a $(CHECK_LIBS)
t_unit_jobs_jobs_test_SOURCES = t/unit/jobs/jobs_test.c t/unit/jobs/submit.h $(jobs_check_sources)
t_unit_jobs_jobs_threads_test_SOURCES = t/unit/jobs/jobs_threads_test.c t/unit/jobs/submit.h $(jobs_check_sources)
