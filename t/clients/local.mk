# Clients of beanstalkd, for system/test_jobs_clients.py.
EXTRA_DIST += \
	t/clients/README.md \
	t/clients/beaneater.rb \
	t/clients/greenstalk_calls.py \
	t/clients/jackd.mjs \
	t/clients/package.json \
	t/clients/package-lock.json \
	t/clients/pheanstalk.php \
	t/clients/port.cjs

# What npm installs.
clean-local: clean-clients
.PHONY: clean-clients
clean-clients:
	rm -rf t/clients/out
