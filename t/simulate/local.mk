# The daemon on a network, clocks and memory that a seed moves, beside a model of it.
check_PROGRAMS += t/simulate/simulate
t_simulate_simulate_SOURCES = \
	t/simulate/fake.c \
	t/simulate/fake.h \
	t/simulate/model.c \
	t/simulate/model.h \
	t/simulate/simulate.c \
	t/simulate/world.c \
	t/simulate/world.h
t_simulate_simulate_CFLAGS = $(AM_CFLAGS)
t_simulate_simulate_LDFLAGS = $(fault_wraps) \
	-Wl,--wrap=conn_reply_room,--wrap=conn_replied,--wrap=conn_reply
t_simulate_simulate_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBSSL_LIBS)
