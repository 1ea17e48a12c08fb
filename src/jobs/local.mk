noinst_LIBRARIES += libjobs.a
libjobs_a_SOURCES = \
	src/jobs/job_tree.c src/jobs/job_change.h \
	src/jobs/jobs.h src/jobs/jobs_internal.h \
	src/jobs/jobs_state.h src/jobs/jobs_state.c \
	src/jobs/jobs_life.c src/jobs/jobs_memory.c src/jobs/job_moves.c src/jobs/jobs_tubes.c \
	src/jobs/jobs_apply.c src/jobs/jobs_client.c src/jobs/jobs_many.c \
	src/jobs/jobs_commit.h src/jobs/jobs_commit.c src/jobs/jobs_decide.c src/jobs/jobs_make.c \
	src/jobs/jobs_keys.c \
	src/jobs/jobs_commit_internal.h src/jobs/jobs_plan.c src/jobs/jobs_write.c src/jobs/jobs_load.c \
	src/jobs/jobs_put.c src/jobs/jobs_ready.c src/jobs/jobs_show.c \
	src/jobs/jobs_take.c src/jobs/jobs_time.c src/jobs/jobs_watch.c

# A library of its own: programs without a store need no SQLite.
noinst_LIBRARIES += libstore.a
EXTRA_DIST += src/jobs/store.md
libstore_a_SOURCES = src/jobs/store.h src/jobs/store_sqlite.h src/jobs/store_sqlite.c \
	src/jobs/store_sqlite_open.c src/jobs/store_sqlite_change.c src/jobs/store_sqlite_load.c \
	src/jobs/store_sqlite_copy.c src/jobs/store_sqlite_rights.c
libstore_a_CFLAGS = $(AM_CFLAGS) $(SQLITE_CFLAGS)
