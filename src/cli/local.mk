if CLIENT
noinst_LIBRARIES += libcli.a
libcli_a_SOURCES = \
	src/cli/admin.c \
	src/cli/answer.h src/cli/answer.c \
	src/cli/batch.c \
	src/cli/checker.h src/cli/checker.c \
	src/cli/child.h src/cli/child.c \
	src/cli/clean.c \
	src/cli/client.h src/cli/client.c \
	src/cli/cluster.c \
	src/cli/command.h src/cli/command.c \
	src/cli/command_line.c \
	src/cli/counter.c \
	src/cli/dump.c \
	src/cli/frame.h src/cli/frame.c \
	src/cli/held.h src/cli/held.c \
	src/cli/http.h src/cli/http.c \
	src/cli/jobs.c \
	src/cli/job_lines.h src/cli/job_lines.c \
	src/cli/loop.h src/cli/loop.c \
	src/cli/member.c \
	src/cli/options.h src/cli/options.c \
	src/cli/pool.c \
	src/cli/print.h src/cli/print.c \
	src/cli/put.c \
	src/cli/reaper.h src/cli/reaper.c \
	src/cli/run.c \
	src/cli/run_pool.c \
	src/cli/server.h src/cli/server.c \
	src/cli/signals.h src/cli/signals.c \
	src/cli/slots.h src/cli/slots.c \
	src/cli/stats.c \
	src/cli/status.h \
	src/cli/supply.h src/cli/supply.c \
	src/cli/taken.h src/cli/taken.c \
	src/cli/text.h src/cli/text.c \
	src/cli/top.c \
	src/cli/view.h src/cli/view.c \
	src/cli/work.c
libcli_a_CFLAGS = $(AM_CFLAGS) $(CLIENT_CFLAGS)

bin_PROGRAMS += counterctl
counterctl_SOURCES = src/cli/main.c
counterctl_CFLAGS = $(AM_CFLAGS) $(CLIENT_CFLAGS)
counterctl_LDADD = libcli.a libcounter.a libproto.a libbase.a $(CLIENT_LIBS)
endif
