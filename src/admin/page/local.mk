# The status page, as a separate library: programs that link libadmin.a link libpage.a after it.

# The parts of the script and of the style sheet, in order. A class or a constant that the script uses
# while it loads must stand before its use; a style rule wins over rules before it.
page_scripts = \
	src/admin/page/js/storage.js \
	src/admin/page/js/theme.js \
	src/admin/page/js/dom.js \
	src/admin/page/js/format.js \
	src/admin/page/js/names.js \
	src/admin/page/js/api.js \
	src/admin/page/js/history.js \
	src/admin/page/js/axis.js \
	src/admin/page/js/chart.js \
	src/admin/page/js/table.js \
	src/admin/page/js/state.js \
	src/admin/page/js/figures.js \
	src/admin/page/js/judge.js \
	src/admin/page/js/judged.js \
	src/admin/page/js/verdict.js \
	src/admin/page/js/hosts.js \
	src/admin/page/js/tables.js \
	src/admin/page/js/contended.js \
	src/admin/page/js/traffic.js \
	src/admin/page/js/server.js \
	src/admin/page/js/connections.js \
	src/admin/page/js/detail.js \
	src/admin/page/js/operate.js \
	src/admin/page/js/pools.js \
	src/admin/page/js/pool.js \
	src/admin/page/js/tubes.js \
	src/admin/page/js/tube.js \
	src/admin/page/js/cluster.js \
	src/admin/page/js/routes.js \
	src/admin/page/js/search.js \
	src/admin/page/js/cycle.js \
	src/admin/page/js/overview.js \
	src/admin/page/js/start.js
page_styles = \
	src/admin/page/css/colours.css \
	src/admin/page/css/base.css \
	src/admin/page/css/header.css \
	src/admin/page/css/frame.css \
	src/admin/page/css/verdict.css \
	src/admin/page/css/figures.css \
	src/admin/page/css/charts.css \
	src/admin/page/css/tables.css \
	src/admin/page/css/panels.css \
	src/admin/page/css/detail.css \
	src/admin/page/css/pools.css \
	src/admin/page/css/tubes.css \
	src/admin/page/css/cluster.css \
	src/admin/page/css/media.css
EXTRA_DIST += $(page_scripts) $(page_styles) \
	src/admin/page/index.html src/admin/page/favicon.svg src/admin/page/embed.sh

noinst_LIBRARIES += libpage.a
libpage_a_SOURCES = src/admin/page.h src/admin/page/files.h src/admin/page/page.c
nodist_libpage_a_SOURCES = src/admin/page/files.c
CLEANFILES += src/admin/page/page.js src/admin/page/page.css src/admin/page/files.c

# Each file is written under another name first, because a half-written one would look up to date. A
# changed list rebuilds its file.
page_mk = $(srcdir)/src/admin/page/local.mk

src/admin/page/page.js: $(page_scripts) $(page_mk)
	$(AM_V_GEN)$(MKDIR_P) src/admin/page && { \
		echo "(function () {" && echo "'use strict';" && \
		(cd $(srcdir) && cat $(page_scripts)) && echo "})();"; } >$@.new && mv $@.new $@

src/admin/page/page.css: $(page_styles) $(page_mk)
	$(AM_V_GEN)$(MKDIR_P) src/admin/page && \
		(cd $(srcdir) && cat $(page_styles)) >$@.new && mv $@.new $@

page_files = \
	$(srcdir)/src/admin/page/index.html \
	src/admin/page/page.css \
	src/admin/page/page.js \
	$(srcdir)/src/admin/page/favicon.svg

src/admin/page/files.c: $(page_files) src/admin/page/embed.sh
	$(AM_V_GEN)sh $(srcdir)/src/admin/page/embed.sh $(page_files) >$@.new && mv $@.new $@
