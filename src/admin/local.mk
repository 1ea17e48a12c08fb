noinst_LIBRARIES += libadmin.a
libadmin_a_SOURCES = \
	src/admin/admin.h src/admin/admin.c \
	src/admin/admin_internal.h src/admin/routes.c \
	src/admin/client.h \
	src/admin/connections.c \
	src/admin/contended.c \
	src/admin/health.c \
	src/admin/history.h src/admin/history.c \
	src/admin/holders.c \
	src/admin/hosts.h src/admin/hosts.c \
	src/admin/json.c \
	src/admin/metrics.c \
	src/admin/names.c \
	src/admin/process.h src/admin/process.c \
	src/admin/settings.c \
	src/admin/stats.c \
	src/admin/status_page.c \
	src/admin/token.h src/admin/token.c \
	src/admin/totals.h src/admin/totals.c \
	src/admin/upgrade.c
