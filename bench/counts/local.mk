# Compares the number of instructions that requests cost with a record.
TESTS += bench/counts/test_counts.py
EXTRA_DIST += bench/counts/counts.py bench/counts/record bench/counts/test_counts.py

check_PROGRAMS += bench/counts/requests
bench_counts_requests_SOURCES = bench/counts/requests.c
bench_counts_requests_CPPFLAGS = $(AM_CPPFLAGS) -DBUILT_WITH='"$(CFLAGS) $(SAN_CFLAGS) $(COV_CFLAGS)"'
bench_counts_requests_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(SQLITE_LIBS)
