/*
 * dump.c - `counterctl dump`: lists all names, sorted or in the server's order.
 *
 * Unsorted names are printed as they arrive and need no memory. Sorting with a limit keeps only the
 * best names so far, in a heap with the worst at the root. Sorting without one keeps all, up to a
 * bound.
 */
#include "base/heap.h"
#include "base/number.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The most memory for sorting, in bytes. */
#define SORT_MEMORY_MAX ((size_t)2 << 30)

struct entry {
    uint32_t in_use, peak;
    uint32_t len;
    uint8_t name[];
};

struct dump {
    const struct options *options;
    struct client client;
    struct text prefix; /* unescaped */
    enum sort sort;
    struct heap heap;
    struct entry **kept; /* a heap if there is a limit */
    size_t count, room, memory;
    uint64_t printed, seen, total; /* total: names on the server; 0: unknown */
    bool has_head, has_bar;
    int64_t drawn_ns; /* when we last drew the progress bar */
};

/* ---- progress -------------------------------------------------------------------------------- */

#define BAR_WIDTH       30
#define BAR_INTERVAL_NS (NS_PER_S / 10)

/* True if the user sees no output yet, so that a bar is useful. */
static bool has_bar(const struct dump *dump)
{
    return isatty(STDERR_FILENO) && (!isatty(STDOUT_FILENO) || dump->sort != SORT_NONE);
}

static void draw_bar(struct dump *dump)
{
    int64_t now = clock_mono_ns();
    if (dump->drawn_ns && now - dump->drawn_ns < BAR_INTERVAL_NS)
        return;
    dump->drawn_ns = now;
    if (dump->total == 0) {
        fprintf(stderr, "\r%" PRIu64 " names ", dump->seen);
        return;
    }
    double share = (double)dump->seen / (double)dump->total;
    share = share > 1 ? 1 : share; /* clients may create names meanwhile */
    int full = (int)(share * BAR_WIDTH);
    fprintf(stderr, "\r[%.*s%*s] %3.0f%%  %" PRIu64 " of %" PRIu64 " names ", full,
            "##############################", BAR_WIDTH - full, "", share * 100, dump->seen,
            dump->total);
}

static void clear_bar(const struct dump *dump)
{
    if (dump->drawn_ns)
        fputs("\r\033[K", stderr);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_entry(struct dump *dump, uint32_t in_use, uint32_t peak, struct bytes name)
{
    dump->printed++;
    if (dump->options->json) {
        json_print(JSON_NAME(name), {"in_use", json_count(in_use)}, {"peak", json_count(peak)});
        return;
    }
    if (!dump->has_head)
        printf("%10s  %10s  %s\n", "IN USE", "PEAK", "NAME");
    dump->has_head = true;
    struct text text = {0};
    text_add_name(&text, name);
    printf("%10u  %10u  %s\n", in_use, peak, text_str(&text));
    text_free(&text);
}

/* ---- sorting --------------------------------------------------------------------------------- */

/* Below 0 if `a` is printed before `b`: the higher number first, then by name. */
static int compare(const struct entry *a, const struct entry *b, enum sort sort)
{
    if (sort == SORT_IN_USE && a->in_use != b->in_use)
        return a->in_use > b->in_use ? -1 : 1;
    if (sort == SORT_PEAK && a->peak != b->peak)
        return a->peak > b->peak ? -1 : 1;
    return bytes_compare(bytes_at(a->name, a->len), bytes_at(b->name, b->len));
}

static int compare_entries(const void *a, const void *b, void *sort)
{
    return compare(*(struct entry *const *)a, *(struct entry *const *)b, *(const enum sort *)sort);
}

static size_t entry_size(const struct entry *entry)
{
    /* Includes the overhead of the allocator and of the list. */
    return sizeof *entry + entry->len + 4 * sizeof(void *);
}

static bool keep(struct dump *dump, struct entry *entry)
{
    dump->kept = array_grow(dump->kept, dump->count, &dump->room, sizeof(struct entry *));
    dump->memory += entry_size(entry);
    dump->kept[dump->count++] = entry;
    if (dump->options->limit)
        heap_rise(&dump->heap, dump->kept, dump->count);
    if (dump->memory <= SORT_MEMORY_MAX)
        return true;
    return complain(
        "dump: sorting would take more than %zu MiB of memory; use --limit, or sort the "
        "unsorted output",
        SORT_MEMORY_MAX >> 20);
}

/* Keeps the entry. If the limit is reached, keeps the better of the entry and the worst one kept.
 */
static bool sort_in(struct dump *dump, struct entry *entry)
{
    if (!dump->options->limit || dump->count < dump->options->limit)
        return keep(dump, entry);
    if (compare(entry, dump->kept[0], dump->sort) >= 0) {
        free(entry);
        return true;
    }
    dump->memory = dump->memory + entry_size(entry) - entry_size(dump->kept[0]);
    free(dump->kept[0]);
    dump->kept[0] = entry;
    heap_sink(&dump->heap, dump->kept, dump->count, 0);
    return true;
}

static struct entry *make_entry(uint32_t in_use, uint32_t peak, struct bytes name)
{
    struct entry *entry = allocate(sizeof *entry + name.len);
    *entry = (struct entry){.in_use = in_use, .peak = peak, .len = (uint32_t)name.len};
    memcpy(entry->name, name.data, name.len);
    return entry;
}

static void print_sorted(struct dump *dump)
{
    if (dump->count > 1)
        qsort_r(dump->kept, dump->count, sizeof(struct entry *), compare_entries, &dump->sort);
    for (size_t i = 0; i < dump->count; i++) {
        const struct entry *entry = dump->kept[i];
        print_entry(dump, entry->in_use, entry->peak, bytes_at(entry->name, entry->len));
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_wanted(const struct dump *dump, uint32_t in_use, struct bytes name)
{
    return in_use >= dump->options->min && bytes_begin_with(name, text_bytes(&dump->prefix));
}

/* Asks for the number of names, for the bar; goes on without it if the server does not say. */
static enum status ask_total(struct dump *dump)
{
    struct ctr_request request = {.opcode = CTR_STATS};
    struct answer reply;
    struct bytes name, value;
    enum status status = ask_binary(&dump->client, &request, &reply);
    if (status != STATUS_OK || reply.binary.status != CTR_STATUS_SUCCESS)
        return status;
    while (ctr_reply_stat(&reply.binary.body, &name, &value)) {
        if (!bytes_equal(name, bytes_of("objects")))
            continue;
        (void)number_take(&value, INT64_MAX, &dump->total);
    }
    return STATUS_OK;
}

/* Takes one reply. STATUS_OK: continue, unless *is_over_r. */
static enum status take_entry(struct dump *dump, const struct answer *reply, bool *is_over_r)
{
    uint32_t in_use, peak;
    struct bytes name;
    if (reply->binary.status != CTR_STATUS_SUCCESS)
        return answer_refused(&dump->client, reply, "dump");
    *is_over_r = reply->binary.body.len == 0;
    if (*is_over_r)
        return STATUS_OK;
    if (!ctr_reply_dump(&reply->binary, &in_use, &peak, &name))
        return complain_as(STATUS_PROTOCOL, "%s: a row of the answer is malformed",
                           dump->client.where);
    dump->seen++;
    if (!is_wanted(dump, in_use, name))
        return STATUS_OK;
    if (dump->sort != SORT_NONE)
        return sort_in(dump, make_entry(in_use, peak, name)) ? STATUS_OK : STATUS_INTERNAL;
    print_entry(dump, in_use, peak, name);
    *is_over_r = (dump->options->limit && dump->printed >= dump->options->limit) || ferror(stdout);
    return STATUS_OK;
}

static enum status take_all(struct dump *dump)
{
    struct ctr_request request = {.opcode = CTR_DUMP};
    struct answer answer;
    bool is_over = false;
    dump->has_bar = has_bar(dump);
    enum status status = dump->has_bar ? ask_total(dump) : STATUS_OK;
    if (status == STATUS_OK)
        status = ask_binary(&dump->client, &request, &answer);
    while (status == STATUS_OK && !is_over) {
        status = take_entry(dump, &answer, &is_over);
        if (dump->has_bar)
            draw_bar(dump);
        if (status == STATUS_OK && !is_over)
            status = client_hear(&dump->client, dump->options->io_timeout_ns, &answer);
    }
    clear_bar(dump);
    return status;
}

int do_dump(struct invocation *invocation)
{
    struct dump dump = {.options = &invocation->options,
                        .sort = (enum sort)invocation->options.sort,
                        .heap = {sizeof(struct entry *), compare_entries, &dump.sort}};
    const char *prefix = invocation->options.prefix;
    if (prefix && *prefix && !read_name(invocation, prefix, &dump.prefix)) {
        text_free(&dump.prefix);
        return STATUS_USAGE;
    }
    enum status status = client_open(&dump.client, &protocol_binary, invocation);
    if (status == STATUS_OK)
        status = take_all(&dump);
    client_close(&dump.client);
    if (status == STATUS_OK)
        print_sorted(&dump);
    for (size_t i = 0; i < dump.count; i++)
        free(dump.kept[i]);
    free(dump.kept);
    text_free(&dump.prefix);
    return (int)status;
}
