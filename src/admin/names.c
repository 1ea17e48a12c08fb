/*
 * names.c - the list of all names: page by page in the table's own order, or the first so many in
 * another order.
 *
 * There may be millions, so they are looked at in slices, between which others are served; a
 * visitor, under the lock of a shard, only copies what it may need. An answer holds NAMES_MAX names
 * at most, and at most as many as have BYTES_MAX bytes together.
 */
#include "admin/admin_internal.h"
#include "base/heap.h"
#include "base/number.h"
#include "net/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT 100
#define NAMES_MAX     1000
#define BYTES_MAX     ((size_t)128 * 1024) /* more than any one name has */
#define LOOKS         512                  /* at names and empty buckets, in a slice */
_Static_assert(LOOKS <= NAMES_MAX, "there is room for what a slice visits");

/* "none": as they come. */
enum order { ORDER_NONE, ORDER_NAME, ORDER_IN_USE, ORDER_PEAK, ORDER_WAITING };

/* One of the best so far. */
struct best {
    struct table_entry entry;
    uint8_t *name; /* its own, to which the entry points */
};

struct names_job {
    struct table *table;
    struct table_walk walk;
    uint8_t prefix[HTTP_HEADERS_MAX];
    size_t prefix_len;
    unsigned order; /* enum order */
    unsigned limit;
    uint64_t examined;

    /* What was visited: of the whole page where there is no order, else of this slice. */
    struct table_entry items[NAMES_MAX];
    size_t count, room;
    uint8_t bytes[BYTES_MAX]; /* their names */
    size_t used;
    bool full; /* there was no room for one that is wanted */

    /* With an order: the best so far, as a heap whose root is the worst of them. */
    struct best heap[NAMES_MAX];
    size_t heap_count, heap_bytes;
    bool no_memory;
};

/* ---- the best so many ------------------------------------------------------------------------ */

static uint32_t key_of(const struct table_entry *e, enum order order)
{
    switch (order) {
    case ORDER_IN_USE:
        return e->consumption;
    case ORDER_PEAK:
        return e->peak;
    case ORDER_WAITING:
        return e->waiting;
    case ORDER_NONE:
    case ORDER_NAME:
        break;
    }
    return 0;
}

/* Below 0: `a` is listed before `b`: what is higher, then what comes first by name. */
static int compare(const struct table_entry *a, const struct table_entry *b, enum order order)
{
    uint32_t ka = key_of(a, order), kb = key_of(b, order);
    return ka != kb ? (ka > kb ? -1 : 1) : bytes_compare(a->name, b->name);
}

static int compare_best(const void *a, const void *b, void *order)
{
    return compare(&((const struct best *)a)->entry, &((const struct best *)b)->entry,
                   *(const enum order *)order);
}

static struct heap heap_of(struct names_job *job)
{
    return (struct heap){sizeof(struct best), compare_best, &job->order};
}

/* Takes the worst away. */
static void drop_worst(struct names_job *job)
{
    job->heap_bytes -= job->heap[0].entry.name.len;
    free(job->heap[0].name);
    job->heap[0] = job->heap[--job->heap_count];
    struct heap heap = heap_of(job);
    heap_sink(&heap, job->heap, job->heap_count, 0);
}

/* True if it may be among the best. */
static bool is_wanted(const struct names_job *job, const struct table_entry *entry)
{
    return job->heap_count < job->limit || compare(entry, &job->heap[0].entry, job->order) < 0;
}

/*
 * Adds it to the best, if it is one of them. When their names together become too long, removes the
 * worst and lowers the limit, so that the list always has the best.
 */
static void consider(struct names_job *job, const struct table_entry *entry)
{
    if (job->limit == 0 || !is_wanted(job, entry))
        return;
    uint8_t *name = malloc(entry->name.len);
    if (!name) {
        job->no_memory = true;
        return;
    }
    memcpy(name, entry->name.data, entry->name.len);
    struct best best = {.entry = *entry, .name = name};
    struct heap heap = heap_of(job);
    best.entry.name.data = name;
    job->heap_bytes += entry->name.len;
    if (!heap_keep(&heap, job->heap, &job->heap_count, job->limit, &best)) {
        job->heap_bytes -= best.entry.name.len;
        free(best.name);
    }
    while (job->heap_bytes > BYTES_MAX) {
        drop_worst(job);
        job->limit = (unsigned)job->heap_count;
    }
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Under a shard's lock. */
static bool visit(void *arg, const struct table_entry *entry)
{
    struct names_job *job = arg;
    struct bytes name = entry->name;
    if (!bytes_begin_with(name, bytes_at(job->prefix, job->prefix_len)) ||
        (job->order != ORDER_NONE && !is_wanted(job, entry))) {
        job->examined++;
        return true;
    }
    job->full = job->count == job->room || name.len > BYTES_MAX - job->used;
    if (job->full)
        return false;
    job->examined++;
    struct table_entry *item = &job->items[job->count++];
    *item = *entry;
    item->name.data = memcpy(job->bytes + job->used, name.data, name.len);
    job->used += name.len;
    return true;
}

void json_entry(struct json_text *to, const struct table_entry *e, const char *holders)
{
    json_text_readable(to, "name", e->name);
    json_text_percent(to, "id", e->name);
    json_text_number(to, "in_use", e->consumption);
    json_text_number(to, "peak", e->peak);
    json_text_number(to, "limit", e->limit);
    json_text_number(to, "waiting", e->waiting);
    json_text_number(to, holders, e->holders);
}

static void add_name(struct json_text *to, const struct table_entry *e)
{
    json_text_open(to, NULL, '{');
    json_entry(to, e, "holders");
    json_text_close(to, '}');
}

static void answer(struct names_job *job, struct http_request *request, bool over)
{
    struct json_text json = {.text.failed = job->no_memory};
    char cursor[64];
    snprintf(cursor, sizeof(cursor), "%x.%x.%llx", job->walk.shard, job->walk.ref_from,
             (unsigned long long)job->walk.hash_from);
    qsort_r(job->heap, job->heap_count, sizeof(job->heap[0]), compare_best, &job->order);
    json_text_open(&json, NULL, '{');
    json_text_open(&json, "names", '[');
    for (size_t i = 0; i < job->heap_count; i++)
        add_name(&json, &job->heap[i].entry);
    for (size_t i = 0; i < job->count; i++)
        add_name(&json, &job->items[i]);
    json_text_close(&json, ']');
    json_words(&json, "cursor", over ? NULL : cursor);
    json_text_number(&json, "examined", job->examined);
    http_answer_json(request, 200, &json);
}

static void take_slice(void *arg, struct http_request *request)
{
    struct names_job *job = arg;
    bool over = table_walk_on(job->table, &job->walk, clock_now(), LOOKS, visit, job);
    if (job->order == ORDER_NONE) {
        if (over || job->full || job->count == job->room)
            answer(job, request, over);
        return;
    }
    for (size_t i = 0; i < job->count; i++)
        consider(job, &job->items[i]);
    job->count = 0;
    job->used = 0;
    job->full = false;
    if (over || job->no_memory)
        answer(job, request, true);
}

static void end_job(void *arg)
{
    struct names_job *job = arg;
    for (size_t i = 0; i < job->heap_count; i++)
        free(job->heap[i].name);
    free(job);
}

/* ---- the request ----------------------------------------------------------------------------- */

/* Reads where to go on. False: that is no cursor of ours. */
static bool read_cursor(struct bytes in, struct table_walk *walk_r)
{
    uint64_t shard, ref_from;
    if (!number_take_base(&in, 16, TABLE_SHARDS - 1, &shard) || !bytes_take_text(&in, ".") ||
        !number_take_base(&in, 16, UINT32_MAX, &ref_from) || !bytes_take_text(&in, ".") ||
        !number_take_base(&in, 16, UINT32_MAX + UINT64_C(1), &walk_r->hash_from) || in.len > 0)
        return false;
    walk_r->shard = (uint32_t)shard;
    walk_r->ref_from = (uint32_t)ref_from;
    return true;
}

void get_names(const struct route_request *r)
{
    enum { PREFIX, SORT, LIMIT, CURSOR };
    static const char *const names[] = {"prefix", "sort", "limit", "cursor", NULL};
    static const char *const orders[] = {"none", "name", "in_use", "peak", "waiting", NULL};
    struct query query;
    struct names_job *job = route_alloc(r, sizeof(*job));
    if (!job)
        return;
    job->table = r->services->table;
    job->limit = LIMIT_DEFAULT;
    bool good = query_read(&query, r->http, names) &&
                query_word(&query, SORT, orders, &job->order) &&
                query_number(&query, LIMIT, 1, NAMES_MAX, &job->limit) &&
                query_bytes(&query, PREFIX, job->prefix, &job->prefix_len);
    struct bytes cursor = query.values[CURSOR];
    if (good && cursor.data && job->order != ORDER_NONE) {
        http_error(r->http, 400, "only with sort=none is there a cursor");
        good = false;
    }
    good = good && query_cursor(&query, CURSOR, !cursor.data || read_cursor(cursor, &job->walk));
    job->room = job->order == ORDER_NONE ? job->limit : LOOKS;
    route_steps(r, good, take_slice, end_job, job);
}
