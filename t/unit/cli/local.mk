if CLIENT
cli_unit_tests = \
	t/unit/cli/print_test \
	t/unit/cli/supply_test \
	t/unit/cli/view_test
check_PROGRAMS += $(cli_unit_tests)
TESTS += $(cli_unit_tests)
cli_unit_cflags = $(UNIT_CFLAGS) $(CLIENT_CFLAGS)
cli_unit_ldadd = libcli.a libcounter.a libproto.a libbase.a $(CHECK_LIBS) $(CLIENT_LIBS)
t_unit_cli_print_test_CFLAGS = $(cli_unit_cflags)
t_unit_cli_print_test_LDADD = $(cli_unit_ldadd)
t_unit_cli_supply_test_CFLAGS = $(cli_unit_cflags)
t_unit_cli_supply_test_LDADD = $(cli_unit_ldadd)
t_unit_cli_view_test_CFLAGS = $(cli_unit_cflags)
t_unit_cli_view_test_LDADD = $(cli_unit_ldadd)
endif
