/* reactor.c - see reactor.h. */
#include "net/reactor.h"

#include <errno.h>
#include <limits.h>
#include <semaphore.h>
#include <time.h>

/* Maximum number of deadlines handled before the loop checks for other events. */
#define DEFAULT_BUDGET 256

/* The reactor of this thread; NULL: another kind of thread. */
static _Thread_local struct reactor *here;

/* ---- iterations ------------------------------------------------------------------------------ */

int64_t reactor_end(struct reactor *r)
{
    while (unlikely(r->late_count > 0))
        loop_ring(r->late[--r->late_count]->loop);
    loop_timer_at(r->loop, deadlines_next(&r->deadlines));
    int64_t now_ns = clock_mono_ns();
    tally_add(&r->busy_ns, (uint64_t)(now_ns - r->now.mono_ns));
    return now_ns;
}

/* Delivers up to `max` messages, oldest first. */
static void deliver(struct reactor *r, unsigned max)
{
    struct mail *next, *mail = mailbox_take(&r->box);
    for (bool first = !r->inbox.first; first && mail && max > 0; mail = next, max--) {
        next = mail->next;
        mail->deliver(mail, r);
    }
    for (; mail; mail = next) {
        next = mail->next;
        mail_list_add(&r->inbox, mail);
    }
    for (; max > 0 && (mail = mail_list_take(&r->inbox)) != NULL; max--)
        mail->deliver(mail, r);
}

/* Delivers up to `max` messages of bundles. One that is not at its end lets the others go first. */
static void deliver_bundled(struct reactor *r, unsigned max)
{
    while (max > 0 && r->bundles.first) {
        struct bundle *bundle = container_of(mail_list_take(&r->bundles), struct bundle, mail);
        struct mail *message = bundle->messages, *next = message;
        for (; next && max > 0; message = next, max--) {
            next = message->next;
            message->deliver(message, r); /* the last one frees the bundle */
        }
        if (next) {
            bundle->messages = next;
            mail_list_add(&r->bundles, &bundle->mail);
        }
    }
}

static void go_on_soon(struct reactor *r)
{
    if (unlikely(r->inbox.first || r->bundles.first))
        loop_soon(r->loop);
}

void reactor_deliver(struct reactor *r)
{
    bool busy = r->bundles.first != NULL; /* `soon` goes on with these */
    deliver(r, REACTOR_MESSAGES);
    if (unlikely(r->bundles.first) && !busy)
        deliver_bundled(r, REACTOR_MESSAGES);
    go_on_soon(r);
}

void reactor_deliver_more(struct reactor *r)
{
    if (likely(!r->inbox.first && !r->bundles.first))
        return;
    deliver(r, REACTOR_MESSAGES);
    deliver_bundled(r, REACTOR_MESSAGES);
    go_on_soon(r);
}

void reactor_deliver_bundles(struct reactor *r)
{
    deliver_bundled(r, UINT_MAX);
}

bool reactor_deliver_paused(struct reactor *r)
{
    deliver(r, 0);
    bool any = r->inbox.first || r->bundles.first;
    deliver(r, UINT_MAX);
    deliver_bundled(r, UINT_MAX);
    return any;
}

struct deadline *reactor_next_due(struct reactor *r, unsigned *budget)
{
    while (*budget > 0) {
        struct deadline *d = deadlines_take_due(&r->deadlines, r->now.mono_ns);
        if (!d)
            return NULL;
        --*budget;
        if (d->kind != REACTOR_TIMER)
            return d;
        struct timer *timer = container_of(d, struct timer, deadline);
        int64_t at_ns = timer->run(timer, r->now);
        if (at_ns == TIMER_OVER)
            deadlines_unreserve(&r->deadlines, 1);
        else
            deadline_set(&r->deadlines, d, at_ns);
    }
    return NULL;
}

static int64_t default_begin(void *arg)
{
    return reactor_begin(arg);
}

static int64_t default_end(void *arg)
{
    return reactor_end(arg);
}

static void default_bell(void *arg)
{
    reactor_deliver(arg);
}

static void default_timer(void *arg)
{
    unsigned budget = DEFAULT_BUDGET;
    CHECK(!reactor_next_due(arg, &budget)); /* all its deadlines are timers */
}

static void default_soon(void *arg)
{
    reactor_deliver_more(arg);
}

const struct loop_handlers reactor_default = {
    .begin = default_begin,
    .end = default_end,
    .bell = default_bell,
    .timer = default_timer,
    .soon = default_soon,
};

/* ---- life ------------------------------------------------------------------------------------ */

bool reactor_init(struct reactor *r, const struct loop_handlers *handlers)
{
    struct loop_handlers own = *handlers;
    own.arg = r;
    *r = (struct reactor){.loop = loop_new(&own)};
    if (!r->loop)
        return false;
    mailbox_init(&r->box);
    mail_list_init(&r->inbox);
    mail_list_init(&r->bundles);
    deadlines_init(&r->deadlines);
    r->now = clock_now();
    return true;
}

void reactor_free(struct reactor *r)
{
    if (!r->loop)
        return;
    CHECK(!r->thread.runs);
    thread_end(&r->thread);
    deadlines_free(&r->deadlines);
    loop_free(&r->loop);
}

static void run(void *arg)
{
    struct reactor *r = arg;
    clockid_t clock = 0;
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
        atomic_store_explicit(&r->cpu_clock, clock, memory_order_relaxed);
    here = r;
    loop_run(r->loop);
    here = NULL;
    atomic_store_explicit(&r->cpu_clock, 0, memory_order_relaxed);
}

bool reactor_prepare(struct reactor *r, const char *name, sandbox_fn *sandbox,
                     const struct sandbox *to)
{
    CHECK(!r->thread.exists);
    return thread_make(&r->thread, name, sandbox, to, run, r);
}

void reactor_resume(struct reactor *r)
{
    thread_resume(&r->thread);
}

static void on_stop(struct mail *mail, void *reader)
{
    (void)mail;
    struct reactor *r = reader;
    loop_stop(r->loop);
}

void reactor_stop(struct reactor *r)
{
    r->stop.deliver = on_stop;
    reactor_post(r, &r->stop);
}

void reactor_rest(struct reactor *r)
{
    thread_rest(&r->thread);
}

void reactor_join(struct reactor *r)
{
    thread_end(&r->thread);
}

/* ---- messages -------------------------------------------------------------------------------- */

void reactor_post(struct reactor *r, struct mail *mail)
{
    if (mailbox_send(&r->box, mail))
        loop_ring(r->loop);
}

static void on_bundle(struct mail *mail, void *reader)
{
    struct reactor *r = reader;
    mail_list_add(&r->bundles, mail);
}

void reactor_post_bundle(struct reactor *r, struct bundle *bundle)
{
    bundle->mail.deliver = on_bundle;
    reactor_post(r, &bundle->mail);
}

void reactor_post_late(struct reactor *r, struct mail *mail)
{
    if (!mailbox_send(&r->box, mail))
        return;
    if (here && here->late_count < REACTOR_LATE)
        here->late[here->late_count++] = r;
    else
        loop_ring(r->loop);
}

/* A function that another thread sends to a reactor, and waits for. */
struct errand {
    struct mail mail;
    void (*fn)(struct reactor *r, void *arg);
    void *arg;
    sem_t done;
};

static void run_errand(struct mail *mail, void *reader)
{
    struct errand *errand = container_of(mail, struct errand, mail);
    errand->fn(reader, errand->arg);
    CHECK(sem_post(&errand->done) == 0);
}

void reactor_ask(struct reactor *r, void (*fn)(struct reactor *r, void *arg), void *arg)
{
    struct errand errand = {.mail.deliver = run_errand, .fn = fn, .arg = arg};
    CHECK(sem_init(&errand.done, 0, 0) == 0);
    reactor_post(r, &errand.mail);
    while (sem_wait(&errand.done) != 0)
        CHECK(errno == EINTR);
    CHECK(sem_destroy(&errand.done) == 0);
}

/* ---- timers ---------------------------------------------------------------------------------- */

bool reactor_add_timer(struct reactor *r, struct timer *timer, int64_t at_ns)
{
    if (!deadlines_reserve(&r->deadlines, 1))
        return false;
    timer->deadline = (struct deadline){.kind = REACTOR_TIMER};
    reactor_set_timer(r, timer, at_ns);
    return true;
}

void reactor_set_timer(struct reactor *r, struct timer *timer, int64_t at_ns)
{
    deadline_set(&r->deadlines, &timer->deadline, at_ns);
    loop_timer_at(r->loop, deadlines_next(&r->deadlines));
}

void reactor_remove_timer(struct reactor *r, struct timer *timer)
{
    deadline_clear(&r->deadlines, &timer->deadline);
    deadlines_unreserve(&r->deadlines, 1);
}

/* ---- shared timers --------------------------------------------------------------------------- */

/* `next_ns` decreases until the next run resets it. */
static int64_t run_shared(struct timer *timer, struct moment now)
{
    struct shared_timer *shared = container_of(timer, struct shared_timer, timer);
    atomic_store(&shared->next_ns, DEADLINE_NONE);
    shared->run(shared, now);
    int64_t next_ns = atomic_load(&shared->next_ns);
    return next_ns > now.mono_ns ? next_ns : now.mono_ns + 1;
}

/* on_its_way is cleared before `next_ns` is read, so a call in between sends a new message. */
static void on_shared(struct mail *mail, void *reader)
{
    struct shared_timer *timer = container_of(mail, struct shared_timer, mail);
    struct reactor *r = reader;
    atomic_store(&timer->on_its_way, false);
    int64_t at_ns = atomic_load(&timer->next_ns);
    if (!timer->reactor)
        return; /* it was removed meanwhile */
    struct deadline *d = &timer->timer.deadline;
    if (!deadline_is_set(d) || at_ns < deadline_at(&r->deadlines, d))
        reactor_set_timer(r, &timer->timer, at_ns);
}

bool shared_timer_add(struct shared_timer *timer, struct reactor *r)
{
    timer->timer.run = run_shared;
    timer->reactor = r;
    timer->mail.deliver = on_shared;
    atomic_store(&timer->next_ns, DEADLINE_NONE);
    return reactor_add_timer(r, &timer->timer, DEADLINE_NONE);
}

void shared_timer_remove(struct shared_timer *timer)
{
    reactor_remove_timer(timer->reactor, &timer->timer);
    timer->reactor = NULL;
}

void shared_timer_by(struct shared_timer *timer, int64_t at_ns)
{
    int64_t next_ns = atomic_load(&timer->next_ns);
    do {
        if (next_ns <= at_ns)
            return;
    } while (!atomic_compare_exchange_weak(&timer->next_ns, &next_ns, at_ns));
    if (!atomic_exchange(&timer->on_its_way, true))
        reactor_post(timer->reactor, &timer->mail);
}

/* ---- for other threads ----------------------------------------------------------------------- */

uint64_t reactor_busy_ns(const struct reactor *r)
{
    return tally_get(&r->busy_ns);
}

uint64_t reactor_cpu_ns(const struct reactor *r)
{
    clockid_t clock = atomic_load_explicit(&r->cpu_clock, memory_order_relaxed);
    struct timespec used;
    if (clock == 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * (uint64_t)NS_PER_S + (uint64_t)used.tv_nsec;
}
