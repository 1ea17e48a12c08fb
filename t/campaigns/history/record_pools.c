/*
 * record_pools.c - records a history of pools: requests of clients and their answers, with times.
 *
 * usage: record_pools HOST TEXT_PORT BINARY_PORT OPERATIONS SEED FILE
 *
 * The program makes the pools itself, by verbs. Its threads play four roles. Consumers take members
 * for use and for checks, wait, give up waiting, return, and end their connections in every way.
 * Cleaners take dirty members. An operator changes states of two pools. Suppliers join members, and
 * end them or their connections at random. `pools_check.py` checks the history; its comment
 * describes the lines.
 *
 * Some waits are followed by a marker, a line without meaning. Once the server has answered it, the
 * wait before it is surely in the queue. A client that ends its connection while it waits lets the
 * server close first, so that it knows when the wait was over.
 *
 * At the end the program waits until nobody holds or awaits anything. Exits 0 when the history is
 * written, 1 when an answer was wrong or missing, 2 for wrong usage. The seed determines the plan;
 * the threads race.
 */
#include "t/campaigns/history/peer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONSUMERS 7
#define CLEANERS  2
#define SUPPLIERS 2
#define THREADS   (CONSUMERS + CLEANERS + SUPPLIERS + 1) /* the last one is the operator */
#define HOLDS_MAX 4
#define MEMBERS   3 /* most of a pool; of a supplier */
#define FREE_NS   (INT64_C(20) * 1000000000)
#define JOINED    3 /* index of the joined pool */

static const struct plan {
    const char *name, *options;
    const char *members[MEMBERS + 1]; /* with value and attributes */
} plans[] = {
    {"plain", "queue_max=3 on_fail=free overtakes=4", {"p0 - kind=a", "p1 - kind=b", NULL}},
    {"wash",
     "queue_max=3 on_return=dirty clean_tries=0",
     {"w0 here:1 kind=a", "w1 here:2 kind=b", "w2 here:3 kind=b", NULL}},
    {"frail", "queue_max=2 on_return=free clean_tries=0", {"f0 - kind=a", "f1 - kind=a", NULL}},
    {"web", "kind=joined queue_max=4 cull_after=0", {NULL}},
};

#define POOLS (sizeof(plans) / sizeof(plans[0]))

struct client {
    unsigned number;
    uint64_t random;
    uint32_t conn, lives;
    struct peer peer;
    uint64_t holds[HOLDS_MAX + 2]; /* fences, oldest first */
    unsigned held;
    bool waits;        /* its wait has no answer, and will get none */
    uint64_t returned; /* a fence that it has given back */
    FILE *out;
    char *text;
    size_t len;
};

static struct peer_server server;
static uint64_t seed, wanted;
static atomic_ulong made;
static atomic_bool failed;
static _Atomic uint64_t of_another; /* some fence */

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

static bool send_text(struct client *c, const char *text)
{
    return peer_send(&c->peer, text, strlen(text)) || complain_of_peer(c);
}

static bool read_line(struct client *c, char *line)
{
    return peer_line(&c->peer, line) || complain_of_peer(c);
}

/* ---- the file ---------------------------------------------------------------------------- */

static void put_time(struct client *c, const char *name, int64_t time)
{
    if (time >= 0)
        fprintf(c->out, " %s=%" PRId64, name, time);
}

/* Begins a line of the history. An unknown time is negative, and left out. */
static void put_begin(struct client *c, const char *verb, int64_t call, int64_t ret)
{
    fprintf(c->out, "%s conn=%u", verb, c->conn);
    put_time(c, "call", call);
    put_time(c, "ret", ret);
    atomic_fetch_add(&made, 1);
}

/* ---- TAKE ---------------------------------------------------------------------------------- */

struct take {
    char pools[32], what[8], member[8], with[8];
    unsigned count;
    int64_t timeout_us;
    int64_t call, seen, left, ret;
    const char *answer;
    char holds[128]; /* of the line of the history */
    bool marker;     /* sent, and not answered */
};

static void put_take(struct client *c, const struct take *t)
{
    put_begin(c, "take", t->call, t->ret);
    put_time(c, "seen", t->seen);
    put_time(c, "left", t->left);
    fprintf(c->out, " pools=%s for=%s count=%u timeout=%" PRId64, t->pools, t->what, t->count,
            t->timeout_us * 1000);
    if (*t->member)
        fprintf(c->out, " member=%s", t->member);
    if (*t->with)
        fprintf(c->out, " with=%s", t->with);
    fprintf(c->out, " answer=%s%s\n", t->answer, t->holds);
}

static bool is_word(const char *line, const char *word)
{
    return strcmp(line, word) == 0;
}

/* Reads a line that is not the answer to the marker; notes when that is read. */
static bool read_unmarked(struct client *c, struct take *t, char *line)
{
    for (;;) {
        if (!read_line(c, line))
            return false;
        if (!t->marker || !is_word(line, "ERROR BAD_COMMAND"))
            return true;
        t->marker = false;
        t->seen = peer_now_ns();
    }
}

/* Notes the members of an answer whose first line has been read. */
static bool note_taken(struct client *c, struct take *t, char *line)
{
    size_t len = 0;
    char pool[16] = "", first[16];
    for (unsigned i = 0; i < t->count; i++) {
        char member[16];
        uint64_t fence;
        if (i > 0 && !read_line(c, line))
            return false;
        if (sscanf(line, "TAKEN %15s %15s %" SCNu64, first, member, &fence) != 3 ||
            (i > 0 && !is_word(first, pool)))
            return complain(c, "TAKE was answered with", line);
        memcpy(pool, first, sizeof(pool));
        if (i == 0)
            len = (size_t)snprintf(t->holds, sizeof(t->holds), " in=%s", pool);
        len += (size_t)snprintf(t->holds + len, sizeof(t->holds) - len, " hold=%s:%" PRIu64, member,
                                fence);
        c->holds[c->held++] = fence;
        atomic_store(&of_another, fence);
    }
    t->answer = "taken";
    return true;
}

/* Notes the answer, whose first line has been read. */
static bool note_answer(struct client *c, struct take *t, char *line)
{
    if (is_word(line, "TIMEOUT"))
        t->answer = "timeout";
    else if (is_word(line, "QUEUE_FULL"))
        t->answer = "queue_full";
    else if (is_word(line, "ERROR NO_MEMBER"))
        t->answer = "no_member";
    else if (!note_taken(c, t, line))
        return false;
    t->ret = peer_now_ns();
    put_take(c, t);
    return true;
}

/* Forgets a hold that RETURN has ended. */
static void forget(struct client *c, uint64_t fence)
{
    for (unsigned i = 0; i < c->held; i++) {
        if (c->holds[i] != fence)
            continue;
        c->held--;
        memmove(&c->holds[i], &c->holds[i + 1], (c->held - i) * sizeof(c->holds[0]));
        c->returned = fence;
        return;
    }
}

/* Reads the answer to RETURN and records it. */
static bool finish_return(struct client *c, struct take *t, int64_t call, uint64_t fence,
                          const char *how)
{
    static const char *const words[][2] = {
        {"RETURNED", "returned"}, {"GONE", "gone"}, {"NOT_TAKEN", "not_taken"}};
    char line[PEER_LINE];
    if (!read_unmarked(c, t, line))
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!is_word(line, words[i][0]))
            continue;
        put_begin(c, "return", call, peer_now_ns());
        fprintf(c->out, " fence=%" PRIu64 " how=%s answer=%s\n", fence, how, words[i][1]);
        if (i < 2)
            forget(c, fence);
        return true;
    }
    return complain(c, "RETURN was answered with", line);
}

/* Sends RETURN, because no answer has arrived: it ends the wait, or the newest hold. */
static bool cancel(struct client *c, struct take *t)
{
    char line[PEER_LINE];
    int64_t call = peer_now_ns();
    if (!send_text(c, "RETURN\n") || !read_unmarked(c, t, line))
        return false;
    if (is_word(line, "RETURNED")) {
        t->left = call;
        t->ret = peer_now_ns();
        t->answer = "cancelled";
        put_take(c, t);
        return true;
    }
    return note_answer(c, t, line) &&
           finish_return(c, t, call, c->held > 0 ? c->holds[c->held - 1] : 0, "ok");
}

enum patience { PATIENT, CANCEL, ABANDON };

/*
 * Sends TAKE and reads the answer. Returns false if the connection must end. c->waits then says if
 * a wait is pending.
 */
static bool take(struct client *c, struct take *t)
{
    char line[PEER_LINE];
    bool waits = t->timeout_us > 0;
    enum patience patience = PATIENT;
    int64_t patience_ns = below(c, 3000) * INT64_C(1000);
    if (waits && one_in(c, 4))
        patience = one_in(c, 2) ? CANCEL : ABANDON;
    t->marker = waits && !one_in(c, 3);
    t->seen = t->left = t->ret = -1;
    snprintf(line, sizeof(line), "TAKE %s %" PRId64 ".%06" PRId64 " for=%s count=%u%s%s%s%s\n%s",
             t->pools, t->timeout_us / 1000000, t->timeout_us % 1000000, t->what, t->count,
             *t->member ? " member=" : "", t->member, *t->with ? " with=" : "", t->with,
             t->marker ? "MARK\n" : "");
    t->call = peer_now_ns();
    if (!send_text(c, line))
        return false;
    for (;;) {
        int64_t left = t->call + patience_ns - peer_now_ns();
        if (patience != PATIENT && !peer_is_ready(&c->peer, left > 0 ? left : 0))
            break;
        bool marker = t->marker;
        if (!read_line(c, line))
            return false;
        if (marker && is_word(line, "ERROR BAD_COMMAND")) {
            t->marker = false;
            t->seen = peer_now_ns();
            continue;
        }
        if (!note_answer(c, t, line))
            return false;
        if (t->marker && (!read_line(c, line) || !is_word(line, "ERROR BAD_COMMAND")))
            return complain(c, "a marker was answered with", line);
        return true;
    }
    if (patience == CANCEL) {
        if (!cancel(c, t))
            return false;
        if (t->marker && (!read_line(c, line) || !is_word(line, "ERROR BAD_COMMAND")))
            return complain(c, "a marker was answered with", line);
        return true;
    }
    t->answer = "unknown";
    put_take(c, t);
    c->waits = true;
    return false;
}

static void choose_timeout(struct client *c, struct take *t)
{
    t->timeout_us = one_in(c, 4) ? 0 : 200 + below(c, 6000);
}

/* Takes for use, or for a check. */
static bool consume(struct client *c)
{
    static const unsigned likely[] = {0, 0, 0, 1, 1, 2, 2, JOINED, JOINED};
    unsigned pool = likely[below(c, sizeof(likely) / sizeof(likely[0]))];
    const struct plan *plan = &plans[pool];
    struct take t = {.count = 1};
    choose_timeout(c, &t);
    snprintf(t.pools, sizeof(t.pools), "%s", plan->name);
    snprintf(t.what, sizeof(t.what), "%s", one_in(c, 12) ? "check" : "use");
    if (one_in(c, 8) && pool != JOINED)
        snprintf(t.member, sizeof(t.member), "%.2s", plan->members[below(c, 2)]);
    else if (one_in(c, 8))
        snprintf(t.pools, sizeof(t.pools), "%s,%s", plan->name, plans[(pool + 1) % POOLS].name);
    else if (one_in(c, 8) && pool != JOINED)
        snprintf(t.with, sizeof(t.with), "kind=%c", one_in(c, 2) && pool != 2 ? 'b' : 'a');
    else if (one_in(c, 8))
        t.count = 2;
    return take(c, &t);
}

static bool clean(struct client *c)
{
    struct take t = {.count = 1, .what = "clean"};
    choose_timeout(c, &t);
    snprintf(t.pools, sizeof(t.pools), "%s", plans[1 + below(c, 2)].name);
    return take(c, &t);
}

/* ---- RETURN and ends ------------------------------------------------------------------------- */

static bool give_back(struct client *c)
{
    char line[PEER_LINE];
    struct take none = {0};
    const char *how = one_in(c, 5) ? "fail" : "ok";
    uint64_t fence = c->held > 0 ? c->holds[below(c, c->held)] : 0;
    bool bare = c->held > 0 && one_in(c, 4);
    if (bare)
        fence = c->holds[c->held - 1];
    else if (fence == 0 || one_in(c, 16))
        fence = one_in(c, 2) ? c->returned : atomic_load(&of_another);
    if (bare)
        snprintf(line, sizeof(line), "RETURN%s\n", is_word(how, "ok") ? "" : " fail");
    else
        snprintf(line, sizeof(line), "RETURN %" PRIu64 " %s\n", fence, how);
    int64_t call = peer_now_ns();
    return send_text(c, line) && finish_return(c, &none, call, fence, how);
}

static void put_end(struct client *c, const char *how, int64_t call, int64_t ret)
{
    put_begin(c, "end", call, ret);
    fprintf(c->out, " how=%s\n", how);
}

static bool quit(struct client *c)
{
    char line[PEER_LINE];
    if (!send_text(c, "QUIT\n"))
        return false;
    do {
        if (!read_line(c, line))
            return false;
    } while (strncmp(line, "STOP ", 5) == 0);
    return is_word(line, "BYE") || complain(c, "QUIT was answered with", line);
}

/* Ends the connection in one of four ways. */
static void end(struct client *c)
{
    int64_t call = peer_now_ns();
    if (!c->waits && one_in(c, 3)) {
        if (quit(c))
            put_end(c, "quit", call, peer_now_ns());
        peer_close(&c->peer);
    } else if (c->waits || one_in(c, 2)) {
        if (!peer_half_close(&c->peer, NULL))
            complain_of_peer(c);
        put_end(c, "half", call, peer_now_ns());
    } else if (one_in(c, 2)) {
        peer_reset(&c->peer);
        put_end(c, "reset", call, -1);
    } else {
        peer_close(&c->peer);
        put_end(c, "close", call, -1);
    }
}

/* Begins another connection. */
static bool begin(struct client *c)
{
    c->conn = c->number + THREADS * c->lives++;
    c->held = 0;
    c->waits = false;
    return peer_connect(&c->peer, &server, true, c->number) || complain_of_peer(c);
}

/* ---- consumers and cleaners ------------------------------------------------------------------ */

static bool step(struct client *c, bool cleans)
{
    if (c->held > 0 && one_in(c, 4))
        peer_pause_ns(below(c, 200000));
    if (c->held >= HOLDS_MAX - 1 || (c->held > 0 && !one_in(c, 4)) || one_in(c, 32))
        return give_back(c);
    return cleans ? clean(c) : consume(c);
}

static void live(struct client *c, bool cleans)
{
    if (!begin(c))
        return;
    for (uint32_t left = 1 + below(c, 40); left > 0 && !is_over() && step(c, cleans); left--) {
    }
    if (!atomic_load(&failed))
        end(c);
    peer_close(&c->peer);
}

/* ---- suppliers ------------------------------------------------------------------------------- */

struct supply {
    bool there[MEMBERS], stopped[MEMBERS];
};

/* Reads a line that is no STOP; notes these. */
static bool read_answer(struct client *c, struct supply *s, char *line)
{
    for (;;) {
        if (!read_line(c, line))
            return false;
        if (strncmp(line, "STOP ", 5) != 0)
            return true;
        const char *dash = strchr(line, '-');
        unsigned i = dash ? (unsigned)(dash[1] - '0') : MEMBERS;
        if (i >= MEMBERS)
            return complain(c, "a strange line", line);
        s->stopped[i] = true;
    }
}

static bool change_supply(struct client *c, struct supply *s, unsigned i)
{
    char line[PEER_LINE];
    bool there = s->there[i];
    snprintf(line, sizeof(line), there ? "MEMBER DROP web s%u-%u now\n" : "JOIN web s%u-%u\n",
             c->number, i);
    int64_t call = peer_now_ns();
    if (!send_text(c, line) || !read_answer(c, s, line))
        return false;
    bool well = is_word(line, there ? "OK" : "JOINED");
    bool forgotten = there && s->stopped[i] && is_word(line, "ERROR NO_MEMBER"); /* stop_timeout */
    if (!well && !forgotten && (there || !is_word(line, "ERROR EXISTS")))
        return complain(c, there ? "DROP was answered with" : "JOIN was answered with", line);
    put_begin(c, there ? "drop" : "join", call, peer_now_ns());
    fprintf(c->out, " pool=web member=s%u-%u answer=%s\n", c->number, i,
            there || well ? "ok" : "exists");
    s->there[i] = !there && well;
    s->stopped[i] = false;
    return true;
}

static bool supply_step(struct client *c, struct supply *s)
{
    char line[PEER_LINE];
    if (peer_is_ready(&c->peer, below(c, 2000000))) {
        if (!peer_line(&c->peer, line))
            return complain_of_peer(c);
        const char *dash = strchr(line, '-');
        unsigned i = dash ? (unsigned)(dash[1] - '0') : MEMBERS;
        if (strncmp(line, "STOP ", 5) != 0 || i >= MEMBERS)
            return complain(c, "a strange line", line);
        s->stopped[i] = true;
    }
    for (unsigned i = 0; i < MEMBERS - 1; i++) {
        if (s->stopped[i] || !s->there[i] || one_in(c, 8)) {
            if (!change_supply(c, s, i))
                return false;
        }
    }
    return true;
}

static void supply(struct client *c)
{
    struct supply s = {0};
    if (!begin(c))
        return;
    for (uint32_t left = 1 + below(c, 60); left > 0 && !is_over() && supply_step(c, &s); left--) {
    }
    if (!atomic_load(&failed))
        end(c);
    peer_close(&c->peer);
}

/* ---- the operator ---------------------------------------------------------------------------- */

static bool ask(struct client *c, const char *request, char *line)
{
    return send_text(c, request) && read_line(c, line);
}

static bool operate(struct client *c, const char *pool, const char *member, const char *state,
                    bool now)
{
    char line[PEER_LINE];
    snprintf(line, sizeof(line), "MEMBER SET %s %.2s state=%s%s\n", pool, member, state,
             now ? " now" : "");
    int64_t call = peer_now_ns();
    if (!ask(c, line, line))
        return false;
    if (!is_word(line, "OK"))
        return complain(c, "MEMBER SET was answered with", line);
    put_begin(c, "set", call, peer_now_ns());
    fprintf(c->out, " pool=%s member=%.2s state=%s now=%d\n", pool, member, state, now);
    return true;
}

/* Changes states of `frail`; says now and then that a member of `wash` is clean. */
static bool operator_step(struct client *c)
{
    static const char *const states[] = {"free", "dirty", "down"};
    peer_pause_ns(below(c, 3000000));
    if (one_in(c, 8))
        return operate(c, "wash", plans[1].members[below(c, 3)], "free", false);
    const char *member = plans[2].members[below(c, 2)], *state = states[below(c, 3)];
    if (!operate(c, "frail", member, state, one_in(c, 2)))
        return false;
    if (!is_word(state, "down"))
        return true;
    peer_pause_ns(below(c, 1000000));
    return operate(c, "frail", member, "free", false);
}

static void be_operator(struct client *c)
{
    if (!begin(c))
        return;
    while (!is_over() && operator_step(c)) {
    }
    peer_close(&c->peer);
}

static void *run(void *arg)
{
    struct client *c = arg;
    while (!is_over()) {
        if (c->number < CONSUMERS + CLEANERS)
            live(c, c->number >= CONSUMERS);
        else if (c->number < THREADS - 1)
            supply(c);
        else
            be_operator(c);
    }
    return NULL;
}

/* ---- begin and end --------------------------------------------------------------------------- */

/* Makes the pools, and writes them to the history. */
static bool set_up(struct client *c)
{
    char line[PEER_LINE];
    for (size_t i = 0; i < POOLS; i++) {
        const struct plan *plan = &plans[i];
        snprintf(line, sizeof(line), "POOL DROP %s now\n", plan->name);
        if (!ask(c, line, line))
            return false;
        snprintf(line, sizeof(line), "POOL ADD %s %s\n", plan->name, plan->options);
        if (!ask(c, line, line) || !is_word(line, "OK"))
            return complain(c, "POOL ADD was answered with", line);
        fprintf(c->out, "pool name=%s %s\n", plan->name, plan->options);
        for (const char *const *member = plan->members; *member; member++) {
            snprintf(line, sizeof(line), "MEMBER ADD %s %s\n", plan->name, *member);
            if (!ask(c, line, line) || !is_word(line, "OK"))
                return complain(c, "MEMBER ADD was answered with", line);
            fprintf(c->out, "member pool=%s name=%.2s %s\n", plan->name, *member,
                    strrchr(*member, ' ') + 1);
        }
    }
    return true;
}

/* Waits until nothing of a pool is held or awaited. */
static bool await_nothing(struct client *c, const char *pool)
{
    int64_t until = peer_now_ns() + FREE_NS;
    for (;;) {
        char first[PEER_LINE], line[PEER_LINE];
        snprintf(line, sizeof(line), "POOL SHOW %s\n", pool);
        if (!ask(c, line, first))
            return false;
        do {
            if (!read_line(c, line))
                return false;
        } while (*line);
        if (strstr(first, " taken=0 cleaning=0 checking=0 ") && strstr(first, " waiting=0 "))
            return true;
        if (peer_now_ns() > until)
            return complain(c, "something is held or awaited, by nobody", first);
        peer_pause_ns(1000000);
    }
}

static bool write_all(struct client *clients, const char *path)
{
    FILE *to = fopen(path, "w");
    if (!to)
        return false;
    fprintf(to, "# seed %" PRIu64 "\n", seed);
    for (unsigned i = 0; i <= THREADS; i++) {
        struct client *c = &clients[(i + THREADS) % (THREADS + 1)]; /* the pools come first */
        fclose(c->out);
        fwrite(c->text, 1, c->len, to);
        free(c->text);
    }
    return fclose(to) == 0;
}

int main(int argc, char **argv)
{
    static struct client clients[THREADS + 1];
    static pthread_t threads[THREADS];
    struct client *last = &clients[THREADS];
    if (argc != 7 || !peer_server_parse(&argv[1], &server) ||
        !peer_number(argv[4], 1000000, &wanted) || !peer_number(argv[5], UINT64_MAX, &seed)) {
        fprintf(stderr, "usage: record_pools HOST TEXT_PORT BINARY_PORT OPERATIONS SEED FILE\n");
        return 2;
    }
    for (unsigned i = 0; i <= THREADS; i++) {
        struct client *c = &clients[i];
        c->number = i;
        c->random = seed * 1000 + i;
        c->lives = 1;
        c->peer.fd = -1;
        c->out = open_memstream(&c->text, &c->len);
        if (!c->out)
            abort();
    }
    unsigned started = 0;
    if (begin(last) && set_up(last)) {
        while (started < THREADS &&
               pthread_create(&threads[started], NULL, run, &clients[started]) == 0)
            started++;
        for (unsigned i = 0; i < started; i++)
            pthread_join(threads[i], NULL);
        for (size_t i = 0; i < POOLS && await_nothing(last, plans[i].name); i++) {
        }
    }
    peer_close(&last->peer);
    if (!write_all(clients, argv[6])) {
        fprintf(stderr, "%s: can't be written\n", argv[6]);
        return 1;
    }
    return atomic_load(&failed) ? 1 : 0;
}
