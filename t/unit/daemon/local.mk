daemon_unit_tests = t/unit/daemon/options_test t/unit/daemon/manual_test
check_PROGRAMS += $(daemon_unit_tests)
TESTS += $(daemon_unit_tests)
t_unit_daemon_options_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_options_test_LDADD = libdaemon.a libbase.a $(CHECK_LIBS)
t_unit_daemon_manual_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_manual_test_LDADD = libdaemon.a libbase.a $(CHECK_LIBS)
