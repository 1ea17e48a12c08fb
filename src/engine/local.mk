noinst_LIBRARIES += libengine.a
libengine_a_SOURCES = \
	src/engine/arena.h src/engine/arena.c \
	src/engine/index.h src/engine/index.c \
	src/engine/waitq.h src/engine/waitq.c \
	src/engine/sketch.h src/engine/sketch.c \
	src/engine/table.h src/engine/acquire.c src/engine/shard.h src/engine/shard.c \
	src/engine/contention.h src/engine/contention.c \
	src/engine/inspect.c \
	src/engine/state.h src/engine/state_parts.h src/engine/state_save.c src/engine/state_restore.c \
	src/engine/state_holders.c \
	src/engine/sweep.c \
	src/engine/pool_options.h src/engine/pool.h src/engine/pool_internal.h \
	src/engine/pool.c src/engine/pool_change.c src/engine/pool_client.c \
	src/engine/pool_fit.c src/engine/pool_hold.c src/engine/pool_move.c src/engine/pool_parts.c \
	src/engine/pool_serve.c src/engine/pool_show.c src/engine/pool_restore.c src/engine/pool_save.c \
	src/engine/pool_supply.c src/engine/pool_take.c src/engine/pool_time.c src/engine/pool_wait.c
