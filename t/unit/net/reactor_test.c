/* reactor_test.c - a reactor's timers, also those that other threads bring forward; its hooks; and
 * messages that are sent late, or in crowds. */
#include "net/reactor.h"

#include "t/unit/net/toy.h"

#include <sched.h>

static struct reactor reactor;

static void begin(void)
{
    ck_assert(reactor_init(&reactor, &reactor_default));
}

static void run(void)
{
    ck_assert(reactor_prepare(&reactor, "reactor", NULL, &thread_serves));
    reactor_resume(&reactor);
}

static void stop(void)
{
    reactor_stop(&reactor);
    reactor_join(&reactor);
}

static _Atomic unsigned runs;

/* ---- timers that any thread may bring forward ------------------------------------------------ */

static struct shared_timer shared;
static _Atomic int64_t ran_at_ns;

static void run_shared(struct shared_timer *timer, struct moment now)
{
    CHECK(timer == &shared);
    atomic_store(&ran_at_ns, now.mono_ns);
    atomic_fetch_add(&runs, 1);
}

static void add_shared(void)
{
    shared.run = run_shared;
    ck_assert(shared_timer_add(&shared, &reactor));
}

TEST(shared_timer_is_brought_forward_by_another_thread)
{
    begin();
    add_shared();
    shared_timer_by(&shared, clock_mono_ns() + 2 * PATIENCE_NS);
    run();
    for (unsigned i = 0; i < 100; i++) {
        int64_t at_ns = clock_mono_ns() + (i % 3) * NS_PER_MS;
        shared_timer_by(&shared, at_ns + 2 * PATIENCE_NS);
        shared_timer_by(&shared, at_ns);
        shared_timer_by(&shared, at_ns + PATIENCE_NS);
        WAIT_UNTIL(atomic_load(&runs) == i + 1);
        ck_assert_int_ge(atomic_load(&ran_at_ns), at_ns);
    }
    stop();
    shared_timer_remove(&shared);
    reactor_free(&reactor);
    ck_assert_uint_eq(atomic_load(&runs), 100);
}

enum { THREADS = 4, WISHES = 2000 };

static _Atomic unsigned wishes, fulfilled;

/* Fulfils all wishes that there are. */
static void run_wishes(struct shared_timer *timer, struct moment now)
{
    (void)timer;
    (void)now;
    atomic_store(&fulfilled, atomic_load(&wishes));
}

static void *wish(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < WISHES; i++) {
        unsigned number = atomic_fetch_add(&wishes, 1) + 1;
        shared_timer_by(&shared, clock_mono_ns());
        int64_t give_up_ns = clock_mono_ns() + PATIENCE_NS;
        while (i % 100 == 0 && atomic_load(&fulfilled) < number) {
            CHECK(clock_mono_ns() < give_up_ns);
            sched_yield();
        }
    }
    return NULL;
}

TEST(no_wish_of_many_threads_is_lost)
{
    pthread_t threads[THREADS];
    begin();
    add_shared();
    shared.run = run_wishes;
    run();
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert(pthread_create(&threads[i], NULL, wish, NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert(pthread_join(threads[i], NULL) == 0);
    WAIT_UNTIL(atomic_load(&fulfilled) == THREADS * WISHES);
    stop();
    shared_timer_remove(&shared);
    reactor_free(&reactor);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

/* What an iteration did, in order. */
static char trace[64];
static size_t traced;

static void note(char what)
{
    if (traced < sizeof(trace) - 1)
        trace[traced++] = what;
}

static void note_hook(struct reactor_hook *hook, struct moment now)
{
    (void)hook;
    CHECK(now.mono_ns == reactor.now.mono_ns);
    note('h');
}

static void note_io(struct loop_io *io, unsigned what)
{
    (void)what;
    uint64_t value;
    CHECK(read(io->fd, &value, 1) == 1);
    note('d');
}

static void note_message(struct mail *mail, void *reader)
{
    (void)mail;
    CHECK(reader == &reactor);
    note('l');
}

static void nothing(struct reactor *r, void *arg)
{
    (void)r, (void)arg;
}

TEST(hook_is_called_in_each_iteration_before_anything_else)
{
    struct reactor_hook hook = {.run = note_hook};
    struct mail message = {.deliver = note_message};
    struct loop_io io = {0};
    int ends[2];
    begin();
    ck_assert(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    ck_assert(loop_io_add(reactor.loop, &io, ends[0], LOOP_READ, note_io));
    reactor_add_hook(&reactor, &hook);
    reactor_post(&reactor, &message);
    reactor_stop(&reactor);
    run();
    reactor_join(&reactor);
    /* Once before it waits, once when all that was there is told. */
    ck_assert_str_eq(trace, "hhdl");
    reactor_remove_hook(&reactor, &hook);
    run();
    reactor_ask(&reactor, nothing, NULL);
    stop();
    ck_assert_str_eq(trace, "hhdl");
    loop_io_remove(reactor.loop, &io);
    reactor_free(&reactor);
    close(ends[0]);
    close(ends[1]);
}

/* ---- late messages --------------------------------------------------------------------------- */

/* Messages from one reactor's thread to another one, of which the first is sent late. */
static struct reactor other;
static _Atomic unsigned taken;
static struct late {
    struct mail first, second, bell;
} late;

static void note_taken(struct mail *mail, void *reader)
{
    CHECK(reader == &other);
    /* Both are there, or the second comes when the other one is awake. */
    CHECK(taken > 0 || mail == &late.first);
    taken++;
}

static void send_late(struct mail *mail, void *reader)
{
    (void)mail;
    CHECK(reader == &reactor);
    reactor_post_late(&other, &late.first);
    CHECK(reactor.late_count == 1);
    reactor_post_late(&other, &late.second);
    CHECK(reactor.late_count == 1 && taken == 0);
}

TEST(a_late_message_wakes_its_reader_at_the_end_of_the_iteration)
{
    late = (struct late){{.deliver = note_taken}, {.deliver = note_taken}, {.deliver = send_late}};
    begin();
    run();
    ck_assert(reactor_init(&other, &reactor_default));
    ck_assert(reactor_prepare(&other, "other", NULL, &thread_serves));
    reactor_resume(&other);
    for (unsigned i = 1; i <= 50; i++) {
        taken = 0;
        reactor_post(&reactor, &late.bell);
        WAIT_UNTIL(taken == 2);
        reactor_ask(&reactor, nothing, NULL); /* in its next iteration */
        ck_assert_uint_eq(reactor.late_count, 0);
    }
    taken = 0;
    reactor_post_late(&other, &late.first); /* no reactor's thread: it is woken at once */
    WAIT_UNTIL(taken == 1);
    reactor_stop(&other);
    reactor_join(&other);
    reactor_free(&other);
    stop();
    reactor_free(&reactor);
}

/* ---- many messages --------------------------------------------------------------------------- */

/* A message of a crowd. When each was delivered, in the order of delivery. */
struct member {
    struct mail mail; /* first */
    unsigned crowd, number;
    struct bundle bundle; /* of the last one */
};

enum { CROWD = 1000, LONER = 3 };
static struct member members[4][CROWD];
static struct delivered {
    unsigned crowd, number, iteration;
} delivered[3 * CROWD + 1];
static _Atomic unsigned delivered_count;
static unsigned iteration;

static void count_iteration(struct reactor_hook *hook, struct moment now)
{
    (void)hook, (void)now;
    iteration++;
}

static void note_member(struct mail *mail, void *reader)
{
    const struct member *m = container_of(mail, struct member, mail);
    unsigned i = atomic_load(&delivered_count);
    (void)reader;
    delivered[i] = (struct delivered){m->crowd, m->number, iteration};
    atomic_store(&delivered_count, i + 1);
}

static struct member *make_crowd(unsigned crowd)
{
    for (unsigned i = 0; i < CROWD; i++)
        members[crowd][i] =
            (struct member){.mail.deliver = note_member, .crowd = crowd, .number = i};
    return members[crowd];
}

static void post_crowd(unsigned crowd, unsigned count)
{
    struct member *of = make_crowd(crowd);
    for (unsigned i = 0; i + 1 < count; i++)
        of[i].mail.next = &of[i + 1].mail;
    of[count - 1].bundle.messages = &of->mail;
    reactor_post_bundle(&reactor, &of[count - 1].bundle);
}

TEST(a_crowd_of_messages_lets_other_events_in_between)
{
    enum { SHORT = CROWD / 4 };
    struct reactor_hook hook = {.run = count_iteration};
    begin();
    reactor_add_hook(&reactor, &hook);
    struct member *plain = make_crowd(2);
    post_crowd(0, CROWD);
    post_crowd(1, SHORT);
    for (unsigned i = 0; i < CROWD; i++)
        reactor_post(&reactor, &plain[i].mail);
    run();
    WAIT_UNTIL(atomic_load(&delivered_count) == 2 * CROWD + SHORT);
    reactor_post(&reactor, &make_crowd(LONER)->mail);
    stop();
    ck_assert_uint_eq(atomic_load(&delivered_count), 2 * CROWD + SHORT + 1);
    unsigned next[LONER + 1] = {0}, last[LONER + 1] = {0}, first = delivered[0].iteration;
    unsigned in_iteration[2] = {0};
    for (unsigned i = 0; i < 2 * CROWD + SHORT; i++) {
        const struct delivered *d = &delivered[i];
        if (i > 0 && d->iteration != delivered[i - 1].iteration)
            in_iteration[0] = in_iteration[1] = 0;
        ck_assert_uint_le(++in_iteration[d->crowd == 2], REACTOR_MESSAGES);
        ck_assert_uint_eq(d->number, next[d->crowd]++); /* each in order */
        last[d->crowd] = d->iteration;
    }
    /* They take turns, and the short one is over soon. */
    ck_assert_uint_le(last[1] - first, 2 * (SHORT / REACTOR_MESSAGES + 2));
    ck_assert_uint_le(last[2] - first, CROWD / REACTOR_MESSAGES + 2);
    ck_assert_uint_gt(last[0], last[1]);
    reactor_remove_hook(&reactor, &hook);
    reactor_free(&reactor);
}

/* A wish that was under way when its timer was removed. */
TEST(shared_timer_that_was_removed_does_not_run)
{
    begin();
    add_shared();
    run();
    stop();
    shared_timer_by(&shared, clock_mono_ns());
    shared_timer_remove(&shared);
    ck_assert(reactor_deliver_paused(&reactor));
    ck_assert_int_eq(deadlines_next(&reactor.deadlines), DEADLINE_NONE);
    add_shared(); /* it may be used again */
    shared_timer_by(&shared, clock_mono_ns());
    run();
    WAIT_UNTIL(atomic_load(&runs) == 1);
    stop();
    shared_timer_remove(&shared);
    reactor_free(&reactor);
}

UNIT_MAIN("reactor")
