# Histories: recorders, checkers, histories made by hand, and planted bugs.
check_PROGRAMS += t/campaigns/history/record t/campaigns/history/check
TESTS += t/campaigns/history/test_history.py
t_campaigns_history_check_SOURCES = t/campaigns/history/check_main.c t/campaigns/history/check.c t/campaigns/history/check.h \
	t/campaigns/history/history.c t/campaigns/history/history.h $(table_model_sources)
t_campaigns_history_check_CFLAGS = $(AM_CFLAGS) -DMODEL_NAMES=1
t_campaigns_history_check_LDADD = libbase.a
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
	t/campaigns/history/planted/pools-crash-is-clean.patch \
	t/campaigns/history/planted/pools-dropped-stays.patch \
	t/campaigns/history/planted/pools-early-timeout.patch \
	t/campaigns/history/planted/pools-failed-cleaning.patch \
	t/campaigns/history/planted/pools-fence-of-failed.patch \
	t/campaigns/history/planted/pools-fence-without-lock.patch \
	t/campaigns/history/planted/pools-gone-unsaid.patch \
	t/campaigns/history/planted/pools-newcomer-first.patch \
	t/campaigns/history/planted/pools-queue-one-less.patch \
	t/campaigns/history/planted/pools-queue-one-more.patch \
	t/campaigns/history/planted/pools-refuses-free.patch \
	t/campaigns/history/planted/pools-return-of-two.patch \
	t/campaigns/history/planted/pools-set-is-now.patch \
	t/campaigns/history/planted/pools-youngest-first.patch \
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
EXTRA_DIST += t/campaigns/history/test_history.py t/campaigns/history/campaign.py \
	t/campaigns/history/made.txt t/campaigns/history/pools_check.py t/campaigns/history/pools_record.py $(planted_bugs)
