net_unit_tests = \
	t/unit/net/loop_test \
	t/unit/net/stream_test \
	t/unit/net/conn_test \
	t/unit/net/worker_test \
	t/unit/net/listener_test
check_PROGRAMS += $(net_unit_tests)
TESTS += $(net_unit_tests)
EXTRA_DIST += t/unit/net/toy.h
t_unit_net_loop_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_loop_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(CHECK_LIBS)
t_unit_net_stream_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_stream_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(CHECK_LIBS)
t_unit_net_conn_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_conn_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(CHECK_LIBS)
t_unit_net_worker_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_worker_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(CHECK_LIBS)
t_unit_net_listener_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_net_listener_test_LDADD = libnet.a libbase.a $(LIBEVENT_LIBS) $(CHECK_LIBS)
