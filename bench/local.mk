# What speed is measured with and against: programs that are neither installed nor part of
# `make check`. The side-by-side suite that uses them is run by ./dev bench.
noinst_PROGRAMS += bench/floor
bench_floor_SOURCES = bench/floor.c
bench_floor_CFLAGS = $(AM_CFLAGS) -pthread
bench_floor_LDFLAGS = $(AM_LDFLAGS) -pthread

noinst_PROGRAMS += bench/engine_bench
bench_engine_bench_SOURCES = bench/engine_bench.c
bench_engine_bench_LDADD = libengine.a libbase.a

EXTRA_DIST += bench/README.md \
	bench/suite/bench.py \
	bench/suite/child.py \
	bench/suite/columns.py \
	bench/suite/figures.py \
	bench/suite/goals.py \
	bench/suite/load.py \
	bench/suite/machine.py \
	bench/suite/plots.py \
	bench/suite/report.py \
	bench/suite/rounds.py \
	bench/suite/rows.py \
	bench/suite/servers.py \
	bench/suite/store.py \
	$(wildcard $(srcdir)/bench/RESULTS.md $(srcdir)/bench/FINDINGS.md \
	$(srcdir)/bench/plots/*.svg)
