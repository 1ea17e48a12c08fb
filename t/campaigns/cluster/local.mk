# The engine of nodes in memory, with the real scripts.
check_LIBRARIES += libfakeengine.a
libfakeengine_a_SOURCES = t/campaigns/cluster/engine.c t/campaigns/cluster/engine.h
nodist_libfakeengine_a_SOURCES = t/campaigns/cluster/engine_texts.c
libfakeengine_a_CFLAGS = $(AM_CFLAGS) $(LUA_CFLAGS)
fake_engine_libs = libfakeengine.a $(LUA_LIBS)
fake_engine_texts = t/campaigns/cluster/engine.lua t/campaigns/cluster/sums.lua
CLEANFILES += t/campaigns/cluster/engine_texts.c
t/campaigns/cluster/engine_texts.c: $(fake_engine_texts)
	$(AM_V_GEN)$(MKDIR_P) t/campaigns/cluster && cd $(srcdir)/t/campaigns/cluster && { \
		for name in engine sums; do \
		echo "extern const char fe_$${name}_lua[]; const char fe_$${name}_lua[] ="; \
		$(AWK) '{ gsub(/[\\"]/, "\\\\&"); print "    \"" $$0 "\\n\"" }' $$name.lua; echo '    "";'; done; \
		} >$(abs_builddir)/$@.new && mv $(abs_builddir)/$@.new $(abs_builddir)/$@
EXTRA_DIST += $(fake_engine_texts)

# Stories of the scripts, on Redis. Bugs planted in scripts and nodes.
TESTS += t/campaigns/cluster/test_engine.py
EXTRA_DIST += t/campaigns/cluster/test_engine.py t/campaigns/cluster/stories t/campaigns/cluster/planted \
	t/campaigns/cluster/nodes

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
TESTS += t/campaigns/cluster/simulate

# The node by stories, which need the engine in memory, too.
check_PROGRAMS += t/unit/cluster/node_stories t/unit/cluster/node_bytes_test
TESTS += t/unit/cluster/node_stories t/unit/cluster/node_bytes_test
EXTRA_DIST += t/unit/cluster/node
node_unit_libs = $(fake_engine_libs) libcluster.a libbase.a $(HIREDIS_LIBS) $(CHECK_LIBS)
t_unit_cluster_node_stories_SOURCES = t/unit/cluster/node_stories.c t/unit/cluster/node_rig.h t/unit/cluster/node_words.h
t_unit_cluster_node_stories_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_stories_LDADD = $(node_unit_libs)
t_unit_cluster_node_bytes_test_SOURCES = t/unit/cluster/node_bytes_test.c t/unit/cluster/node_rig.h
t_unit_cluster_node_bytes_test_CFLAGS = $(UNIT_CFLAGS) $(HIREDIS_CFLAGS)
t_unit_cluster_node_bytes_test_LDADD = $(node_unit_libs)
