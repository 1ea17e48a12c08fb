# Histories: a recorder, a checker, its tests on histories made by hand, and planted bugs.
check_PROGRAMS += t/history/check_test t/history/record t/history/check
TESTS += t/history/check_test t/history/test_history.py
t_history_check_test_SOURCES = t/history/check_test.c t/history/check.c t/history/check.h \
	t/history/history.c t/history/history.h
t_history_check_test_CFLAGS = $(UNIT_CFLAGS)
t_history_check_test_LDADD = $(CHECK_LIBS)
t_history_check_SOURCES = t/history/check_main.c t/history/check.c t/history/check.h \
	t/history/history.c t/history/history.h
t_history_check_CFLAGS = $(AM_CFLAGS)
t_history_record_SOURCES = t/history/record.c t/history/peer.c t/history/peer.h \
	t/history/history.c t/history/history.h
planted_bugs = \
	t/history/planted/close-forgets-grant.patch \
	t/history/planted/close-says-done.patch \
	t/history/planted/close-serves-any-first.patch \
	t/history/planted/close-without-hand-over.patch \
	t/history/planted/done-to-one.patch \
	t/history/planted/early-timeout.patch \
	t/history/planted/full-after-fit.patch \
	t/history/planted/get-reads-stale.patch \
	t/history/planted/grant-before-ledger.patch \
	t/history/planted/limit-of-another.patch \
	t/history/planted/limit-off-by-one.patch \
	t/history/planted/look-without-lock.patch \
	t/history/planted/queue-not-counted.patch \
	t/history/planted/release-grants-any.patch \
	t/history/planted/release-of-part-gives-all.patch \
	t/history/planted/release-without-hand-over.patch \
	t/history/planted/timeout-gives-back.patch \
	t/history/planted/verdict-lost-at-timeout.patch \
	t/history/planted/youngest-first.patch
# As the storm, never built with a sanitizer: what it tests is another process.
t_history_record_CFLAGS = $(WARN_CFLAGS) -pthread
t_history_record_LDFLAGS = -pthread
EXTRA_DIST += t/history/test_history.py t/history/campaign.py $(planted_bugs)
