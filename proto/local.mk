noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	proto/wire.h \
	proto/poolcounter.h proto/poolcounter.c \
	proto/counter.h proto/counter.c
EXTRA_DIST += proto/poolcounter.md proto/counter.md
