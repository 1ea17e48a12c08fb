# The daemon beside a model of it, with a network, clocks and memory that a seed controls.
TESTS += t/campaigns/simulate/test_simulate.py t/campaigns/simulate/test_admin_memory.py
EXTRA_DIST += t/campaigns/simulate/test_simulate.py t/campaigns/simulate/test_admin_memory.py

check_PROGRAMS += t/campaigns/simulate/simulate
t_campaigns_simulate_simulate_SOURCES = \
	t/campaigns/simulate/answers.c \
	t/campaigns/simulate/clients.c \
	t/campaigns/simulate/ends.c \
	t/campaigns/simulate/fake.c \
	t/campaigns/simulate/fake.h \
	t/campaigns/simulate/inside.h \
	t/campaigns/simulate/look.c \
	t/campaigns/simulate/protocols.c \
	t/campaigns/simulate/replies.c \
	t/campaigns/simulate/simulate.c \
	t/campaigns/simulate/turns.c \
	t/campaigns/simulate/world.c \
	t/campaigns/simulate/world.h \
	$(table_model_sources) $(locks_model_sources)
t_campaigns_simulate_simulate_CFLAGS = $(AM_CFLAGS)
t_campaigns_simulate_simulate_LDFLAGS = $(fault_wraps) \
	-Wl,--wrap=conn_reply_room,--wrap=conn_replied,--wrap=conn_reply,--wrap=conn_interject
t_campaigns_simulate_simulate_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) -lm $(SQLITE_LIBS)

# The admin interface without memory.
check_PROGRAMS += t/campaigns/simulate/admin
t_campaigns_simulate_admin_SOURCES = t/campaigns/simulate/admin.c t/campaigns/simulate/unchecked.h
t_campaigns_simulate_admin_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_campaigns_simulate_admin_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
t_campaigns_simulate_admin_LDADD = $(admin_test_libs) -lm
