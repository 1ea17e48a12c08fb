/*
 * pools_api.c - LIST and SHOW of pools as JSON, page by page. See pools_internal.h.
 *
 * An answer is made in steps. A step copies PIECE entries at most under the pools' lock, and writes
 * them after that: requests wait for the copies only. A cursor is the last item of its page, so an
 * item that is there all the while is listed once. A page ends early when its text has ANSWER_MAX
 * bytes.
 *
 * Values of members are not shown (proto/pools.md), and do not come here.
 */
#include "base/number.h"
#include "net/query.h"
#include "service/pool_options.h"
#include "service/pools.h"
#include "service/pools_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
#define ANSWER_MAX    ((size_t)256 * 1024)
#define PIECE         32  /* entries in a step; the suppliers are one step */
#define SUPPLIERS_MAX 128 /* shown of a pool */
/* Bytes of names and words: of one entry at most (a member has most), and of a step. */
#define ENTRY_BYTES                                                                                \
    (POOL_NAME_MAX + 2 * POOL_SHORT_MAX + CONN_PEER_TEXT +                                         \
     POOL_ATTRIBUTES_MAX * (POOL_KEY_MAX + POOL_SHORT_MAX))
#define PIECE_BYTES ((size_t)32 * 1024)
_Static_assert(ENTRY_BYTES + SUPPLIERS_MAX * CONN_PEER_TEXT <= PIECE_BYTES, "suppliers fit");

/* What is listed, in this order. Of all pools only the first. */
enum stage { STAGE_POOLS, STAGE_MEMBERS, STAGE_WAITERS, STAGE_SUPPLIERS, STAGE_OVER };

struct pools_page;

/* A copied entry. */
struct item {
    void (*write)(struct pools_page *page, const struct item *item);
    union {
        struct pool_entry pool;
        struct pool_member_entry member;
        struct pool_waiter_entry waiter;
        struct pool_supplier_entry supplier;
    };
    struct pool_options options;                      /* of a pool */
    struct pool_attribute pairs[POOL_ATTRIBUTES_MAX]; /* of a member; what a waiter asks for */
    struct bytes peer;                                /* of a holder or client */
};

struct pools_page {
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

    /* The step. */
    struct moment now;
    struct item items[SUPPLIERS_MAX];
    size_t item_count, used;
    uint8_t bytes[PIECE_BYTES];
};

/* ---- JSON ------------------------------------------------------------------------------------ */

static double seconds(int64_t ns)
{
    return ns > 0 ? clock_seconds(ns) : 0;
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
static void write_since(struct pools_page *page, int64_t since_ns)
{
    int64_t ago_ns = page->now.mono_ns - since_ns; /* a worker's clock may be ahead */
    json_text_real(&page->json, "since", clock_unix_of(since_ns));
    json_text_real(&page->json, "seconds", seconds(ago_ns));
}

static void write_connection(struct json_text *to, const char *key, uint64_t tag)
{
    char text[CONN_TAG_TEXT];
    conn_tag_text(tag, text);
    json_text_string(to, key, bytes_of(text));
}

static void write_client(struct json_text *to, uint64_t tag, struct bytes peer)
{
    write_connection(to, "connection", tag);
    json_text_string(to, "client", peer);
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

static void write_pool(struct pools_page *page, const char *key, const struct pool_entry *e)
{
    struct json_text *to = &page->json;
    const struct pool_options *options = e->options;
    json_text_open(to, key, '{');
    write_name(to, e->name);
    json_text_string(to, "kind", bytes_of(pool_option_word(POOL_OPTION_KIND, options->kind)));
    json_text_string(to, "state", bytes_of(e->draining ? "draining" : "open"));
    json_text_bool(to, "of_file", e->of_file);
    write_words(to, "group", options->group ? bytes_of(options->group) : bytes_at(NULL, 0));
    json_text_number(to, "members", e->members);
    json_text_open(to, "states", '{');
    for (unsigned i = MEMBER_FREE; i < MEMBER_STATES; i++)
        json_text_number(to, pool_state_word(i), e->states[i]);
    json_text_close(to, '}');
    json_text_number(to, "waiting", e->waiting);
    if (options->kind == POOL_JOINED)
        json_text_number(to, "want", e->want);
    else
        json_text_null(to, "want");
    json_text_number(to, "suppliers", e->suppliers);
    write_seconds(to, "oldest_wait_seconds", e->oldest_wait_ns);
    write_seconds(to, "longest_hold_seconds", e->longest_hold_ns);
    json_text_number(to, "late", e->late);
    json_text_number(to, "late_starts", e->late_starts);
    write_options(to, options);
    json_text_close(to, '}');
}

/* The next step begins after this name. */
static void note_last(struct pools_page *page, struct bytes name)
{
    page->after_len = name.len;
    memcpy(page->after, name.data, name.len);
}

static void write_listed_pool(struct pools_page *page, const struct item *item)
{
    write_pool(page, NULL, &item->pool);
    note_last(page, item->pool.name);
}

static void write_member(struct pools_page *page, const struct item *item)
{
    struct json_text *to = &page->json;
    const struct pool_member_entry *e = &item->member;
    json_text_open(to, NULL, '{');
    write_name(to, e->name);
    json_text_string(to, "state", bytes_of(pool_state_word(e->state)));
    write_since(page, e->since_ns);
    if (e->fence > 0) {
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
    write_pairs(to, "attributes", e->attributes, e->attribute_count);
    if (e->joined_by)
        write_connection(to, "joined_by", e->joined_by);
    else
        json_text_null(to, "joined_by");
    json_text_close(to, '}');
    note_last(page, e->name);
}

static void write_waiter(struct pools_page *page, const struct item *item)
{
    struct json_text *to = &page->json;
    const struct pool_waiter_entry *e = &item->waiter;
    json_text_open(to, NULL, '{');
    write_client(to, e->client, item->peer);
    write_since(page, e->since_ns);
    json_text_real(to, "timeout_seconds", seconds(e->timeout_ns));
    json_text_number(to, "count", e->count);
    json_text_string(to, "for", bytes_of(pool_for_word(e->what)));
    write_words(to, "member", e->member);
    write_pairs(to, "with", e->with, e->with_count);
    write_words(to, "by", e->by);
    json_text_close(to, '}');
    page->after_seq = e->seq;
}

static void write_supplier(struct pools_page *page, const struct item *item)
{
    struct json_text *to = &page->json;
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

/* ---- copies: under the pools' lock ----------------------------------------------------------- */

/* NULL: the step takes no more entries. */
static struct item *add_item(struct pools_page *page,
                             void (*write)(struct pools_page *page, const struct item *item))
{
    if (page->item_count == SUPPLIERS_MAX || PIECE_BYTES - page->used < ENTRY_BYTES)
        return NULL;
    struct item *item = &page->items[page->item_count++];
    item->write = write;
    return item;
}

static struct bytes copy(struct pools_page *page, struct bytes from)
{
    uint8_t *to = page->bytes + page->used;
    CHECK(from.len <= PIECE_BYTES - page->used);
    if (from.len > 0)
        memcpy(to, from.data, from.len);
    page->used += from.len;
    return bytes_at(to, from.len);
}

static const struct pool_attribute *copy_pairs(struct pools_page *page, struct item *item,
                                               const struct pool_attribute *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        item->pairs[i] =
            (struct pool_attribute){copy(page, from[i].key), copy(page, from[i].value)};
    return item->pairs;
}

static struct bytes copy_peer(struct pools_page *page, const void *owner)
{
    return copy(page, bytes_of(pool_session_peer(owner)));
}

static bool copy_pool(void *arg, const struct pool_entry *entry)
{
    struct pools_page *page = arg;
    const char *group = entry->options->group;
    struct item *item = add_item(page, write_listed_pool);
    if (!item)
        return false;
    item->pool = *entry;
    item->pool.name = copy(page, entry->name);
    item->options = *entry->options;
    if (group)
        item->options.group = unconst(copy(page, bytes_at(group, strlen(group) + 1)).data);
    item->pool.options = &item->options;
    return true;
}

static void copy_one_pool(void *arg, const struct pool_entry *entry)
{
    CHECK(copy_pool(arg, entry));
}

static bool copy_member(void *arg, const struct pool_member_entry *entry)
{
    struct pools_page *page = arg;
    struct item *item = add_item(page, write_member);
    if (!item)
        return false;
    item->member = *entry;
    item->member.name = copy(page, entry->name);
    item->member.by = copy(page, entry->by);
    item->member.note = copy(page, entry->note);
    item->member.attributes = copy_pairs(page, item, entry->attributes, entry->attribute_count);
    if (entry->fence > 0)
        item->peer = copy_peer(page, entry->holder_owner);
    return true;
}

static bool copy_waiter(void *arg, const struct pool_waiter_entry *entry)
{
    struct pools_page *page = arg;
    struct item *item = add_item(page, write_waiter);
    if (!item)
        return false;
    item->waiter = *entry;
    item->waiter.member = copy(page, entry->member);
    item->waiter.by = copy(page, entry->by);
    item->waiter.with = copy_pairs(page, item, entry->with, entry->with_count);
    item->peer = copy_peer(page, entry->owner);
    return true;
}

static bool copy_supplier(void *arg, const struct pool_supplier_entry *entry)
{
    struct pools_page *page = arg;
    struct item *item = add_item(page, write_supplier);
    if (!item)
        return false;
    item->supplier = *entry;
    item->peer = copy_peer(page, entry->owner);
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Cursors are hexadecimal: the name of the last pool or member, the number of the last waiter. A
 * list of which no row was asked for has none: its pages would never advance. */
static void write_cursor(struct pools_page *page, bool over)
{
    char text[2 * POOL_NAME_MAX + 1];
    struct json_text *to = &page->json;
    const char *key = page->stage == STAGE_WAITERS ? "waiters_cursor" : "cursor";
    if (over || page->limits[page->stage] == 0) {
        json_text_null(to, key);
    } else if (page->stage == STAGE_WAITERS) {
        snprintf(text, sizeof(text), "%llx", (unsigned long long)page->after_seq);
        json_text_string(to, key, bytes_of(text));
    } else {
        for (size_t i = 0; i < page->after_len; i++)
            snprintf(text + 2 * i, 3, "%02x", page->after[i]);
        json_text_string(to, key, bytes_at(text, 2 * page->after_len));
    }
}

static void begin_stage(struct pools_page *page, enum stage stage)
{
    static const char *const keys[] = {"pools", "members", "waiters", "suppliers"};
    page->stage = stage;
    if (stage != STAGE_OVER)
        json_text_open(&page->json, keys[stage], '[');
}

static void end_stage(struct pools_page *page, bool over)
{
    json_text_close(&page->json, ']');
    if (page->stage != STAGE_SUPPLIERS)
        write_cursor(page, over);
    begin_stage(page, page->one ? page->stage + 1 : STAGE_OVER);
}

/* Copies the next entries, at most `left` and PIECE. True: those were the last; none are asked for.
 */
static bool copy_piece(struct pools_page *page, unsigned left)
{
    struct pools *pools = page->pools;
    struct bytes name = bytes_at(page->name, page->name_len);
    struct bytes after = bytes_at(page->after, page->after_len);
    unsigned budget = left < PIECE ? left : PIECE;
    page->now = clock_now();
    page->item_count = page->used = 0;
    if (left == 0)
        return true;
    switch (page->stage) {
    case STAGE_POOLS:
        return pools_list(pools, name, after, budget, copy_pool, page, page->now);
    case STAGE_MEMBERS:
        return pool_show_members(pools, name, after, budget, copy_member, page);
    case STAGE_WAITERS:
        return pool_show_waiters(pools, name, page->after_seq, budget, copy_waiter, page);
    case STAGE_SUPPLIERS:
        pool_show_suppliers(pools, name, copy_supplier, page);
        return true;
    case STAGE_OVER:
        break;
    }
    CHECK(false);
}

static void take_step(void *arg, struct http_request *request)
{
    struct pools_page *page = arg;
    unsigned left = page->limits[page->stage] - page->counts[page->stage];
    bool over = copy_piece(page, left);
    for (size_t i = 0; i < page->item_count; i++)
        page->items[i].write(page, &page->items[i]);
    page->counts[page->stage] += (unsigned)page->item_count;
    if (over || page->item_count == left || page->json.text.len >= ANSWER_MAX)
        end_stage(page, over);
    if (page->stage == STAGE_OVER)
        http_answer_json(request, 200, &page->json);
}

static void end_page(void *arg)
{
    struct pools_page *page = arg;
    text_free(&page->json.text);
    free(page);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* NULL: no memory; the request has been answered. */
static struct pools_page *new_page(const struct route_request *r)
{
    struct pools_page *page = route_alloc(r, sizeof(*page));
    if (!page)
        return NULL;
    page->pools = pools_of(r->services);
    page->limits[STAGE_SUPPLIERS] = SUPPLIERS_MAX;
    json_text_open(&page->json, NULL, '{');
    return page;
}

/* Reads the cursor of pools or members. */
static bool read_cursor(const struct query *query, unsigned i, struct pools_page *page)
{
    struct bytes text = query->values[i];
    bool good = text.len % 2 == 0 && text.len <= 2 * sizeof(page->after);
    for (size_t k = 0; good && k < text.len; k += 2) {
        unsigned high = number_hex_digit((char)text.data[k]);
        unsigned low = number_hex_digit((char)text.data[k + 1]);
        good = high < 16 && low < 16;
        page->after[k / 2] = (uint8_t)(high * 16 + low);
    }
    page->after_len = text.len / 2;
    return query_cursor(query, i, !text.data || (good && text.len > 0));
}

static bool read_waiters_cursor(const struct query *query, unsigned i, struct pools_page *page)
{
    struct bytes text = query->values[i];
    bool good = number_take_base(&text, 16, UINT64_MAX - 1, &page->after_seq) && text.len == 0;
    return query_cursor(query, i, !text.data || good);
}

void get_pools(const struct route_request *r)
{
    enum { PREFIX, LIMIT, CURSOR };
    static const char *const names[] = {"prefix", "limit", "cursor", NULL};
    struct query query;
    struct pools_page *page = new_page(r);
    if (!page)
        return;
    page->limits[STAGE_POOLS] = LIMIT_DEFAULT;
    bool good = query_read(&query, r->http, names) &&
                query_bytes(&query, PREFIX, page->name, &page->name_len) &&
                query_number(&query, LIMIT, 1, LIMIT_MAX, &page->limits[STAGE_POOLS]) &&
                read_cursor(&query, CURSOR, page);
    begin_stage(page, STAGE_POOLS);
    route_steps(r, good, take_step, end_page, page);
}

void get_pool(const struct route_request *r)
{
    enum { LIMIT, CURSOR, WAITERS_LIMIT, WAITERS_CURSOR };
    static const char *const names[] = {"limit", "cursor", "waiters_limit", "waiters_cursor", NULL};
    struct query query;
    struct bytes name = {0};
    struct pools_page *page = new_page(r);
    if (!page)
        return;
    page->one = true;
    page->limits[STAGE_MEMBERS] = page->limits[STAGE_WAITERS] = LIMIT_DEFAULT;
    bool good = query_read(&query, r->http, names) &&
                query_number(&query, LIMIT, 0, LIMIT_MAX, &page->limits[STAGE_MEMBERS]) &&
                query_number(&query, WAITERS_LIMIT, 0, LIMIT_MAX, &page->limits[STAGE_WAITERS]) &&
                slug_name(r, "pool", "POOL", page->name, &name) &&
                read_cursor(&query, CURSOR, page) &&
                read_waiters_cursor(&query, WAITERS_CURSOR, page);
    if (good && !pool_show(page->pools, name, copy_one_pool, page, clock_now())) {
        http_error(r->http, 404, "there is no such pool");
        good = false;
    }
    if (good)
        write_pool(page, "pool", &page->items[0].pool);
    page->name_len = name.len;
    begin_stage(page, STAGE_MEMBERS);
    route_steps(r, good, take_step, end_page, page);
}
