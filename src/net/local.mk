noinst_LIBRARIES += libnet.a
libnet_a_SOURCES = \
	src/net/access.h src/net/access.c \
	src/net/address.h src/net/address.c \
	src/net/snapshot.h src/net/snapshot_internal.h src/net/snapshot.c \
	src/net/sources.h src/net/sources.c \
	src/net/claims.c \
	src/net/tls.h src/net/tls_internal.h src/net/tls.c \
	src/net/loop.h src/net/loop.c \
	src/net/stream.h src/net/stream.c src/net/tls_stream.c \
	src/net/lookup.h src/net/lookup.c \
	src/net/dial.h src/net/dial.c \
	src/net/thread.h src/net/thread.c \
	src/net/protocol.h \
	src/net/conn.h src/net/conn_state.c src/net/input.c src/net/output.c \
	src/net/admission.c \
	src/net/reactor.h src/net/reactor.c \
	src/net/carry.h src/net/carry.c \
	src/net/http.h src/net/http.c src/net/http_internal.h \
	src/net/http_answer.c src/net/http_pending.c \
	src/net/http_memory.h src/net/http_memory.c \
	src/net/query.h src/net/query.c \
	src/net/worker.h src/net/worker_internal.h src/net/worker.c \
	src/net/listener.h src/net/listener.c
libnet_a_CFLAGS = $(AM_CFLAGS) $(LIBEVENT_CFLAGS) $(LIBSSL_CFLAGS) $(LIBCARES_CFLAGS)
