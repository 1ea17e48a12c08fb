# Programs for measuring speed. They are neither installed nor part of `make check`; ./dev bench
# runs the suite that uses them.
noinst_PROGRAMS += bench/floor
bench_floor_SOURCES = bench/floor.c

noinst_PROGRAMS += bench/engine_bench
bench_engine_bench_SOURCES = bench/engine_bench.c
bench_engine_bench_LDADD = libengine.a libbase.a

EXTRA_DIST += bench/README.md \
	bench/suite/bench.py \
	bench/suite/goals.py \
	bench/suite/goals.txt \
	bench/suite/load.py \
	bench/suite/machine.py \
	bench/suite/report.py \
	bench/suite/rounds.py \
	bench/suite/rows.py \
	bench/suite/kinds.py \
	bench/suite/store.py \
	bench/way/way.c bench/way/way.py \
	$(wildcard $(srcdir)/bench/RESULTS.md $(srcdir)/bench/FINDINGS.md)
