# Stories of both protocols, played on a fake network (README.md).
scenarios = \
	t/scenario/binary-malformed.scn \
	t/scenario/binary-requests.scn \
	t/scenario/binary-stats-dump.scn \
	t/scenario/clock.scn \
	t/scenario/counts.scn \
	t/scenario/ends.scn \
	t/scenario/intervals.scn \
	t/scenario/shared.scn \
	t/scenario/slow-clients.scn \
	t/scenario/text-locks.scn \
	t/scenario/text-release.scn \
	t/scenario/text-stats.scn \
	t/scenario/text-stream.scn \
	t/scenario/text-syntax.scn \
	t/scenario/text-waits.scn
TESTS += t/scenario/run.py
EXTRA_DIST += $(scenarios) \
	t/scenario/README.md \
	t/scenario/player.py \
	t/scenario/run.py

check_PROGRAMS += t/scenario/fakenet
t_scenario_fakenet_SOURCES = t/scenario/fakenet.c t/campaigns/simulate/fake.c t/campaigns/simulate/fake.h
t_scenario_fakenet_LDADD = libservice.a libnet.a libengine.a libproto.a libbase.a \
	$(LIBSSL_LIBS)
