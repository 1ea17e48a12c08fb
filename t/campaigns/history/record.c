/*
 * record.c - records a history: the operations of clients of both protocols on a few names, and the
 * answers.
 *
 * usage: record HOST TEXT_PORT BINARY_PORT OPERATIONS SEED FILE
 *
 * Each thread makes one connection after another, of the text or of the binary protocol. It
 * acquires, waits, gives up waiting, releases, asks, and ends with or without a release: by close,
 * by RST, or by shutting down its sending side, while it waits or not. Requests have different
 * limits. The names depend on the seed, so a server may serve one history after another.
 *
 * Before a client closes its connection to stop waiting, it must know that it was in the queue: the
 * server has answered a later request of it (a marker). Otherwise it waits until the server closes.
 * Without this it would stay unknown if the server handled the request, and the checker would have
 * to consider both until the end.
 *
 * At the end the program asks for all names until they are at 0. Exits 0 when the history is
 * written, 1 when an answer was wrong or missing, 2 for wrong usage. The seed determines the plan;
 * the threads race.
 */
#include "t/campaigns/history/history.h"
#include "t/campaigns/history/peer.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS   8
#define NAMES     3
#define HELD_MAX  3
#define FREE_NS   (INT64_C(20) * 1000000000)
#define NAME_ROOM 64

struct client {
    unsigned number;
    bool text;
    uint64_t random;
    uint32_t conn, lives;
    struct peer peer;
    uint32_t held[NAMES];
    uint32_t locks;
    bool unanswered[NAMES]; /* its wait has no answer, and will get none */
    bool unseen;            /* and no marker has confirmed that the wait began */
    struct history history;
};

static struct peer_server server;
static uint64_t seed, wanted;
static atomic_ulong made;
static atomic_bool failed;

static uint32_t below(struct client *c, uint32_t limit)
{
    return peer_below(&c->random, limit);
}

static bool one_in(struct client *c, uint32_t n)
{
    return below(c, n) == 0;
}

static bool is_over(void)
{
    return atomic_load(&made) >= wanted || atomic_load(&failed);
}

static bool complain(const struct client *c, const char *what, const char *detail)
{
    atomic_store(&failed, true);
    printf("violation: connection %u: %s%s%s\n", c->conn, what, *detail ? ": " : "", detail);
    fflush(stdout);
    return false;
}

static bool complain_of_peer(const struct client *c)
{
    return complain(c, c->peer.error, "");
}

static void name_text(uint32_t name, char *to)
{
    snprintf(to, NAME_ROOM, "history-%" PRIu64 "-%u", seed, name);
}

static uint32_t base_limit(uint32_t name)
{
    return 1u << name;
}

/* Returns mostly the name's limit; sometimes less, or one more. */
static uint32_t choose_limit(struct client *c, uint32_t name)
{
    return one_in(c, 4) ? 1 + below(c, base_limit(name) + 1) : base_limit(name);
}

static void record(struct client *c, const struct operation *operation)
{
    struct operation o = *operation;
    o.conn = c->conn;
    history_add(&c->history, &o);
    atomic_fetch_add(&made, 1);
}

/* Starts an operation now. */
static struct operation begin(enum history_verb verb, uint32_t name)
{
    return (struct operation){
        .name = name,
        .verb = verb,
        .result = RESULT_OK,
        .seen = TIME_UNKNOWN,
        .left = TIME_UNKNOWN,
        .ret = TIME_UNKNOWN,
        .call = peer_now_ns(),
    };
}

/* Records that the operation was answered just now. */
static void ends(struct client *c, struct operation *o, enum history_result result)
{
    o->ret = peer_now_ns();
    o->result = result;
    record(c, o);
}

/* ---- text ---------------------------------------------------------------------------------- */

/* What a client does while it waits. */
enum patience {
    PATIENT, /* until the answer comes */
    CANCEL,  /* for a while, then RELEASE */
    ABANDON, /* for a while, then end the connection */
};

static bool word_to_result(const char *line, enum history_result *result_r)
{
    static const struct {
        const char *word;
        enum history_result result;
    } answers[] = {
        {"LOCKED", RESULT_LOCKED},
        {"DONE", RESULT_DONE},
        {"TIMEOUT", RESULT_TIMEOUT},
        {"QUEUE_FULL", RESULT_FULL},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        if (strcmp(line, answers[i].word) == 0) {
            *result_r = answers[i].result;
            return true;
        }
    }
    return false;
}

/*
 * Reads a line. If it is the answer to the marker, sets *marker to false and notes the time in *o.
 */
static bool read_one(struct client *c, struct operation *o, bool *marker, char *line)
{
    if (!peer_line(&c->peer, line))
        return complain_of_peer(c);
    if (*marker && strcmp(line, "ERROR BAD_COMMAND") == 0) {
        *marker = false;
        o->seen = peer_now_ns();
    }
    return true;
}

/* Reads a line that is not the answer to the marker. */
static bool read_other(struct client *c, struct operation *o, bool *marker, char *line)
{
    bool before;
    do {
        before = *marker;
        if (!read_one(c, o, marker, line))
            return false;
    } while (before != *marker);
    return true;
}

/* Notes the answer to *o. */
static bool take_answer(struct client *c, struct operation *o, const char *line)
{
    enum history_result result;
    if (!word_to_result(line, &result))
        return complain(c, "acquiring was answered with", line);
    if (result == RESULT_TIMEOUT && o->timeout > 0)
        o->left = o->call + o->timeout;
    ends(c, o, result);
    if (result == RESULT_LOCKED) {
        c->held[o->name]++;
        c->locks++;
    }
    return true;
}

/* Sends RELEASE, because no answer has arrived. Reads the answers to both. */
static bool finish_cancel(struct client *c, struct operation *o, bool marker)
{
    char text[PEER_LINE], name[NAME_ROOM];
    name_text(o->name, name);
    struct operation release = begin(VERB_RELEASE, o->name);
    int len = snprintf(text, sizeof(text), "RELEASE %s\n", name);
    if (!peer_send(&c->peer, text, (size_t)len))
        return complain_of_peer(c);
    if (!read_other(c, o, &marker, text))
        return false;
    if (strcmp(text, "RELEASED") == 0) {
        o->left = release.call;
        ends(c, o, RESULT_CANCELLED);
        return true;
    }
    if (!take_answer(c, o, text))
        return false;
    struct operation recorded = *o;
    if (!read_other(c, &recorded, &marker, text))
        return false;
    bool locked = o->result == RESULT_LOCKED;
    if (strcmp(text, locked ? "RELEASED" : "NOT_LOCKED") != 0)
        return complain(c, "releasing after a wait was answered with", text);
    ends(c, &release, locked ? RESULT_OK : RESULT_NOT_LOCKED);
    if (locked) {
        c->held[o->name]--;
        c->locks--;
    }
    return true;
}

/* Returns false if the connection must end. c->unanswered then says if a wait is pending. */
static bool text_acquire(struct client *c)
{
    char text[PEER_LINE], name[NAME_ROOM];
    uint32_t number = below(c, NAMES), wait_us = one_in(c, 4) ? 0 : 200 + below(c, 6000);
    bool any = one_in(c, 2), marker = wait_us > 0 && one_in(c, 2);
    uint32_t limit = choose_limit(c, number), queue = one_in(c, 4) ? 1 + below(c, 6) : 100;
    enum patience patience = PATIENT;
    if (wait_us > 0 && one_in(c, 3))
        patience = one_in(c, 2) && c->held[number] == 0 ? CANCEL : ABANDON;
    int64_t patience_ns = below(c, 3000) * INT64_C(1000);

    name_text(number, name);
    int len =
        snprintf(text, sizeof(text), "%s %s %u %u %u.%06u\n%s", any ? "ACQ4ANY" : "ACQ4ME", name,
                 limit, queue, wait_us / 1000000, wait_us % 1000000, marker ? "MARK\n" : "");
    struct operation o = begin(any ? VERB_ACQ4ANY : VERB_ACQ4ME, number);
    o.units = 1;
    o.limit = limit;
    o.queue = queue;
    o.timeout = wait_us * INT64_C(1000);
    if (!peer_send(&c->peer, text, (size_t)len))
        return complain_of_peer(c);
    int64_t until = o.call + patience_ns;
    for (;;) {
        int64_t left = until - peer_now_ns();
        if (patience != PATIENT && !peer_is_ready(&c->peer, left > 0 ? left : 0))
            break;
        bool before = marker;
        if (!read_one(c, &o, &marker, text))
            return false;
        if (before != marker)
            continue;
        if (!take_answer(c, &o, text))
            return false;
        struct operation recorded = o;
        if (marker && (!read_one(c, &recorded, &marker, text) || marker))
            return complain(c, "a marker was answered with", text);
        return true;
    }
    if (patience == CANCEL)
        return finish_cancel(c, &o, marker);
    o.result = RESULT_UNKNOWN;
    record(c, &o);
    c->unanswered[number] = true;
    c->unseen = o.seen == TIME_UNKNOWN;
    return false;
}

static bool text_release(struct client *c, uint32_t number)
{
    char text[PEER_LINE], name[NAME_ROOM];
    name_text(number, name);
    int len = snprintf(text, sizeof(text), "RELEASE %s\n", name);
    struct operation o = begin(VERB_RELEASE, number);
    if (!peer_send(&c->peer, text, (size_t)len) || !peer_line(&c->peer, text))
        return complain_of_peer(c);
    if (strcmp(text, "RELEASED") != 0)
        return complain(c, "releasing was answered with", text);
    ends(c, &o, RESULT_OK);
    c->held[number]--;
    c->locks--;
    return true;
}

/* ---- binary -------------------------------------------------------------------------------- */

/*
 * Sends a request and records the answer. Returns false for a status that the request can't have.
 */
static bool binary_ask(struct client *c, struct operation *o, enum peer_opcode opcode)
{
    char name[NAME_ROOM];
    unsigned status;
    uint32_t number;
    name_text(o->name, name);
    o->call = peer_now_ns();
    if (!peer_ask(&c->peer, opcode, name, o->units, o->limit, &status, &number))
        return complain_of_peer(c);
    enum history_result result = RESULT_OK;
    if (status == PEER_NOT_FOUND && opcode != PEER_ACQUIRE)
        result = RESULT_NOT_FOUND;
    else if (status == PEER_NOT_ACQUIRED && opcode == PEER_RELEASE)
        result = RESULT_NOT_ACQUIRED;
    else if (status == PEER_NOT_AVAILABLE && opcode == PEER_ACQUIRE)
        result = RESULT_UNAVAILABLE;
    else if (status != PEER_OK || (opcode == PEER_ACQUIRE && number != o->units))
        return complain(c, "a strange status", opcode == PEER_ACQUIRE ? "of Acquire" : "");
    if (opcode == PEER_GET)
        o->units = number;
    ends(c, o, result);
    return true;
}

static bool binary_acquire(struct client *c)
{
    struct operation o = begin(VERB_ACQUIRE, below(c, NAMES));
    o.limit = choose_limit(c, o.name);
    o.units = 1 + below(c, o.limit < 3 ? o.limit : 3);
    if (!binary_ask(c, &o, PEER_ACQUIRE))
        return false;
    if (o.result == RESULT_OK)
        c->held[o.name] += o.units;
    return true;
}

/* Gives back some of the units held of a name; sometimes more, which must be refused. */
static bool binary_give(struct client *c, uint32_t name)
{
    struct operation o = begin(VERB_GIVE, name);
    o.units = c->held[name] == 0 || one_in(c, 16) ? c->held[name] + 1 : 1 + below(c, c->held[name]);
    if (!binary_ask(c, &o, PEER_RELEASE))
        return false;
    if (o.result == RESULT_OK)
        c->held[name] -= o.units;
    return true;
}

static bool get(struct client *c, uint32_t name, uint32_t *number_r)
{
    struct operation o = begin(VERB_GET, name);
    bool answered = binary_ask(c, &o, PEER_GET);
    *number_r = o.units;
    return answered;
}

/* ---- a connection -------------------------------------------------------------------------- */

static bool step(struct client *c)
{
    uint32_t name = below(c, NAMES), ignored;
    for (unsigned i = 0; i < NAMES && c->held[name] == 0; i++)
        name = (name + 1) % NAMES;
    bool holds = c->held[name] > 0;
    if (holds && one_in(c, 4))
        peer_pause_ns(below(c, 200000));
    if (c->text)
        return c->locks == HELD_MAX || (holds && !one_in(c, 3)) ? text_release(c, name)
                                                                : text_acquire(c);
    if (one_in(c, 4))
        return get(c, below(c, NAMES), &ignored);
    return (holds && !one_in(c, 3)) || one_in(c, 32) ? binary_give(c, name) : binary_acquire(c);
}

/* Ends the connection, and records a close for each of its names. */
static void end(struct client *c)
{
    struct operation o = begin(VERB_CLOSE, 0);
    if (c->unseen || one_in(c, 2)) {
        if (!peer_half_close(&c->peer, NULL))
            complain_of_peer(c);
        o.ret = peer_now_ns();
    } else if (one_in(c, 2)) {
        peer_reset(&c->peer);
    } else {
        peer_close(&c->peer);
    }
    for (o.name = 0; o.name < NAMES; o.name++) {
        if (c->held[o.name] > 0 || c->unanswered[o.name])
            record(c, &o);
    }
}

static void live(struct client *c)
{
    c->text = !one_in(c, 3);
    c->conn = c->number + THREADS * c->lives++;
    memset(c->held, 0, sizeof(c->held));
    memset(c->unanswered, 0, sizeof(c->unanswered));
    c->locks = 0;
    c->unseen = false;
    if (!peer_connect(&c->peer, &server, c->text, c->number)) {
        complain_of_peer(c);
        return;
    }
    for (uint32_t left = 1 + below(c, 40); left > 0 && !is_over() && step(c); left--) {
    }
    end(c);
}

static void *run(void *arg)
{
    struct client *c = arg;
    while (!is_over())
        live(c);
    return NULL;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Sends Get until nobody holds anything. The checker checks these answers too. */
static void await_nothing(struct client *c)
{
    int64_t until = peer_now_ns() + FREE_NS;
    c->conn = 0;
    if (!peer_connect(&c->peer, &server, false, c->number)) {
        complain_of_peer(c);
        return;
    }
    for (uint32_t name = 0; name < NAMES; name++) {
        uint32_t number = 1;
        while (get(c, name, &number) && number > 0 && peer_now_ns() < until)
            peer_pause_ns(1000000);
        if (number > 0)
            complain(c, "units are left that nobody holds", "");
    }
    peer_close(&c->peer);
}

static int by_call(const void *a, const void *b)
{
    const struct operation *x = a, *y = b;
    return x->call < y->call ? -1 : x->call > y->call;
}

static bool write_all(struct client *clients, unsigned count, const char *path)
{
    struct history all = {0};
    FILE *to = fopen(path, "w");
    if (!to)
        return false;
    for (unsigned i = 0; i < count; i++) {
        for (size_t k = 0; k < clients[i].history.count; k++)
            history_add(&all, &clients[i].history.operations[k]);
        history_free(&clients[i].history);
    }
    qsort(all.operations, all.count, sizeof(*all.operations), by_call);
    fprintf(to, "# seed %" PRIu64 "\n", seed);
    for (size_t i = 0; i < all.count; i++)
        history_write_line(to, &all.operations[i]);
    history_free(&all);
    return fclose(to) == 0;
}

int main(int argc, char **argv)
{
    static struct client clients[THREADS + 1];
    static pthread_t threads[THREADS];
    if (argc != 7 || !peer_server_parse(&argv[1], &server) ||
        !peer_number(argv[4], 1000000, &wanted) || !peer_number(argv[5], UINT64_MAX, &seed)) {
        fprintf(stderr, "usage: record HOST TEXT_PORT BINARY_PORT OPERATIONS SEED FILE\n");
        return 2;
    }
    unsigned started = 0;
    for (unsigned i = 0; i <= THREADS; i++) {
        struct client *c = &clients[i];
        c->number = i;
        c->random = seed * 1000 + i;
        c->lives = 1;
        c->peer.fd = -1;
    }
    while (started < THREADS &&
           pthread_create(&threads[started], NULL, run, &clients[started]) == 0)
        started++;
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    await_nothing(&clients[THREADS]);
    if (!write_all(clients, THREADS + 1, argv[6])) {
        fprintf(stderr, "%s: can't be written\n", argv[6]);
        return 1;
    }
    return atomic_load(&failed) ? 1 : 0;
}
