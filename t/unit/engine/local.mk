engine_unit_tests = \
	t/unit/engine/arena_test \
	t/unit/engine/index_test \
	t/unit/engine/waitq_test \
	t/unit/engine/table_test \
	t/unit/engine/contention_test \
	t/unit/engine/pool_steps_test \
	t/unit/engine/threads_test \
	t/unit/engine/pool_threads_test
check_PROGRAMS += $(engine_unit_tests)
EXTRA_DIST += t/unit/engine/faults.h t/unit/engine/tables.h
# The functions that faults.h stands before.
fault_wraps = $(AM_LDFLAGS) \
	-Wl,--wrap=slab_alloc,--wrap=arena_page_take,--wrap=arena_charge \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=reallocarray,--wrap=aligned_alloc,--wrap=strdup,--wrap=free \
	-Wl,--wrap=mmap,--wrap=mprotect,--wrap=madvise
TESTS += $(engine_unit_tests)
t_unit_engine_arena_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_engine_arena_test_LDFLAGS = $(fault_wraps)
t_unit_engine_arena_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
t_unit_engine_index_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_engine_index_test_LDFLAGS = $(fault_wraps)
t_unit_engine_index_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
t_unit_engine_waitq_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_engine_waitq_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
t_unit_engine_contention_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_engine_contention_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
t_unit_engine_table_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_engine_table_test_LDFLAGS = $(fault_wraps)
t_unit_engine_table_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
t_unit_engine_threads_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_engine_threads_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
t_unit_engine_pool_steps_test_SOURCES = t/unit/engine/pool_steps_test.c $(pools_check_sources)
t_unit_engine_pool_steps_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_engine_pool_steps_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
t_unit_engine_pool_threads_test_SOURCES = t/unit/engine/pool_threads_test.c $(pools_check_sources)
t_unit_engine_pool_threads_test_CFLAGS = $(UNIT_CFLAGS)
t_unit_engine_pool_threads_test_LDADD = libengine.a libbase.a $(CHECK_LIBS)
