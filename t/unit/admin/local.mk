admin_unit_tests = \
	t/unit/admin/history_test \
	t/unit/admin/api_test \
	t/unit/admin/jobs_api_test \
	t/unit/admin/load_test
check_PROGRAMS += $(admin_unit_tests)
TESTS += $(admin_unit_tests)
EXTRA_DIST += t/unit/admin/fixture.h
admin_test_libs = libadmin.a libpage.a libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(JANSSON_LIBS) $(LIBEVENT_HTTP_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS) $(CHECK_LIBS) $(SQLITE_LIBS)
t_unit_admin_history_test_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_unit_admin_history_test_LDADD = $(admin_test_libs) -lm
t_unit_admin_api_test_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_unit_admin_api_test_LDADD = $(admin_test_libs) -lm
t_unit_admin_api_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=holder_count,--wrap=worker_ask
t_unit_admin_load_test_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_unit_admin_load_test_LDADD = $(admin_test_libs) -lm
t_unit_admin_jobs_api_test_SOURCES = t/unit/admin/jobs_api_test.c $(fake_store_sources) $(jobs_check_sources)
t_unit_admin_jobs_api_test_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_unit_admin_jobs_api_test_LDADD = $(admin_test_libs) -lm
