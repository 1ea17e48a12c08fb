if CLIENT
bench_unit_tests = t/unit/bench/parts_test t/unit/bench/protocol_test
check_PROGRAMS += $(bench_unit_tests)
TESTS += $(bench_unit_tests)
bench_unit_cflags = $(UNIT_CFLAGS) $(JANSSON_CFLAGS) $(LIBSSL_CFLAGS) -pthread
bench_unit_ldadd = libcounterbench.a libcli.a libproto.a libbase.a $(CHECK_LIBS) $(JANSSON_LIBS) \
	$(LIBSSL_LIBS)
t_unit_bench_parts_test_CFLAGS = $(bench_unit_cflags)
t_unit_bench_parts_test_LDADD = $(bench_unit_ldadd)
t_unit_bench_protocol_test_CFLAGS = $(bench_unit_cflags)
t_unit_bench_protocol_test_LDADD = $(bench_unit_ldadd)
endif
