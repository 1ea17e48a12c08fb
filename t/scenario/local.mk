# Stories of both protocols, played on a fake network (README.md).
scenarios = \
	t/scenario/binary-malformed.scn \
	t/scenario/binary-requests.scn \
	t/scenario/binary-stats-dump.scn \
	t/scenario/clock.scn \
	t/scenario/counts.scn \
	t/scenario/daemon-access.scn \
	t/scenario/daemon-drain.scn \
	t/scenario/daemon-pools.scn \
	t/scenario/daemon-process.scn \
	t/scenario/daemon-reload.scn \
	t/scenario/daemon-tls.scn \
	t/scenario/daemon-upgrade.scn \
	t/scenario/ends.scn \
	t/scenario/intervals.scn \
	t/scenario/jobs-batch.scn \
	t/scenario/jobs-commands.scn \
	t/scenario/jobs-covers.scn \
	t/scenario/jobs-keys.scn \
	t/scenario/jobs-lines.scn \
	t/scenario/jobs-new.scn \
	t/scenario/jobs-ready.scn \
	t/scenario/jobs-settings.scn \
	t/scenario/jobs-stats.scn \
	t/scenario/jobs-store.scn \
	t/scenario/jobs-take.scn \
	t/scenario/many.scn \
	t/scenario/pools-elsewhere.scn \
	t/scenario/pools-fits.scn \
	t/scenario/pools-join.scn \
	t/scenario/pools-lines.scn \
	t/scenario/pools-moves.scn \
	t/scenario/pools-operate.scn \
	t/scenario/pools-return.scn \
	t/scenario/pools-seed.scn \
	t/scenario/pools-show.scn \
	t/scenario/pools-take.scn \
	t/scenario/shared.scn \
	t/scenario/slow-clients.scn \
	t/scenario/text-locks.scn \
	t/scenario/text-release.scn \
	t/scenario/text-stats.scn \
	t/scenario/text-stream.scn \
	t/scenario/text-syntax.scn \
	t/scenario/text-waits.scn
TESTS += t/scenario/run.py t/scenario/real.py
EXTRA_DIST += $(scenarios) \
	t/scenario/README.md \
	t/scenario/backends.py \
	t/scenario/daemon.py \
	t/scenario/modes.py \
	t/scenario/player.py \
	t/scenario/real.py \
	t/scenario/run.py \
	t/scenario/story.py

# The daemon with difficult system calls.
check_PROGRAMS += t/scenario/calls
t_scenario_calls_SOURCES = t/scenario/calls.c src/daemon/main.c
t_scenario_calls_LDADD = $(counterd_LDADD)
t_scenario_calls_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=recv,--wrap=write,--wrap=writev,--wrap=accept4,--wrap=close \
	-Wl,--wrap=epoll_ctl,--wrap=epoll_wait,--wrap=epoll_pwait2,--wrap=pthread_setname_np

check_PROGRAMS += t/scenario/fakenet
fakenet_server_sources = t/scenario/fakenet.h t/scenario/fakenet_server.c $(fake_sources) \
	$(jobs_check_sources) $(pools_check_sources)
t_scenario_fakenet_SOURCES = t/scenario/fakenet.c $(fakenet_server_sources)
t_scenario_fakenet_LDFLAGS = $(fault_wraps) -Wl,--wrap=getpeername,--wrap=fcntl,--wrap=tls_free
t_scenario_fakenet_LDADD = libservice.a libcluster.a $(HIREDIS_LIBS) libnet.a $(LIBCARES_LIBS) libjobs.a libstore.a libengine.a libproto.a libbase.a \
	$(LIBEVENT_HTTP_LIBS) $(LIBEVENT_LIBS) $(LIBSSL_LIBS) $(SQLITE_LIBS)
