# ./dev bench clients
EXTRA_DIST += bench/clients/bench.py bench/clients/calls.php bench/clients/calls.py \
	$(wildcard $(srcdir)/bench/CLIENTS.md)
