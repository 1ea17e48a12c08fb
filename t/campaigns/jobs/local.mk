# Bugs planted in the jobs over a store.
planted_in_jobs = \
	t/campaigns/jobs/planted/abandon-without-hold.patch \
	t/campaigns/jobs/planted/burials-share-a-time.patch \
	t/campaigns/jobs/planted/buried-without-memory.patch \
	t/campaigns/jobs/planted/busy-job-decided-at-once.patch \
	t/campaigns/jobs/planted/clear-is-execution.patch \
	t/campaigns/jobs/planted/delay-longer-than-it-is.patch \
	t/campaigns/jobs/planted/failed-settings-never-end.patch \
	t/campaigns/jobs/planted/forgotten-put-stays-coming.patch \
	t/campaigns/jobs/planted/holder-never-goes.patch \
	t/campaigns/jobs/planted/kick-counted-once.patch \
	t/campaigns/jobs/planted/last-try-ready-at-start.patch \
	t/campaigns/jobs/planted/limit-forgets-puts-under-way.patch \
	t/campaigns/jobs/planted/lost-put-answered.patch \
	t/campaigns/jobs/planted/puts-again-in-second-run.patch \
	t/campaigns/jobs/planted/renewed-lease-keeps-its-end.patch \
	t/campaigns/jobs/planted/reservation-without-token.patch \
	t/campaigns/jobs/planted/root-not-remembered.patch \
	t/campaigns/jobs/planted/twin-not-served-after-failure.patch
EXTRA_DIST += $(planted_in_jobs)
