check_PROGRAMS += t/unit/service/tubes_test
TESTS += t/unit/service/tubes_test
t_unit_service_tubes_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_service_tubes_test_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS) $(CHECK_LIBS) $(SQLITE_LIBS)
