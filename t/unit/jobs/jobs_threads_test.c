/*
 * jobs_threads_test.c - several threads with clients of the same jobs, each with its own clock and
 * mailbox, as workers have: no job is lost, none is done twice, no two hold one at a time, and in
 * the end nothing is left.
 */
#include "jobs/jobs.h"
#include "t/models/jobs_check.h"
#include "t/unit/jobs/submit.h"
#include "t/unit/random.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS = 4,
    CLIENTS = 4, /* of each thread */
    TUBES = 3,
    HELD = 8,    /* by one client */
    UNREAD = 20, /* answers of one thread */
#ifdef __SANITIZE_THREAD__
    OPERATIONS = 20000,
#else
    OPERATIONS = 60000,
#endif
    OPERATIONS_MAX = 20 * OPERATIONS, /* until the threads have met often enough */
    IDS = THREADS * OPERATIONS_MAX + 1,
};

static struct jobs *jobs;
static pthread_barrier_t all_begin, all_ended;

/* Of all threads. */
static _Atomic uint64_t taken, messages;

/* Of each id: it was put; it was deleted; a client has it. */
static _Atomic uint8_t was_put[IDS], deletes[IDS], holders[IDS];

struct client {
    struct jobs_client *real; /* NULL: it has ended */
    bool waits;
    uint64_t ids[HELD], tokens[HELD];
    unsigned held;
};

struct worker {
    struct mailbox box;
    struct rng rng;
    unsigned number;
    struct moment now;
    struct jobs_outbox outbox;
    struct client clients[CLIENTS];
    struct unread {
        uint64_t id;
        const uint8_t *body; /* in the output of a connection; NULL: none */
    } unread[UNREAD];
    uint64_t late_messages, soon;
};

static struct worker workers[THREADS];

static void write_unread(struct unread *unread)
{
    if (!unread->body)
        return;
    CHECK(memcmp(unread->body, &unread->id, sizeof(unread->id)) == 0);
    job_body_written(unread->body);
    unread->body = NULL;
}

/* An answer goes to the output, in the place of another one, which is written. */
static void answer(struct worker *w, struct job_view *view)
{
    struct unread *unread = &w->unread[rng_below(&w->rng, UNREAD)];
    write_unread(unread);
    *unread = (struct unread){view->id, job_body_to_output(jobs, &view->body)};
}

static struct bytes random_tube(struct worker *w)
{
    static const char names[] = "abc";
    return bytes_at(names + rng_below(&w->rng, TUBES), 1);
}

static void send_messages(struct worker *w)
{
    for (struct mail *m; (m = mail_list_take(&w->outbox.messages)) != NULL;)
        (void)mailbox_send(&workers[container_of(m, struct message, mail)->to].box, m);
}

/* A client has got a job. */
static void note_taken(struct worker *w, struct client *c, struct job_view *view)
{
    CHECK(view->id < IDS && view->state == JOB_RESERVED && view->token != 0);
    CHECK(view->body->len == sizeof(view->id));
    CHECK(memcmp(view->body->bytes, &view->id, sizeof(view->id)) == 0);
    CHECK(!deletes[view->id] && c->held < HELD);
    CHECK(atomic_exchange(&holders[view->id], 1) == 0);
    if (rng_one_in(&w->rng, 2))
        answer(w, view);
    job_body_drop(jobs, &view->body);
    c->ids[c->held] = view->id;
    c->tokens[c->held++] = view->token;
    atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
}

static void read_wait(struct worker *w, struct client *c)
{
    struct job_view view;
    if (!jobs_read(c->real, &view))
        return;
    CHECK(c->waits);
    c->waits = false;
    note_taken(w, c, &view);
}

static void read_messages(struct worker *w)
{
    struct mail *next;
    for (struct mail *m = mailbox_take(&w->box); m; m = next) {
        next = m->next;
        struct jobs_client *client = jobs_client_of(m);
        struct client *c = jobs_client_owner(client); /* its slot may have another client now */
        atomic_fetch_add_explicit(&messages, 1, memory_order_relaxed);
        if (jobs_client_message(client))
            read_wait(w, c);
        else
            w->late_messages++;
    }
}

/* ---- what clients do ------------------------------------------------------------------------- */

static void begin_client(struct worker *w, struct client *c)
{
    uint32_t count;
    *c = (struct client){.real = jobs_client_new(jobs, w->number, c)};
    CHECK(c->real);
    CHECK(jobs_watch(c->real, random_tube(w), &count) == JOBS_OK);
    CHECK(jobs_use(c->real, random_tube(w)) == JOBS_OK);
}

static void forget_all(struct client *c)
{
    for (unsigned n = 0; n < c->held; n++)
        holders[c->ids[n]] = 0;
    c->held = 0;
}

static void end_client(struct worker *w, struct client *c)
{
    /* Others may get its jobs before this returns. */
    forget_all(c);
    jobs_client_end(c->real, w->now, &w->outbox);
    c->real = NULL;
    send_messages(w);
}

static void put(struct worker *w, struct client *c)
{
    struct job_put put = {.id = jobs_take_ids(jobs, 1),
                          .pri = rng_below(&w->rng, 3),
                          .delay_s = rng_one_in(&w->rng, 5),
                          .ttr_s = 1000000, /* none runs out */
                          .tries = JOB_TRIES_OF_TUBE};
    if (rng_one_in(&w->rng, 2))
        put.tube = random_tube(w);
    put.body = job_body_new(jobs, JOBS_PUTS, sizeof(put.id));
    CHECK(put.body && put.id < IDS);
    memcpy(put.body->bytes, &put.id, sizeof(put.id));
    CHECK(atomic_exchange(&was_put[put.id], 1) == 0);
    CHECK(submit_puts(jobs, c->real, &put, 1, w->now, &w->outbox) == JOBS_OK);
}

static void reserve(struct worker *w, struct client *c)
{
    struct job_view views[2];
    struct bytes tubes[2] = {random_tube(w), random_tube(w)};
    struct job_claim_request request = {.tubes = tubes,
                                        .tube_count = rng_below(&w->rng, 3),
                                        .count = 2,
                                        .timeout_ns = rng_one_in(&w->rng, 3) ? 0 : JOBS_FOREVER,
                                        .answer_max = SIZE_MAX};
    char reason[JOBS_READ_ONLY_MAX + 1];
    size_t count = 1;
    if (c->held + 2 > HELD)
        return;
    enum jobs_status status = rng_one_in(&w->rng, 2)
                                  ? jobs_reserve(c->real, request.timeout_ns, views, w->now)
                                  : jobs_claim(c->real, &request, views, &count, reason, w->now);
    CHECK(status == JOBS_OK || status == JOBS_WAITS || status == JOBS_TIMED_OUT);
    for (size_t n = 0; status == JOBS_OK && n < count; n++)
        note_taken(w, c, &views[n]);
    c->waits = status == JOBS_WAITS;
}

static void end_wait(struct worker *w, struct client *c)
{
    if (jobs_end_wait(c->real))
        c->waits = false;
    else
        read_wait(w, c);
    CHECK(!c->waits);
}

static enum jobs_status end_job(struct worker *w, struct client *c, enum job_verb verb, uint64_t id,
                                uint64_t token)
{
    const struct job_act act = {
        .verb = verb, .client = c->real, .id = id, .token = token, .pri = 1};
    return submit_act(jobs, act, NULL, w->now, &w->outbox);
}

/* Ends a reservation. */
static void finish_job(struct worker *w, struct client *c)
{
    if (c->held == 0)
        return;
    unsigned n = rng_below(&w->rng, c->held);
    uint64_t id = c->ids[n], token = c->tokens[n];
    c->ids[n] = c->ids[--c->held];
    c->tokens[n] = c->tokens[c->held];
    holders[id] = 0;
    switch (rng_below(&w->rng, 8)) {
    case 0:
        CHECK(end_job(w, c, JOB_RELEASE, id, 0) == JOBS_OK);
        break;
    case 1:
        CHECK(end_job(w, c, JOB_NACK, id, token) == JOBS_OK);
        break;
    case 2:
        CHECK(end_job(w, c, JOB_BURY, id, 0) == JOBS_OK);
        break;
    case 3:
    case 4:
        CHECK(atomic_exchange(&deletes[id], 1) == 0);
        CHECK(end_job(w, c, JOB_ACK, id, token) == JOBS_OK);
        CHECK(end_job(w, c, JOB_ACK, id, token) == JOBS_NOT_FOUND);
        break;
    default:
        CHECK(atomic_exchange(&deletes[id], 1) == 0);
        CHECK(end_job(w, c, JOB_DELETE, id, 0) == JOBS_OK);
        CHECK(end_job(w, c, JOB_DELETE, id, 0) == JOBS_NOT_FOUND);
    }
}

static void look(struct worker *w, struct client *c)
{
    struct job_view view;
    struct tube_stats tube;
    struct jobs_kick kick = {.left = 3};
    struct job_op op = {.kind = JOB_OP_KICK, .act.client = c->real, .kick = &kick};
    uint32_t count;
    if (jobs_peek_next(c->real, (enum job_peek)rng_below(&w->rng, 3), &view) == JOBS_OK)
        answer(w, &view);
    (void)!jobs_stats_tube(jobs, random_tube(w), w->now, &tube);
    while (jobs_submit(jobs, &op, w->now, &w->outbox) == JOBS_WAITS)
        continue;
    if (rng_one_in(&w->rng, 2))
        CHECK(jobs_watch(c->real, random_tube(w), &count) == JOBS_OK);
    else
        CHECK(jobs_ignore(c->real, random_tube(w), &count) != JOBS_NO_MEMORY && count > 0);
    (void)!submit_pause(jobs, random_tube(w), rng_one_in(&w->rng, 4), w->now, &w->outbox);
}

static void act(struct worker *w, struct client *c)
{
    uint32_t what = rng_below(&w->rng, 100);
    if (!c->real)
        begin_client(w, c);
    else if (c->waits && what < 10)
        end_wait(w, c);
    else if (!c->waits && what < 30)
        put(w, c);
    else if (!c->waits && what < 60)
        reserve(w, c);
    else if (!c->waits && what < 90)
        finish_job(w, c);
    else if (!c->waits && what < 96)
        look(w, c);
    else if (what < 97)
        end_client(w, c);
    else
        jobs_run(jobs, w->now, &w->outbox);
    send_messages(w);
}

/* True when the threads have taken enough jobs, and have given enough to each other's clients. A
 * busy machine may run them one after another for a while. */
static bool have_met(void)
{
    return atomic_load_explicit(&taken, memory_order_relaxed) > 1000 &&
           atomic_load_explicit(&messages, memory_order_relaxed) > 100;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    (void)pthread_barrier_wait(&all_begin);
    for (unsigned i = 0; i < OPERATIONS || (i < OPERATIONS_MAX && !have_met()); i++) {
        w->now.mono_ns += rng_below(&w->rng, 2 * NS_PER_MS);
        act(w, &w->clients[rng_below(&w->rng, CLIENTS)]);
        if (rng_one_in(&w->rng, 3))
            read_messages(w);
        if (rng_one_in(&w->rng, 2000))
            jobs_check(jobs, w->now);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (w->clients[i].real)
            end_client(w, &w->clients[i]);
    }
    (void)pthread_barrier_wait(&all_ended);
    read_messages(w);
    for (unsigned i = 0; i < UNREAD; i++)
        write_unread(&w->unread[i]);
    return NULL;
}

/* ---- the test -------------------------------------------------------------------------------- */

/* Deletes what is left, and finds each job that was put and not deleted. */
static void empty_all(struct moment now)
{
    struct jobs_outbox outbox;
    struct jobs_client *client = jobs_client_new(jobs, 0, NULL);
    jobs_outbox_init(&outbox);
    ck_assert(client != NULL);
    for (uint64_t id = 1; id < IDS; id++) {
        struct job_view view;
        bool is = jobs_peek(jobs, id, &view) == JOBS_OK;
        REQUIRE(is == (was_put[id] && !deletes[id]));
        if (!is)
            continue;
        REQUIRE(view.state != JOB_RESERVED);
        job_body_drop(jobs, &view.body);
        const struct job_act act = {.verb = JOB_DELETE, .id = id};
        REQUIRE(submit_act(jobs, act, NULL, now, &outbox) == JOBS_OK);
    }
    jobs_client_end(client, now, &outbox);
    ck_assert(outbox.messages.first == NULL);
}

TEST(no_job_is_lost_and_none_is_done_twice)
{
    struct rng rng = rng_start("threads with jobs", random_seed());
    pthread_t threads[THREADS];
    struct jobs_stats stats;
    struct moment last = {.mono_ns = 0};
    struct jobs_config config = {.memory_limit = UINT64_MAX,
                                 .defaults = job_default_settings,
                                 .hash_key = {1, 2},
                                 .seed = rng_next(&rng),
                                 .many_watches = 1 + rng_below(&rng, 3)};
    jobs = jobs_new(&config);
    ck_assert(jobs != NULL);
    jobs_get_stats(jobs, &stats);
    uint64_t memory = stats.memory;
    ck_assert(pthread_barrier_init(&all_begin, NULL, THREADS) == 0);
    ck_assert(pthread_barrier_init(&all_ended, NULL, THREADS) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .rng = {rng_next(&rng)}, .number = i, .now = {.mono_ns = NS_PER_S, .unix_s = 1000}};
        mailbox_init(&workers[i].box);
        jobs_outbox_init(&workers[i].outbox);
    }
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert(pthread_join(threads[i], NULL) == 0);
        ck_assert(mailbox_take(&workers[i].box) == NULL);
        if (last.mono_ns < workers[i].now.mono_ns)
            last = workers[i].now;
    }
    ck_assert(have_met());
    jobs_check(jobs, last);
    empty_all(last);
    jobs_check(jobs, last);
    jobs_get_stats(jobs, &stats);
    ck_assert(stats.tubes == 1 && stats.waiting == 0 && stats.memory == memory);
    for (unsigned n = 0; n < JOB_STATES; n++)
        ck_assert(stats.states[n] == 0);
    jobs_free(&jobs);
}
END_TEST

UNIT_MAIN("jobs/jobs_threads")
