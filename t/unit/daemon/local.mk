daemon_unit_tests = \
	t/unit/daemon/listeners_test \
	t/unit/daemon/notify_test \
	t/unit/daemon/options_test \
	t/unit/daemon/sandbox_test \
	t/unit/daemon/upgrade_test \
	t/unit/daemon/upgrade_answer_test \
	t/unit/daemon/upgrade_back_test \
	t/unit/daemon/upgrade_room_test
check_PROGRAMS += $(daemon_unit_tests)
TESTS += $(daemon_unit_tests)
daemon_unit_libs = libdaemon.a libadmin.a libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(SYSTEMD_LIBS) $(SECCOMP_LIBS) $(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS) $(CHECK_LIBS) $(SQLITE_LIBS)
t_unit_daemon_listeners_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_listeners_test_LDADD = $(daemon_unit_libs)
t_unit_daemon_notify_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_notify_test_LDADD = $(daemon_unit_libs)
t_unit_daemon_options_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_options_test_LDFLAGS = $(fault_wraps) -Wl,--wrap=fdopen
t_unit_daemon_options_test_LDADD = libdaemon.a $(admin_test_libs) $(SYSTEMD_LIBS) $(SECCOMP_LIBS)
t_unit_daemon_sandbox_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_sandbox_test_LDADD = libcluster.a $(daemon_unit_libs) $(LIBCARES_LIBS)
t_unit_daemon_upgrade_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_upgrade_test_LDADD = libdaemon.a $(admin_test_libs) $(SYSTEMD_LIBS) $(SECCOMP_LIBS)
t_unit_daemon_upgrade_answer_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_upgrade_answer_test_LDADD = $(daemon_unit_libs)
t_unit_daemon_upgrade_back_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_upgrade_back_test_LDADD = $(daemon_unit_libs)
t_unit_daemon_upgrade_room_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_daemon_upgrade_room_test_LDADD = $(daemon_unit_libs)
EXTRA_DIST += t/unit/daemon/state-1.record
