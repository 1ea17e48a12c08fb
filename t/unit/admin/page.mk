check_PROGRAMS += t/unit/admin/page_test
TESTS += t/unit/admin/page_test
t_unit_admin_page_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_admin_page_test_LDADD = libpage.a $(CHECK_LIBS)
