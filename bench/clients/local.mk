# ./dev bench clients
EXTRA_DIST += bench/clients/bench.py bench/clients/calls.go bench/clients/calls.mjs bench/clients/calls.php \
	bench/clients/calls.py bench/clients/package.json bench/clients/package-lock.json \
	$(wildcard $(srcdir)/bench/CLIENTS.md)
