# The daemon on a network, clocks and memory that a seed moves, beside a model of it.
TESTS += t/simulate/test_simulate.py
EXTRA_DIST += t/simulate/test_simulate.py

check_PROGRAMS += t/simulate/simulate
t_simulate_simulate_SOURCES = \
	t/simulate/answers.c \
	t/simulate/clients.c \
	t/simulate/ends.c \
	t/simulate/fake.c \
	t/simulate/fake.h \
	t/simulate/inside.h \
	t/simulate/look.c \
	t/simulate/model.c \
	t/simulate/model.h \
	t/simulate/protocols.c \
	t/simulate/replies.c \
	t/simulate/simulate.c \
	t/simulate/turns.c \
	t/simulate/world.c \
	t/simulate/world.h
t_simulate_simulate_CFLAGS = $(AM_CFLAGS)
t_simulate_simulate_LDFLAGS = $(fault_wraps) \
	-Wl,--wrap=conn_reply_room,--wrap=conn_replied,--wrap=conn_reply
t_simulate_simulate_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBSSL_LIBS)

# Real sockets, with a kernel that is difficult, and a TLS library without memory.
check_PROGRAMS += t/simulate/sockets
t_simulate_sockets_SOURCES = t/simulate/model.c t/simulate/model.h t/simulate/sockets.c \
	t/simulate/unchecked.h
t_simulate_sockets_CFLAGS = $(UNIT_CFLAGS)
t_simulate_sockets_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=recv,--wrap=write,--wrap=writev,--wrap=accept4,--wrap=close \
	-Wl,--wrap=epoll_ctl,--wrap=epoll_wait,--wrap=epoll_pwait2
t_simulate_sockets_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)

# The admin interface without memory.
check_PROGRAMS += t/simulate/admin
t_simulate_admin_SOURCES = t/simulate/admin.c t/simulate/unchecked.h
t_simulate_admin_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_simulate_admin_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
t_simulate_admin_LDADD = $(admin_test_libs) -lm
