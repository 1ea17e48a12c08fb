base_unit_tests = \
	t/unit/base/buckets_test \
	t/unit/base/duration_test \
	t/unit/base/hash_test \
	t/unit/base/heap_test \
	t/unit/base/histogram_test \
	t/unit/base/json_text_test \
	t/unit/base/lock_test \
	t/unit/base/log_test \
	t/unit/base/record_test \
	t/unit/base/text_test \
	t/unit/base/parallel_test \
	t/unit/base/tree_test
check_PROGRAMS += $(base_unit_tests)
TESTS += $(base_unit_tests)
t_unit_base_buckets_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_buckets_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_duration_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_duration_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_hash_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_hash_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_heap_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_heap_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_histogram_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_histogram_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_json_text_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_json_text_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_lock_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_lock_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_log_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_log_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_record_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_record_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_text_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_text_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_parallel_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_parallel_test_LDADD = libbase.a $(CHECK_LIBS)
t_unit_base_tree_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_base_tree_test_LDADD = libbase.a $(CHECK_LIBS)
