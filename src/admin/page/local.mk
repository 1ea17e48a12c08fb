# The status page, as a library of its own: what links libadmin.a links libpage.a after it.
page_sources = \
	src/admin/page/index.html \
	src/admin/page/page.css \
	src/admin/page/page.js \
	src/admin/page/favicon.svg
EXTRA_DIST += $(page_sources) src/admin/page/embed.sh

noinst_LIBRARIES += libpage.a
libpage_a_SOURCES = src/admin/page.h src/admin/page/files.h src/admin/page/page.c
nodist_libpage_a_SOURCES = src/admin/page/files.c
CLEANFILES += src/admin/page/files.c

# Into another name first: a file half made would look up to date.
src/admin/page/files.c: $(page_sources) src/admin/page/embed.sh
	$(AM_V_GEN)$(MKDIR_P) src/admin/page && cd $(srcdir) && \
		sh src/admin/page/embed.sh $(page_sources) >$(abs_builddir)/$@.new && \
		mv $(abs_builddir)/$@.new $(abs_builddir)/$@
