# The daemon beside a model of it, with a network, clocks and memory that a seed controls.
TESTS += t/campaigns/simulate/test_simulate.py
EXTRA_DIST += t/campaigns/simulate/test_simulate.py

check_PROGRAMS += t/campaigns/simulate/simulate
t_campaigns_simulate_simulate_SOURCES = \
	t/campaigns/simulate/answers.c \
	t/campaigns/simulate/clients.c \
	t/campaigns/simulate/ends.c \
	t/campaigns/simulate/fake.c \
	t/campaigns/simulate/fake.h \
	t/campaigns/simulate/inside.h \
	t/campaigns/simulate/look.c \
	t/campaigns/simulate/model.c \
	t/campaigns/simulate/model.h \
	t/campaigns/simulate/protocols.c \
	t/campaigns/simulate/replies.c \
	t/campaigns/simulate/simulate.c \
	t/campaigns/simulate/turns.c \
	t/campaigns/simulate/world.c \
	t/campaigns/simulate/world.h
t_campaigns_simulate_simulate_CFLAGS = $(AM_CFLAGS)
t_campaigns_simulate_simulate_LDFLAGS = $(fault_wraps) \
	-Wl,--wrap=conn_reply_room,--wrap=conn_replied,--wrap=conn_reply
t_campaigns_simulate_simulate_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBSSL_LIBS)

# Real sockets, with difficult system calls, and a TLS library without memory.
check_PROGRAMS += t/campaigns/simulate/sockets
t_campaigns_simulate_sockets_SOURCES = t/campaigns/simulate/model.c t/campaigns/simulate/model.h t/campaigns/simulate/sockets.c \
	t/campaigns/simulate/unchecked.h
t_campaigns_simulate_sockets_CFLAGS = $(UNIT_CFLAGS)
t_campaigns_simulate_sockets_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=recv,--wrap=write,--wrap=writev,--wrap=accept4,--wrap=close \
	-Wl,--wrap=epoll_ctl,--wrap=epoll_wait,--wrap=epoll_pwait2
t_campaigns_simulate_sockets_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(CHECK_LIBS)

# The admin interface without memory.
check_PROGRAMS += t/campaigns/simulate/admin
t_campaigns_simulate_admin_SOURCES = t/campaigns/simulate/admin.c t/campaigns/simulate/unchecked.h
t_campaigns_simulate_admin_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_campaigns_simulate_admin_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
t_campaigns_simulate_admin_LDADD = $(admin_test_libs) -lm
