# The node of a cluster, and the scripts that it runs in the engine.
noinst_LIBRARIES += libcluster.a
libcluster_a_SOURCES = \
	src/cluster/node.c \
	src/cluster/node.h \
	src/cluster/node_requests.c \
	src/cluster/node_assert.c \
	src/cluster/node_calls.c \
	src/cluster/node_checks.c \
	src/cluster/node_connect.c \
	src/cluster/node_internal.h \
	src/cluster/node_live.c \
	src/cluster/node_messages.c \
	src/cluster/node_names.c \
	src/cluster/node_stats.c \
	src/cluster/node_sentinel.c \
	src/cluster/node_watch.c \
	src/cluster/node_wires.c \
	src/cluster/node_wrong.c \
	src/cluster/patterns.c \
	src/cluster/patterns.h \
	src/cluster/scripts.h \
	src/cluster/url.c \
	src/cluster/url.h \
	src/cluster/location.c \
	src/cluster/location.h \
	src/cluster/wire.c \
	src/cluster/wire.h
libcluster_a_CFLAGS = $(AM_CFLAGS) $(HIREDIS_CFLAGS)
nodist_libcluster_a_SOURCES = src/cluster/scripts.c
CLEANFILES += src/cluster/scripts.c

cluster_scripts = \
	src/cluster/scripts/open.lua \
	src/cluster/scripts/call.lua \
	src/cluster/scripts/give.lua \
	src/cluster/scripts/ready.lua \
	src/cluster/scripts/beat.lua \
	src/cluster/scripts/reap.lua \
	src/cluster/scripts/grace.lua \
	src/cluster/scripts/leave.lua \
	src/cluster/scripts/look.lua
cluster_script_parts = \
	src/cluster/scripts/units.lua \
	src/cluster/scripts/queues.lua \
	src/cluster/scripts/ops.lua \
	src/cluster/scripts/term.lua
cluster_script_tools = \
	src/cluster/scripts/assemble.awk \
	src/cluster/scripts/embed.sh
EXTRA_DIST += src/cluster/engine.md $(cluster_scripts) $(cluster_script_parts) $(cluster_script_tools)

# The file is written under another name first, because a half-written one would look up to date.
src/cluster/scripts.c: $(cluster_scripts) $(cluster_script_parts) $(cluster_script_tools)
	$(AM_V_GEN)$(MKDIR_P) src/cluster && dir=$(srcdir)/src/cluster/scripts && \
		sh $$dir/embed.sh $(AWK) $$dir/open.lua $$dir/call.lua $$dir/give.lua $$dir/ready.lua $$dir/beat.lua \
		$$dir/reap.lua $$dir/grace.lua $$dir/leave.lua $$dir/look.lua >$@.new && mv $@.new $@
