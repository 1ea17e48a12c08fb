# How many instructions requests cost, beside a record.
TESTS += t/counts/test_counts.py
EXTRA_DIST += t/counts/counts.py t/counts/record t/counts/test_counts.py

check_PROGRAMS += t/counts/requests
t_counts_requests_SOURCES = t/counts/requests.c
t_counts_requests_CPPFLAGS = $(AM_CPPFLAGS) -DBUILT_WITH='"$(CFLAGS) $(SAN_CFLAGS) $(COV_CFLAGS)"'
t_counts_requests_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_LIBS) $(LIBSSL_LIBS)
