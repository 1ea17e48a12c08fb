# The store of jobs, on a disk that fails, and with calls that fail as tests want.
fake_store_sources = t/unit/jobs/fake_store.c t/unit/jobs/fake_store.h
check_PROGRAMS += t/unit/jobs/store_test
TESTS += t/unit/jobs/store_test
t_unit_jobs_store_test_SOURCES = t/unit/jobs/store_test.c t/unit/jobs/bad_disk.c t/unit/jobs/bad_disk.h
t_unit_jobs_store_test_CFLAGS = $(UNIT_CFLAGS) $(SQLITE_CFLAGS)
t_unit_jobs_store_test_LDADD = libstore.a libjobs.a libbase.a $(SQLITE_LIBS) $(CHECK_LIBS)
