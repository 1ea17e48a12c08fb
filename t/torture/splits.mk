# The same bytes, cut anywhere (splits.c); as a test, a short form of ./dev torture splits.
check_PROGRAMS += t/torture/splits
TESTS += t/torture/splits
t_torture_splits_SOURCES = t/torture/splits.c fuzz/world.h fuzz/world.c \
	t/simulate/fake.h t/simulate/fake.c
t_torture_splits_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a $(LIBSSL_LIBS)
