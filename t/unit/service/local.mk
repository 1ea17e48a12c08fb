service_unit_tests = \
	t/unit/service/arbiter_test \
	t/unit/service/job_backup_test \
	t/unit/service/job_store_test \
	t/unit/service/monitor_test \
	t/unit/service/state_test
check_PROGRAMS += $(service_unit_tests)
TESTS += $(service_unit_tests)
t_unit_service_arbiter_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_service_arbiter_test_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS) $(CHECK_LIBS) $(SQLITE_LIBS)
t_unit_service_job_backup_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_service_job_backup_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_service_job_store_test_SOURCES = t/unit/service/job_store_test.c $(fake_store_sources)
t_unit_service_job_store_test_CFLAGS = $(UNIT_CFLAGS) -Djob_store_sqlite=__real_job_store_sqlite
t_unit_service_job_store_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=job_store_sqlite
t_unit_service_job_store_test_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS) $(CHECK_LIBS) $(SQLITE_LIBS)
t_unit_service_monitor_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_service_monitor_test_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS) $(CHECK_LIBS) $(SQLITE_LIBS)
t_unit_service_state_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_service_state_test_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS) $(CHECK_LIBS) $(SQLITE_LIBS)
