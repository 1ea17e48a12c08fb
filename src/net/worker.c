/*
 * worker.c - the thread's frame: turns, mail, deadlines, slots, pools (see worker.h).
 *
 * Every turn of the loop is: read the clock, do what it is about, settle, read the clock again.
 * After each event the replies that gathered are sent (worker_flush), in the order in which they
 * began; those of the connection whose requests are dealt with begin when that is over: whoever was
 * woken by a request hears of it before its sender gets the answer. Sending may close connections,
 * which may wake others. Where one request woke very many, the rest is sent in the next turns, so
 * that others are served and timeouts kept in between.
 */
#include "net/private.h"
#include "net/thread.h"

#include "base/log.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Free chunks kept for those that reply next: two megabytes of the small, half of one of the large.
 * So many, that a release which wakes ten thousand need not have their memory from the kernel and
 * give it back each time. */
#define SMALL_KEPT 16384
#define LARGE_KEPT 32

/* So many connections are sent to, and so many deadlines passed, before the loop looks again. (The
 * loop tells 256 descriptors at most in a turn: those whose requests it brought are among them.) */
#define TURN_FLUSHES 512
#define TIMER_PASSES 256

/* ---- lists of connections ---------------------------------------------------------------- */

void worker_flush_later(struct worker *worker, struct conn *conn)
{
    if (conn->in_flush_list || conn->state == CONN_CLOSED)
        return;
    conn->in_flush_list = true;
    conn->flush_next = NULL;
    if (worker->flush.last)
        worker->flush.last->flush_next = conn;
    else
        worker->flush.first = conn;
    worker->flush.last = conn;
}

static struct conn *take_flush(struct worker *worker)
{
    struct conn *conn = worker->flush.first;
    if (!conn)
        return NULL;
    worker->flush.first = conn->flush_next;
    if (!worker->flush.first)
        worker->flush.last = NULL;
    conn->in_flush_list = false;
    return conn;
}

void worker_again_later(struct worker *worker, struct conn *conn)
{
    if (conn->in_again_list || conn->state == CONN_CLOSED)
        return;
    conn->in_again_list = true;
    conn->again_next = NULL;
    if (worker->again.last)
        worker->again.last->again_next = conn;
    else
        worker->again.first = conn;
    worker->again.last = conn;
    loop_soon(worker->loop);
}

static struct conn *take_again(struct worker *worker)
{
    struct conn *conn = worker->again.first;
    if (!conn)
        return NULL;
    worker->again.first = conn->again_next;
    if (!worker->again.first)
        worker->again.last = NULL;
    conn->in_again_list = false;
    return conn;
}

/* ---- pools ------------------------------------------------------------------------------- */

struct chunk *worker_chunk_take(struct worker *worker, size_t size)
{
    bool small = size <= CHUNK_SMALL_ROOM;
    struct chunk_pool *pool = small ? &worker->small_chunks : &worker->large_chunks;
    uint32_t room = small ? CHUNK_SMALL_ROOM : CHUNK_LARGE_ROOM;
    struct chunk *chunk = pool->first;
    if (chunk) {
        pool->first = chunk->next;
        pool->count--;
    } else {
        chunk = malloc(sizeof(*chunk) + room);
        if (!chunk)
            return NULL;
    }
    chunk->next = NULL;
    chunk->begin = chunk->end = 0;
    chunk->room = room;
    return chunk;
}

void worker_chunk_give(struct worker *worker, struct chunk *chunk)
{
    bool small = chunk->room == CHUNK_SMALL_ROOM;
    struct chunk_pool *pool = small ? &worker->small_chunks : &worker->large_chunks;
    if (pool->count >= (small ? SMALL_KEPT : LARGE_KEPT)) {
        free(chunk);
        return;
    }
    chunk->next = pool->first;
    pool->first = chunk;
    pool->count++;
}

static void free_pool(struct chunk_pool *pool)
{
    while (pool->first) {
        struct chunk *chunk = pool->first;
        pool->first = chunk->next;
        free(chunk);
    }
}

void *worker_scratch(struct worker *worker)
{
    return worker->scratch;
}

/* ---- connections ------------------------------------------------------------------------- */

uint32_t worker_take_slot(struct worker *worker)
{
    if (worker->free_slot) {
        uint32_t slot = worker->free_slot - 1;
        worker->free_slot = worker->slots[slot].next_free;
        return slot;
    }
    if (worker->slot_count == worker->slot_room) {
        uint32_t room = worker->slot_room ? worker->slot_room * 2 : 64;
        struct slot *slots =
            room > SLOTS_MAX ? NULL : realloc(worker->slots, room * sizeof(*slots));
        if (!slots)
            return UINT32_MAX;
        worker->slots = slots;
        worker->slot_room = room;
    }
    worker->slots[worker->slot_count] = (struct slot){0};
    return worker->slot_count++;
}

bool worker_place_slots(struct worker *worker, uint32_t count)
{
    CHECK(worker->slot_count == 0);
    if (count == 0)
        return true;
    struct slot *slots = count > SLOTS_MAX ? NULL : calloc(count, sizeof(*slots));
    if (!slots)
        return false;
    free(worker->slots);
    worker->slots = slots;
    worker->slot_count = worker->slot_room = count;
    return true;
}

void worker_chain_free_slots(struct worker *worker)
{
    worker->free_slot = 0;
    for (uint32_t slot = worker->slot_count; slot > 0; slot--) {
        if (worker->slots[slot - 1].conn)
            continue;
        worker->slots[slot - 1].next_free = worker->free_slot;
        worker->free_slot = slot;
    }
}

static void give_slot(struct worker *worker, uint32_t slot)
{
    worker->slots[slot].conn = NULL;
    worker->slots[slot].next_free = worker->free_slot;
    worker->free_slot = slot + 1;
}

/* Whether one more TLS handshake may begin: then it is counted. */
static bool admit_handshake(struct worker *worker, const struct protocol *protocol)
{
    static struct log_limit without_tls, too_many;
    uint32_t limit = worker->rules->limits.handshakes;
    _Atomic uint32_t *handshakes = &worker->server->handshakes;
    if (!worker->rules->tls) {
        log_warning_limited(&without_tls,
                            "%s: TLS connection closed: there is no certificate to show",
                            protocol->name);
        return false;
    }
    uint32_t now = atomic_fetch_add_explicit(handshakes, 1, memory_order_relaxed) + 1;
    if (limit == 0 || now <= limit)
        return true;
    atomic_fetch_sub_explicit(handshakes, 1, memory_order_relaxed);
    log_warning_limited(&too_many,
                        "%s: TLS connection closed: %u handshakes are under way, the most allowed",
                        protocol->name, limit);
    return false;
}

/* Closes a connection whose handshake may not begin. */
static void turn_away(struct worker *worker, struct protocol *protocol, struct stream *stream,
                      uint32_t source)
{
    source_leave(&worker->server->sources, source);
    atomic_fetch_sub_explicit(&protocol->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&protocol->connections_made, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&protocol->closed[CLOSE_HANDSHAKE], 1, memory_order_relaxed);
    stream_close(stream);
}

bool worker_open(struct worker *worker, struct protocol *protocol, struct stream stream,
                 uint32_t source)
{
    struct conn *conn = NULL;
    uint32_t slot = UINT32_MAX;
    bool secure = stream.transport == TRANSPORT_TLS, admitted = false;
    if (worker->stopping)
        goto refuse;
    if (secure) {
        admitted = admit_handshake(worker, protocol);
        if (!admitted) {
            turn_away(worker, protocol, &stream, source);
            return false;
        }
        if (!stream_secure(&stream, worker->rules->tls))
            goto refuse;
    }
    conn = calloc(1, sizeof(*conn) + protocol->session_size);
    if (!conn)
        goto refuse;
    slot = worker_take_slot(worker);
    if (slot == UINT32_MAX || !deadlines_reserve(&worker->deadlines, CONN_DEADLINES))
        goto refuse;
    conn->worker = worker;
    conn->protocol = protocol;
    conn->stream = stream;
    conn->slot = slot;
    conn->source = source;
    conn->opened = (uint32_t)(worker->now.mono_ns >> CONN_OPENED_SHIFT);
    conn->read_deadline.kind = DEADLINE_READ;
    conn->write_deadline.kind = DEADLINE_WRITE;
    conn->session_deadline.kind = DEADLINE_SESSION;
    if (!conn_begin(conn)) {
        deadlines_unreserve(&worker->deadlines, CONN_DEADLINES);
        goto refuse;
    }
    conn->generation = ++worker->slots[slot].generation;
    worker->slots[slot].conn = conn;
    atomic_fetch_add_explicit(&worker->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&protocol->connections_made, 1, memory_order_relaxed);
    if (log_enabled(LOG_LEVEL_DEBUG))
        log_debug("%s: connection %u opened by worker %u", protocol->name, conn_id(conn),
                  worker->number);
    if (secure)
        deadline_set(&worker->deadlines, &conn->read_deadline,
                     worker->now.mono_ns + worker->rules->limits.handshake_timeout_ns);
    else
        conn_open(conn);
    return true;

refuse:
    if (slot != UINT32_MAX)
        give_slot(worker, slot);
    if (admitted)
        atomic_fetch_sub_explicit(&worker->server->handshakes, 1, memory_order_relaxed);
    free(conn);
    stream_close(&stream);
    source_leave(&worker->server->sources, source);
    atomic_fetch_sub_explicit(&protocol->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&protocol->accept_errors, 1, memory_order_relaxed);
    return false;
}

void worker_conn_closed(struct worker *worker, struct conn *conn, enum close_reason reason)
{
    atomic_fetch_sub_explicit(&conn->protocol->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&conn->protocol->closed[reason], 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&worker->connections, 1, memory_order_relaxed);
    source_leave(&worker->server->sources, conn->source);
    deadlines_unreserve(&worker->deadlines, CONN_DEADLINES);
    give_slot(worker, conn->slot);
    /* It may stand in the lists yet; it is freed when they have been gone through. */
    if (!conn->in_flush_list && !conn->in_again_list) {
        conn->flush_next = worker->dead;
        worker->dead = conn;
    }
    if (worker->fd_freed) {
        void (*freed)(void *) = worker->fd_freed;
        worker->fd_freed = NULL;
        freed(worker->fd_freed_arg);
    }
}

void worker_await_fd(struct worker *worker, void (*freed)(void *arg), void *arg)
{
    worker->fd_freed = freed;
    worker->fd_freed_arg = arg;
}

/* A connection has left a list: if it was closed meanwhile and stands in no other, it is dead. */
static bool bury_if_closed(struct worker *worker, struct conn *conn)
{
    if (conn->state != CONN_CLOSED)
        return false;
    if (!conn->in_flush_list && !conn->in_again_list) {
        conn->flush_next = worker->dead;
        worker->dead = conn;
    }
    return true;
}

/* ---- turns -------------------------------------------------------------------------------- */

void worker_wake(struct worker *worker)
{
    worker->now = clock_now();
    worker->flushes_left = TURN_FLUSHES;
}

/* Notes how long the requests of this turn took to be answered, and the worker to do it. */
static int64_t measure(struct worker *worker)
{
    int64_t now_ns = clock_mono_ns(), took_ns = now_ns - worker->now.mono_ns;
    tally_add(&worker->busy_ns, (uint64_t)took_ns);
    while (worker->unanswered) {
        struct traffic *traffic = worker->unanswered;
        histogram_add(&traffic->answers, took_ns, traffic->unanswered);
        worker->unanswered = traffic->unanswered_next;
        traffic->unanswered = 0;
    }
    return now_ns;
}

void worker_flush(struct worker *worker)
{
    struct conn *conn;
    while (worker->flushes_left > 0 && (conn = take_flush(worker)) != NULL) {
        worker->flushes_left--;
        if (bury_if_closed(worker, conn))
            continue;
        conn_flush(conn);
    }
}

int64_t worker_settle(struct worker *worker)
{
    worker_flush(worker);
    if (worker->flush.first)
        loop_soon(worker->loop);
    struct conn *conn;
    while ((conn = worker->dead) != NULL) {
        worker->dead = conn->flush_next;
        conn_free(conn);
    }
    loop_timer_at(worker->loop, deadlines_next(&worker->deadlines));
    return measure(worker);
}

static void deliver(struct worker *worker, struct mail *mail)
{
    while (mail) {
        struct mail *next = mail->next;
        mail->deliver(mail, worker);
        mail = next;
    }
}

static void deliver_mail(struct worker *worker)
{
    deliver(worker, mailbox_take(&worker->box));
}

static void on_bell(void *arg)
{
    struct worker *worker = arg;
    deliver_mail(worker);
    worker_flush(worker);
}

static void pass_deadline(struct worker *worker, struct deadline *d)
{
    switch ((enum deadline_kind)d->kind) {
    case DEADLINE_CHORE: {
        struct chore *chore = container_of(d, struct chore, deadline);
        deadline_set(&worker->deadlines, d, chore->run(chore, worker->now));
        break;
    }
    case DEADLINE_READ:
        conn_deadline_passed(container_of(d, struct conn, read_deadline), DEADLINE_READ);
        break;
    case DEADLINE_WRITE:
        conn_deadline_passed(container_of(d, struct conn, write_deadline), DEADLINE_WRITE);
        break;
    case DEADLINE_SESSION:
        conn_deadline_passed(container_of(d, struct conn, session_deadline), DEADLINE_SESSION);
        break;
    }
}

static void on_timer(void *arg)
{
    struct worker *worker = arg;
    struct deadline *d;
    for (unsigned i = 0; i < TIMER_PASSES; i++) {
        d = deadlines_take_due(&worker->deadlines, worker->now.mono_ns);
        if (!d)
            break;
        pass_deadline(worker, d);
    }
    worker_flush(worker); /* what else is due lets the timer come at once */
}

/* Gives connections that had work left one more turn each, who waits longest first. */
static void on_soon(void *arg)
{
    struct worker *worker = arg;
    const struct conn *last = worker->again.last; /* those behind it had a turn just now */
    struct conn *conn;
    for (unsigned i = 0; i < TURN_AGAINS && (conn = take_again(worker)) != NULL; i++) {
        if (!bury_if_closed(worker, conn))
            conn_continue(conn);
        if (conn == last)
            break;
    }
    if (worker->again.first)
        loop_soon(worker->loop);
    worker_flush(worker);
}

static int64_t on_begin(void *arg)
{
    struct worker *worker = arg;
    worker_wake(worker);
    return worker->now.mono_ns;
}

static int64_t on_end(void *arg)
{
    return worker_settle(arg);
}

/* ---- life -------------------------------------------------------------------------------- */

struct worker *worker_new(struct server *server, unsigned number)
{
    CHECK(number < WORKERS_MAX && server->rules);
    struct worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return NULL;
    worker->server = server;
    worker->number = number;
    worker->rules = rules_share(server->rules);
    mailbox_init(&worker->box);
    deadlines_init(&worker->deadlines);
    struct loop_handlers handlers = {
        .begin = on_begin,
        .end = on_end,
        .bell = on_bell,
        .timer = on_timer,
        .soon = on_soon,
        .arg = worker,
    };
    worker->input = malloc(WORKER_INPUT);
    worker->scratch = malloc(WORKER_SCRATCH);
    worker->loop = loop_new(&handlers);
    if (!worker->input || !worker->scratch || !worker->loop) {
        int error = errno;
        worker_free(&worker);
        errno = error;
        return NULL;
    }
    loop_busy_poll(worker->loop, server->busy_poll_ns);
    worker_wake(worker);
    return worker;
}

void worker_free(struct worker **worker)
{
    struct worker *w = *worker;
    if (!w)
        return;
    *worker = NULL;
    CHECK(w->connections == 0 && !w->dead);
    free_pool(&w->small_chunks);
    free_pool(&w->large_chunks);
    rules_free(&w->rules);
    deadlines_free(&w->deadlines);
    loop_free(&w->loop);
    free(w->slots);
    free(w->input);
    free(w->scratch);
    free(w);
}

static void *run(void *arg)
{
    struct worker *worker = arg;
    clockid_t clock = 0;
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
        atomic_store_explicit(&worker->cpu_clock, clock, memory_order_relaxed);
    loop_run(worker->loop);
    atomic_store_explicit(&worker->cpu_clock, 0, memory_order_relaxed);
    return NULL;
}

bool worker_start(struct worker *worker)
{
    char name[16];
    snprintf(name, sizeof(name), "worker %u", worker->number);
    worker->started = thread_start(&worker->thread, name, worker->server->confine, run, worker);
    return worker->started;
}

static void close_all(struct mail *mail, void *reader)
{
    (void)mail;
    struct worker *worker = reader;
    worker->stopping = true;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        if (worker->slots[i].conn)
            conn_close(worker->slots[i].conn, CLOSE_SHUTDOWN);
    }
    loop_stop(worker->loop);
}

void server_end(struct server *server)
{
    atomic_store_explicit(&server->ending, true, memory_order_relaxed); /* letters order it */
}

void worker_stop(struct worker *worker)
{
    worker->stop.deliver = close_all;
    worker_post(worker, &worker->stop);
}

void worker_join(struct worker *worker)
{
    CHECK(pthread_join(worker->thread, NULL) == 0);
}

void worker_drain(struct worker *worker)
{
    worker->stopping = true; /* also one that never ran: it takes no connection in */
    worker_wake(worker);
    deliver_mail(worker);
    do {
        worker_wake(worker);
        on_soon(worker); /* the lists may hold connections that were closed */
        (void)worker_settle(worker);
    } while (worker->flush.first || worker->again.first);
}

bool worker_settle_parked(struct worker *worker)
{
    struct mail *mail = mailbox_take(&worker->box);
    if (!mail && !worker->flush.first && !worker->dead)
        return false;
    worker_wake(worker);
    deliver(worker, mail);
    (void)worker_settle(worker);
    return true;
}

bool worker_add_chore(struct worker *worker, struct chore *chore, int64_t at_ns)
{
    if (!deadlines_reserve(&worker->deadlines, 1))
        return false;
    chore->deadline = (struct deadline){.kind = DEADLINE_CHORE};
    deadline_set(&worker->deadlines, &chore->deadline, at_ns);
    loop_timer_at(worker->loop, deadlines_next(&worker->deadlines));
    return true;
}

void worker_set_chore(struct worker *worker, struct chore *chore, int64_t at_ns)
{
    deadline_set(&worker->deadlines, &chore->deadline, at_ns);
}

void worker_remove_chore(struct worker *worker, struct chore *chore)
{
    deadline_clear(&worker->deadlines, &chore->deadline);
    deadlines_unreserve(&worker->deadlines, 1);
}

void worker_post(struct worker *worker, struct mail *mail)
{
    if (mailbox_send(&worker->box, mail))
        loop_ring(worker->loop);
}

/* What a thread wants done in a worker's, and waits for. */
struct errand {
    struct mail mail;
    void (*fn)(struct worker *worker, void *arg);
    void *arg;
    sem_t done;
};

static void run_errand(struct mail *mail, void *reader)
{
    struct errand *errand = container_of(mail, struct errand, mail);
    errand->fn(reader, errand->arg);
    CHECK(sem_post(&errand->done) == 0);
}

void worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg), void *arg)
{
    struct errand errand = {.mail.deliver = run_errand, .fn = fn, .arg = arg};
    CHECK(sem_init(&errand.done, 0, 0) == 0);
    worker_post(worker, &errand.mail);
    while (sem_wait(&errand.done) != 0)
        CHECK(errno == EINTR);
    CHECK(sem_destroy(&errand.done) == 0);
}

static void ask_all(const struct server *server, void (*fn)(struct worker *worker, void *arg))
{
    for (unsigned i = 0; i < server->count; i++)
        worker_ask(server->workers[i], fn, NULL);
}

static void do_nothing(struct worker *worker, void *arg)
{
    (void)worker;
    (void)arg;
}

void server_barrier(struct server *server)
{
    ask_all(server, do_nothing);
}

/* In the first round the workers deal with the requests that have arrived, and so send letters to
 * each other. The second begins when all these are in the mailboxes, behind which it gets in line.
 */
#define CATCH_UP_ROUNDS 2

static void begin_round(struct worker *worker, void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        if (worker->slots[i].conn)
            conn_catch_up(worker->slots[i].conn);
    }
}

static bool is_any_behind(const struct server *server)
{
    for (unsigned i = 0; i < server->count; i++) {
        if (atomic_load_explicit(&server->workers[i]->behind, memory_order_acquire) > 0)
            return true;
    }
    return false;
}

bool server_catch_up(struct server *server, struct catch_up *catch_up)
{
    while (catch_up->rounds == 0 || !is_any_behind(server)) {
        if (catch_up->rounds == CATCH_UP_ROUNDS)
            return true;
        catch_up->rounds++;
        ask_all(server, begin_round);
    }
    return false;
}

uint32_t worker_slots(const struct worker *worker)
{
    return worker->slot_count;
}

struct conn *worker_conn_at(struct worker *worker, uint32_t slot)
{
    return slot < worker->slot_count ? worker->slots[slot].conn : NULL;
}

uint64_t worker_busy_ns(const struct worker *worker)
{
    return tally_get(&worker->busy_ns);
}

uint64_t worker_cpu_ns(const struct worker *worker)
{
    clockid_t clock = atomic_load_explicit(&worker->cpu_clock, memory_order_relaxed);
    struct timespec used;
    if (clock == 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * (uint64_t)NS_PER_S + (uint64_t)used.tv_nsec;
}

unsigned worker_number(const struct worker *worker)
{
    return worker->number;
}

struct server *worker_server(const struct worker *worker)
{
    return worker->server;
}

struct loop *worker_loop(const struct worker *worker)
{
    return worker->loop;
}

struct moment worker_now(const struct worker *worker)
{
    return worker->now;
}

void worker_expect(struct worker *worker, int more)
{
    atomic_fetch_add_explicit(&worker->connections, (uint32_t)more, memory_order_relaxed);
}

uint32_t worker_connections(const struct worker *worker)
{
    return atomic_load_explicit(&worker->connections, memory_order_relaxed);
}
