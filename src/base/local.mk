noinst_LIBRARIES += libbase.a
libbase_a_SOURCES = \
	src/base/bytes.h \
	src/base/buckets.h src/base/buckets.c \
	src/base/check.h src/base/check.c \
	src/base/clock.h src/base/clock.c \
	src/base/deadlines.h src/base/deadlines.c \
	src/base/duration.h \
	src/base/file.h src/base/file.c \
	src/base/hash.h src/base/hash.c \
	src/base/heap.h src/base/heap.c \
	src/base/histogram.h src/base/histogram.c \
	src/base/json_text.h src/base/json_text.c \
	src/base/lock_rank.h src/base/lock.h src/base/lock.c \
	src/base/log_linear.h \
	src/base/log.h src/base/log.c \
	src/base/mail.h src/base/mail.c \
	src/base/number.h src/base/number.c \
	src/base/option.h \
	src/base/option_value.h src/base/option_value.c \
	src/base/ring.h src/base/record.h src/base/record.c \
	src/base/spelling.h src/base/spelling.c \
	src/base/steps.h src/base/steps.c \
	src/base/syslog.h src/base/syslog.c \
	src/base/tally.h \
	src/base/text.h src/base/text.c \
	src/base/parallel.h src/base/parallel.c \
	src/base/tree.h src/base/tree.c \
	src/base/utf8.h src/base/utf8.c
EXTRA_DIST += src/base/record.md
