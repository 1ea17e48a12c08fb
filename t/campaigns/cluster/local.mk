# The engine of nodes in memory, compared with Redis and the scripts; bugs planted in the scripts.
fake_engine = \
	t/campaigns/cluster/engine.c \
	t/campaigns/cluster/engine.h \
	t/campaigns/cluster/engine_commands.c \
	t/campaigns/cluster/engine_data.c \
	t/campaigns/cluster/engine_inside.h \
	t/campaigns/cluster/engine_look.c \
	t/campaigns/cluster/engine_ops.c \
	t/campaigns/cluster/engine_scripts.c
check_PROGRAMS += t/campaigns/cluster/engine_test t/campaigns/cluster/serve
TESTS += t/campaigns/cluster/engine_test t/campaigns/cluster/test_engine.py
t_campaigns_cluster_engine_test_SOURCES = t/campaigns/cluster/engine_test.c $(fake_engine)
t_campaigns_cluster_engine_test_CFLAGS = $(UNIT_CFLAGS)
t_campaigns_cluster_engine_test_LDADD = $(CHECK_LIBS)
t_campaigns_cluster_serve_SOURCES = t/campaigns/cluster/serve.c $(fake_engine)
t_campaigns_cluster_serve_CFLAGS = $(AM_CFLAGS)
planted_in_scripts = \
	t/campaigns/cluster/planted/any-before-me.patch \
	t/campaigns/cluster/planted/asserted-counts-twice.patch \
	t/campaigns/cluster/planted/beat-not-compared.patch \
	t/campaigns/cluster/planted/deaf-unnoticed.patch \
	t/campaigns/cluster/planted/done-for-the-oldest.patch \
	t/campaigns/cluster/planted/fast-assert-forgets-heirs.patch \
	t/campaigns/cluster/planted/fast-calls-forget-grace.patch \
	t/campaigns/cluster/planted/fast-calls-write-alike.patch \
	t/campaigns/cluster/planted/finished-name-stays.patch \
	t/campaigns/cluster/planted/grant-one-more-than-bound.patch \
	t/campaigns/cluster/planted/heir-goes-on.patch \
	t/campaigns/cluster/planted/last-not-reaped.patch \
	t/campaigns/cluster/planted/late-beat-does-not-save.patch \
	t/campaigns/cluster/planted/opening-not-granted.patch \
	t/campaigns/cluster/planted/opening-shows-no-life.patch \
	t/campaigns/cluster/planted/pairs-one-more.patch \
	t/campaigns/cluster/planted/place-of-the-first-kept.patch \
	t/campaigns/cluster/planted/queue-one-more.patch \
	t/campaigns/cluster/planted/ready-keeps-last.patch \
	t/campaigns/cluster/planted/refused-takes-the-unit.patch \
	t/campaigns/cluster/planted/seq-forgets-what-was.patch \
	t/campaigns/cluster/planted/single-acquire-in-grace.patch \
	t/campaigns/cluster/planted/strict-handed-over-in-grace.patch \
	t/campaigns/cluster/planted/unknown-last-admitted.patch \
	t/campaigns/cluster/planted/unread-grant-keeps-units.patch \
	t/campaigns/cluster/planted/wait-twice-after-opening.patch \
	t/campaigns/cluster/planted/waits-of-others-forgotten.patch \
	t/campaigns/cluster/planted/wrong-key-taken-for-right.patch
EXTRA_DIST += t/campaigns/cluster/test_engine.py t/campaigns/cluster/compare.py t/campaigns/cluster/compare_calls.py \
	t/campaigns/cluster/planted.py $(planted_in_scripts)

# ./dev cluster
EXTRA_DIST += t/campaigns/cluster/show.py
