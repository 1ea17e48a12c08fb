cluster_unit_tests = \
	t/unit/cluster/url_test \
	t/unit/cluster/patterns_test \
	t/unit/cluster/where_test \
	t/unit/cluster/wire_test
check_PROGRAMS += $(cluster_unit_tests)
TESTS += $(cluster_unit_tests)
cluster_unit_libs = libcluster.a libnet.a libbase.a $(LIBCARES_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
t_unit_cluster_url_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_cluster_url_test_LDADD = $(cluster_unit_libs)
t_unit_cluster_patterns_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_cluster_patterns_test_LDADD = $(cluster_unit_libs)
t_unit_cluster_where_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_cluster_where_test_LDADD = $(cluster_unit_libs)
t_unit_cluster_wire_test_SOURCES = t/unit/cluster/wire_test.c t/unit/cluster/wire_rig.h
t_unit_cluster_wire_test_CFLAGS = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS)
t_unit_cluster_wire_test_LDFLAGS = $(fault_wraps) -Wl,--wrap=write
t_unit_cluster_wire_test_LDADD = libcluster.a libnet.a libengine.a libbase.a $(LIBEVENT_LIBS) $(LIBCARES_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)
# The node with an engine that the test plays.
node_unit_tests = \
	t/unit/cluster/node_lease_test \
	t/unit/cluster/node_sentinel_test \
	t/unit/cluster/node_asks_test \
	t/unit/cluster/node_away_test \
	t/unit/cluster/node_opening_test \
	t/unit/cluster/node_bytes_test
check_PROGRAMS += $(node_unit_tests)
TESTS += $(node_unit_tests)
node_unit_libs = libcluster.a libbase.a $(HIREDIS_LIBS) $(CHECK_LIBS)
t_unit_cluster_node_lease_test_SOURCES = t/unit/cluster/node_lease_test.c t/unit/cluster/node_rig.h
t_unit_cluster_node_lease_test_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_lease_test_LDADD = $(node_unit_libs)
t_unit_cluster_node_sentinel_test_SOURCES = t/unit/cluster/node_sentinel_test.c t/unit/cluster/node_rig.h
t_unit_cluster_node_sentinel_test_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_sentinel_test_LDADD = $(node_unit_libs)
t_unit_cluster_node_asks_test_SOURCES = t/unit/cluster/node_asks_test.c t/unit/cluster/node_rig.h
t_unit_cluster_node_asks_test_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_asks_test_LDADD = $(node_unit_libs)
t_unit_cluster_node_away_test_SOURCES = t/unit/cluster/node_away_test.c t/unit/cluster/node_rig.h
t_unit_cluster_node_away_test_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_away_test_LDADD = $(node_unit_libs)
t_unit_cluster_node_opening_test_SOURCES = t/unit/cluster/node_opening_test.c t/unit/cluster/node_rig.h
t_unit_cluster_node_opening_test_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_opening_test_LDADD = $(node_unit_libs)
t_unit_cluster_node_bytes_test_SOURCES = t/unit/cluster/node_bytes_test.c t/unit/cluster/node_rig.h
t_unit_cluster_node_bytes_test_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_bytes_test_LDADD = $(node_unit_libs)
