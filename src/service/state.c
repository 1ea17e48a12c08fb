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
    record_put_u64(w, sum->sum_ns);
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

static void save_own(const struct service *service, struct record_writer *w)
{
    unsigned count = 0;
    if (service->row->own_tally) {
        while (service->row->own_tally(service->own, count))
            count++;
    }
    record_put_u8(w, (uint8_t)count);
    for (unsigned i = 0; i < count; i++) {
        uint64_t sum = 0;
        for (unsigned n = 0; n < service->services->server->count; n++)
            sum += tally_get(service->row->own_tally(own_at(service, n), i));
        record_put_u64(w, sum);
    }
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

void services_save(const struct services *services, struct moment now, struct record_writer *w)
{
    table_save(services->table, now, w);
    save_shared(services, w);
    for (unsigned i = 0; i < services_count(services); i++)
        save_protocol(services_at(services, i), w);
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
    unsigned count = record_get_u8(r);
    for (unsigned i = 0; i < count && record_ok(r); i++) {
        uint64_t value = record_get_u64(r);
        tally *to = service->row->own_tally ? service->row->own_tally(service->own, i) : NULL;
        if (to)
            tally_add(to, value);
    }
}

static bool restore_protocol(struct services *s, struct record_reader *r)
{
    const void *name;
    size_t len = record_get_bytes(r, &name);
    struct service *service = NULL;
    for (unsigned i = 0; i < services_count(s); i++) {
        const char *own = s->services[i]->protocol.name;
        if (strlen(own) == len && memcmp(own, name, len) == 0)
            service = s->services[i];
    }
    if (!service)
        return record_ok(r); /* a protocol of the past */
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
