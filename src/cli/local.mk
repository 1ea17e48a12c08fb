if CLIENT
noinst_LIBRARIES += libcli.a
libcli_a_SOURCES = \
	src/cli/address.h src/cli/address.c \
	src/cli/admin.c \
	src/cli/ask_binary.h src/cli/ask_binary.c \
	src/cli/ask_text.h src/cli/ask_text.c \
	src/cli/batch.c \
	src/cli/child.h src/cli/child.c \
	src/cli/client.h src/cli/client.c \
	src/cli/command.h src/cli/command.c \
	src/cli/command_line.c \
	src/cli/counter.c \
	src/cli/dump.c \
	src/cli/frame.h src/cli/frame.c \
	src/cli/held.h src/cli/held.c \
	src/cli/http.h src/cli/http.c \
	src/cli/link.h src/cli/link.c \
	src/cli/lookup.h src/cli/lookup.c \
	src/cli/loop.h src/cli/loop.c \
	src/cli/name.c \
	src/cli/options.h src/cli/options.c \
	src/cli/print.h src/cli/print.c \
	src/cli/run.c \
	src/cli/signals.h src/cli/signals.c \
	src/cli/stats.c \
	src/cli/status.h \
	src/cli/text.h src/cli/text.c \
	src/cli/tls.h src/cli/tls.c \
	src/cli/top.c \
	src/cli/view.h src/cli/view.c
libcli_a_CFLAGS = $(AM_CFLAGS) $(CLIENT_CFLAGS)

bin_PROGRAMS += counterctl
counterctl_SOURCES = src/cli/main.c
counterctl_CFLAGS = $(AM_CFLAGS) $(CLIENT_CFLAGS)
counterctl_LDADD = libcli.a libproto.a libbase.a $(CLIENT_LIBS)
endif
