# Histories: the recorder, the checker, and planted bugs.
check_PROGRAMS += t/campaigns/history/check
TESTS += t/campaigns/history/test_history.py
t_campaigns_history_check_SOURCES = t/campaigns/history/check.c $(table_model_sources)
t_campaigns_history_check_CFLAGS = $(AM_CFLAGS) -DMODEL_NAMES=1
t_campaigns_history_check_LDADD = libbase.a
planted_in_histories = \
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
	t/campaigns/history/planted/result-lost-at-timeout.patch \
	t/campaigns/history/planted/youngest-first.patch
EXTRA_DIST += t/campaigns/history/test_history.py t/campaigns/history/record.py $(planted_in_histories)
