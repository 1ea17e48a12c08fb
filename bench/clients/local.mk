# ./dev bench clients
EXTRA_DIST += bench/clients/bench.py bench/clients/calls.go bench/clients/calls.mjs bench/clients/calls.php \
	bench/clients/calls.py \
	$(wildcard $(srcdir)/bench/CLIENTS.md)

if CLIENT
noinst_PROGRAMS += bench/clients/calls
bench_clients_calls_SOURCES = bench/clients/calls.c
bench_clients_calls_LDADD = libcounter.a $(LIBSSL_LIBS)
endif
