# The client libraries. They test no code of the daemon, so one build is enough (plain_tests in t/local.mk), but for libcounter:
# its stories run with its agent under ASan, too.
library_tests = \
	t/clients/test_stories_python.py \
	t/clients/test_stories_aio.py \
	t/clients/test_stories_php.py \
	t/clients/test_client_c.py \
	t/clients/test_stories_node.py \
	t/clients/test_stories_go.py \
	t/clients/test_stories_c.py \
	t/clients/test_client_python.py \
	t/clients/test_client_php.py \
	t/clients/test_client_node.py \
	t/clients/test_client_go.py \
	t/clients/test_mediawiki.py \
	t/clients/test_python_core.py
TESTS += $(library_tests)
EXTRA_DIST += $(library_tests) \
	t/clients/npm_modules.py \
	t/clients/programs.py \
	t/clients/typed.ts \
	t/clients/mediawiki/LocalSettings.php \
	t/clients/mediawiki/RecordedJob.php \
	t/clients/mediawiki/cases.php \
	t/clients/mediawiki/names.php \
	t/clients/mediawiki/push.php \
	t/clients/mediawiki/unpack

# Clients of beanstalkd, for system/test_jobs_clients.py.
EXTRA_DIST += \
	t/clients/README.md \
	t/clients/beaneater.rb \
	t/clients/jackd.mjs \
	t/clients/package.json \
	t/clients/pheanstalk.php \
	t/clients/port.cjs

# What npm installs, and the results of stories.
clean-local: clean-clients
.PHONY: clean-clients
clean-clients:
	rm -rf t/clients/out clients/go-agent* go-cache
