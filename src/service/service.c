/*
 * service.c - the life of services and resources from start to end, and the delivery of results.
 *
 * A result for a connection of the same worker is delivered at once. For another worker it is sent
 * as a message. Both end in on_result, in the thread of the waiter's connection. A waiter without a
 * holder (NULL) is only freed, because its connection has gone.
 */
#include "service/service.h"

#include "net/carry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* service_describe counts the names of a connection only up to this number. */
#define DESCRIBED_MAX 1000

const char *waited_word(enum waited how)
{
    static const char *const words[WAITED_COUNT] = {
        [WAITED_GRANTED] = "granted",
        [WAITED_DONE] = "done",
        [WAITED_TIMED_OUT] = "timed_out",
        [WAITED_CANCELLED] = "cancelled",
    };
    return words[how];
}

/* ---- holders and results --------------------------------------------------------------------- */

struct holder *service_holder(struct conn *conn)
{
    return service_of(conn)->row->holds ? conn_session(conn) : NULL;
}

bool service_holds_name(struct conn *conn, struct bytes name, struct moment now,
                        struct table_hold *hold_r)
{
    struct table *t = service_table(conn);
    uint32_t id = conn_id(conn);
    struct table_hold second;
    bool holds = service_holder(conn) && table_holds(t, id, name, now, hold_r);
    if (!table_holds(t, id + CONN_ID_SECOND, name, now, &second))
        return holds;
    if (!holds) {
        *hold_r = second;
        return true;
    }
    hold_r->units += second.units; /* no more than the name's, so no overflow */
    if (second.since_ns < hold_r->since_ns)
        hold_r->since_ns = second.since_ns;
    return true;
}

void service_open_holder(struct conn *conn)
{
    holder_init(service_holder(conn), conn_id(conn), conn_tag(conn));
}

static void on_result(struct mail *mail, void *reader)
{
    struct worker *worker = reader;
    struct waiter *waiter = waiter_of(mail);
    struct table *table = waiter->table;
    if (waiter->holder) {
        struct conn *conn = conn_by_tag(worker, waiter->message.to);
        CHECK(conn); /* closing the connection would have closed the holder */
        service_of(conn)->row->result(conn, waiter);
    }
    table_waiter_free(table, waiter);
}

/* Sends the results of a herd, which are many, as a bundle to each worker. */
static __attribute__((noinline)) void post_herd(struct server *server, results *out)
{
    results to[WORKERS_MAX];
    struct mail *mail;
    for (unsigned i = 0; i < server->count; i++)
        mail_list_init(&to[i]);
    while ((mail = mail_list_take(out)) != NULL) {
        mail->deliver = on_result;
        mail_list_add(&to[conn_tag_worker(waiter_of(mail)->message.to)], mail);
    }
    for (unsigned i = 0; i < server->count; i++) {
        if (!to[i].first)
            continue;
        struct bundle *bundle = &waiter_of(mail_list_last(&to[i]))->bundle;
        bundle->messages = to[i].first;
        reactor_post_bundle(worker_reactor(server->workers[i]), bundle);
    }
}

void service_send(struct worker *from, const struct services *services, struct mail_list *messages,
                  void (*deliver)(struct mail *mail, void *worker))
{
    for (struct mail *mail; (mail = mail_list_take(messages)) != NULL;) {
        struct message *message = container_of(mail, struct message, mail);
        mail->deliver = deliver;
        if (likely(from != NULL))
            worker_deliver(from, message);
        else
            conn_post_late(services->server, message);
    }
}

void service_deliver(struct worker *from, const struct services *services, results *out)
{
    for (unsigned i = 0; from && i < REACTOR_MESSAGES; i++) {
        struct mail *mail = mail_list_take(out);
        if (!mail)
            return;
        mail->deliver = on_result;
        worker_deliver(from, &waiter_of(mail)->message);
    }
    post_herd(services->server, out);
}

void service_close_holder(struct conn *conn, struct holder *holder, struct histogram *holds)
{
    results out;
    mail_list_init(&out);
    table_close(service_table(conn), holder, service_now(conn), holds, &out);
    service_deliver(conn_worker(conn), service_of(conn)->services, &out);
}

bool service_close_some(struct conn *conn, struct holder *holder, unsigned max,
                        struct histogram *holds)
{
    results out;
    mail_list_init(&out);
    bool all = table_close_some(service_table(conn), holder, max, service_now(conn), holds, &out);
    service_deliver(conn_worker(conn), service_of(conn)->services, &out);
    return all;
}

void service_describe(struct conn *conn, struct conn_info *info)
{
    const struct holder *holder = service_holder(conn);
    CHECK(holder);
    info->holds = holder_count(service_table(conn), holder, DESCRIBED_MAX);
    info->waits = 0;
    for (const struct waiter *w = holder->waiters; w && info->waits < DESCRIBED_MAX; w = w->next)
        info->waits++;
}

/* ---- counters -------------------------------------------------------------------------------- */

unsigned services_count(const struct services *services)
{
    return services->service_count;
}

struct service *services_at(const struct services *services, unsigned i)
{
    CHECK(i < services->service_count);
    return services->services[i];
}

static unsigned workers_of(const struct service *service)
{
    return service->services->server->count;
}

uint64_t service_requests(const struct service *service, unsigned verb, unsigned outcome)
{
    CHECK(verb < service->verbs && outcome < service->outcomes);
    uint64_t sum = 0;
    for (unsigned i = 0; i < workers_of(service); i++)
        sum +=
            tally_get(&service_counts_of(service, i)->requests[verb * service->outcomes + outcome]);
    return sum;
}

uint64_t service_answered(const struct service *service)
{
    uint64_t sum = 0;
    for (unsigned verb = 0; verb < service->verbs; verb++)
        for (unsigned outcome = 0; outcome < service->outcomes; outcome++)
            sum += service_requests(service, verb, outcome);
    return sum;
}

uint64_t service_meaning(const struct service *service, enum meaning meaning)
{
    uint64_t sum = 0;
    for (unsigned v = 0; v < service->verbs; v++) {
        for (unsigned o = 0; o < service->outcomes; o++) {
            if (service->row->meaning && service->row->meaning(v, o) == meaning)
                sum += service_requests(service, v, o);
        }
    }
    return sum;
}

/* A function that adds up a tally of each worker, number `i`. */
#define SUM(function, of_worker)                                                                   \
    uint64_t function(const struct service *service)                                               \
    {                                                                                              \
        uint64_t sum = 0;                                                                          \
        for (unsigned i = 0; i < workers_of(service); i++)                                         \
            sum += tally_get(&(of_worker));                                                        \
        return sum;                                                                                \
    }
SUM(service_busy, service_counts_of(service, i)->busy)
SUM(service_waiting, service_counts_of(service, i)->waiting)
SUM(service_received, service->protocol.traffic[i].received)
SUM(service_sent, service->protocol.traffic[i].sent)

uint64_t service_refused(const struct service *service)
{
    return service_busy(service) + service_meaning(service, MEANS_REFUSED);
}

struct histogram *service_histogram(const struct service *service, unsigned worker, unsigned i)
{
    struct service_counts *counts = service_counts_of(service, worker);
    CHECK(i < SERVICE_TIMES);
    if (i == SERVICE_ANSWERS)
        return &service->protocol.traffic[worker].answers;
    return i == SERVICE_HOLDS ? &counts->holds : &counts->waits[i - SERVICE_WAITS];
}

void service_times(const struct service *service, unsigned i, struct histogram_sum *sum_r)
{
    *sum_r = (struct histogram_sum){0};
    for (unsigned n = 0; n < workers_of(service); n++)
        histogram_sum_up(sum_r, service_histogram(service, n, i));
}

void service_buckets(const struct service *service, unsigned i, struct buckets_sum *sum_r)
{
    *sum_r = (struct buckets_sum){0};
    for (unsigned n = 0; n < workers_of(service); n++)
        buckets_sum_up(sum_r, &service_histogram(service, n, i)->buckets);
}

void service_waits(const struct service *service, enum waited how, struct buckets_sum *sum_r)
{
    service_buckets(service, SERVICE_WAITS + how, sum_r);
}

void service_holds(const struct service *service, struct buckets_sum *sum_r)
{
    service_buckets(service, SERVICE_HOLDS, sum_r);
}

/* ---- life ------------------------------------------------------------------------------------ */

static const struct part_config *find_part(const struct services_config *config, const char *name)
{
    static const struct part_config none;
    for (size_t i = 0; i < config->count; i++) {
        if (strcmp(config->parts[i].name, name) == 0)
            return &config->parts[i];
    }
    return &none;
}

static unsigned count_words(const char *const *words)
{
    unsigned count = 0;
    while (words[count])
        count++;
    return count;
}

static void service_free(struct service *service)
{
    if (!service)
        return;
    free(service->protocol.traffic);
    free(service->counts);
    free(service->own);
    free(service);
}

/* Allocates zeroed memory with `size` bytes for each worker; `size` must be a multiple of a cache
 * line. Returns NULL when there is no memory. */
static void *for_each_worker(const struct services *services, size_t size)
{
    CHECK(size % 64 == 0);
    size_t all = services->server->count * size;
    void *elements = aligned_alloc(64, all);
    if (elements)
        memset(elements, 0, all);
    return elements;
}

void service_fit(struct service *service)
{
    service->protocol.session_size = service->row->session_size;
    service->protocol.request_max = service->row->request_max;
    if (service->row->fit)
        service->row->fit(service);
}

static struct service *service_new(struct services *services, const struct service_row *row,
                                   const struct part_config *part)
{
    struct service *service = calloc(1, sizeof(*service));
    if (!service)
        return NULL;
    CHECK(row->protocol.request_size <= PROTOCOL_REQUEST_MAX);
    service->row = row;
    service->protocol_row = row->protocol;
    service->shares = services->cluster && row->answered;
    service->services = services;
    service->table = services->table;
    service->settings = part->own;
    service->verbs = count_words(row->verbs);
    service->outcomes = count_words(row->outcomes);
    size_t tallies = (size_t)service->verbs * service->outcomes;
    service->counts_size =
        (sizeof(struct service_counts) + tallies * sizeof(tally) + 63) & ~(size_t)63;
    service->protocol.row = &service->protocol_row;
    service->protocol.service = service;
    atomic_init(&service->protocol.max_connections, part->max_connections);
    service_fit(service);
    service->protocol.traffic = for_each_worker(services, sizeof(struct traffic));
    service->counts = for_each_worker(services, service->counts_size);
    if (row->own_size)
        service->own = for_each_worker(services, row->own_size);
    if (!service->protocol.traffic || !service->counts || (row->own_size && !service->own)) {
        service_free(service);
        return NULL;
    }
    return service;
}

/* Frees a resource that has ended. */
static void resource_free(struct resource *r)
{
    reactor_free(&r->thread); /* harmless when there is none */
    free(r);
}

/* Makes a resource. Returns NULL with errno. */
static struct resource *resource_new(struct services *services, const struct resource_row *row,
                                     const void *settings, struct moment now)
{
    struct resource *r = calloc(1, row->size);
    if (!r)
        return NULL;
    r->row = row;
    r->services = services;
    if ((!row->threaded || reactor_init(&r->thread, &reactor_default)) &&
        row->start(r, settings, now))
        return r;
    int error = errno;
    resource_free(r);
    errno = error;
    return NULL;
}

/* Starts all resources. Returns false with errno. */
static bool start_resources(struct services *s, const struct services_config *config,
                            struct moment now)
{
    for (size_t i = 0; registry.resources[i]; i++) {
        const struct resource_row *row = registry.resources[i];
        CHECK(s->resource_count < SERVICES_MAX);
        struct resource *r = resource_new(s, row, find_part(config, row->name)->own, now);
        if (!r)
            return false;
        s->resources[s->resource_count++] = r;
    }
    return true;
}

static bool make_services(struct services *s, const struct services_config *config)
{
    for (size_t i = 0; registry.protocols[i]; i++) {
        const struct service_row *row = registry.protocols[i];
        CHECK(s->service_count < SERVICES_MAX);
        s->services[i] = service_new(s, row, find_part(config, row->protocol.name));
        if (!s->services[i])
            return false;
        s->service_count++;
    }
    return true;
}

struct services *services_new(const struct services_config *config, struct server *server,
                              struct moment now)
{
    struct services *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->server = server;
    s->started_ns = now.mono_ns;
    s->hash_key = config->hash_key;
    s->port = config->port;
    if (start_resources(s, config, now) && make_services(s, config))
        return s;
    int error = errno;
    services_free(&s);
    errno = error;
    return NULL;
}

void services_free(struct services **services)
{
    struct services *s = *services;
    if (!s)
        return;
    *services = NULL;
    while (s->service_count > 0)
        service_free(s->services[--s->service_count]);
    while (s->resource_count > 0) {
        struct resource *r = s->resources[--s->resource_count];
        if (r->row->end)
            r->row->end(r);
        resource_free(r);
    }
    free(s);
}

static bool has_thread(const struct resource *r)
{
    return r->row->threaded && !r->without_thread;
}

bool services_open(struct services *services, struct moment now)
{
    for (unsigned i = 0; i < services->resource_count; i++) {
        struct resource *r = services->resources[i];
        if (r->row->open && !r->row->open(r, now))
            return false;
    }
    return true;
}

bool services_prepare(struct services *services)
{
    for (unsigned i = 0; i < services->resource_count; i++) {
        struct resource *r = services->resources[i];
        if (has_thread(r) &&
            !reactor_prepare(&r->thread, r->row->name, services->server->sandbox, &r->sandbox))
            return false;
    }
    return true;
}

/* Has the threads of the first `count` resources run. */
static void resume(struct services *services, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (has_thread(services->resources[i]))
            reactor_resume(&services->resources[i]->thread);
    }
}

/* Pauses a resource: its thread sleeps. Returns false when that takes longer than until
 * `until_ns`; the thread then keeps running. */
static bool pause_resource(struct resource *r, int64_t until_ns)
{
    bool runs = !has_thread(r) || reactor_runs(&r->thread);
    if (runs && r->row->pause && !r->row->pause(r, until_ns))
        return false;
    if (reactor_runs(&r->thread)) {
        reactor_stop(&r->thread);
        reactor_rest(&r->thread);
    }
    return true;
}

/* Delivers messages both ways until there are none. */
static void flush(struct services *services)
{
    bool busy;
    do {
        busy = server_flush_paused(services->server);
        for (unsigned i = 0; i < services->resource_count; i++) {
            struct resource *r = services->resources[i];
            busy = (r->row->threaded && reactor_deliver_paused(&r->thread)) || busy;
        }
    } while (busy);
}

bool services_may_pause(const struct services *services, int64_t since_ns, int64_t now_ns)
{
    bool may = true;
    for (unsigned i = 0; i < services->resource_count; i++) {
        struct resource *r = services->resources[i];
        may = (!r->row->may_pause || r->row->may_pause(r, since_ns, now_ns)) && may;
    }
    return may;
}

int64_t services_serve_by(const struct services *services, const char **what_r)
{
    int64_t by_ns = INT64_MAX;
    *what_r = NULL;
    for (unsigned i = 0; i < services->resource_count; i++) {
        struct resource *r = services->resources[i];
        const char *what = NULL;
        int64_t at_ns = r->row->serve_by ? r->row->serve_by(r, &what) : INT64_MAX;
        if (at_ns < by_ns) {
            by_ns = at_ns;
            *what_r = what;
        }
    }
    return by_ns;
}

bool services_pause(struct services *services, int64_t until_ns)
{
    services->refusal = NULL;
    for (unsigned i = 0; i < services->resource_count; i++) {
        if (!pause_resource(services->resources[i], until_ns)) {
            resume(services, i);
            return false;
        }
    }
    flush(services);
    return true;
}

void services_resume(struct services *services)
{
    resume(services, services->resource_count);
}

void services_drain(struct services *services, bool on)
{
    atomic_store(&services->draining, on);
    for (unsigned i = 0; i < services->resource_count; i++) {
        struct resource *r = services->resources[i];
        if (r->row->drain)
            r->row->drain(r, on);
    }
}

uint64_t services_held(const struct services *services, struct moment now)
{
    uint64_t held = 0;
    for (unsigned i = 0; i < services->resource_count; i++) {
        const struct resource *r = services->resources[i];
        held += r->row->held ? r->row->held(r, now) : 0;
    }
    return held;
}

struct protocol *services_protocol(struct services *services, const char *name)
{
    for (unsigned i = 0; i < services->service_count; i++) {
        if (strcmp(service_name(services->services[i]), name) == 0)
            return &services->services[i]->protocol;
    }
    return NULL;
}

struct resource *services_resource(const struct services *services, const char *name)
{
    for (unsigned i = 0; i < services->resource_count; i++) {
        if (strcmp(services->resources[i]->row->name, name) == 0)
            return services->resources[i];
    }
    return NULL;
}
