# Jobs over a store that fails.
commit_rig_sources = t/unit/jobs/commit_rig.c t/unit/jobs/commit_rig.h $(fake_store_sources) $(jobs_check_sources)
commit_libs = libjobs.a libstore.a libbase.a $(SQLITE_LIBS) $(CHECK_LIBS)
commit_tests = t/unit/jobs/commit_test t/unit/jobs/commit_bounds_test t/unit/jobs/commit_model_test
check_PROGRAMS += $(commit_tests)
TESTS += $(commit_tests)
t_unit_jobs_commit_test_SOURCES = t/unit/jobs/commit_test.c t/unit/jobs/commit_words.h $(commit_rig_sources)
t_unit_jobs_commit_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_commit_test_LDADD = $(commit_libs)
t_unit_jobs_commit_bounds_test_SOURCES = t/unit/jobs/commit_bounds_test.c t/unit/jobs/commit_words.h $(commit_rig_sources)
t_unit_jobs_commit_bounds_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_jobs_commit_bounds_test_LDADD = $(commit_libs)
t_unit_jobs_commit_model_test_SOURCES = t/unit/jobs/commit_model_test.c t/unit/jobs/commit_world.c \
	t/unit/jobs/commit_promises.c t/unit/jobs/commit_promises.h \
	t/unit/jobs/commit_world.h t/unit/jobs/bad_disk.c t/unit/jobs/bad_disk.h $(commit_rig_sources)
t_unit_jobs_commit_model_test_CFLAGS = $(UNIT_CFLAGS) $(SQLITE_CFLAGS)
t_unit_jobs_commit_model_test_LDADD = $(commit_libs)
