# Histories: a recorder, a checker, its tests on histories made by hand, and planted bugs.
check_PROGRAMS += t/campaigns/history/check_test t/campaigns/history/record t/campaigns/history/check
TESTS += t/campaigns/history/check_test t/campaigns/history/test_history.py
t_campaigns_history_check_test_SOURCES = t/campaigns/history/check_test.c t/campaigns/history/check.c t/campaigns/history/check.h \
	t/campaigns/history/history.c t/campaigns/history/history.h
t_campaigns_history_check_test_CFLAGS = $(UNIT_CFLAGS)
t_campaigns_history_check_test_LDADD = $(CHECK_LIBS)
t_campaigns_history_check_SOURCES = t/campaigns/history/check_main.c t/campaigns/history/check.c t/campaigns/history/check.h \
	t/campaigns/history/history.c t/campaigns/history/history.h
t_campaigns_history_check_CFLAGS = $(AM_CFLAGS)
t_campaigns_history_record_SOURCES = t/campaigns/history/record.c t/campaigns/history/peer.c t/campaigns/history/peer.h \
	t/campaigns/history/history.c t/campaigns/history/history.h
planted_bugs = \
	t/campaigns/history/planted/close-forgets-grant.patch \
	t/campaigns/history/planted/close-says-done.patch \
	t/campaigns/history/planted/close-serves-any-first.patch \
	t/campaigns/history/planted/close-without-hand-over.patch \
	t/campaigns/history/planted/done-to-one.patch \
	t/campaigns/history/planted/early-timeout.patch \
	t/campaigns/history/planted/full-after-fit.patch \
	t/campaigns/history/planted/get-reads-stale.patch \
	t/campaigns/history/planted/grant-before-ledger.patch \
	t/campaigns/history/planted/limit-of-another.patch \
	t/campaigns/history/planted/limit-off-by-one.patch \
	t/campaigns/history/planted/look-without-lock.patch \
	t/campaigns/history/planted/queue-not-counted.patch \
	t/campaigns/history/planted/release-grants-any.patch \
	t/campaigns/history/planted/release-of-part-gives-all.patch \
	t/campaigns/history/planted/release-without-hand-over.patch \
	t/campaigns/history/planted/timeout-gives-back.patch \
	t/campaigns/history/planted/verdict-lost-at-timeout.patch \
	t/campaigns/history/planted/youngest-first.patch
# Like the storm, never built with a sanitizer, because it tests another process.
t_campaigns_history_record_CFLAGS = $(WARN_CFLAGS) -pthread
t_campaigns_history_record_LDFLAGS = -pthread
EXTRA_DIST += t/campaigns/history/test_history.py t/campaigns/history/campaign.py $(planted_bugs)
