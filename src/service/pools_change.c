/*
 * pools_change.c - what operators change: states of members, and what is dropped. See
 * pools_internal.h.
 *
 * The change is made in the thread of worker 0, which then tells the clients that it concerns.
 */
#include "base/log.h"
#include "net/query.h"
#include "service/pools.h"
#include "service/pools_internal.h"

#include <string.h>

enum change_kind { CHANGE_SETS_MEMBER, CHANGE_DROPS_MEMBER, CHANGE_DROPS_POOL };

/* A request, and what came of it. */
struct change {
    const struct route_request *r;
    enum change_kind kind;
    struct pool_member_change set; /* of what is dropped: pool, name, now */
    enum pool_status status;
    uint8_t pool_bytes[HTTP_HEADERS_MAX], member_bytes[HTTP_HEADERS_MAX];
    uint8_t note_bytes[HTTP_HEADERS_MAX];
};

static enum pool_status make_change(const struct change *change, struct moment now,
                                    struct pool_outbox *outbox)
{
    struct pools *pools = pools_of(change->r->services);
    const struct pool_member_change *set = &change->set;
    switch (change->kind) {
    case CHANGE_SETS_MEMBER:
        return pool_member_set(pools, set, now, outbox);
    case CHANGE_DROPS_MEMBER:
        return pool_member_drop(pools, NULL, false, set->pool, set->name, set->now, now, outbox);
    case CHANGE_DROPS_POOL:
        break;
    }
    return pool_drop(pools, set->pool, set->now, now, outbox);
}

static void make_there(struct worker *worker, void *arg)
{
    struct change *change = arg;
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    change->status = make_change(change, worker_now(worker), &outbox);
    pools_deliver(worker, change->r->services, &outbox);
}

/* Logs a change and the address of its client: "has dropped". */
static void log_change(const struct change *change, const char *what)
{
    struct text pool = {0}, member = {0};
    text_add_readable(&pool, change->set.pool);
    text_add_readable(&member, change->set.name);
    log_info("admin: %s %s %s%spool %s%s%s%s", http_peer(change->r->http), what, text_str(&member),
             member.len > 0 ? " of " : "", text_str(&pool), change->set.sets_state ? ": " : "",
             change->set.sets_state ? pool_state_word(change->set.state) : "",
             change->set.now ? ", now" : "");
    text_free(&pool);
    text_free(&member);
}

/* Makes a change and answers its request. */
static void make(struct change *change, const char *what)
{
    struct http_request *request = change->r->http;
    worker_ask(change->r->services->server->workers[0], make_there, change);
    switch (change->status) {
    case POOL_OK: {
        struct json_text json = json_text_begin();
        log_change(change, what);
        json_text_bool(&json, "done", true);
        http_answer_json(request, 200, &json);
        break;
    }
    case POOL_NO_POOL:
        http_error(request, 404, "there is no such pool");
        break;
    case POOL_NO_MEMBER:
        http_error(request, 404, "there is no such member");
        break;
    case POOL_BAD_STATE:
        http_error(request, 409,
                   "this member can't get this state: it is stopping, or its pool is "
                   "a joined one, whose members are never dirty");
        break;
    default:
        http_answer(request, 503, "application/json", NULL, 0);
        break;
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The parameters of all changes; each takes the first so many. */
enum { NOW, MEMBER, STATE, NOTE };
static const char *const drop_names[] = {"now", NULL};
static const char *const member_names[] = {"now", "member", NULL};
static const char *const set_names[] = {"now", "member", "state", "note", NULL};

/* Reads the pool and `now`. False: answered. */
static bool begin(struct change *change, struct query *query, const char *const *names)
{
    static const char *const words[] = {"false", "true", NULL};
    unsigned now = 0;
    if (!query_read(query, change->r->http, names) || !query_word(query, NOW, words, &now) ||
        !slug_name(change->r, "pool", "POOL", change->pool_bytes, &change->set.pool))
        return false;
    change->set.now = now == 1;
    return true;
}

static bool read_member(struct change *change, const struct query *query)
{
    change->set.name.data = change->member_bytes;
    if (!query_bytes(query, MEMBER, change->member_bytes, &change->set.name.len))
        return false;
    if (change->set.name.len == 0)
        http_error(change->r->http, 400, "member=MEMBER is missing, percent-encoded");
    return change->set.name.len > 0;
}

/* True for what the wire allows as a note: SHOW has it in a line, between spaces. */
static bool is_note(struct bytes note)
{
    static const uint8_t never[] = {' ', '\r', '\n', '\0'};
    bool good = note.len <= POOL_SHORT_MAX;
    for (size_t i = 0; good && i < ARRAY_SIZE(never); i++)
        good = !memchr(note.data, never[i], note.len);
    return good;
}

static bool read_note(struct change *change, const struct query *query)
{
    change->set.note.data = change->note_bytes;
    change->set.sets_note = query->values[NOTE].data != NULL;
    if (!query_bytes(query, NOTE, change->note_bytes, &change->set.note.len))
        return false;
    if (is_note(change->set.note))
        return true;
    http_error(change->r->http, 400, "note: it has at most %d bytes, without spaces and line ends",
               POOL_SHORT_MAX);
    return false;
}

static bool read_state(struct change *change, const struct query *query)
{
    static const enum pool_state states[] = {MEMBER_FREE, MEMBER_DIRTY, MEMBER_DOWN};
    static const char *const words[] = {"free", "dirty", "down", NULL};
    unsigned state = 0;
    change->set.sets_state = query->values[STATE].data != NULL;
    if (!query_word(query, STATE, words, &state))
        return false;
    change->set.state = states[state];
    return true;
}

/* ---- changes --------------------------------------------------------------------------------- */

void set_pool_member(const struct route_request *r)
{
    struct change change = {.r = r, .kind = CHANGE_SETS_MEMBER};
    struct query query;
    if (!begin(&change, &query, set_names) || !read_member(&change, &query) ||
        !read_state(&change, &query) || !read_note(&change, &query))
        return;
    if (change.set.sets_state || change.set.sets_note)
        make(&change, "has changed");
    else
        http_error(r->http, 400, "state=free, dirty or down is missing, or note=TEXT");
}

void drop_pool_member(const struct route_request *r)
{
    struct change change = {.r = r, .kind = CHANGE_DROPS_MEMBER};
    struct query query;
    if (begin(&change, &query, member_names) && read_member(&change, &query))
        make(&change, "has dropped");
}

void drop_pool(const struct route_request *r)
{
    struct change change = {.r = r, .kind = CHANGE_DROPS_POOL};
    struct query query;
    if (begin(&change, &query, drop_names))
        make(&change, "has dropped");
}
