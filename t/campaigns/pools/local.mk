# Bugs planted in the pools, and the test that they still apply.
TESTS += t/campaigns/pools/test_planted.py
planted_in_pools = \
	t/campaigns/pools/planted/check-forgets-order.patch \
	t/campaigns/pools/planted/clean-tries-off-by-one.patch \
	t/campaigns/pools/planted/count-one-less.patch \
	t/campaigns/pools/planted/cull-keeps-want.patch \
	t/campaigns/pools/planted/denied-after-no-pool.patch \
	t/campaigns/pools/planted/expired-member-handed-out.patch \
	t/campaigns/pools/planted/fence-used-again.patch \
	t/campaigns/pools/planted/lifo-becomes-fifo.patch \
	t/campaigns/pools/planted/list-ends-early.patch \
	t/campaigns/pools/planted/list-skips-first.patch \
	t/campaigns/pools/planted/lost-member-handed-out.patch \
	t/campaigns/pools/planted/lost-not-said.patch \
	t/campaigns/pools/planted/newcomers-overtake-unseen.patch \
	t/campaigns/pools/planted/note-one-more.patch \
	t/campaigns/pools/planted/overtakes-off-by-one.patch \
	t/campaigns/pools/planted/position-after-list.patch \
	t/campaigns/pools/planted/queue-counts-both-kinds.patch \
	t/campaigns/pools/planted/quit-is-crash.patch \
	t/campaigns/pools/planted/returned-before-taken.patch \
	t/campaigns/pools/planted/served-waiter-stays-in-line.patch \
	t/campaigns/pools/planted/shares-ignore-max.patch \
	t/campaigns/pools/planted/shorter-queue-refuses-oldest.patch \
	t/campaigns/pools/planted/state-forgets-overtaken.patch \
	t/campaigns/pools/planted/supply-lines-before-ok.patch \
	t/campaigns/pools/planted/take-away-keeps-unit.patch \
	t/campaigns/pools/planted/taken-lost-when-full.patch \
	t/campaigns/pools/planted/targets-one-less.patch \
	t/campaigns/pools/planted/timeout-stays-after-taken.patch \
	t/campaigns/pools/planted/timer-not-earlier.patch \
	t/campaigns/pools/planted/two-waits.patch \
	t/campaigns/pools/planted/undone-is-crash.patch \
	t/campaigns/pools/planted/undone-keeps-take.patch \
	t/campaigns/pools/planted/undone-loses-place.patch \
	t/campaigns/pools/planted/unwritten-counts-as-told.patch \
	t/campaigns/pools/planted/want-forgotten-without-room.patch
EXTRA_DIST += t/campaigns/pools/test_planted.py t/campaigns/pools/planted.py $(planted_in_pools)
