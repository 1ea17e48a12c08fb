# The jobs in a random world, and their model.
jobs_check_sources = t/models/jobs_check.c t/models/jobs_check.h
check_PROGRAMS += t/models/jobs_test
TESTS += t/models/jobs_test
t_models_jobs_test_SOURCES = t/models/jobs_test.c \
	t/models/jobs_world.c t/models/jobs_world.h t/models/jobs_world_internal.h \
	t/models/jobs_world_compare.c t/models/jobs_world_steps.c t/models/jobs_world_restart.c \
	t/models/jobs.c t/models/jobs.h t/models/jobs_internal.h t/models/jobs_calls.c $(commit_rig_sources)
t_models_jobs_test_CFLAGS = $(UNIT_CFLAGS)
t_models_jobs_test_LDFLAGS = $(fault_wraps)
t_models_jobs_test_LDADD = libjobs.a libstore.a libbase.a $(SQLITE_LIBS) $(CHECK_LIBS)
