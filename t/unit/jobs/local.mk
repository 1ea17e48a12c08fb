jobs_unit_tests = \
	t/unit/jobs/job_tree_test \
	t/unit/jobs/jobs_test \
	t/unit/jobs/jobs_model_test \
	t/unit/jobs/jobs_state_test \
	t/unit/jobs/jobs_threads_test \
	t/unit/jobs/watch_test
check_PROGRAMS += $(jobs_unit_tests)
TESTS += $(jobs_unit_tests)
# The jobs in a random world, and their model.
jobs_world_sources = t/unit/jobs/jobs_world.c t/unit/jobs/jobs_world.h \
	t/unit/jobs/jobs_model.c t/unit/jobs/jobs_model.h
t_unit_jobs_job_tree_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_job_tree_test_LDADD = libjobs.a libbase.a $(CHECK_LIBS)
t_unit_jobs_jobs_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_jobs_test_LDFLAGS = -Wl,--wrap=job_tree_from -Wl,--wrap=jobs_enter \
	-Wl,--wrap=hash_bytes
t_unit_jobs_jobs_test_LDADD = libjobs.a libbase.a $(CHECK_LIBS)
t_unit_jobs_jobs_model_test_SOURCES = t/unit/jobs/jobs_model_test.c $(jobs_world_sources)
t_unit_jobs_jobs_model_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_jobs_model_test_LDFLAGS = $(fault_wraps)
t_unit_jobs_jobs_model_test_LDADD = libjobs.a libbase.a $(CHECK_LIBS)
t_unit_jobs_jobs_state_test_SOURCES = t/unit/jobs/jobs_state_test.c $(jobs_world_sources)
t_unit_jobs_jobs_state_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_jobs_state_test_LDFLAGS = $(fault_wraps)
t_unit_jobs_jobs_state_test_LDADD = libjobs.a libbase.a $(CHECK_LIBS)
t_unit_jobs_jobs_threads_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_jobs_threads_test_LDADD = libjobs.a libbase.a $(CHECK_LIBS)
t_unit_jobs_watch_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_watch_test_LDADD = libjobs.a libbase.a $(CHECK_LIBS)
