noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	proto/wire.h proto/line.h proto/line.c \
	proto/poolcounter.h proto/poolcounter.c \
	proto/grammar.h proto/grammar.c \
	proto/pools.h proto/pools.c proto/pools_replies.c \
	proto/beanstalk.h proto/beanstalk.c proto/beanstalk_replies.c proto/beanstalk_yaml.c \
	proto/counter.h proto/counter.c
EXTRA_DIST += proto/poolcounter.md proto/pools.md proto/beanstalk.md proto/counter.md
