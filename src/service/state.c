/*
 * state.c - what the services share and have counted, to and from a record (see service.h, where
 * the format is).
 *
 * Counts are sums over all workers, and become those of the first one: how many workers there are
 * may change. Verbs, outcomes and reasons are known by their words; what has no such word any more
 * is left out.
 */
#include "engine/state.h"
#include "base/record.h"
#include "service/service.h"

#include <string.h>

/* More locks than this no client ever had. */
#define LOCKS_MAX 65536

/* No sum of times ever had this many times 2^64 ns; the seconds of each fit 64 bits. */
#define TIMES_MAX (UINT64_C(1) << 29)

/* The first of a service's own among all its sums of times (time_at). */
#define OWN_TIMES (WAITED_COUNT + 2)

/* ---- saving ------------------------------------------------------------------------------ */

static void save_shared(const struct services *s, struct record_writer *w)
{
    record_begin(w, SERVICES);
    record_put_u32(w, s->config.table.stats_interval_s);
    record_put_i64(w, s->started_ns);
    record_put_u32(w, s->poolcounter_locks_room);
    record_put_u8(w, s->collecting);
    record_put_u32(w, s->collected_interval);
    record_put_u64(w, s->collector_busy_ns);
    table_walk_save(&s->collector_walk, w);
    record_put_u64(w, tally_get(&s->collections));
    record_put_u64(w, tally_get(&s->collected));
    record_put_u64(w, tally_get(&s->last_collection_us));
    record_put_u64(w, tally_get(&s->collections_us));
    record_end(w);
}

static void put_word(struct record_writer *w, const char *word)
{
    record_put_bytes(w, word, strlen(word));
}

static void save_histogram(const struct histogram_sum *sum, struct record_writer *w)
{
    record_put_u8(w, ARRAY_SIZE(sum->counts));
    for (size_t i = 0; i < ARRAY_SIZE(sum->counts); i++)
        record_put_u64(w, sum->counts[i]);
    record_put_u64(w, (uint64_t)sum->sum_ns); /* the rest of it: save_times */
}

static void save_requests(const struct service *service, struct record_writer *w)
{
    const struct service_row *row = service->row;
    for (unsigned v = 0; v < SERVICE_VERBS && row->verbs[v]; v++) {
        for (unsigned o = 0; o < SERVICE_OUTCOMES && row->outcomes[o]; o++) {
            uint64_t count = service_requests(service, v, o);
            if (!count)
                continue;
            put_word(w, row->verbs[v]);
            put_word(w, row->outcomes[o]);
            record_put_u64(w, count);
        }
    }
    put_word(w, "");
}

static void *own_at(const struct service *service, unsigned worker)
{
    return (unsigned char *)service->own + worker * service->row->own_size;
}

/* What a worker has of its own: count number `i`, sum of times number `i`; NULL: no more. */
static tally *own_tally(const struct service *service, unsigned worker, unsigned i)
{
    const struct service_row *row = service->row;
    return row->own_tally ? row->own_tally(own_at(service, worker), i) : NULL;
}

static struct duration_sum *own_time(const struct service *service, unsigned worker, unsigned i)
{
    const struct service_row *row = service->row;
    return row->own_time ? row->own_time(own_at(service, worker), i) : NULL;
}

static unsigned own_tallies(const struct service *service)
{
    unsigned count = 0;
    while (own_tally(service, 0, count))
        count++;
    return count;
}

/* A worker's sum of times number `i`, in the order in which they are saved; NULL: no more. */
static struct duration_sum *time_at(const struct service *service, unsigned worker, unsigned i)
{
    struct service_counts *counts = &service->counts[worker];
    if (i == 0)
        return &service->protocol.traffic[worker].answers.sum_ns;
    if (i <= WAITED_COUNT)
        return &counts->waits[i - 1].sum_ns;
    if (i == WAITED_COUNT + 1)
        return &counts->holds.sum_ns;
    return own_time(service, worker, i - OWN_TIMES);
}

/* The same of all workers. */
static duration time_of_all(const struct service *service, unsigned i)
{
    duration sum = 0;
    for (unsigned n = 0; n < service->services->server->count; n++)
        sum += duration_sum_get(time_at(service, n, i));
    return sum;
}

static unsigned times_count(const struct service *service)
{
    unsigned count = 0;
    while (time_at(service, 0, count))
        count++;
    return count;
}

static void save_own(const struct service *service, struct record_writer *w)
{
    unsigned tallies = own_tallies(service), times = times_count(service);
    record_put_u8(w, (uint8_t)(tallies + times - OWN_TIMES));
    for (unsigned i = 0; i < tallies; i++) {
        uint64_t sum = 0;
        for (unsigned n = 0; n < service->services->server->count; n++)
            sum += tally_get(own_tally(service, n, i));
        record_put_u64(w, sum);
    }
    for (unsigned i = OWN_TIMES; i < times; i++)
        record_put_u64(w, (uint64_t)time_of_all(service, i));
}

static void save_protocol(const struct service *service, struct record_writer *w)
{
    const struct protocol *protocol = &service->protocol;
    struct histogram_sum sum = {0};
    record_begin(w, SERVICES_PROTOCOL);
    put_word(w, protocol->name);
    record_put_u64(w, atomic_load(&protocol->connections_made));
    record_put_u64(w, atomic_load(&protocol->accept_errors));
    record_put_u64(w, atomic_load(&protocol->send_errors));
    for (unsigned i = 0; i < CLOSE_REASON_COUNT; i++) {
        put_word(w, close_reason_word((enum close_reason)i));
        record_put_u64(w, atomic_load(&protocol->closed[i]));
    }
    put_word(w, "");
    save_requests(service, w);
    record_put_u64(w, service_received(service));
    record_put_u64(w, service_sent(service));
    uint64_t requests = 0;
    for (unsigned i = 0; i < service->services->server->count; i++)
        requests += tally_get(&protocol->traffic[i].requests);
    record_put_u64(w, requests);
    service_answers(service, &sum);
    save_histogram(&sum, w);
    record_put_u8(w, WAITED_COUNT);
    for (unsigned how = 0; how < WAITED_COUNT; how++) {
        service_waits(service, (enum waited)how, &sum);
        save_histogram(&sum, w);
    }
    service_holds(service, &sum);
    save_histogram(&sum, w);
    save_own(service, w);
    record_end(w);
}

/* The halves of its sums that SERVICES_PROTOCOL has no room for. */
static void save_times(const struct service *service, struct record_writer *w)
{
    unsigned count = times_count(service);
    record_begin(w, SERVICES_TIMES);
    put_word(w, service->protocol.name);
    record_put_u8(w, (uint8_t)count);
    for (unsigned i = 0; i < count; i++)
        record_put_u64(w, (uint64_t)(time_of_all(service, i) >> 64));
    record_end(w);
}

void services_save(const struct services *services, struct moment now, struct record_writer *w)
{
    table_save(services->table, now, w);
    save_shared(services, w);
    for (unsigned i = 0; i < services_count(services); i++) {
        save_protocol(services_at(services, i), w);
        save_times(services_at(services, i), w);
    }
}

/* ---- restoring --------------------------------------------------------------------------- */

static bool restore_shared(struct services *s, struct moment now, struct record_reader *r)
{
    struct table_walk walk;
    if (s->restored) {
        record_refuse(r, "the services are there twice");
        return false;
    }
    uint32_t interval_s = record_get_u32(r);
    int64_t started_ns = record_get_i64(r);
    uint32_t locks_room = record_get_u32(r);
    bool collecting = record_get_bool(r);
    uint32_t collected_interval = record_get_u32(r);
    uint64_t busy_ns = record_get_u64(r);
    if (!table_walk_restore(&walk, r))
        return false;
    if (started_ns < 0 || started_ns > now.mono_ns || locks_room > LOCKS_MAX) {
        record_refuse(r, "the services contradict themselves");
        return false;
    }
    tally_add(&s->collections, record_get_u64(r));
    tally_add(&s->collected, record_get_u64(r));
    tally_add(&s->last_collection_us, record_get_u64(r));
    tally_add(&s->collections_us, record_get_u64(r));
    record_leave(r);
    s->started_ns = started_ns;
    if (s->poolcounter_locks_room < locks_room)
        s->poolcounter_locks_room = locks_room;
    for (unsigned i = 0; i < services_count(s); i++)
        s->services[i]->protocol.session_size = s->services[i]->row->session_size(s);
    if (interval_s == s->config.table.stats_interval_s) { /* else it begins anew */
        s->collecting = collecting;
        s->collected_interval = collected_interval;
        s->collector_walk = walk;
        s->collector_busy_ns = busy_ns;
    }
    s->restored = record_ok(r);
    return s->restored;
}

/* A word that was read: its number among `count` words, of which the last may be NULL; else
 * `count`. */
static unsigned word_in(const char *const *words, unsigned count, const void *data, size_t len)
{
    for (unsigned i = 0; i < count && words[i]; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], data, len) == 0)
            return i;
    }
    return count;
}

static void restore_closed(struct protocol *protocol, struct record_reader *r)
{
    const char *words[CLOSE_REASON_COUNT];
    for (unsigned i = 0; i < CLOSE_REASON_COUNT; i++)
        words[i] = close_reason_word((enum close_reason)i);
    const void *word;
    for (size_t len; (len = record_get_bytes(r, &word)) > 0;) {
        unsigned i = word_in(words, CLOSE_REASON_COUNT, word, len);
        uint64_t count = record_get_u64(r);
        if (i < CLOSE_REASON_COUNT)
            atomic_fetch_add(&protocol->closed[i], count);
    }
}

static void restore_requests(struct service *service, struct record_reader *r)
{
    const void *verb, *outcome;
    for (size_t len; (len = record_get_bytes(r, &verb)) > 0;) {
        unsigned v = word_in(service->row->verbs, SERVICE_VERBS, verb, len);
        len = record_get_bytes(r, &outcome);
        unsigned o = word_in(service->row->outcomes, SERVICE_OUTCOMES, outcome, len);
        uint64_t count = record_get_u64(r);
        if (v < SERVICE_VERBS && o < SERVICE_OUTCOMES)
            tally_add(&service->counts[0].requests[v][o], count);
    }
}

static void restore_histogram(struct histogram *h, struct record_reader *r)
{
    struct histogram_sum sum;
    if (record_get_u8(r) != ARRAY_SIZE(sum.counts))
        record_refuse(r, "a histogram has other classes");
    for (size_t i = 0; i < ARRAY_SIZE(sum.counts); i++)
        sum.counts[i] = record_get_u64(r);
    sum.sum_ns = record_get_u64(r);
    if (record_ok(r))
        histogram_add_sum(h, &sum);
}

static void restore_own(struct service *service, struct record_reader *r)
{
    unsigned count = record_get_u8(r), tallies = own_tallies(service);
    for (unsigned i = 0; i < count && record_ok(r); i++) {
        uint64_t value = record_get_u64(r);
        struct duration_sum *to = i < tallies ? NULL : own_time(service, 0, i - tallies);
        if (i < tallies)
            tally_add(own_tally(service, 0, i), value);
        else if (to)
            duration_sum_add(to, value);
    }
}

/* The service whose name comes next; NULL: a protocol of the past. */
static struct service *read_service(struct services *s, struct record_reader *r)
{
    const void *name;
    size_t len = record_get_bytes(r, &name);
    for (unsigned i = 0; i < services_count(s); i++) {
        const char *own = s->services[i]->protocol.name;
        if (strlen(own) == len && memcmp(own, name, len) == 0)
            return s->services[i];
    }
    return NULL;
}

static bool restore_times(struct services *s, struct record_reader *r)
{
    const struct service *service = read_service(s, r);
    if (!service)
        return record_ok(r);
    unsigned count = record_get_u8(r);
    for (unsigned i = 0; i < count && record_ok(r); i++) {
        uint64_t high = record_get_u64(r);
        struct duration_sum *to = time_at(service, 0, i);
        if (high >= TIMES_MAX)
            record_refuse(r, "a sum of times is longer than any can be");
        else if (to)
            duration_sum_add(to, (duration)high << 64);
    }
    record_leave(r);
    return record_ok(r);
}

static bool restore_protocol(struct services *s, struct record_reader *r)
{
    struct service *service = read_service(s, r);
    if (!service)
        return record_ok(r);
    struct protocol *protocol = &service->protocol;
    atomic_fetch_add(&protocol->connections_made, record_get_u64(r));
    atomic_fetch_add(&protocol->accept_errors, record_get_u64(r));
    atomic_fetch_add(&protocol->send_errors, record_get_u64(r));
    restore_closed(protocol, r);
    restore_requests(service, r);
    tally_add(&protocol->traffic[0].received, record_get_u64(r));
    tally_add(&protocol->traffic[0].sent, record_get_u64(r));
    tally_add(&protocol->traffic[0].requests, record_get_u64(r));
    restore_histogram(&protocol->traffic[0].answers, r);
    if (record_get_u8(r) != WAITED_COUNT)
        record_refuse(r, "waits end in other ways");
    for (unsigned how = 0; how < WAITED_COUNT; how++)
        restore_histogram(&service->counts[0].waits[how], r);
    restore_histogram(&service->counts[0].holds, r);
    restore_own(service, r);
    record_leave(r);
    return record_ok(r);
}

bool services_restore(struct services *services, struct moment now, uint32_t kind,
                      struct record_reader *section)
{
    switch (kind) {
    case STATE_TABLE:
        return table_restore(services->table, now, section);
    case SERVICES:
        return restore_shared(services, now, section);
    case SERVICES_PROTOCOL:
        return restore_protocol(services, section);
    case SERVICES_TIMES:
        return restore_times(services, section);
    default:
        return false;
    }
}

bool services_restore_done(struct services *services, struct record_reader *r)
{
    if (!services->restored)
        record_refuse(r, "the services are missing");
    return record_ok(r) && table_restore_done(services->table, r);
}
