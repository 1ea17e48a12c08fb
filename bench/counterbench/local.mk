# The tool that puts load on a server and measures it. We install it because its results depend on
# the machine and the network.
if CLIENT
noinst_LIBRARIES += libcounterbench.a
libcounterbench_a_SOURCES = \
	bench/counterbench/driver.c \
	bench/counterbench/latency.h bench/counterbench/latency.c \
	bench/counterbench/link.c \
	bench/counterbench/names.h \
	bench/counterbench/options.h bench/counterbench/options.c \
	bench/counterbench/protocol.h bench/counterbench/protocol.c \
	bench/counterbench/protocol_binary.c \
	bench/counterbench/protocol_jobs.c \
	bench/counterbench/protocol_redis.c \
	bench/counterbench/protocol_text.c \
	bench/counterbench/report.c \
	bench/counterbench/run.h bench/counterbench/run.c \
	bench/counterbench/schedule.h \
	bench/counterbench/secure.h bench/counterbench/secure.c \
	bench/counterbench/server.h bench/counterbench/server.c \
	bench/counterbench/target.h bench/counterbench/target.c \
	bench/counterbench/workload.h \
	bench/counterbench/workload_herd.c \
	bench/counterbench/workload_jobs.c \
	bench/counterbench/workload_mixed.c \
	bench/counterbench/workload_names.c \
	bench/counterbench/workload_pairs.c \
	bench/counterbench/workload_pools.c
libcounterbench_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(LIBSSL_CFLAGS) -pthread

bin_PROGRAMS += counterbench
counterbench_SOURCES = bench/counterbench/main.c
counterbench_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(LIBSSL_CFLAGS) -pthread
counterbench_LDADD = libcounterbench.a libcli.a libproto.a libbase.a $(JANSSON_LIBS) $(LIBSSL_LIBS)
endif
