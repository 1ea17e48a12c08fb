/*
 * state.c - saves and restores the shared state and the counters of all services. service.h has the
 * format.
 *
 * Counters are summed over all workers and restored to the first worker, because the number of
 * workers may change. Verbs, outcomes and reasons are stored as words; a word that no longer exists
 * is ignored.
 */
#include "base/record.h"
#include "service/service.h"

#include <string.h>

/* An upper limit for session_room. */
#define ROOM_MAX 65536

/* The limit of the high 64 bits of a sum of times, which is 128 bits of nanoseconds. Below it, the
 * sum in seconds fits into 64 bits. */
#define TIMES_MAX (UINT64_C(1) << 29)

/* ---- saving ---------------------------------------------------------------------------------- */

static void save_shared(const struct services *s, struct record_writer *w)
{
    record_begin(w, SERVICES);
    record_put_i64(w, s->started_ns);
    record_put_u32(w, s->session_room);
    record_end(w);
}

static void save_buckets(const struct service *service, unsigned i, struct record_writer *w)
{
    struct buckets_sum sum;
    service_buckets(service, i, &sum);
    record_put_u8(w, ARRAY_SIZE(sum.counts));
    for (size_t n = 0; n < ARRAY_SIZE(sum.counts); n++)
        record_put_u64(w, sum.counts[n]);
    record_put_u64(w, (uint64_t)sum.sum_ns); /* save_times has the upper half */
}

static void save_requests(const struct service *service, struct record_writer *w)
{
    const struct service_row *row = service->row;
    for (unsigned v = 0; v < service->verbs; v++) {
        for (unsigned o = 0; o < service->outcomes; o++) {
            uint64_t count = service_requests(service, v, o);
            if (!count)
                continue;
            record_put_text(w, row->verbs[v]);
            record_put_text(w, row->outcomes[o]);
            record_put_u64(w, count);
        }
    }
    record_put_text(w, "");
}

/* A worker's sum of times number `i`, in the order of the record; NULL: no more. */
static struct duration_sum *time_at(const struct service *service, unsigned worker, unsigned i)
{
    if (i < SERVICE_TIMES)
        return &service_histogram(service, worker, i)->buckets.sum_ns;
    i -= SERVICE_TIMES;
    return i < service->row->own_times ? service_own_time(service, worker, i) : NULL;
}

/* The total over all workers. */
static duration time_of_all(const struct service *service, unsigned i)
{
    duration sum = 0;
    for (unsigned n = 0; n < service->services->server->count; n++)
        sum += duration_sum_get(time_at(service, n, i));
    return sum;
}

static unsigned times_count(const struct service *service)
{
    return SERVICE_TIMES + service->row->own_times;
}

static void save_own(const struct service *service, struct record_writer *w)
{
    unsigned tallies = service->row->own_tallies, times = times_count(service);
    record_put_u8(w, (uint8_t)(tallies + times - SERVICE_TIMES));
    for (unsigned i = 0; i < tallies; i++) {
        uint64_t sum = 0;
        for (unsigned n = 0; n < service->services->server->count; n++)
            sum += tally_get(service_own_tally(service, n, i));
        record_put_u64(w, sum);
    }
    for (unsigned i = SERVICE_TIMES; i < times; i++)
        record_put_u64(w, (uint64_t)time_of_all(service, i));
}

static void save_protocol(const struct service *service, struct record_writer *w)
{
    const struct protocol *protocol = &service->protocol;
    record_begin(w, SERVICES_PROTOCOL);
    record_put_text(w, service_name(service));
    record_put_u64(w, atomic_load(&protocol->connections_made));
    record_put_u64(w, atomic_load(&protocol->accept_errors));
    record_put_u64(w, atomic_load(&protocol->send_errors));
    const char *word;
    for (unsigned i = 0; (word = protocol_close_word(protocol->row, i)) != NULL; i++) {
        record_put_text(w, word);
        record_put_u64(w, atomic_load(&protocol->closed[i]));
    }
    record_put_text(w, "");
    save_requests(service, w);
    record_put_u64(w, service_received(service));
    record_put_u64(w, service_sent(service));
    uint64_t requests = 0;
    for (unsigned i = 0; i < service->services->server->count; i++)
        requests += tally_get(&protocol->traffic[i].requests);
    record_put_u64(w, requests);
    save_buckets(service, SERVICE_ANSWERS, w);
    record_put_u8(w, WAITED_COUNT);
    for (unsigned i = SERVICE_WAITS; i < SERVICE_TIMES; i++)
        save_buckets(service, i, w);
    save_own(service, w);
    record_end(w);
}

/* Saves the classes of the histograms, of which SERVICES_PROTOCOL has the buckets, and `busy`. */
static void save_classes(const struct service *service, struct record_writer *w)
{
    record_begin(w, SERVICES_CLASSES);
    record_put_text(w, service_name(service));
    record_put_u8(w, SERVICE_TIMES);
    for (unsigned i = 0; i < SERVICE_TIMES; i++) {
        struct histogram_sum sum;
        unsigned used = 0;
        service_times(service, i, &sum);
        for (size_t n = 0; n < HISTOGRAM_CLASSES; n++)
            used += sum.counts[n] > 0;
        record_put_u64(w, sum.longest_ns);
        record_put_u16(w, (uint16_t)used);
        for (size_t n = 0; n < HISTOGRAM_CLASSES; n++) {
            if (sum.counts[n] > 0) {
                record_put_u16(w, (uint16_t)n);
                record_put_u64(w, sum.counts[n]);
            }
        }
    }
    record_put_u64(w, service_busy(service));
    record_end(w);
}

/* Saves the upper halves of the sums; SERVICES_PROTOCOL has the lower halves. */
static void save_times(const struct service *service, struct record_writer *w)
{
    unsigned count = times_count(service);
    record_begin(w, SERVICES_TIMES);
    record_put_text(w, service_name(service));
    record_put_u8(w, (uint8_t)count);
    for (unsigned i = 0; i < count; i++)
        record_put_u64(w, (uint64_t)(time_of_all(service, i) >> 64));
    record_end(w);
}

void services_save(const struct services *services, struct moment now, struct record_writer *w)
{
    for (unsigned i = 0; i < services->resource_count; i++) {
        const struct resource *r = services->resources[i];
        if (r->row->save)
            r->row->save(r, now, w);
    }
    save_shared(services, w);
    for (unsigned i = 0; i < services_count(services); i++) {
        save_protocol(services_at(services, i), w);
        save_classes(services_at(services, i), w);
        save_times(services_at(services, i), w);
    }
}

/* ---- restoring ------------------------------------------------------------------------------- */

bool services_restore_shared(struct services *services, struct moment now, int64_t started_ns,
                             uint32_t session_room, struct record_reader *r)
{
    if (services->restored)
        record_refuse(r, "the services come twice");
    /* The sessions of existing connections may be too small. */
    for (unsigned i = 0; i < services_count(services); i++) {
        if (atomic_load(&services->services[i]->protocol.connections) > 0)
            record_refuse(r, "a connection comes before the services");
    }
    if (started_ns < 0 || started_ns > now.mono_ns || session_room > ROOM_MAX)
        record_refuse(r, "the services' start time or session room is out of range");
    if (!record_ok(r))
        return false;
    services->started_ns = started_ns;
    services->session_room = session_room;
    for (unsigned i = 0; i < services_count(services); i++)
        service_fit(services->services[i]);
    services->restored = true;
    return true;
}

static bool restore_shared(struct services *s, struct moment now, struct record_reader *r)
{
    int64_t started_ns = record_get_i64(r);
    uint32_t session_room = record_get_u32(r);
    record_leave(r);
    return services_restore_shared(s, now, started_ns, session_room, r);
}

/* The index of a word in `words`; `count` when it is not there. */
static unsigned word_in(const char *const *words, unsigned count, const void *data, size_t len)
{
    for (unsigned i = 0; i < count; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], data, len) == 0)
            return i;
    }
    return count;
}

/* The close reason with this word; CLOSE_MAX when there is none. */
static unsigned close_word_in(const struct protocol_row *row, const void *data, size_t len)
{
    const char *word;
    unsigned i = 0;
    for (; (word = protocol_close_word(row, i)) != NULL; i++) {
        if (strlen(word) == len && memcmp(word, data, len) == 0)
            return i;
    }
    return CLOSE_MAX;
}

static void restore_closed(struct protocol *protocol, struct record_reader *r)
{
    const void *word;
    for (size_t len; (len = record_get_bytes(r, &word)) > 0;) {
        unsigned i = close_word_in(protocol->row, word, len);
        uint64_t count = record_get_u64(r);
        if (i < CLOSE_MAX)
            atomic_fetch_add(&protocol->closed[i], count);
    }
}

static void restore_requests(struct service *service, struct record_reader *r)
{
    const void *verb, *outcome;
    for (size_t len; (len = record_get_bytes(r, &verb)) > 0;) {
        unsigned v = word_in(service->row->verbs, service->verbs, verb, len);
        len = record_get_bytes(r, &outcome);
        unsigned o = word_in(service->row->outcomes, service->outcomes, outcome, len);
        uint64_t count = record_get_u64(r);
        if (v < service->verbs && o < service->outcomes)
            tally_add(&service_counts_of(service, 0)->requests[v * service->outcomes + o], count);
    }
}

static void restore_buckets(const struct service *service, unsigned i, struct record_reader *r)
{
    struct buckets_sum sum;
    if (record_get_u8(r) != ARRAY_SIZE(sum.counts))
        record_refuse(r, "a histogram has the wrong number of classes");
    for (size_t n = 0; n < ARRAY_SIZE(sum.counts); n++)
        sum.counts[n] = record_get_u64(r);
    sum.sum_ns = record_get_u64(r);
    if (record_ok(r))
        buckets_add_sum(&service_histogram(service, 0, i)->buckets, &sum);
}

static void restore_own(struct service *service, struct record_reader *r)
{
    unsigned count = record_get_u8(r), tallies = service->row->own_tallies;
    for (unsigned i = 0; i < count && record_ok(r); i++) {
        uint64_t value = record_get_u64(r);
        struct duration_sum *to =
            i < tallies ? NULL : time_at(service, 0, SERVICE_TIMES + i - tallies);
        if (i < tallies)
            tally_add(service_own_tally(service, 0, i), value);
        else if (to)
            duration_sum_add(to, value);
    }
}

/* Reads a name and returns its service; NULL when this protocol no longer exists. */
static struct service *read_service(struct services *s, struct record_reader *r)
{
    const void *name;
    size_t len = record_get_bytes(r, &name);
    for (unsigned i = 0; i < services_count(s); i++) {
        const char *own = service_name(s->services[i]);
        if (strlen(own) == len && memcmp(own, name, len) == 0)
            return s->services[i];
    }
    return NULL;
}

/* The classes of histogram number `i`: at most what its buckets have. */
static void restore_histogram(const struct service *service, unsigned i, struct record_reader *r)
{
    struct histogram_sum sum = {.longest_ns = record_get_u64(r)}, old;
    struct buckets_sum buckets;
    service_times(service, i, &old);
    service_buckets(service, i, &buckets);
    uint64_t left = buckets_sum_count(&buckets) - histogram_sum_count(&old);
    for (unsigned used = record_get_u16(r); used > 0 && record_ok(r); used--) {
        unsigned n = record_get_u16(r);
        uint64_t count = record_get_u64(r);
        if (n >= HISTOGRAM_CLASSES || count > left) {
            record_refuse(r, "a histogram's classes and buckets (in the statistics) disagree");
            return;
        }
        sum.counts[n] += count;
        left -= count;
    }
    if (sum.longest_ns > INT64_MAX)
        record_refuse(r, "a longest time (in the statistics) is out of range");
    if (record_ok(r))
        histogram_add_sum(service_histogram(service, 0, i), &sum);
}

static bool restore_classes(struct services *s, struct record_reader *r)
{
    const struct service *service = read_service(s, r);
    if (!service)
        return record_ok(r);
    if (record_get_u8(r) != SERVICE_TIMES)
        record_refuse(r, "the number of histograms is wrong");
    for (unsigned i = 0; i < SERVICE_TIMES && record_ok(r); i++)
        restore_histogram(service, i, r);
    uint64_t busy = record_get_u64(r);
    record_leave(r);
    if (record_ok(r)) /* instead of what restore_protocol has derived */
        tally_add(&service_counts_of(service, 0)->busy, busy - service_busy(service));
    return record_ok(r);
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
            record_refuse(r, "the total of a time (in the statistics) is too large");
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
    restore_buckets(service, SERVICE_ANSWERS, r);
    if (record_get_u8(r) != WAITED_COUNT)
        record_refuse(r, "the number of wait histograms is wrong");
    for (unsigned i = SERVICE_WAITS; i < SERVICE_TIMES; i++)
        restore_buckets(service, i, r);
    /* A record without SERVICES_CLASSES: what got the answer of a wait that timed out, without a
     * wait. */
    uint64_t all = service_meaning(service, MEANS_TIMED_OUT);
    struct buckets_sum waited;
    service_waits(service, WAITED_TIMED_OUT, &waited);
    if (all > buckets_sum_count(&waited))
        tally_add(&service_counts_of(service, 0)->busy, all - buckets_sum_count(&waited));
    restore_own(service, r);
    record_leave(r);
    return record_ok(r);
}

/* Passes a section to the resources. */
static bool restore_resource(struct services *services, struct moment now, uint32_t kind,
                             struct record_reader *section)
{
    for (unsigned i = 0; i < services->resource_count; i++) {
        struct resource *r = services->resources[i];
        if (r->row->restore && r->row->restore(r, now, kind, section))
            return true;
        if (!record_ok(section))
            return false;
    }
    return false;
}

bool services_restore(struct services *services, struct moment now, uint32_t kind,
                      struct record_reader *section)
{
    switch (kind) {
    case SERVICES:
        return restore_shared(services, now, section);
    case SERVICES_PROTOCOL:
        return restore_protocol(services, section);
    case SERVICES_CLASSES:
        return restore_classes(services, section);
    case SERVICES_TIMES:
        return restore_times(services, section);
    default:
        return restore_resource(services, now, kind, section);
    }
}

bool services_restore_done(struct services *services, struct record_reader *r)
{
    if (!services->restored)
        record_refuse(r, "the services are missing");
    for (unsigned i = 0; i < services->resource_count && record_ok(r); i++) {
        struct resource *resource = services->resources[i];
        if (resource->row->restore_done && !resource->row->restore_done(resource, r))
            return false;
    }
    return record_ok(r);
}
