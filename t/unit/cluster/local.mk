cluster_unit_tests = \
	t/unit/cluster/url_test \
	t/unit/cluster/patterns_test \
	t/unit/cluster/location_test \
	t/unit/cluster/wire_test
check_PROGRAMS += $(cluster_unit_tests)
TESTS += $(cluster_unit_tests)
cluster_unit_libs = libcluster.a libnet.a libbase.a $(LIBCARES_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_cluster_url_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_cluster_url_test_LDADD = $(cluster_unit_libs)
t_unit_cluster_patterns_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_cluster_patterns_test_LDADD = $(cluster_unit_libs)
t_unit_cluster_location_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_cluster_location_test_LDADD = $(cluster_unit_libs)
t_unit_cluster_wire_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_cluster_wire_test_LDFLAGS = $(fault_wraps) -Wl,--wrap=write
t_unit_cluster_wire_test_LDADD = libcluster.a libnet.a libengine.a libbase.a $(LIBEVENT_LIBS) $(LIBCARES_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
