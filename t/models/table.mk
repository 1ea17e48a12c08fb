# The model of the table, and random calls that are compared with it.
table_model_sources = t/models/table.c t/models/table.h
locks_model_sources = t/models/locks.c t/models/locks.h
check_PROGRAMS += t/models/table_test
TESTS += t/models/table_test
t_models_table_test_SOURCES = t/models/table_test.c t/models/table_world.h \
	t/models/table_compare.c t/models/table_upgrade.c $(table_model_sources)
t_models_table_test_CFLAGS = $(UNIT_CFLAGS)
t_models_table_test_LDFLAGS = $(fault_wraps)
t_models_table_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
