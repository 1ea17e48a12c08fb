net_unit_tests = \
	t/unit/net/loop_test \
	t/unit/net/dial_test \
	t/unit/net/dial_tls_test \
	t/unit/net/thread_test \
	t/unit/net/conn_test \
	t/unit/net/script_test \
	t/unit/net/reactor_test \
	t/unit/net/admission_test \
	t/unit/net/worker_test \
	t/unit/net/carry_test \
	t/unit/net/listener_test \
	t/unit/net/access_test \
	t/unit/net/unix_test \
	t/unit/net/http_memory_test \
	t/unit/net/http_test \
	t/unit/net/tls_test
check_PROGRAMS += $(net_unit_tests)
TESTS += $(net_unit_tests)
EXTRA_DIST += t/unit/net/toy.h t/unit/net/dials.h t/unit/net/secure.h t/unit/net/script.h t/unit/net/conn.script
t_unit_net_loop_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_loop_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_dial_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS) $(LIBCARES_CFLAGS)
t_unit_net_dial_test_LDFLAGS = $(fault_wraps)
t_unit_net_dial_test_LDADD = libnet.a libengine.a libbase.a $(LIBEVENT_LIBS) $(LIBCARES_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_dial_tls_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS) $(LIBCARES_CFLAGS)
t_unit_net_dial_tls_test_LDFLAGS = $(fault_wraps)
t_unit_net_dial_tls_test_LDADD = libnet.a libengine.a libbase.a $(LIBEVENT_LIBS) $(LIBCARES_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_thread_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_thread_test_LDADD = libnet.a libbase.a $(CHECK_LIBS)
t_unit_net_conn_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_net_conn_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
# A network, a loop and a clock that the test moves.
fake_sources = t/campaigns/simulate/fake.c t/campaigns/simulate/fake.h
t_unit_net_script_test_SOURCES = t/unit/net/script_test.c $(fake_sources)
t_unit_net_script_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_net_script_test_LDFLAGS = -Wl,--wrap=calloc,--wrap=malloc,--wrap=getpeername,--wrap=fcntl
t_unit_net_script_test_LDADD = libnet.a libbase.a $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_reactor_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_net_reactor_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_admission_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_net_admission_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_worker_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_worker_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_carry_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_carry_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_listener_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_listener_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_http_memory_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_http_memory_test_LDFLAGS = $(fault_wraps)
t_unit_net_http_memory_test_LDADD = libnet.a libengine.a libbase.a $(CHECK_LIBS)
t_unit_net_http_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_http_test_LDFLAGS = -Wl,--wrap=event_add
t_unit_net_http_test_LDADD = libnet.a libbase.a $(LIBEVENT_HTTP_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_tls_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_net_tls_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_access_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_net_access_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_net_unix_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_net_unix_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
