# Libraries for programs. make leaves them alone: pip, composer and the Debian packages install them.
dist_noinst_SCRIPTS += clients/stories.py
EXTRA_DIST += \
	clients/mediawiki/extension.json \
	clients/mediawiki/maintenance/runCounterdJobs.php \
	clients/mediawiki/src/Clients.php \
	clients/mediawiki/src/JobQueue.php \
	clients/mediawiki/src/PoolCounter.php \
	clients/mediawiki/src/aliases.php \
	clients/php/autoload.php \
	clients/php/composer.json \
	clients/php/errors.php \
	clients/php/src/Connection.php \
	clients/php/src/Options.php \
	clients/php/src/Text.php \
	clients/python/README.md \
	clients/python/counterd/aio.py \
	clients/python/examples/lock.py \
	clients/python/examples/member.py \
	clients/python/examples/put.py \
	clients/python/examples/units.py \
	clients/python/examples/worker.py \
	clients/python/pyproject.toml \
	clients/stories/README.md \
	clients/stories/fake_server.py \
	clients/stories/variants.py
