proto_unit_tests = t/unit/proto/poolcounter_test t/unit/proto/pools_test \
	t/unit/proto/beanstalk_test t/unit/proto/counter_test
check_PROGRAMS += $(proto_unit_tests)
TESTS += $(proto_unit_tests)
t_unit_proto_poolcounter_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_proto_poolcounter_test_LDADD = libproto.a libbase.a $(CHECK_LIBS)
t_unit_proto_pools_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_proto_pools_test_LDADD = libproto.a libbase.a $(CHECK_LIBS)
t_unit_proto_beanstalk_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_proto_beanstalk_test_LDADD = libproto.a libbase.a $(CHECK_LIBS)
t_unit_proto_counter_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_proto_counter_test_LDADD = libproto.a libbase.a $(CHECK_LIBS)
