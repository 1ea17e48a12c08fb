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
	t/campaigns/simulate/pools_ask.c \
	t/campaigns/simulate/pools_beside.c \
	t/campaigns/simulate/pools_beside.h \
	t/campaigns/simulate/pools_lines.c \
	t/campaigns/simulate/protocols.c \
	t/campaigns/simulate/replies.c \
	t/campaigns/simulate/simulate.c \
	t/campaigns/simulate/turns.c \
	t/campaigns/simulate/world.c \
	t/campaigns/simulate/world.h \
	$(table_model_sources) $(locks_model_sources) $(pool_model_sources)
t_campaigns_simulate_simulate_CFLAGS = $(AM_CFLAGS)
t_campaigns_simulate_simulate_LDFLAGS = $(fault_wraps) \
	-Wl,--wrap=conn_reply_room,--wrap=conn_replied,--wrap=conn_reply,--wrap=conn_interject \
	-Wl,--wrap=getpeername,--wrap=pool_note_event,--wrap=pools_run,--wrap=pools_set_limits \
	-Wl,--wrap=pool_client_new,--wrap=pool_client_end,--wrap=pool_client_read \
	-Wl,--wrap=pool_take,--wrap=pool_end_wait,--wrap=pool_return \
	-Wl,--wrap=pool_member_add,--wrap=pool_member_set,--wrap=pool_member_drop,--wrap=pool_join \
	-Wl,--wrap=pool_add,--wrap=pool_set,--wrap=pool_drop,--wrap=pool_supply,--wrap=pool_watch
t_campaigns_simulate_simulate_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) -lm $(SQLITE_LIBS)

# The admin interface without memory.
check_PROGRAMS += t/campaigns/simulate/admin
t_campaigns_simulate_admin_SOURCES = t/campaigns/simulate/admin.c t/campaigns/simulate/unchecked.h
t_campaigns_simulate_admin_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_campaigns_simulate_admin_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
t_campaigns_simulate_admin_LDADD = $(admin_test_libs) -lm
