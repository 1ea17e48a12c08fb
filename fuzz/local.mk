if CLIENT
client_harness = fuzz/client
endif
# The harnesses (fuzz.h). Each is a test that runs its corpus. ./dev fuzz builds them with clang and
# libFuzzer, as fuzz/NAME.fuzz.
fuzz_harnesses = fuzz/codecs fuzz/options fuzz/admin \
	fuzz/text-service fuzz/binary-service fuzz/job-service $(client_harness)
check_PROGRAMS += $(fuzz_harnesses)
TESTS += $(fuzz_harnesses)
fuzzers = $(fuzz_harnesses:=.fuzz)
EXTRA_PROGRAMS += $(fuzzers)
CLEANFILES += $(fuzzers)
EXTRA_DIST += fuzz/corpus fuzz/dictionaries fuzz/unwatched
libfuzzer_flags = $(AM_LDFLAGS) -fsanitize=fuzzer

# All codecs (t/vectors/local.mk); vectors are inputs, too.
fuzz_codecs_SOURCES = fuzz/fuzz.h fuzz/codecs.c fuzz/replay.c $(codecs)
fuzz_codecs_LDADD = libproto.a libnet.a libbase.a
fuzz_codecs_fuzz_SOURCES = fuzz/fuzz.h fuzz/codecs.c $(codecs)
fuzz_codecs_fuzz_LDADD = $(fuzz_codecs_LDADD)
fuzz_codecs_fuzz_LDFLAGS = $(libfuzzer_flags)

# The services on a simulated network.
fuzz_world = fuzz/fuzz.h fuzz/service.h fuzz/service.c $(fake_sources)
fuzz_service_libs = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a $(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(SQLITE_LIBS)
fuzz_service_flags = -Wl,--wrap=getpeername

fuzz_text_service_SOURCES = fuzz/text-service.c fuzz/replay.c $(fuzz_world)
fuzz_text_service_LDADD = $(fuzz_service_libs)
fuzz_text_service_LDFLAGS = $(AM_LDFLAGS) $(fuzz_service_flags)
fuzz_text_service_fuzz_SOURCES = fuzz/text-service.c $(fuzz_world)
fuzz_text_service_fuzz_LDADD = $(fuzz_service_libs)
fuzz_text_service_fuzz_LDFLAGS = $(libfuzzer_flags) $(fuzz_service_flags)

fuzz_binary_service_SOURCES = fuzz/binary-service.c fuzz/replay.c $(fuzz_world)
fuzz_binary_service_LDADD = $(fuzz_service_libs)
fuzz_binary_service_LDFLAGS = $(AM_LDFLAGS) $(fuzz_service_flags)
fuzz_binary_service_fuzz_SOURCES = fuzz/binary-service.c $(fuzz_world)
fuzz_binary_service_fuzz_LDADD = $(fuzz_service_libs)
fuzz_binary_service_fuzz_LDFLAGS = $(libfuzzer_flags) $(fuzz_service_flags)

fuzz_job_service_SOURCES = fuzz/job-service.c fuzz/replay.c $(fuzz_world)
fuzz_job_service_LDADD = $(fuzz_service_libs)
fuzz_job_service_LDFLAGS = $(AM_LDFLAGS) $(fuzz_service_flags) -Wl,--wrap=getrandom
fuzz_job_service_fuzz_SOURCES = fuzz/job-service.c $(fuzz_world)
fuzz_job_service_fuzz_LDADD = $(fuzz_service_libs)
fuzz_job_service_fuzz_LDFLAGS = $(libfuzzer_flags) $(fuzz_service_flags) -Wl,--wrap=getrandom

fuzz_daemon_libs = libdaemon.a libadmin.a libpage.a libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a \
	libbase.a $(SYSTEMD_LIBS) $(JANSSON_LIBS) $(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) \
	$(LIBCRYPTO_LIBS) $(SQLITE_LIBS)
fuzz_options_SOURCES = fuzz/fuzz.h fuzz/options.c fuzz/replay.c
fuzz_options_LDADD = $(fuzz_daemon_libs)
fuzz_options_fuzz_SOURCES = fuzz/fuzz.h fuzz/options.c
fuzz_options_fuzz_LDADD = $(fuzz_daemon_libs)
fuzz_options_fuzz_LDFLAGS = $(libfuzzer_flags)

fuzz_admin_SOURCES = fuzz/fuzz.h fuzz/admin.c fuzz/replay.c
fuzz_admin_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
fuzz_admin_LDADD = $(fuzz_daemon_libs)
fuzz_admin_fuzz_SOURCES = fuzz/fuzz.h fuzz/admin.c
fuzz_admin_fuzz_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
fuzz_admin_fuzz_LDADD = $(fuzz_daemon_libs)
fuzz_admin_fuzz_LDFLAGS = $(libfuzzer_flags)


# libcounter in its parts, so that time and memory can be put before it.
fuzz_client_flags = -Wl,--wrap=clock_mono_ns,--wrap=malloc,--wrap=calloc,--wrap=realloc
fuzz_client_SOURCES = fuzz/fuzz.h fuzz/client.c fuzz/replay.c
fuzz_client_LDADD = lib/libparts.a $(LIBSSL_LIBS)
fuzz_client_LDFLAGS = $(AM_LDFLAGS) $(fuzz_client_flags)
fuzz_client_fuzz_SOURCES = fuzz/fuzz.h fuzz/client.c
fuzz_client_fuzz_LDADD = $(fuzz_client_LDADD)
fuzz_client_fuzz_LDFLAGS = $(libfuzzer_flags) $(fuzz_client_flags)
