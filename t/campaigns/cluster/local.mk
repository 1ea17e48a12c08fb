# The engine of nodes in memory, with the real scripts; stories of these; bugs planted in them.
check_LIBRARIES += libfakeengine.a
libfakeengine_a_SOURCES = \
	t/campaigns/cluster/engine.c \
	t/campaigns/cluster/engine.h \
	t/campaigns/cluster/engine_commands.c \
	t/campaigns/cluster/engine_inside.h
nodist_libfakeengine_a_SOURCES = t/campaigns/cluster/engine_texts.c
libfakeengine_a_CFLAGS = $(AM_CFLAGS) $(LUA_CFLAGS)
fake_engine_libs = libfakeengine.a $(LUA_LIBS)
fake_engine_texts = t/campaigns/cluster/engine.lua t/campaigns/cluster/sums.lua
CLEANFILES += t/campaigns/cluster/engine_texts.c
t/campaigns/cluster/engine_texts.c: $(fake_engine_texts)
	$(AM_V_GEN)$(MKDIR_P) t/campaigns/cluster && cd $(srcdir)/t/campaigns/cluster && { \
		echo '#include "t/campaigns/cluster/engine_inside.h"'; for name in engine sums; do \
		echo "const char fe_$${name}_lua[] ="; \
		$(AWK) '{ gsub(/[\\"]/, "\\\\&"); print "    \"" $$0 "\\n\"" }' $$name.lua; echo '    "";'; done; \
		} >$(abs_builddir)/$@.new && mv $(abs_builddir)/$@.new $(abs_builddir)/$@
TESTS += t/campaigns/cluster/test_engine.py
EXTRA_DIST += $(fake_engine_texts)
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
EXTRA_DIST += t/campaigns/cluster/test_engine.py $(planted_in_scripts) \
	t/campaigns/cluster/stories/ops.story t/campaigns/cluster/stories/sessions.story

