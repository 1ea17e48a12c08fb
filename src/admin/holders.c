/*
 * holders.c - one name, its holders and its waiters.
 *
 * The ledger knows holders by the ids of their connections, and waiters by their tags. Who these
 * are is asked of the connections' workers, a piece at a time. An id may be another connection's by
 * then, so a holder is shown only when its worker finds that it has units of the name now. What a
 * connection holds with two holders is shown as one (CONN_ID_SECOND).
 */
#include "admin/client.h"
#include "base/heap.h"
#include "net/query.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 1000 /* holders, and waiters */
#define LOOKS     512  /* at buckets of holders, in a slice */

/* A holder or a waiter. */
struct party {
    bool found;
    uint32_t holder; /* its connection's id; of a waiter 0 */
    uint64_t tag;    /* of a waiter */
    uint32_t units, limit;
    enum wait_kind kind; /* of a waiter */
    int64_t since_ns;
    struct conn_info info; /* when found */
};

struct name_job {
    struct admin *admin;
    struct table_entry entry;
    struct table_walk walk;
    bool all_listed;

    /* The oldest holders so far; as a heap whose root is the newest of them. */
    struct table_hold holds[SHOWN_MAX];
    size_t hold_count;

    struct party *parties; /* holders, then waiters, each oldest first; NULL: not yet */
    size_t party_count;
    unsigned worker; /* whose are being asked */
    size_t first;    /* the next party to consider for that worker */
    struct party *piece[CLIENT_PIECE];
    size_t piece_at, piece_count; /* those before `piece_at` were asked */

    struct table_wait waits[SHOWN_MAX];
    size_t wait_count;
    uint8_t name[HTTP_HEADERS_MAX];
};

/* ---- the oldest holders ---------------------------------------------------------------------- */

static int compare_holds(const void *a, const void *b, void *none)
{
    (void)none;
    const struct table_hold *x = a, *y = b;
    if (x->since_ns != y->since_ns)
        return x->since_ns < y->since_ns ? -1 : 1;
    return (x->holder > y->holder) - (x->holder < y->holder);
}

static const struct heap oldest = {sizeof(struct table_hold), compare_holds, NULL};

static void list_some(struct name_job *job)
{
    struct table_hold found[LOOKS];
    size_t count = 0;
    job->all_listed = table_holders_on(job->admin->config.services->table, job->entry.name,
                                       &job->walk, clock_now(), LOOKS, found, LOOKS, &count);
    for (size_t i = 0; i < count; i++) {
        found[i].holder = conn_id_first(found[i].holder);
        (void)heap_keep(&oldest, job->holds, &job->hold_count, SHOWN_MAX, &found[i]);
    }
}

/* ---- who they are ---------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    const struct table_hold *x = a, *y = b;
    return x->holder != y->holder ? (x->holder > y->holder) - (x->holder < y->holder)
                                  : compare_holds(b, a, NULL);
}

/* Leaves each connection once. It may have been listed again with what it took later, or with its
 * other holder. */
static void list_once(struct name_job *job)
{
    size_t kept = 0;
    qsort(job->holds, job->hold_count, sizeof(job->holds[0]), compare_ids);
    for (size_t i = 0; i < job->hold_count; i++) {
        if (kept == 0 || job->holds[kept - 1].holder != job->holds[i].holder)
            job->holds[kept++] = job->holds[i];
    }
    job->hold_count = kept;
    qsort_r(job->holds, job->hold_count, sizeof(job->holds[0]), compare_holds, NULL);
}

/* Makes the parties of what was listed. False: no memory. */
static bool make_parties(struct name_job *job)
{
    list_once(job);
    job->party_count = job->hold_count + job->wait_count;
    job->parties = calloc(job->party_count + 1, sizeof(*job->parties));
    if (!job->parties)
        return false;
    struct party *party = job->parties;
    for (size_t i = 0; i < job->hold_count; i++)
        *party++ = (struct party){.holder = job->holds[i].holder};
    for (size_t i = 0; i < job->wait_count; i++)
        *party++ = (struct party){.tag = job->waits[i].tag,
                                  .units = job->waits[i].units,
                                  .limit = job->waits[i].limit,
                                  .kind = job->waits[i].kind,
                                  .since_ns = job->waits[i].since_ns};
    return true;
}

static unsigned party_worker(const struct party *party)
{
    return party->holder ? conn_id_worker(party->holder) : conn_tag_worker(party->tag);
}

/* True if a connection has units of the name; in its worker's thread. */
static bool holds_now(const struct name_job *job, struct conn *conn, struct party *party)
{
    struct table_hold hold;
    if (!service_holds_name(conn, job->entry.name, clock_now(), &hold))
        return false;
    party->units = hold.units;
    party->limit = hold.limit;
    party->since_ns = hold.since_ns;
    return true;
}

/* Finds out who some of a piece of the parties are; in their worker's thread. */
static void resolve(struct worker *worker, void *arg)
{
    struct name_job *job = arg;
    for (unsigned looks = 0; job->piece_at < job->piece_count && looks < CLIENT_PIECE; looks++) {
        struct party *party = job->piece[job->piece_at++];
        struct conn *conn =
            party->holder ? conn_by_id(worker, party->holder) : conn_by_tag(worker, party->tag);
        party->found = conn && (!party->holder || holds_now(job, conn, party));
        if (party->found)
            client_describe(conn, &party->info, &looks);
    }
}

/* Makes a piece of the next parties of a worker. */
static void take_piece(struct name_job *job)
{
    job->piece_at = job->piece_count = 0;
    for (; job->first < job->party_count && job->piece_count < CLIENT_PIECE; job->first++) {
        if (party_worker(&job->parties[job->first]) == job->worker)
            job->piece[job->piece_count++] = &job->parties[job->first];
    }
}

/* Asks the next worker, or the same, for some more. False: all have been asked. */
static bool ask_some(struct name_job *job)
{
    const struct server *server = job->admin->config.server;
    for (; job->worker < server->count; job->worker++, job->first = 0) {
        if (job->piece_at == job->piece_count)
            take_piece(job);
        if (job->piece_count > 0) {
            worker_ask(server->workers[job->worker], resolve, job);
            return true;
        }
    }
    return false;
}

/* Oldest first: what a holder has may be newer than when it was listed. */
static int compare_parties(const void *a, const void *b)
{
    const struct party *x = a, *y = b;
    return (x->since_ns > y->since_ns) - (x->since_ns < y->since_ns);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void add_party(struct json_text *to, const struct party *party, int64_t now_ns)
{
    json_text_open(to, NULL, '{');
    client_add(to, &party->info);
    json_decimal(to, "since", clock_unix_of(party->since_ns));
    json_decimal(to, party->holder ? "held_seconds" : "waited_seconds",
                 now_ns > party->since_ns ? clock_seconds(now_ns - party->since_ns) : 0);
    json_text_number(to, "units", party->units);
    json_text_number(to, "limit", party->limit);
    if (!party->holder)
        json_words(to, "kind", party->kind == WAIT_ANY ? "any" : "me");
    json_text_close(to, '}');
}

static void add_parties(struct json_text *to, const char *key, const struct name_job *job,
                        size_t from, size_t end)
{
    int64_t now_ns = clock_mono_ns();
    json_text_open(to, key, '[');
    for (size_t i = from; i < end; i++) {
        if (job->parties[i].found)
            add_party(to, &job->parties[i], now_ns);
    }
    json_text_close(to, ']');
}

static void answer(struct name_job *job, struct http_request *request)
{
    struct json_text json = json_text_begin();
    qsort(job->parties, job->hold_count, sizeof(job->parties[0]), compare_parties);
    json_entry(&json, &job->entry, "holders_total");
    add_parties(&json, "holders", job, 0, job->hold_count);
    add_parties(&json, "waiters", job, job->hold_count, job->party_count);
    http_answer_json(request, 200, &json);
}

static void take_step(void *arg, struct http_request *request)
{
    struct name_job *job = arg;
    if (!job->all_listed)
        list_some(job);
    else if (!job->parties && !make_parties(job))
        http_answer(request, 503, "application/json", NULL, 0);
    else if (!ask_some(job))
        answer(job, request);
}

static void end_job(void *arg)
{
    struct name_job *job = arg;
    free(job->parties);
    free(job);
}

void get_name(const struct route_request *r)
{
    if (!query_none(r->http))
        return;
    struct name_job *job = route_alloc(r, sizeof(*job));
    if (!job)
        return;
    job->admin = r->admin;
    struct bytes name;
    bool good = slug_name(r, "name", "NAME", job->name, &name);
    if (good && table_inspect(r->services->table, name, clock_now(), &job->entry, job->waits,
                              SHOWN_MAX, &job->wait_count) == TABLE_NOT_FOUND) {
        http_error(r->http, 404, "there is no such name");
        good = false;
    }
    route_steps(r, good, take_step, end_job, job);
}
