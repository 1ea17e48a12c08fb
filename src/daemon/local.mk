noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES = \
	src/daemon/command_line.c \
	src/daemon/config_file.h src/daemon/config_file.c \
	src/daemon/options.h src/daemon/options.c \
	src/daemon/process.h src/daemon/process.c

sbin_PROGRAMS += counterd
counterd_SOURCES = src/daemon/main.c
counterd_LDADD = libdaemon.a libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(LIBCRYPTO_LIBS)
