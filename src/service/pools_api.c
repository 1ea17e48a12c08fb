/*
 * pools_api.c - LIST and SHOW of pools as JSON, page by page. See pools_seen.h.
 *
 * An answer is made in steps. A step copies PIECE entries at most under the pools' lock, and writes
 * them after that. A cursor is the last item of its page, so an item that is there all the while is
 * listed once. A page ends early when its text has ANSWER_MAX bytes.
 *
 * Values of members are not shown (protocol-pools.md), and do not come here.
 */
#include "base/number.h"
#include "net/query.h"
#include "service/pool_options.h"
#include "service/pool_verbs.h"
#include "service/pools.h"
#include "service/pools_seen.h"

#include <stdio.h>
#include <stdlib.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
#define ANSWER_MAX    ((size_t)256 * 1024)
#define PIECE         32                  /* entries in a step; the suppliers are one step */
#define SUPPLIERS_MAX 128                 /* shown of a pool */
#define PIECE_BYTES   ((size_t)32 * 1024) /* of their names and words: more than one entry has */

/* One copied entry: of these, that of the stage. */
struct item {
    union {
        struct pool_entry pool;
        struct pool_member_entry member;
        struct pool_waiter_entry waiter;
        struct pool_supplier_entry supplier;
    };
    struct pool_options options;                      /* of a pool */
    struct pool_attribute pairs[POOL_ATTRIBUTES_MAX]; /* of a member; what a waiter asks for */
    const char *peer;                                 /* of a holder or client; NULL: none */
};

/* What is listed, in this order. Of all pools only the first. */
enum stage { STAGE_POOLS, STAGE_MEMBERS, STAGE_WAITERS, STAGE_SUPPLIERS, STAGE_OVER };

struct pools_job {
    struct pools *pools;
    bool one; /* SHOW of a pool; else LIST */
    enum stage stage;
    uint8_t name[HTTP_HEADERS_MAX]; /* the pool, or a prefix */
    size_t name_len;
    unsigned limits[STAGE_OVER], counts[STAGE_OVER]; /* entries to list at most, and listed */
    uint8_t after[POOL_NAME_MAX];
    size_t after_len;
    uint64_t after_seq;
    struct json_text json;

    /* The piece. */
    struct moment now;
    struct item items[SUPPLIERS_MAX];
    size_t count, used;
    uint8_t bytes[PIECE_BYTES];
};

/* ---- copies: under the pools' lock ---------------------------------------------------------- */

static bool is_room_for(const struct pools_job *job, size_t len)
{
    return job->count < ARRAY_SIZE(job->items) && len <= PIECE_BYTES - job->used;
}

static struct bytes copy(struct pools_job *job, struct bytes from)
{
    uint8_t *to = job->bytes + job->used;
    if (from.len > 0)
        memcpy(to, from.data, from.len);
    job->used += from.len;
    return bytes_at(to, from.len);
}

static const char *copy_string(struct pools_job *job, const char *from)
{
    return (const char *)copy(job, bytes_at(from, strlen(from) + 1)).data;
}

static size_t pairs_len(const struct pool_attribute *pairs, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += pairs[i].key.len + pairs[i].value.len;
    return len;
}

static void copy_pairs(struct pools_job *job, struct item *item, const struct pool_attribute *pairs,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        item->pairs[i] =
            (struct pool_attribute){copy(job, pairs[i].key), copy(job, pairs[i].value)};
}

static bool copy_pool(void *arg, const struct pool_entry *entry)
{
    struct pools_job *job = arg;
    const char *group = entry->options->group;
    if (!is_room_for(job, entry->name.len + (group ? strlen(group) + 1 : 0)))
        return false;
    struct item *item = &job->items[job->count++];
    item->pool = *entry;
    item->pool.name = copy(job, entry->name);
    item->options = *entry->options;
    item->options.group = group ? unconst(copy_string(job, group)) : NULL;
    return true;
}

static void copy_one_pool(void *arg, const struct pool_entry *entry)
{
    CHECK(copy_pool(arg, entry));
}

static bool copy_member(void *arg, const struct pool_member_entry *entry)
{
    struct pools_job *job = arg;
    if (!is_room_for(job, entry->name.len + entry->by.len + entry->note.len + CONN_PEER_TEXT +
                              pairs_len(entry->attributes, entry->attribute_count)))
        return false;
    struct item *item = &job->items[job->count++];
    item->member = *entry;
    item->member.name = copy(job, entry->name);
    item->member.by = copy(job, entry->by);
    item->member.note = copy(job, entry->note);
    copy_pairs(job, item, entry->attributes, entry->attribute_count);
    item->peer = entry->fence > 0 ? copy_string(job, pool_session_peer(entry->holder_owner)) : NULL;
    return true;
}

static bool copy_waiter(void *arg, const struct pool_waiter_entry *entry)
{
    struct pools_job *job = arg;
    if (!is_room_for(job, entry->member.len + entry->by.len + CONN_PEER_TEXT +
                              pairs_len(entry->with, entry->with_count)))
        return false;
    struct item *item = &job->items[job->count++];
    item->waiter = *entry;
    item->waiter.member = copy(job, entry->member);
    item->waiter.by = copy(job, entry->by);
    copy_pairs(job, item, entry->with, entry->with_count);
    item->peer = copy_string(job, pool_session_peer(entry->owner));
    return true;
}

static bool copy_supplier(void *arg, const struct pool_supplier_entry *entry)
{
    struct pools_job *job = arg;
    if (!is_room_for(job, CONN_PEER_TEXT))
        return false;
    struct item *item = &job->items[job->count++];
    item->supplier = *entry;
    item->peer = copy_string(job, pool_session_peer(entry->owner));
    return true;
}

/* Copies the next entries, at most `budget`; 0: none. True: those were the last. */
static bool copy_piece(struct pools_job *job, unsigned budget)
{
    struct bytes name = bytes_at(job->name, job->name_len);
    struct bytes after = bytes_at(job->after, job->after_len);
    job->count = job->used = 0;
    job->now = clock_now();
    if (budget == 0)
        return true;
    switch (job->stage) {
    case STAGE_POOLS:
        return pools_list(job->pools, name, after, budget, copy_pool, job, job->now);
    case STAGE_MEMBERS:
        return pool_show_members(job->pools, name, after, budget, copy_member, job);
    case STAGE_WAITERS:
        return pool_show_waiters(job->pools, name, job->after_seq, budget, copy_waiter, job);
    case STAGE_SUPPLIERS:
        pool_show_suppliers(job->pools, name, copy_supplier, job);
        return true;
    case STAGE_OVER:
        break;
    }
    CHECK(false);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static double seconds(int64_t ns)
{
    return ns > 0 ? (double)ns / (double)NS_PER_S : 0;
}

static void write_seconds(struct json_text *to, const char *key, int64_t ns)
{
    if (ns < 0)
        json_text_null(to, key);
    else
        json_text_real(to, key, seconds(ns));
}

/* A name, or null. */
static void write_words(struct json_text *to, const char *key, struct bytes words)
{
    if (words.len > 0)
        json_text_readable(to, key, words);
    else
        json_text_null(to, key);
}

static void write_name(struct json_text *to, struct bytes name)
{
    json_text_readable(to, "name", name);
    json_text_percent(to, "id", name);
}

/* When something began, and how long ago. */
static void write_since(struct pools_job *job, int64_t since_ns)
{
    int64_t ago_ns = job->now.mono_ns - since_ns; /* a worker's clock may be ahead */
    int64_t unix_ns = clock_unix_ns() - (clock_mono_ns() - since_ns);
    json_text_real(&job->json, "since", (double)unix_ns / (double)NS_PER_S);
    json_text_real(&job->json, "seconds", seconds(ago_ns));
}

static void write_connection(struct json_text *to, const char *key, uint64_t tag)
{
    char text[CONN_TAG_TEXT];
    conn_tag_text(tag, text);
    json_text_string(to, key, bytes_of(text));
}

static void write_client(struct json_text *to, uint64_t tag, const char *peer)
{
    write_connection(to, "connection", tag);
    json_text_string(to, "client", bytes_of(peer));
}

static void write_pairs(struct json_text *to, const char *key, const struct pool_attribute *pairs,
                        size_t count)
{
    json_text_open(to, key, '{');
    for (size_t i = 0; i < count; i++) {
        char name[POOL_KEY_MAX + 1];
        snprintf(name, sizeof(name), "%.*s", (int)pairs[i].key.len,
                 (const char *)pairs[i].key.data);
        json_text_readable(to, name, pairs[i].value);
    }
    json_text_close(to, '}');
}

static void write_options(struct json_text *to, const struct pool_options *options)
{
    char text[POOL_OPTION_TEXT];
    enum pool_option i = POOL_OPTION_GROUP;
    json_text_open(to, "options", '{');
    while ((i = pool_option_next(options, i)) != POOL_OPTION_COUNT) {
        pool_option_text(options, i, text);
        if (pool_rows[i].choices)
            json_text_string(to, pool_option_name(i), bytes_of(text));
        else
            json_text_real(to, pool_option_name(i), strtod(text, NULL));
    }
    json_text_close(to, '}');
}

static void write_pool(struct pools_job *job, const char *key, const struct item *item)
{
    struct json_text *to = &job->json;
    const struct pool_entry *e = &item->pool;
    const char *group = item->options.group;
    json_text_open(to, key, '{');
    write_name(to, e->name);
    json_text_string(to, "kind", bytes_of(pool_option_word(POOL_OPTION_KIND, item->options.kind)));
    json_text_string(to, "state", bytes_of(e->draining ? "draining" : "open"));
    json_text_bool(to, "of_file", e->of_file);
    write_words(to, "group", group ? bytes_of(group) : bytes_at(NULL, 0));
    json_text_number(to, "members", e->members);
    json_text_open(to, "states", '{');
    for (unsigned i = MEMBER_FREE; i < MEMBER_STATES; i++)
        json_text_number(to, pool_state_word(i), e->states[i]);
    json_text_close(to, '}');
    json_text_number(to, "waiting", e->waiting);
    if (item->options.kind == POOL_JOINED)
        json_text_number(to, "want", e->want);
    else
        json_text_null(to, "want");
    json_text_number(to, "suppliers", e->suppliers);
    write_seconds(to, "oldest_wait_seconds", e->oldest_wait_ns);
    write_seconds(to, "longest_hold_seconds", e->longest_hold_ns);
    json_text_number(to, "late", e->late);
    json_text_number(to, "late_starts", e->late_starts);
    write_options(to, &item->options);
    json_text_close(to, '}');
}

static void write_member(struct pools_job *job, const struct item *item)
{
    struct json_text *to = &job->json;
    const struct pool_member_entry *e = &item->member;
    json_text_open(to, NULL, '{');
    write_name(to, e->name);
    json_text_string(to, "state", bytes_of(pool_state_word(e->state)));
    write_since(job, e->since_ns);
    if (item->peer) {
        json_text_number(to, "fence", e->fence);
        json_text_open(to, "holder", '{');
        write_client(to, e->holder, item->peer);
        json_text_close(to, '}');
    } else {
        json_text_null(to, "fence");
        json_text_null(to, "holder");
    }
    json_text_number(to, "takes", e->takes);
    json_text_number(to, "fails", e->fails);
    write_words(to, "then", e->then ? bytes_of(e->then) : bytes_at(NULL, 0));
    write_words(to, "by", e->by);
    write_words(to, "note", e->note);
    write_pairs(to, "attributes", item->pairs, e->attribute_count);
    if (e->joined_by)
        write_connection(to, "joined_by", e->joined_by);
    else
        json_text_null(to, "joined_by");
    json_text_close(to, '}');
}

static void write_waiter(struct pools_job *job, const struct item *item)
{
    struct json_text *to = &job->json;
    const struct pool_waiter_entry *e = &item->waiter;
    json_text_open(to, NULL, '{');
    write_client(to, e->client, item->peer);
    write_since(job, e->since_ns);
    json_text_real(to, "timeout_seconds", seconds(e->timeout_ns));
    json_text_number(to, "count", e->count);
    json_text_string(to, "for", bytes_of(pool_for_word(e->what)));
    write_words(to, "member", e->member);
    write_pairs(to, "with", item->pairs, e->with_count);
    write_words(to, "by", e->by);
    json_text_close(to, '}');
}

static void write_supplier(struct pools_job *job, const struct item *item)
{
    struct json_text *to = &job->json;
    const struct pool_supplier_entry *e = &item->supplier;
    json_text_open(to, NULL, '{');
    write_client(to, e->client, item->peer);
    json_text_number(to, "init", e->init);
    json_text_number(to, "max", e->max);
    json_text_number(to, "members", e->members);
    json_text_number(to, "want", e->want);
    json_text_bool(to, "late", e->late);
    json_text_close(to, '}');
}

static void note_last(struct pools_job *job, struct bytes name)
{
    job->after_len = name.len;
    memcpy(job->after, name.data, name.len);
}

static void write_item(struct pools_job *job, const struct item *item)
{
    switch (job->stage) {
    case STAGE_POOLS:
        write_pool(job, NULL, item);
        note_last(job, item->pool.name);
        break;
    case STAGE_MEMBERS:
        write_member(job, item);
        note_last(job, item->member.name);
        break;
    case STAGE_WAITERS:
        write_waiter(job, item);
        job->after_seq = item->waiter.seq;
        break;
    case STAGE_SUPPLIERS:
        write_supplier(job, item);
        break;
    case STAGE_OVER:
        break;
    }
}

/* Cursors are hexadecimal: the name of the last pool or member, the number of the last waiter. A
 * list of which no row was asked for has none: its pages would never advance. */
static void write_cursor(struct pools_job *job, bool over)
{
    char text[2 * POOL_NAME_MAX + 1];
    struct json_text *to = &job->json;
    const char *key = job->stage == STAGE_WAITERS ? "waiters_cursor" : "cursor";
    if (over || job->limits[job->stage] == 0) {
        json_text_null(to, key);
    } else if (job->stage == STAGE_WAITERS) {
        snprintf(text, sizeof(text), "%llx", (unsigned long long)job->after_seq);
        json_text_string(to, key, bytes_of(text));
    } else {
        for (size_t i = 0; i < job->after_len; i++)
            snprintf(text + 2 * i, 3, "%02x", job->after[i]);
        json_text_string(to, key, bytes_at(text, 2 * job->after_len));
    }
}

/* ---- steps --------------------------------------------------------------------------------- */

static void begin_stage(struct pools_job *job, enum stage stage)
{
    static const char *const keys[] = {"pools", "members", "waiters", "suppliers"};
    job->stage = stage;
    if (stage != STAGE_OVER)
        json_text_open(&job->json, keys[stage], '[');
}

static void end_stage(struct pools_job *job, bool over)
{
    json_text_close(&job->json, ']');
    if (job->stage != STAGE_SUPPLIERS)
        write_cursor(job, over);
    begin_stage(job, job->one ? job->stage + 1 : STAGE_OVER);
}

static void take_step(void *arg, struct http_request *request)
{
    struct pools_job *job = arg;
    unsigned left = job->limits[job->stage] - job->counts[job->stage];
    bool over = copy_piece(job, left < PIECE ? left : PIECE);
    for (size_t i = 0; i < job->count; i++)
        write_item(job, &job->items[i]);
    job->counts[job->stage] += (unsigned)job->count;
    if (over || job->count == left || job->json.text.len >= ANSWER_MAX)
        end_stage(job, over);
    if (job->stage != STAGE_OVER)
        return;
    http_answer_json(request, 200, &job->json);
}

static void end_job(void *arg)
{
    struct pools_job *job = arg;
    text_free(&job->json.text);
    free(job);
}

/* ---- requests ------------------------------------------------------------------------------ */

/* NULL: no memory; the request has been answered. */
static struct pools_job *new_job(const struct services *services, struct http_request *request)
{
    struct pools_job *job = calloc(1, sizeof(*job));
    if (!job) {
        http_answer(request, 503, "application/json", NULL, 0);
        return NULL;
    }
    job->pools = pools_of(services);
    job->limits[STAGE_SUPPLIERS] = SUPPLIERS_MAX;
    json_text_open(&job->json, NULL, '{');
    return job;
}

/* Reads the cursor of pools or members. */
static bool read_cursor(const struct query *query, unsigned i, struct pools_job *job)
{
    const char *text = query->values[i].text;
    size_t len = query->values[i].len;
    bool good = len % 2 == 0 && len <= 2 * sizeof(job->after);
    for (size_t k = 0; good && k < len; k += 2) {
        unsigned high = number_hex_digit(text[k]), low = number_hex_digit(text[k + 1]);
        good = high < 16 && low < 16;
        job->after[k / 2] = (uint8_t)(high * 16 + low);
    }
    job->after_len = len / 2;
    return !text || (good && len > 0);
}

static bool read_waiters_cursor(const struct query *query, unsigned i, struct pools_job *job)
{
    struct bytes text = bytes_at(query->values[i].text, query->values[i].len);
    return !text.data ||
           (number_take_base(&text, 16, UINT64_MAX - 1, &job->after_seq) && text.len == 0);
}

static void refuse_cursor(struct pools_job *job, struct http_request *request, const char *name)
{
    end_job(job);
    http_error(request, 400, "%s: not valid; send the %s of the previous page, unchanged", name,
               name);
}

void get_pools(struct services *services, struct http_request *request, struct slug slug)
{
    (void)slug;
    enum { PREFIX, LIMIT, CURSOR };
    static const char *const names[] = {"prefix", "limit", "cursor", NULL};
    struct query query;
    struct pools_job *job = new_job(services, request);
    if (!job)
        return;
    job->limits[STAGE_POOLS] = LIMIT_DEFAULT;
    if (!query_read(&query, request, names) ||
        !query_bytes(&query, PREFIX, job->name, &job->name_len) ||
        !query_number(&query, LIMIT, 1, LIMIT_MAX, &job->limits[STAGE_POOLS])) {
        end_job(job);
        return;
    }
    if (!read_cursor(&query, CURSOR, job)) {
        refuse_cursor(job, request, names[CURSOR]);
        return;
    }
    begin_stage(job, STAGE_POOLS);
    http_later(request, take_step, end_job, job);
}

void get_pool(struct services *services, struct http_request *request, struct slug slug)
{
    enum { LIMIT, CURSOR, WAITERS_LIMIT, WAITERS_CURSOR };
    static const char *const names[] = {"limit", "cursor", "waiters_limit", "waiters_cursor", NULL};
    struct query query;
    struct bytes name;
    struct pools_job *job = new_job(services, request);
    if (!job)
        return;
    job->one = true;
    job->limits[STAGE_MEMBERS] = job->limits[STAGE_WAITERS] = LIMIT_DEFAULT;
    if (!query_read(&query, request, names) ||
        !query_number(&query, LIMIT, 0, LIMIT_MAX, &job->limits[STAGE_MEMBERS]) ||
        !query_number(&query, WAITERS_LIMIT, 0, LIMIT_MAX, &job->limits[STAGE_WAITERS]) ||
        !pools_read_name(request, slug, job->name, &name)) {
        end_job(job);
        return;
    }
    job->name_len = name.len;
    if (!read_cursor(&query, CURSOR, job)) {
        refuse_cursor(job, request, names[CURSOR]);
    } else if (!read_waiters_cursor(&query, WAITERS_CURSOR, job)) {
        refuse_cursor(job, request, names[WAITERS_CURSOR]);
    } else if (!pool_show(job->pools, name, copy_one_pool, job, clock_now())) {
        end_job(job);
        http_error(request, 404, "there is no such pool");
    } else {
        write_pool(job, "pool", &job->items[0]);
        begin_stage(job, STAGE_MEMBERS);
        http_later(request, take_step, end_job, job);
    }
}
