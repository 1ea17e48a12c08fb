# Vectors of codecs (README.md).
codecs = t/vectors/vectors.h t/vectors/stats.h t/vectors/check.c t/vectors/text.c t/vectors/binary.c \
	t/vectors/pools.c t/vectors/jobs.c t/vectors/base.c
EXTRA_DIST += t/vectors/README.md $(vectors)
vectors = t/vectors/text.vec t/vectors/binary.vec t/vectors/pools.vec t/vectors/pools-replies.vec \
	t/vectors/jobs.vec t/vectors/jobs-replies.vec t/vectors/base.vec
check_PROGRAMS += t/vectors/run
TESTS += t/vectors/run
t_vectors_run_SOURCES = t/vectors/run.c t/unit/rng.h $(codecs)
t_vectors_run_LDADD = libproto.a libnet.a libbase.a
