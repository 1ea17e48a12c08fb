/*
 * check.c - reads histories of what clients of one daemon saw (record.py), and finds for each an
 * order of its requests that explains the answers, by the model of the table.
 *
 * usage: check FILE...
 *
 * Prints one line for each file, and of a bad one the first answer that nothing explains. Exits
 * with 0 if all are good, 1 if one is not, 2 if one can't be read.
 *
 * A file has one line for each request of a client on one name, with twelve words:
 *
 *     client name verb result units limit queue waits call seen left ret
 *
 * `waits` is 1 if it may wait; the last four are times in ns. A request takes effect between
 * `call`, just before it was sent, and `ret`, just after its answer was read; by `monitor`, if that
 * is not 0, the daemon had handled it. A client has one request at a time. A wait has two such
 * moments: it enters the queue, and it leaves it. A grant or DONE comes with the request of another
 * client; a timeout or the end of the connection is a moment of its own, not before `left`. The
 * result `gone` is that of a wait whose client ended the connection at `left`: it first leaves the
 * queue, and then gives back what it has; `released` that of one who sent RELEASE then, and had the
 * unit.
 *
 * The method is Wing and Gong's, in Lowe's "just in time" variant: a walk over the history in the
 * order of time, with the set of all states that the daemon may be in. When an answer was read, its
 * request must have taken effect. The walk then tries all sequences of pending moments that end
 * with that one; anything else that may happen can also happen later.
 */
#include "t/models/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS    10
#define NAMES      8
#define STATES_MAX (1u << 20)
#define BUCKETS    (2 * STATES_MAX)

enum verb { ACQ4ME, ACQ4ANY, ACQUIRE, RELEASE, GIVE, GET, CLOSE };
enum result {
    LOCKED,
    DONE,
    TIMEOUT,
    FULL,
    GONE,
    RELEASED,
    NOT_LOCKED,
    OK,
    NO,
    NOT_ACQUIRED,
    NOT_FOUND
};
static const char verbs[][16] = {"acq4me", "acq4any", "acquire", "release", "give", "get", "close"};
static const char result_words[][16] = {"locked",      "done",         "timeout",    "full",
                                        "gone",        "released",     "not_locked", "ok",
                                        "unavailable", "not_acquired", "not_found"};

/* What the table's answers to a verb are called. */
static const enum result answers[][TABLE_NO_MEMORY] = {
    [ACQ4ME] = {[TABLE_OK] = LOCKED, [TABLE_BUSY] = TIMEOUT, [TABLE_FULL] = FULL},
    [ACQ4ANY] = {[TABLE_OK] = LOCKED, [TABLE_BUSY] = TIMEOUT, [TABLE_FULL] = FULL},
    [ACQUIRE] = {[TABLE_OK] = OK, [TABLE_BUSY] = NO},
    [RELEASE] = {[TABLE_OK] = OK, [TABLE_NOT_FOUND] = NOT_LOCKED, [TABLE_NOT_HELD] = NOT_LOCKED},
    [GIVE] = {[TABLE_OK] = OK, [TABLE_NOT_FOUND] = NOT_FOUND, [TABLE_NOT_HELD] = NOT_ACQUIRED},
};

struct request {
    unsigned client, name, verb, result;
    uint32_t units, limit, queue, waits;
    int64_t call, seen, left, ret;
};

/* How far a request has come. */
enum phase { SENT, ENTERED, LEFT, OVER };

struct state {
    uint8_t phase[CLIENTS], held[CLIENTS];
    uint8_t line[CLIENTS]; /* the clients that wait, oldest first */
    uint8_t waiting;
    uint8_t kept; /* an acquire of the binary protocol: the name stays at 0 */
};

/* What happens at a time, in this order if several do at one. */
enum kind { BEGINS, MAY_LEAVE, MUST_BE_IN, MUST_BE_OVER };

struct event {
    int64_t time;
    enum kind kind;
    const struct request *request;
};

/* A list of states; `found` has them all once, with a hash table. */
struct states {
    struct state *all;
    size_t count, room;
};
static struct states now, found, reached;
static uint32_t buckets[BUCKETS]; /* place in `found` + 1; 0: free */

static const struct request *under_way[CLIENTS];
static bool may_leave[CLIENTS];
static size_t examined, most;

static void add_state(struct states *list, const struct state *s)
{
    if (list->count == list->room) {
        list->room = 2 * list->room + 64;
        list->all = realloc(list->all, list->room * sizeof(*s));
        CHECK(list->all);
    }
    list->all[list->count++] = *s;
}

static uint32_t *place_of(const struct state *s)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof(*s); i++)
        hash = (hash ^ ((const uint8_t *)s)[i]) * UINT64_C(0x100000001b3);
    uint32_t *at = &buckets[(hash ^ hash >> 32) % BUCKETS];
    while (*at && memcmp(&found.all[*at - 1], s, sizeof(*s)) != 0)
        at = at == &buckets[BUCKETS - 1] ? buckets : at + 1;
    return at;
}

static void arrive(const struct state *s)
{
    uint32_t *at = place_of(s);
    if (*at)
        return;
    CHECK(found.count < STATES_MAX);
    add_state(&found, s);
    *at = (uint32_t)found.count;
}

static void forget_found(void)
{
    for (; found.count > 0; found.count--)
        *place_of(&found.all[found.count - 1]) = 0;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* A state is loaded into the model, one call is made, and the next state is read from it. */
static struct model model;
static struct model_holder holders[CLIENTS];
static struct model_wait waits[CLIENTS];
static struct state next;
static bool contradicted; /* a verdict of the model is not the recorded answer */

static void on_decided(struct model_wait *w)
{
    size_t client = (size_t)(w - waits);
    enum result result = under_way[client]->result;
    bool granted = w->state == WAIT_GRANTED;
    if (result != GONE && !(result == RELEASED && granted)) {
        contradicted |= result != (granted ? LOCKED : DONE);
        next.phase[client] = OVER;
    }
}

static void load(const struct state *s)
{
    static struct model_wait *line[CLIENTS];
    uint32_t consumption = 0;
    next = *s;
    contradicted = false;
    for (unsigned i = 0; i < CLIENTS; i++) {
        holders[i].of[0] = (struct model_holding){.units = s->held[i]};
        consumption += s->held[i];
    }
    for (unsigned i = 0; i < s->waiting; i++) {
        unsigned who = s->line[i];
        line[i] = &waits[who];
        waits[who] = (struct model_wait){
            .holder = &holders[who],
            .state = WAIT_WAITING,
            .kind = under_way[who]->verb == ACQ4ME ? WAIT_ME : WAIT_ANY,
            .units = 1,
            .limit = under_way[who]->limit,
        };
    }
    model.decided = on_decided;
    model.names[0] = (struct model_name){
        .present = consumption > 0 || s->kept,
        .keep = s->kept,
        .consumption = consumption,
        .line = line,
        .room = CLIENTS,
        .waiting = s->waiting,
    };
}

static void go_on(unsigned client, enum phase phase)
{
    const struct model_name *n = &model.names[0];
    if (contradicted)
        return;
    if (next.phase[client] != OVER)
        next.phase[client] = (uint8_t)phase;
    next.kept = n->present && n->keep;
    next.waiting = (uint8_t)n->waiting;
    memset(next.line, 0, sizeof(next.line)); /* equal states have equal bytes */
    for (unsigned i = 0; i < n->waiting; i++)
        next.line[i] = (uint8_t)(n->line[i] - waits);
    for (unsigned i = 0; i < CLIENTS; i++)
        next.held[i] = (uint8_t)holders[i].of[0].units;
    arrive(&next);
}

/* The daemon handles a request. */
static void enter(const struct request *r)
{
    struct model_holder *holder = &holders[r->client];
    if (r->verb == CLOSE) {
        if (holder->of[0].units > 0)
            model_give_back(&model, holder, 0, holder->of[0].units, true);
        go_on(r->client, OVER);
    } else if (r->verb == GET) {
        bool there = model_exists(&model, 0);
        if (r->result == (there ? OK : NOT_FOUND) && r->units == model.names[0].consumption)
            go_on(r->client, OVER);
    } else if (r->verb > ACQUIRE) {
        if (answers[r->verb][model_release(&model, holder, 0, r->units)] == r->result)
            go_on(r->client, OVER);
    } else {
        const struct model_acquire a = {
            .units = r->units,
            .limit = r->limit,
            .queue_max = r->queue,
            .wait = !r->waits           ? WAIT_NO
                    : r->verb == ACQ4ME ? WAIT_ME
                                        : WAIT_ANY,
            .keep = r->verb == ACQUIRE,
        };
        enum table_status status = model_acquire(&model, holder, &a, &waits[r->client]);
        if (r->result == GONE || (r->result == RELEASED && status == TABLE_OK) ||
            (status == TABLE_WAITING && r->result != FULL))
            go_on(r->client, ENTERED);
        else if (answers[r->verb][status] == r->result && status != TABLE_WAITING)
            go_on(r->client, OVER);
    }
}

static bool is_in_line(const struct state *s, unsigned client)
{
    return memchr(s->line, (int)client, s->waiting) != NULL;
}

/* Tries what may happen next to a client's request. */
static void try(const struct state *s, unsigned client)
{
    const struct request *r = under_way[client];
    if (s->phase[client] == SENT) {
        load(s);
        enter(r);
    }
    if (!may_leave[client])
        return;
    load(s);
    if (s->phase[client] == LEFT || (r->result == RELEASED && s->held[client] > 0)) {
        if (s->held[client] > 0)
            model_give_back(&model, &holders[client], 0, s->held[client], r->result == GONE);
        go_on(client, OVER);
    } else if (r->result != RELEASED && is_in_line(s, client)) {
        model_cancel(&model, &waits[client]);
        go_on(client, r->result == GONE ? LEFT : OVER);
    } else if (r->result == GONE) {
        go_on(client, LEFT);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool is_goal(const struct state *s, const struct event *e)
{
    return s->phase[e->request->client] >= (e->kind == MUST_BE_OVER ? OVER : ENTERED);
}

/* Finds all states in which a request is as far as it must be. Returns false if there is none. */
static bool pursue(const struct event *e)
{
    forget_found();
    reached.count = 0;
    for (size_t i = 0; i < now.count; i++)
        arrive(&now.all[i]);
    for (size_t i = 0; i < found.count; i++) {
        const struct state s = found.all[i]; /* the array may move */
        if (is_goal(&s, e)) {
            add_state(&reached, &s);
            continue;
        }
        for (unsigned client = 0; client < CLIENTS; client++) {
            if (under_way[client] && s.phase[client] != OVER)
                try(&s, client);
        }
    }
    examined += found.count;
    if (reached.count == 0)
        return false;
    struct states before = now;
    now = reached;
    reached = before;
    most = most < now.count ? now.count : most;
    return true;
}

static void say_request(const struct request *r)
{
    printf("    %u %s %s, units %u, limit %u, queue %u: %" PRId64 " %" PRId64 " %" PRId64
           " %" PRId64 "\n",
           r->client, verbs[r->verb], result_words[r->result], r->units, r->limit, r->queue,
           r->call, r->seen, r->left, r->ret);
}

static void report(const struct event *e)
{
    printf("no order explains it\n  name %u: nothing explains, at %" PRId64 ",\n", e->request->name,
           e->time);
    say_request(e->request);
    printf("  under way then:\n");
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (under_way[i] && under_way[i] != e->request)
            say_request(under_way[i]);
    }
    printf("  what the daemon may have been just before (%zu states):\n", now.count);
    for (size_t i = 0; i < now.count && i < 3; i++) {
        printf("    held, in line:");
        for (unsigned who = 0; who < CLIENTS; who++)
            printf(" %u%s", now.all[i].held[who], is_in_line(&now.all[i], who) ? "+" : "");
        printf("\n");
    }
}

/* Judges the events of one name. */
static bool walk(const struct event *events, size_t count)
{
    static const struct state nothing;
    now.count = 0;
    add_state(&now, &nothing);
    memset(under_way, 0, sizeof(under_way));
    for (const struct event *e = events; e < events + count; e++) {
        unsigned client = e->request->client;
        if (e->kind == BEGINS) {
            under_way[client] = e->request;
            may_leave[client] = false;
            for (size_t i = 0; i < now.count; i++)
                now.all[i].phase[client] = SENT;
        } else if (e->kind == MAY_LEAVE) {
            may_leave[client] = true;
        } else if (!pursue(e)) {
            report(e);
            return false;
        }
        if (e->kind == MUST_BE_OVER)
            under_way[client] = NULL;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

/* ---- files ----------------------------------------------------------------------------------- */

static unsigned find(const char (*words)[16], unsigned count, const char *word)
{
    unsigned i = 0;
    while (i < count && strcmp(words[i], word) != 0)
        i++;
    return i;
}

static bool read_request(const char *line, struct request *r)
{
    char verb[16], result[16];
    if (sscanf(line, "%u %u %15s %15s %u %u %u %u %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
               &r->client, &r->name, verb, result, &r->units, &r->limit, &r->queue, &r->waits,
               &r->call, &r->seen, &r->left, &r->ret) != 12)
        return false;
    r->verb = find(verbs, ARRAY_SIZE(verbs), verb);
    r->result = find(result_words, ARRAY_SIZE(result_words), result);
    return r->client < CLIENTS && r->name < NAMES && r->verb < ARRAY_SIZE(verbs) &&
           r->result < ARRAY_SIZE(result_words);
}

/* Reads the requests of a file. Returns their number, or -1. */
static ssize_t read_file(const char *path, struct request **requests_r)
{
    FILE *from = fopen(path, "r");
    char line[256];
    size_t count = 0;
    bool good = from != NULL;
    while (good && fgets(line, sizeof(line), from)) {
        if (line[0] == '#')
            continue;
        if (count % 1024 == 0)
            *requests_r = realloc(*requests_r, (count + 1024) * sizeof(**requests_r));
        CHECK(*requests_r);
        good = read_request(line, &(*requests_r)[count++]);
    }
    if (from)
        fclose(from);
    return good ? (ssize_t)count : -1;
}

static bool check_name(const struct request *requests, size_t count, unsigned name)
{
    struct event *events = calloc(4 * count + 1, sizeof(*events));
    size_t n = 0;
    CHECK(events);
    for (const struct request *r = requests; r < requests + count; r++) {
        if (r->name != name)
            continue;
        events[n++] = (struct event){r->call, BEGINS, r};
        events[n++] = (struct event){r->ret, MUST_BE_OVER, r};
        if (r->left)
            events[n++] = (struct event){r->left, MAY_LEAVE, r};
        if (r->seen)
            events[n++] = (struct event){r->seen, MUST_BE_IN, r};
    }
    qsort(events, n, sizeof(*events), compare);
    bool good = walk(events, n);
    free(events);
    return good;
}

int main(int argc, char **argv)
{
    bool good = true;
    for (int i = 1; i < argc; i++) {
        struct request *requests = NULL;
        ssize_t count = read_file(argv[i], &requests);
        if (count < 0) {
            fprintf(stderr, "%s: can't be read\n", argv[i]);
            return 2;
        }
        examined = most = 0;
        printf("%s: %zd requests: ", argv[i], count);
        bool this_one = true;
        for (unsigned name = 0; name < NAMES && this_one; name++)
            this_one = check_name(requests, (size_t)count, name);
        if (this_one)
            printf("good, %zu states, at most %zu at once\n", examined, most);
        good = good && this_one;
        free(requests);
    }
    free(now.all);
    free(found.all);
    free(reached.all);
    return good ? 0 : 1;
}
