# The real daemon over real sockets. -B: the source folder may be read-only.
AM_PY_LOG_FLAGS = -B

system_tests = \
	t/system/test_process.py \
	t/system/test_cluster.py \
	t/system/test_upgrade.py \
	t/system/test_clients.py \
	t/system/test_pools.py \
	t/system/test_jobs.py \
	t/system/test_jobs_backup.py \
	t/system/test_jobs_store.py \
	t/system/test_jobs_clients.py \
	t/system/test_admin.py \
	t/system/test_units.py \
	t/system/test_vanished.py \
	t/system/test_readme.py
TESTS += $(system_tests)
EXTRA_DIST += $(system_tests) \
	t/system/certificates.py \
	t/system/cluster.story \
	t/system/confined.py \
	t/system/conftest.py \
	t/system/http_client.py \
	t/system/redis_servers.py \
	t/system/resp.py \
	t/system/servers.py \
	t/system/tap.py \
	t/system/wire.py

# Preloaded by test_cluster_*.py into daemons and engines whose clocks it sets.
check_DATA = t/system/clock_shift.so
CLEANFILES += t/system/clock_shift.so
EXTRA_DIST += t/system/clock_shift.c
t/system/clock_shift.so: t/system/clock_shift.c
	$(AM_V_CCLD)$(MKDIR_P) t/system && $(CC) $(WARN_CFLAGS) -std=gnu17 -O2 -fPIC -shared -o $@ $(srcdir)/t/system/clock_shift.c
