# The model of the pools, and random calls of the engine that are compared with it.
pools_check_sources = t/models/pools_check.c t/models/pools_check.h
check_PROGRAMS += t/models/pools_test
TESTS += t/models/pools_test
t_models_pools_test_SOURCES = t/models/pools_test.c t/models/pools_world.c t/models/pools_world.h \
	t/models/pools_compare.c t/models/pools_internal.h t/models/pools.h \
	t/models/pools.c t/models/pools_clients.c t/models/pools_serve.c $(pools_check_sources)
t_models_pools_test_CFLAGS = $(UNIT_CFLAGS)
t_models_pools_test_LDFLAGS = $(fault_wraps)
t_models_pools_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
