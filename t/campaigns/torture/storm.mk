# Clients that are killed. Never built with a sanitizer, because it tests another process.
check_PROGRAMS += t/campaigns/torture/storm_kill
t_campaigns_torture_storm_kill_SOURCES = t/campaigns/torture/storm_kill.c t/campaigns/history/peer.c t/campaigns/history/peer.h
t_campaigns_torture_storm_kill_CFLAGS = $(WARN_CFLAGS)
t_campaigns_torture_storm_kill_LDFLAGS =
EXTRA_DIST += t/campaigns/torture/storm.py t/campaigns/torture/storm_race.patch
