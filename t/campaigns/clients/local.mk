# Workers of the client libraries while things go wrong: the campaign, and its short form.
TESTS += t/campaigns/clients/test_clients_storm.py
EXTRA_DIST += t/campaigns/clients/test_clients_storm.py \
	t/campaigns/clients/clients.py \
	t/campaigns/clients/judge.py \
	t/campaigns/clients/planted.py \
	t/campaigns/clients/proxy.py \
	t/campaigns/clients/work.go \
	t/campaigns/clients/work.mjs \
	t/campaigns/clients/work.php \
	t/campaigns/clients/work.py
