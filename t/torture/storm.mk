# Clients that are killed. Never built with a sanitizer: what it tests is another process.
check_PROGRAMS += t/torture/storm_kill
t_torture_storm_kill_SOURCES = t/torture/storm_kill.c t/history/peer.c t/history/peer.h
t_torture_storm_kill_CFLAGS = $(WARN_CFLAGS)
t_torture_storm_kill_LDFLAGS =
EXTRA_DIST += t/torture/storm.py t/torture/storm_race.patch
