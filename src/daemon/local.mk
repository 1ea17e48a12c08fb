noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES = \
	src/daemon/activation.h src/daemon/activation.c \
	src/daemon/command_line.c \
	src/daemon/config_file.h src/daemon/config_file.c \
	src/daemon/control.h src/daemon/control.c \
	src/daemon/credentials.h src/daemon/credentials.c \
	src/daemon/inherited.h src/daemon/inherited.c \
	src/daemon/landlock.h src/daemon/landlock.c \
	src/daemon/listeners.h src/daemon/listeners.c \
	src/daemon/notify.h src/daemon/notify.c \
	src/daemon/option_quotes.c \
	src/daemon/options.h src/daemon/options.c src/daemon/options_fit.c src/daemon/options_internal.h \
	src/daemon/process.h src/daemon/process.c \
	src/daemon/reload.h src/daemon/reload.c \
	src/daemon/sandbox.h src/daemon/sandbox.c \
	src/daemon/settings.c \
	src/daemon/upgrade.h src/daemon/upgrade.c \
	src/daemon/upgrade_answer.h src/daemon/upgrade_answer.c \
	src/daemon/upgrade_child.h src/daemon/upgrade_child.c \
	src/daemon/upgrade_internal.h src/daemon/upgrade_take.c \
	src/daemon/upgrade_back.h src/daemon/upgrade_back.c \
	src/daemon/upgrade_room.h src/daemon/upgrade_room.c
libdaemon_a_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(SECCOMP_CFLAGS)

sbin_PROGRAMS += counterd
counterd_SOURCES = src/daemon/main.c
counterd_LDADD = libdaemon.a libadmin.a libpage.a libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(SYSTEMD_LIBS) $(SECCOMP_LIBS) $(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) \
	$(LIBCRYPTO_LIBS) $(SQLITE_LIBS)
