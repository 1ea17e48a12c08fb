# Programs that measure; not installed, not part of `make check`.
noinst_PROGRAMS += bench/engine_bench
bench_engine_bench_SOURCES = bench/engine_bench.c
bench_engine_bench_LDADD = libengine.a libbase.a

noinst_PROGRAMS += bench/floor
bench_floor_SOURCES = bench/floor.c
bench_floor_CFLAGS = $(AM_CFLAGS) -pthread
bench_floor_LDFLAGS = $(AM_LDFLAGS) -pthread
