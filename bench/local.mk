# What speed is measured with and against. The suite itself is run by ./dev bench.
noinst_PROGRAMS += bench/floor
bench_floor_SOURCES = bench/floor.c
bench_floor_CFLAGS = $(AM_CFLAGS) -pthread
bench_floor_LDFLAGS = $(AM_LDFLAGS) -pthread
