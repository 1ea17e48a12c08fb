/* loop_test.c - the event loop: readiness, the timer, wake-ups, and "soon". */
#include "net/loop.h"

#include "t/unit/net/toy.h"

/* Shared by the handlers of a test. */
struct bench {
    struct loop *loop;
    unsigned bells, timers, soons;
    int64_t timer_ns; /* the time of the timer handler's last call */
    void (*on_bell)(struct bench *bench);
    void (*on_timer)(struct bench *bench);
    void (*on_soon)(struct bench *bench);
    void *arg;
};

static int64_t bench_turn(void *arg)
{
    (void)arg;
    return clock_mono_ns();
}

static void bench_bell(void *arg)
{
    struct bench *bench = arg;
    bench->bells++;
    if (bench->on_bell)
        bench->on_bell(bench);
}

static void bench_timer(void *arg)
{
    struct bench *bench = arg;
    bench->timer_ns = clock_mono_ns();
    bench->timers++;
    if (bench->on_timer)
        bench->on_timer(bench);
}

static void bench_soon(void *arg)
{
    struct bench *bench = arg;
    bench->soons++;
    if (bench->on_soon)
        bench->on_soon(bench);
}

static void bench_make(struct bench *bench)
{
    *bench = (struct bench){0};
    struct loop_handlers handlers = {
        .begin = bench_turn,
        .end = bench_turn,
        .bell = bench_bell,
        .timer = bench_timer,
        .soon = bench_soon,
        .arg = bench,
    };
    bench->loop = loop_new(&handlers);
    ck_assert(bench->loop != NULL);
}

static void stop(struct bench *bench)
{
    loop_stop(bench->loop);
}

/* Stops in the fifth iteration. */
static void stop_after_five(struct bench *bench)
{
    if (bench->soons < 5)
        loop_soon(bench->loop);
    else
        loop_stop(bench->loop);
}

static void run_five_turns(struct bench *bench)
{
    bench->soons = 0;
    bench->on_soon = stop_after_five;
    loop_soon(bench->loop);
    loop_run(bench->loop);
    bench->on_soon = NULL;
}

/* Iterates until `until_ns` has passed, so that everything due by then was called. */
static void turn_until(struct bench *bench, int64_t until_ns)
{
    do
        run_five_turns(bench);
    while (clock_mono_ns() <= until_ns);
    run_five_turns(bench);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

struct watched {
    struct loop_io io;
    int fd, peer;
    unsigned calls, what;
    unsigned bytes; /* bytes to read per call */
    void (*then)(struct watched *watched);
    struct watched *other;
    struct bench *bench;
};

static void on_watched(struct loop_io *io, unsigned what)
{
    struct watched *w = container_of(io, struct watched, io);
    char bytes[16];
    w->calls++;
    w->what = what;
    if (w->bytes)
        ck_assert_int_eq(read(w->fd, bytes, w->bytes), w->bytes);
    if (w->then)
        w->then(w);
}

static void watch_new(struct bench *bench, struct watched *w, unsigned wanted)
{
    *w = (struct watched){.bench = bench};
    w->fd = local_pair(SOCK_STREAM, &w->peer);
    ck_assert(loop_io_add(bench->loop, &w->io, w->fd, wanted, on_watched));
}

static void watch_end(struct watched *w)
{
    loop_io_remove(w->bench->loop, &w->io);
    close(w->fd);
    close(w->peer);
}

TEST(descriptor_is_called_for_each_time_it_can_be_read)
{
    struct bench bench;
    struct watched w;
    bench_make(&bench);
    watch_new(&bench, &w, LOOP_READ);
    w.bytes = 1;
    run_five_turns(&bench);
    ck_assert_uint_eq(w.calls, 0);
    send_text(w.peer, "abc");
    run_five_turns(&bench);
    ck_assert_uint_eq(w.calls, 3); /* one per byte, because it stays ready until all are read */
    ck_assert_uint_eq(w.what, LOOP_READ);
    run_five_turns(&bench);
    ck_assert_uint_eq(w.calls, 3);
    watch_end(&w);
    loop_free(&bench.loop);
    ck_assert(bench.loop == NULL);
}

TEST(what_is_told_once_is_told_again_when_there_is_more)
{
    struct bench bench;
    struct watched w;
    bench_make(&bench);
    watch_new(&bench, &w, LOOP_READ | LOOP_GONE | LOOP_ONCE);
    for (unsigned round = 1; round <= 3; round++) {
        send_text(w.peer, "abc"); /* nobody reads it */
        run_five_turns(&bench);
        ck_assert_uint_eq(w.calls, round);
        ck_assert_uint_eq(w.what, LOOP_READ);
    }
    /* A change of wanted events rearms it. */
    ck_assert(loop_io_want(bench.loop, &w.io, LOOP_READ | LOOP_WRITE | LOOP_ONCE));
    run_five_turns(&bench);
    ck_assert_uint_eq(w.calls, 4);
    ck_assert_uint_eq(w.what, LOOP_READ | LOOP_WRITE);
    watch_end(&w);
    loop_free(&bench.loop);
}

TEST(end_is_told_to_who_does_not_read)
{
    struct bench bench;
    struct watched half, whole;
    bench_make(&bench);
    watch_new(&bench, &half, LOOP_GONE);
    watch_new(&bench, &whole, LOOP_GONE | LOOP_ONCE);
    send_text(half.peer, "abc");
    run_five_turns(&bench);
    ck_assert_uint_eq(half.calls, 0);
    ck_assert(shutdown(half.peer, SHUT_WR) == 0);
    close(whole.peer);
    whole.peer = -1;
    run_five_turns(&bench);
    ck_assert_uint_ge(half.calls, 2); /* repeatedly */
    ck_assert_uint_eq(half.what, LOOP_GONE);
    ck_assert_uint_eq(whole.calls, 1);
    ck_assert_uint_eq(whole.what, LOOP_GONE);
    watch_end(&half);
    watch_end(&whole);
    loop_free(&bench.loop);
}

static void remove_self(struct watched *w)
{
    loop_io_remove(w->bench->loop, &w->io);
    close(w->fd);
    close(w->peer);
    memset(&w->io, 0xff, sizeof(w->io)); /* like freed memory */
}

static void remove_other(struct watched *w)
{
    if (w->other->io.fn)
        remove_self(w->other);
    w->then = NULL;
    w->other->other = NULL;
}

/* Both are ready in one iteration; the first to be called removes the other. */
TEST(handler_may_remove_another_descriptor_that_is_ready)
{
    struct bench bench;
    struct watched a, b;
    bench_make(&bench);
    watch_new(&bench, &a, LOOP_READ);
    watch_new(&bench, &b, LOOP_READ);
    a.other = &b;
    b.other = &a;
    a.then = b.then = remove_other;
    a.bytes = b.bytes = 1;
    send_text(a.peer, "a");
    send_text(b.peer, "b");
    run_five_turns(&bench);
    ck_assert_uint_eq(a.calls + b.calls, 1);
    watch_end(a.calls ? &a : &b);
    loop_free(&bench.loop);
}

/* ---- the timer ------------------------------------------------------------------------------- */

TEST(timer_comes_in_its_time_and_never_before)
{
    static const int64_t waits_ns[] = {0,      1,       999,     1000,    1001,    50000,
                                       999999, 1000000, 1000001, 2500000, 7000000, 30000000};
    struct bench bench;
    bench_make(&bench);
    bench.on_timer = stop;
    for (unsigned i = 0; i < ARRAY_SIZE(waits_ns) * 5; i++) {
        bench.timers = 0;
        loop_busy_poll(bench.loop, i / ARRAY_SIZE(waits_ns) * 5 * NS_PER_MS); /* 0 at first */
        int64_t at_ns = clock_mono_ns() + waits_ns[i % ARRAY_SIZE(waits_ns)];
        loop_timer_at(bench.loop, at_ns);
        loop_run(bench.loop);
        ck_assert_uint_eq(bench.timers, 1);
        ck_assert_int_ge(bench.timer_ns, at_ns);
        ck_assert_int_lt(bench.timer_ns, at_ns + PATIENCE_NS);
    }
    loop_free(&bench.loop);
}

TEST(busy_loop_hears_the_bell_and_tells_of_descriptors)
{
    struct bench bench;
    struct watched w;
    bench_make(&bench);
    loop_busy_poll(bench.loop, PATIENCE_NS);
    bench.on_bell = stop;
    loop_ring(bench.loop);
    loop_run(bench.loop);
    ck_assert_uint_eq(bench.bells, 1);
    watch_new(&bench, &w, LOOP_READ);
    w.bytes = 3;
    send_text(w.peer, "abc");
    loop_ring(bench.loop);
    loop_run(bench.loop);
    ck_assert_uint_eq(w.calls, 1);
    watch_end(&w);
    loop_free(&bench.loop);
}

TEST(timer_changed_comes_at_the_new_time_only)
{
    struct bench bench;
    bench_make(&bench);
    int64_t now_ns = clock_mono_ns();
    int64_t late_ns = now_ns + 30 * NS_PER_MS;
    loop_timer_at(bench.loop, now_ns + 5 * NS_PER_MS);
    loop_timer_at(bench.loop, late_ns);
    turn_until(&bench, late_ns + 5 * NS_PER_MS);
    ck_assert_uint_eq(bench.timers, 1);
    ck_assert_int_ge(bench.timer_ns, late_ns);

    bench.on_timer = stop;
    loop_timer_at(bench.loop, clock_mono_ns() + 2 * PATIENCE_NS);
    int64_t soon_ns = clock_mono_ns() + 5 * NS_PER_MS;
    loop_timer_at(bench.loop, soon_ns);
    loop_run(bench.loop);
    ck_assert_uint_eq(bench.timers, 2);
    ck_assert_int_ge(bench.timer_ns, soon_ns);
    loop_free(&bench.loop);
}

/* ---- wake-ups -------------------------------------------------------------------------------- */

enum { RINGERS = 4, RINGS = 5000 };

struct ringing {
    struct loop *loop;
    _Atomic unsigned rung;
    unsigned heard;
};

static void *ring_often(void *arg)
{
    struct ringing *ringing = arg;
    for (int i = 0; i < RINGS; i++) {
        atomic_fetch_add(&ringing->rung, 1);
        loop_ring(ringing->loop);
    }
    return NULL;
}

static void hear(struct bench *bench)
{
    struct ringing *ringing = bench->arg;
    ringing->heard = atomic_load(&ringing->rung);
    if (ringing->heard == RINGERS * RINGS)
        loop_stop(bench->loop);
}

/* The test ends only if the last wake-up is never lost. */
TEST(bell_rung_from_other_threads_is_heard_after_the_last_ring)
{
    struct bench bench;
    bench_make(&bench);
    struct ringing ringing = {.loop = bench.loop};
    bench.arg = &ringing;
    bench.on_bell = hear;
    pthread_t threads[RINGERS];
    for (int i = 0; i < RINGERS; i++)
        ck_assert(pthread_create(&threads[i], NULL, ring_often, &ringing) == 0);
    loop_run(bench.loop);
    for (int i = 0; i < RINGERS; i++)
        ck_assert(pthread_join(threads[i], NULL) == 0);
    ck_assert_uint_ge(bench.bells, 1);
    ck_assert_uint_le(bench.bells, RINGERS * RINGS);
    loop_free(&bench.loop);
}

/* ---- soon ------------------------------------------------------------------------------------ */

struct hunger {
    struct watched watched;
    unsigned fed_at;  /* the number of the `soon` that sent it a byte */
    unsigned longest; /* the most of them that it waited */
    bool fed;
};

static void eat(struct watched *w)
{
    struct hunger *hunger = w->bench->arg;
    unsigned waited = w->bench->soons - hunger->fed_at;
    hunger->longest = waited > hunger->longest ? waited : hunger->longest;
    hunger->fed = false;
}

static void feed(struct bench *bench)
{
    struct hunger *hunger = bench->arg;
    if (!hunger->fed) {
        hunger->fed = true;
        hunger->fed_at = bench->soons;
        send_text(hunger->watched.peer, "a");
        loop_ring(bench->loop);
    }
    if (bench->soons < 1000)
        loop_soon(bench->loop);
    else
        loop_stop(bench->loop);
}

TEST(soon_again_and_again_keeps_nobody_else_waiting)
{
    struct bench bench;
    struct hunger hunger = {0};
    bench_make(&bench);
    watch_new(&bench, &hunger.watched, LOOP_READ);
    hunger.watched.bytes = 1;
    hunger.watched.then = eat;
    bench.arg = &hunger;
    bench.on_soon = feed;
    loop_timer_at(bench.loop, 1);
    loop_soon(bench.loop);
    loop_run(bench.loop);
    ck_assert_uint_eq(bench.soons, 1000);
    ck_assert_uint_le(hunger.longest, 1);
    ck_assert_uint_ge(hunger.watched.calls, 400);
    ck_assert_uint_ge(bench.bells, 400);
    ck_assert_uint_eq(bench.timers, 1);
    watch_end(&hunger.watched);
    loop_free(&bench.loop);
}

UNIT_MAIN("net/loop")
