# The same bytes, cut anywhere (splits.c). The test is a short form of ./dev torture splits.
check_PROGRAMS += t/campaigns/torture/splits
TESTS += t/campaigns/torture/splits
t_campaigns_torture_splits_SOURCES = t/campaigns/torture/splits.c fuzz/world.h fuzz/world.c \
	t/campaigns/simulate/fake.h t/campaigns/simulate/fake.c
t_campaigns_torture_splits_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=getpeername
t_campaigns_torture_splits_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a $(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(SQLITE_LIBS)
