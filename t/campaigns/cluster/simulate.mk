# Several nodes over the engine in memory: wires, clocks, clients and faults that a seed controls.
check_PROGRAMS += t/campaigns/cluster/simulate
t_campaigns_cluster_simulate_SOURCES = \
	t/campaigns/cluster/simulate.c \
	t/campaigns/cluster/simulate.h \
	t/campaigns/cluster/simulate_client.c \
	t/campaigns/cluster/simulate_faults.c \
	t/campaigns/cluster/simulate_net.c \
	t/campaigns/cluster/simulate_place.c
t_campaigns_cluster_simulate_CFLAGS = $(AM_CFLAGS) $(HIREDIS_CFLAGS)
t_campaigns_cluster_simulate_LDADD = $(fake_engine_libs) libcluster.a libbase.a $(HIREDIS_LIBS)
TESTS += t/campaigns/cluster/test_nodes.py
EXTRA_DIST += t/campaigns/cluster/test_nodes.py
# The node by stories, which need the engine in memory, too.
check_PROGRAMS += t/unit/cluster/node_stories t/unit/cluster/node_bytes_test
TESTS += t/unit/cluster/node_stories t/unit/cluster/node_bytes_test
node_stories = \
	t/unit/cluster/node/asks.story \
	t/unit/cluster/node/away.story \
	t/unit/cluster/node/lease.story \
	t/unit/cluster/node/opening.story \
	t/unit/cluster/node/sentinel.story
EXTRA_DIST += $(node_stories)
node_unit_libs = $(fake_engine_libs) libcluster.a libbase.a $(HIREDIS_LIBS) $(CHECK_LIBS)
t_unit_cluster_node_stories_SOURCES = t/unit/cluster/node_stories.c t/unit/cluster/node_rig.h t/unit/cluster/node_words.h
t_unit_cluster_node_stories_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_stories_LDADD = $(node_unit_libs)
t_unit_cluster_node_bytes_test_SOURCES = t/unit/cluster/node_bytes_test.c t/unit/cluster/node_rig.h
t_unit_cluster_node_bytes_test_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_bytes_test_LDADD = $(node_unit_libs)
# Bugs planted in the node, which the simulation must find.
planted_in_nodes = \
	t/campaigns/cluster/nodes/planted/cancelled-grant-told.patch \
	t/campaigns/cluster/nodes/planted/full-engine-keeps-releases.patch \
	t/campaigns/cluster/nodes/planted/grace-end-unseen.patch \
	t/campaigns/cluster/nodes/planted/grace-ended-at-once.patch \
	t/campaigns/cluster/nodes/planted/late-answer-waits.patch \
	t/campaigns/cluster/nodes/planted/less-not-told.patch \
	t/campaigns/cluster/nodes/planted/majority-of-before-the-beat.patch \
	t/campaigns/cluster/nodes/planted/no-hand-over-after-ready.patch \
	t/campaigns/cluster/nodes/planted/no-majority-for-beats.patch \
	t/campaigns/cluster/nodes/planted/reaped-too-early.patch \
	t/campaigns/cluster/nodes/planted/reported-release-sent.patch \
	t/campaigns/cluster/nodes/planted/second-release-lost.patch \
	t/campaigns/cluster/nodes/planted/second-report-in-full.patch \
	t/campaigns/cluster/nodes/planted/seq-forgotten.patch \
	t/campaigns/cluster/nodes/planted/silence-unnoticed.patch \
	t/campaigns/cluster/nodes/planted/strict-stay-at-lease-end.patch \
	t/campaigns/cluster/nodes/planted/units-not-told-again.patch \
	t/campaigns/cluster/nodes/planted/unknown-grant-kept.patch \
	t/campaigns/cluster/nodes/planted/waits-not-told-again.patch
EXTRA_DIST += $(planted_in_nodes)
