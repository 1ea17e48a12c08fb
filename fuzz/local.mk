if CLIENT
client_harness = fuzz/client
endif
# The harnesses (fuzz.h). Each is a test that runs its corpus. ./dev fuzz builds them with clang and libFuzzer, which
# has a main function, too, and is linked first.
check_LIBRARIES += fuzz/libreplay.a
fuzz_libreplay_a_SOURCES = fuzz/fuzz.h fuzz/replay.c
fuzz_harnesses = fuzz/codecs fuzz/options fuzz/admin \
	fuzz/text-service fuzz/binary-service fuzz/job-service $(client_harness)
check_PROGRAMS += $(fuzz_harnesses)
TESTS += $(fuzz_harnesses)
EXTRA_DIST += fuzz/corpus fuzz/dictionaries fuzz/unwatched

# All codecs (t/vectors/local.mk); vectors are inputs, too.
fuzz_codecs_SOURCES = fuzz/codecs.c $(codecs)
fuzz_codecs_LDADD = fuzz/libreplay.a libproto.a libnet.a libbase.a

# The services on a simulated network: one source, and a program for each choice of clients.
fuzz_world = fuzz/service.c $(fake_sources) $(jobs_check_sources) $(pools_check_sources)
fuzz_service_libs = fuzz/libreplay.a libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a $(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(SQLITE_LIBS)
fuzz_service_flags = $(AM_LDFLAGS) -Wl,--wrap=getpeername,--wrap=getrandom
fuzz_text_service_SOURCES = $(fuzz_world)
fuzz_text_service_LDADD = $(fuzz_service_libs)
fuzz_text_service_LDFLAGS = $(fuzz_service_flags)
fuzz_binary_service_SOURCES = $(fuzz_world)
fuzz_binary_service_LDADD = $(fuzz_service_libs)
fuzz_binary_service_LDFLAGS = $(fuzz_service_flags)
fuzz_job_service_SOURCES = $(fuzz_world)
fuzz_job_service_LDADD = $(fuzz_service_libs)
fuzz_job_service_LDFLAGS = $(fuzz_service_flags)

fuzz_daemon_libs = fuzz/libreplay.a libdaemon.a libadmin.a libpage.a libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a \
	libbase.a $(SYSTEMD_LIBS) $(JANSSON_LIBS) $(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) \
	$(LIBCRYPTO_LIBS) $(SQLITE_LIBS)
fuzz_options_SOURCES = fuzz/options.c
fuzz_options_LDADD = $(fuzz_daemon_libs)
fuzz_admin_SOURCES = fuzz/admin.c
fuzz_admin_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
fuzz_admin_LDADD = $(fuzz_daemon_libs)

# libcounter in its parts, so that time and memory can be put before it.
fuzz_client_SOURCES = fuzz/client.c
fuzz_client_LDADD = fuzz/libreplay.a lib/libparts.a $(LIBSSL_LIBS)
fuzz_client_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_mono_ns,--wrap=malloc,--wrap=calloc,--wrap=realloc
