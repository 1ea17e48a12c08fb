/*
 * worker.c - a worker's iterations, mail, deadlines, slots and pools (see worker.h).
 *
 * Each iteration reads the clock, handles events, ends, and reads the clock again. After each event
 * worker_flush writes the collected answers, one connection after the other, first come first
 * served. The connection whose requests are being served joins last. So a client that is woken by a
 * request is notified before the sender of that request gets its answer. Writing may close
 * connections, and that may wake other clients. When one request wakes very many clients, some are
 * written to in the next iterations, so that other clients are served and timeouts are kept in
 * between.
 */
#include "net/worker_internal.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Free chunks kept in the pools: two megabytes of small ones, half a megabyte of large ones. So a
 * release that wakes ten thousand clients does not allocate and free their memory each time. */
#define SMALL_KEPT 16384
#define LARGE_KEPT 32

/*
 * Maximum numbers of connections written to, and of deadlines handled, before the loop checks for
 * events again. (The loop reports at most 256 descriptors in an iteration; the connections of the
 * requests are among them.)
 */
#define FLUSHES_MAX  512
#define TIMER_PASSES 256

/* Maximum number of handshakes that go on in an iteration: a step of one may take a millisecond. */
#define HANDSHAKES_MAX 1

_Static_assert(offsetof(struct worker, reactor) == 0 &&
                   offsetof(struct worker, number) == offsetof(struct worker_head, number),
               "WORKER_HEAD comes first");

/* ---- lists of connections -------------------------------------------------------------------- */

void worker_flush_later(struct worker *worker, struct conn *conn)
{
    if (conn->in_flush_list || conn->reading == READING_CLOSED)
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

/* Adds a connection to `again` or `shaking`. */
static void add_again(struct worker *worker, struct conn_list *list, struct conn *conn)
{
    conn->in_again_list = true;
    conn->again_next = NULL;
    if (list->last)
        list->last->again_next = conn;
    else
        list->first = conn;
    list->last = conn;
    loop_soon(worker->reactor.loop);
}

static struct conn *take_again(struct conn_list *list)
{
    struct conn *conn = list->first;
    if (!conn)
        return NULL;
    list->first = conn->again_next;
    if (!list->first)
        list->last = NULL;
    conn->in_again_list = false;
    return conn;
}

void worker_again_later(struct worker *worker, struct conn *conn)
{
    if (!conn->in_again_list && (conn->reading != READING_CLOSED || conn->ending))
        add_again(worker, &worker->again, conn);
}

bool worker_may_shake(struct worker *worker, struct conn *conn)
{
    if (worker->handshakes_left == 0 || worker->shaking.first) {
        add_again(worker, &worker->shaking, conn);
        return false;
    }
    worker->handshakes_left--;
    return true;
}

/* ---- pools ----------------------------------------------------------------------------------- */

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
    chunk->shared = false;
    return chunk;
}

struct chunk *worker_chunk_share(struct worker *worker, const void *bytes, size_t len,
                                 void (*drop)(const void *bytes))
{
    _Static_assert(sizeof(struct shared_chunk) <= sizeof(struct chunk) + CHUNK_SMALL_ROOM,
                   "it fits into a small chunk");
    struct chunk *chunk = worker_chunk_take(worker, 0);
    if (!chunk)
        return NULL;
    struct shared_chunk *shared = (struct shared_chunk *)(void *)chunk;
    shared->bytes = bytes;
    shared->drop = drop;
    chunk->shared = true;
    chunk->room = chunk->end = (uint32_t)len;
    return chunk;
}

void worker_chunk_give(struct worker *worker, struct chunk *chunk)
{
    if (unlikely(chunk->shared)) {
        const struct shared_chunk *shared = (const struct shared_chunk *)(const void *)chunk;
        shared->drop(shared->bytes);
        chunk->room = CHUNK_SMALL_ROOM;
    }
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

/* ---- connections ----------------------------------------------------------------------------- */

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

void worker_give_slot(struct worker *worker, uint32_t slot)
{
    worker->slots[slot].conn = NULL;
    worker->slots[slot].next_free = worker->free_slot;
    worker->free_slot = slot + 1;
}

bool worker_open(struct worker *worker, struct protocol *protocol, struct stream stream,
                 uint32_t source)
{
    struct conn *conn = NULL;
    struct claim *claim = NULL;
    uint32_t slot = worker->stopping ? UINT32_MAX : worker_take_slot(worker);
    bool secure = stream.transport == TRANSPORT_TLS;
    if (slot == UINT32_MAX)
        goto refuse;
    uint32_t generation = worker->slots[slot].generation + 1;
    if (secure) {
        uint64_t tag = conn_tag_of(worker, slot, generation);
        claim = admission_handshake(worker, protocol, tag, stream.fd, &source);
        if (!claim) {
            worker_give_slot(worker, slot);
            admission_leave(worker, protocol, &stream, source);
            return false;
        }
        if (!stream_secure(&stream, worker->snapshot->tls))
            goto refuse;
    }
    conn = conn_new(worker, protocol, stream);
    if (!conn || !deadlines_reserve(&worker->reactor.deadlines, conn_deadline_count(protocol)))
        goto refuse;
    conn->slot = slot;
    conn->source = source;
    if (!conn_begin(conn)) {
        deadlines_unreserve(&worker->reactor.deadlines, conn_deadline_count(protocol));
        goto refuse;
    }
    conn->generation = worker->slots[slot].generation = generation;
    conn->claim = claim;
    worker->slots[slot].conn = conn;
    atomic_fetch_add_explicit(&worker->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&protocol->connections_made, 1, memory_order_relaxed);
    if (log_enabled(LOG_LEVEL_DEBUG))
        log_debug("%s: connection %u opened by worker %u", protocol->row->name, conn_id(conn),
                  worker->number);
    if (secure)
        deadline_set(&worker->reactor.deadlines, &conn->read_deadline,
                     worker_mono_ns(worker) + worker->snapshot->limits.handshake_timeout_ns);
    else
        conn_open(conn);
    return true;

refuse:
    if (slot != UINT32_MAX)
        worker_give_slot(worker, slot);
    claim_end(worker, &claim);
    free(conn);
    stream_close(&stream);
    source_leave(&worker->server->sources, source);
    atomic_fetch_sub_explicit(&protocol->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&protocol->accept_errors, 1, memory_order_relaxed);
    return false;
}

/* Called when a connection closes or leaves a list. Returns true if it is closed; it is then freed,
 * once it is in no list. */
static bool drop_if_closed(struct worker *worker, struct conn *conn)
{
    if (conn->reading != READING_CLOSED)
        return false;
    if (!conn->in_flush_list && !conn->in_again_list) {
        conn->flush_next = worker->dead;
        worker->dead = conn;
    }
    return true;
}

void worker_conn_closed(struct worker *worker, struct conn *conn, unsigned reason)
{
    atomic_fetch_sub_explicit(&conn->protocol->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&conn->protocol->closed[reason], 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&worker->connections, 1, memory_order_relaxed);
    source_leave(&worker->server->sources, conn->source);
    deadlines_unreserve(&worker->reactor.deadlines, conn_deadline_count(conn->protocol));
    worker->slots[conn->slot].conn = NULL;
    if (!conn->ending)
        worker_give_slot(worker, conn->slot);
    CHECK(drop_if_closed(worker, conn));
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

/* ---- iterations ------------------------------------------------------------------------------ */

void worker_begin_iteration(struct worker *worker)
{
    (void)reactor_begin(&worker->reactor);
    worker->flushes_left = FLUSHES_MAX;
    worker->handshakes_left = HANDSHAKES_MAX;
}

/* Measures the time that the requests of this iteration took. */
static void measure_answers(struct worker *worker, int64_t now_ns)
{
    while (worker->unanswered) {
        struct traffic *traffic = worker->unanswered;
        histogram_add(&traffic->answers, now_ns - worker_mono_ns(worker), traffic->unanswered);
        worker->unanswered = traffic->unanswered_next;
        traffic->unanswered = 0;
    }
}

void worker_flush(struct worker *worker)
{
    struct conn *conn;
    while (worker->flushes_left > 0 && (conn = take_flush(worker)) != NULL) {
        worker->flushes_left--;
        if (drop_if_closed(worker, conn))
            continue;
        conn_flush(conn);
    }
}

int64_t worker_end_iteration(struct worker *worker)
{
    worker_flush(worker);
    if (worker->flush.first)
        loop_soon(worker->reactor.loop);
    struct conn *conn;
    while ((conn = worker->dead) != NULL) {
        worker->dead = conn->flush_next;
        conn_free(conn);
    }
    int64_t now_ns = reactor_end(&worker->reactor);
    measure_answers(worker, now_ns);
    return now_ns;
}

static void on_bell(void *arg)
{
    struct worker *worker = arg;
    reactor_deliver(&worker->reactor);
    worker_flush(worker);
}

static void on_timer(void *arg)
{
    struct worker *worker = arg;
    unsigned budget = TIMER_PASSES;
    struct deadline *d;
    while ((d = reactor_next_due(&worker->reactor, &budget)) != NULL)
        conn_deadline_passed(d);
    worker_flush(worker); /* if more are due, the timer runs again at once */
}

/* Continues with handshakes, the longest waiting first. */
static void go_on_shaking(struct worker *worker)
{
    struct conn *conn;
    while (worker->handshakes_left > 0 && (conn = take_again(&worker->shaking)) != NULL) {
        if (drop_if_closed(worker, conn))
            continue;
        worker->handshakes_left--;
        conn_shake_hands(conn);
    }
    if (worker->shaking.first)
        loop_soon(worker->reactor.loop);
}

/* Continues with messages, with handshakes, and with connections that have left-over work, the
 * longest waiting first. */
static void on_soon(void *arg)
{
    struct worker *worker = arg;
    reactor_deliver_more(&worker->reactor);
    go_on_shaking(worker);
    const struct conn *last = worker->again.last; /* those after it were added by this loop */
    struct conn *conn;
    for (unsigned i = 0; i < AGAINS_MAX && (conn = take_again(&worker->again)) != NULL; i++) {
        if (conn->ending)
            i += ENDING_AGAINS - 1;
        if (!conn_gave_back(conn))
            worker_again_later(worker, conn);
        else if (!drop_if_closed(worker, conn))
            conn_continue(conn);
        if (conn == last)
            break;
    }
    if (worker->again.first)
        loop_soon(worker->reactor.loop);
    worker_flush(worker);
}

static int64_t on_begin(void *arg)
{
    struct worker *worker = arg;
    worker_begin_iteration(worker);
    return worker_mono_ns(worker);
}

static int64_t on_end(void *arg)
{
    return worker_end_iteration(arg);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct worker *worker_new(struct server *server, unsigned number)
{
    static const struct loop_handlers handlers = {
        .begin = on_begin,
        .end = on_end,
        .bell = on_bell,
        .timer = on_timer,
        .soon = on_soon,
    };
    CHECK(number < WORKERS_MAX && server->snapshot);
    struct worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return NULL;
    worker->server = server;
    worker->number = number;
    worker->snapshot = snapshot_share(server->snapshot);
    worker->input = malloc(WORKER_INPUT);
    worker->scratch = malloc(WORKER_SCRATCH);
    worker->batch = malloc((size_t)PROTOCOL_BATCH * PROTOCOL_REQUEST_MAX);
    if (!worker->input || !worker->scratch || !worker->batch ||
        !reactor_init(&worker->reactor, &handlers)) {
        int error = errno;
        worker_free(&worker);
        errno = error;
        return NULL;
    }
    loop_busy_poll(worker->reactor.loop, server->busy_poll_ns);
    worker_begin_iteration(worker);
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
    snapshot_free(&w->snapshot);
    reactor_free(&w->reactor);
    free(w->slots);
    free(w->input);
    free(w->scratch);
    free(w->batch);
    free(w);
}

bool worker_prepare(struct worker *worker)
{
    char name[16];
    snprintf(name, sizeof(name), "worker %u", worker->number);
    return reactor_prepare(&worker->reactor, name, worker->server->sandbox, &thread_serves);
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
    loop_stop(worker->reactor.loop);
}

void worker_stop(struct worker *worker)
{
    worker->reactor.stop.deliver = close_all;
    reactor_post(&worker->reactor, &worker->reactor.stop);
}

void worker_drain(struct worker *worker)
{
    worker->stopping = true; /* opens no connection, even if it never ran */
    worker_begin_iteration(worker);
    (void)reactor_deliver_paused(&worker->reactor);
    do {
        worker_begin_iteration(worker);
        on_soon(worker); /* the lists may contain closed connections */
        (void)worker_end_iteration(worker);
    } while (worker->flush.first || worker->again.first || worker->shaking.first);
}

/* Gives back all that ending connections have. Returns false when there was none. */
static bool finish_ends(const struct worker *worker)
{
    bool any = false;
    for (struct conn *conn = worker->again.first; conn; conn = conn->again_next) {
        any |= conn->ending;
        while (!conn_gave_back(conn))
            continue;
    }
    return any;
}

bool worker_flush_paused(struct worker *worker)
{
    worker_begin_iteration(worker);
    bool any = finish_ends(worker);
    any |= reactor_deliver_paused(&worker->reactor) || worker->flush.first || worker->dead;
    if (any)
        (void)worker_end_iteration(worker);
    return any;
}

/* ---- messages -------------------------------------------------------------------------------- */

void conn_post(struct server *server, struct message *message)
{
    reactor_post(&server->workers[conn_tag_worker(message->to)]->reactor, &message->mail);
}

void conn_post_late(struct server *server, struct message *message)
{
    struct worker *worker = server->workers[conn_tag_worker(message->to)];
    reactor_post_late(&worker->reactor, &message->mail);
}

void worker_deliver(struct worker *from, struct message *message)
{
    unsigned to = conn_tag_worker(message->to);
    const struct conn *serves = from->pending_conn;
    if (to == from->number && !(serves && conn_tag(serves) == message->to))
        message->mail.deliver(&message->mail, from);
    else
        reactor_post(&from->server->workers[to]->reactor, &message->mail);
}

struct worker_errand {
    void (*fn)(struct worker *worker, void *arg);
    void *arg;
};

static void run_worker_errand(struct reactor *r, void *arg)
{
    const struct worker_errand *errand = arg;
    errand->fn(container_of(r, struct worker, reactor), errand->arg);
}

void worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg), void *arg)
{
    struct worker_errand errand = {.fn = fn, .arg = arg};
    reactor_ask(&worker->reactor, run_worker_errand, &errand);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Replaces a worker's rules, in its thread or while it does not run. */
static void put_in_force(struct worker *worker, struct snapshot *snapshot)
{
    snapshot_free(&worker->snapshot);
    worker->snapshot = snapshot;
}

static void arrive(struct mail *mail, void *reader)
{
    struct worker *worker = reader;
    struct mail *first = mail - worker->number;
    put_in_force(worker, container_of(first, struct snapshot, messages));
}

void server_set_snapshot(struct server *server, struct snapshot *snapshot)
{
    if (!server->snapshot)
        sources_init(&server->sources);
    snapshot_free(&server->snapshot);
    server->snapshot = snapshot;
    for (unsigned i = 0; i < server->count; i++) {
        struct worker *worker = server->workers[i];
        if (!worker)
            continue;
        snapshot_share(snapshot);
        if (reactor_runs(&worker->reactor)) {
            snapshot->messages[i].deliver = arrive;
            reactor_post(&worker->reactor, &snapshot->messages[i]);
        } else {
            put_in_force(worker, snapshot);
        }
    }
}

void server_free_snapshot(struct server *server)
{
    if (!server->snapshot)
        return;
    snapshot_free(&server->snapshot);
    sources_free(&server->sources);
}

/* ---- all workers ----------------------------------------------------------------------------- */

/* Runs `fn` in each worker's thread, one worker after the other, and waits for each. */
static void server_ask(struct server *server, void (*fn)(struct worker *worker, void *arg),
                       void *arg)
{
    for (unsigned i = 0; i < server->count; i++)
        worker_ask(server->workers[i], fn, arg);
}

static void do_nothing(struct worker *worker, void *arg)
{
    (void)worker;
    (void)arg;
}

void server_barrier(struct server *server)
{
    server_ask(server, do_nothing, NULL);
}

/* In the first round the workers serve the requests that have arrived, and may send messages to
 * each other. The second round begins with a message to each worker, which arrives after all of
 * these. */
#define CATCH_UP_ROUNDS 2

static void begin_round(struct worker *worker, void *arg)
{
    (void)arg;
    reactor_deliver_bundles(&worker->reactor);
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
        server_ask(server, begin_round, NULL);
    }
    return false;
}

void server_end(struct server *server)
{
    atomic_store_explicit(&server->ending, true, memory_order_relaxed); /* messages order it */
}

/* ---- for other code -------------------------------------------------------------------------- */

uint64_t worker_busy_ns(const struct worker *worker)
{
    return reactor_busy_ns(&worker->reactor);
}

uint64_t worker_cpu_ns(const struct worker *worker)
{
    return reactor_cpu_ns(&worker->reactor);
}

uint32_t worker_slots(const struct worker *worker)
{
    return worker->slot_count;
}

struct conn *worker_conn_at(struct worker *worker, uint32_t slot)
{
    return slot < worker->slot_count ? worker->slots[slot].conn : NULL;
}

void worker_expect(struct worker *worker, int more)
{
    atomic_fetch_add_explicit(&worker->connections, (uint32_t)more, memory_order_relaxed);
}

uint32_t worker_connections(const struct worker *worker)
{
    return atomic_load_explicit(&worker->connections, memory_order_relaxed);
}
