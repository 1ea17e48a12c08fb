noinst_LIBRARIES += libnet.a
libnet_a_SOURCES = \
	src/net/loop.h src/net/loop.c \
	src/net/stream.h src/net/stream.c \
	src/net/conn.h src/net/conn.c \
	src/net/private.h \
	src/net/worker.h src/net/worker.c \
	src/net/listener.h src/net/listener.c
libnet_a_CFLAGS = $(AM_CFLAGS) $(LIBEVENT_CFLAGS)
