# libcounter, as programs have it: its archive. link_test and settings_test look inside.
if CLIENT
lib_unit_tests = \
	t/unit/lib/client_test \
	t/unit/lib/link_test \
	t/unit/lib/memory_test \
	t/unit/lib/settings_test
check_PROGRAMS += $(lib_unit_tests)
TESTS += $(lib_unit_tests)
EXTRA_DIST += t/unit/lib/peer.h
lib_unit_cflags = $(UNIT_CFLAGS) $(LIBSSL_CFLAGS) -pthread
lib_unit_ldadd = libcounter.a $(CHECK_LIBS) $(LIBSSL_LIBS)
t_unit_lib_client_test_CFLAGS = $(lib_unit_cflags)
t_unit_lib_client_test_LDADD = $(lib_unit_ldadd)
t_unit_lib_link_test_CFLAGS = $(lib_unit_cflags)
t_unit_lib_link_test_LDADD = lib/libparts.a $(CHECK_LIBS) $(LIBSSL_LIBS)
t_unit_lib_memory_test_CFLAGS = $(lib_unit_cflags)
t_unit_lib_memory_test_LDADD = $(lib_unit_ldadd)
t_unit_lib_memory_test_LDFLAGS = $(fault_wraps) -Wl,--wrap=strndup
t_unit_lib_settings_test_CFLAGS = $(lib_unit_cflags)
t_unit_lib_settings_test_LDADD = lib/libparts.a $(CHECK_LIBS) $(LIBSSL_LIBS)
endif
