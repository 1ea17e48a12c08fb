service_unit_tests = \
	t/unit/service/state_test
check_PROGRAMS += $(service_unit_tests)
TESTS += $(service_unit_tests)
t_unit_service_state_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_service_state_test_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS) $(CHECK_LIBS)
