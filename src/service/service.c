/*
 * service.c - the registry of protocols, the way of verdicts, and the collector.
 *
 * A verdict for a connection of this worker is told at once, one for another's travels there as a
 * letter; both end in on_verdict, in the thread of the waiter's connection. A waiter whose holder
 * is NULL has nobody any more to tell, and is only freed.
 */
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

static const struct service_row *const registry[] = {
    &poolcounter_row,
    &counter_row,
};

_Static_assert(ARRAY_SIZE(registry) == ARRAY_SIZE(((struct services *)0)->services),
               "each row has a service");

/* What a connection holds and waits for is counted so far, for whoever looks at it. */
#define DESCRIBED_MAX 1000

/*
 * The collector looks at so many names at a time, and then leaves the worker to others for a while:
 * four times as long as it took, or just as long where names stand in the way of memory.
 */
#define COLLECT_LOOKS    512
#define COLLECT_IDLE_NS  NS_PER_S
#define COLLECT_PAUSE_NS (NS_PER_MS / 20) /* at least */

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

/* ---- holders and verdicts ---------------------------------------------------------------- */

struct holder *service_holder(struct conn *conn)
{
    return conn_session(conn);
}

void service_open_holder(struct conn *conn, struct holder *holder)
{
    holder_init(holder, conn_id(conn), conn_tag(conn));
}

static void on_verdict(struct mail *mail, void *reader)
{
    struct worker *worker = reader;
    struct waiter *waiter = waiter_of(mail);
    struct table *table = waiter->table;
    if (waiter->holder) {
        struct conn *conn = conn_by_tag(worker, waiter->tag);
        CHECK(conn); /* closing it would have closed the holder */
        service_of(conn)->verdict(conn, waiter);
    }
    table_waiter_free(table, waiter);
}

void service_deliver(struct worker *from, verdicts *out)
{
    struct mail *mail;
    while ((mail = mail_list_take(out)) != NULL) {
        unsigned to = conn_tag_worker(waiter_of(mail)->tag);
        mail->deliver = on_verdict;
        if (to == worker_number(from))
            on_verdict(mail, from);
        else
            worker_post(worker_server(from)->workers[to], mail);
    }
}

void service_close_holder(struct conn *conn, struct holder *holder, struct histogram *holds)
{
    verdicts out;
    mail_list_init(&out);
    table_close(service_table(conn), holder, service_now(conn), holds, &out);
    service_deliver(conn_worker(conn), &out);
}

/* What is told of a connection to whoever looks at it. */
static void describe(struct conn *conn, struct conn_info *info)
{
    const struct holder *holder = service_holder(conn);
    info->holds = holder_count(service_table(conn), holder, DESCRIBED_MAX);
    info->waits = 0;
    for (const struct waiter *w = holder->waiters; w && info->waits < DESCRIBED_MAX; w = w->next)
        info->waits++;
}

/* ---- the collector ----------------------------------------------------------------------- */

/* Runs a slice of a sweep, or waits for the next interval to begin. */
static int64_t collect(struct chore *chore, struct moment now)
{
    struct services *s = container_of(chore, struct services, collector);
    uint32_t interval = table_interval(s->table, now.unix_s);
    if (!s->collecting && table_is_tight(s->table))
        table_trim(s->table);
    if (!s->collecting) {
        if (interval == s->collected_interval)
            return now.mono_ns + COLLECT_IDLE_NS;
        s->collected_interval = interval;
        s->collector_walk = (struct table_walk){0};
        s->collector_busy_ns = 0;
        s->collecting = true;
    }
    uint64_t collected = 0;
    int64_t begun_ns = clock_mono_ns();
    bool over = table_collect(s->table, &s->collector_walk, now, COLLECT_LOOKS, &collected);
    int64_t ended_ns = clock_mono_ns(), took_ns = ended_ns - begun_ns;
    s->collector_busy_ns += (uint64_t)took_ns;
    tally_add(&s->collected, collected);
    if (!over) {
        int64_t pause_ns = table_is_tight(s->table) ? took_ns : 4 * took_ns;
        return ended_ns + (pause_ns > COLLECT_PAUSE_NS ? pause_ns : COLLECT_PAUSE_NS);
    }
    s->collecting = false;
    uint64_t us = s->collector_busy_ns / 1000;
    tally_add(&s->collections, 1);
    tally_add(&s->collections_us, us);
    tally_sub(&s->last_collection_us, tally_get(&s->last_collection_us) - us);
    return now.mono_ns + COLLECT_IDLE_NS;
}

/* ---- what has been counted --------------------------------------------------------------- */

unsigned services_count(const struct services *services)
{
    return ARRAY_SIZE(services->services);
}

const struct service *services_at(const struct services *services, unsigned i)
{
    CHECK(i < services_count(services));
    return services->services[i];
}

static unsigned workers_of(const struct service *service)
{
    return service->services->server->count;
}

uint64_t service_requests(const struct service *service, unsigned verb, unsigned outcome)
{
    CHECK(verb < SERVICE_VERBS && outcome < SERVICE_OUTCOMES);
    uint64_t sum = 0;
    for (unsigned i = 0; i < workers_of(service); i++)
        sum += tally_get(&service->counts[i].requests[verb][outcome]);
    return sum;
}

uint64_t service_waiting(const struct service *service)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < workers_of(service); i++)
        sum += tally_get(&service->counts[i].waiting);
    return sum;
}

void service_waits(const struct service *service, enum waited how, struct histogram_sum *sum_r)
{
    *sum_r = (struct histogram_sum){0};
    for (unsigned i = 0; i < workers_of(service); i++)
        histogram_sum_up(sum_r, &service->counts[i].waits[how]);
}

void service_holds(const struct service *service, struct histogram_sum *sum_r)
{
    *sum_r = (struct histogram_sum){0};
    for (unsigned i = 0; i < workers_of(service); i++)
        histogram_sum_up(sum_r, &service->counts[i].holds);
}

void service_answers(const struct service *service, struct histogram_sum *sum_r)
{
    *sum_r = (struct histogram_sum){0};
    for (unsigned i = 0; i < workers_of(service); i++)
        histogram_sum_up(sum_r, &service->protocol.traffic[i].answers);
}

uint64_t service_received(const struct service *service)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < workers_of(service); i++)
        sum += tally_get(&service->protocol.traffic[i].received);
    return sum;
}

uint64_t service_sent(const struct service *service)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < workers_of(service); i++)
        sum += tally_get(&service->protocol.traffic[i].sent);
    return sum;
}

/* ---- life -------------------------------------------------------------------------------- */

static void service_free(struct service *service)
{
    if (!service)
        return;
    free(service->protocol.traffic);
    free(service->counts);
    free(service->own);
    free(service);
}

/* Zeroed memory for an element of `size` bytes, a multiple of a cache line, for each worker. */
static void *for_each_worker(const struct services *services, size_t size)
{
    CHECK(size % 64 == 0);
    size_t all = services->server->count * size;
    void *elements = aligned_alloc(64, all);
    if (elements)
        memset(elements, 0, all);
    return elements;
}

static struct service *service_new(struct services *services, const struct service_row *row)
{
    struct service *service = calloc(1, sizeof(*service));
    if (!service)
        return NULL;
    service->services = services;
    service->row = row;
    row->init(service);
    service->protocol.session_size = row->session_size(services);
    service->protocol.service = service;
    service->protocol.describe = describe;
    service->protocol.traffic = for_each_worker(services, sizeof(struct traffic));
    service->counts = for_each_worker(services, sizeof(struct service_counts));
    if (row->own_size)
        service->own = for_each_worker(services, row->own_size);
    if (!service->protocol.traffic || !service->counts || (row->own_size && !service->own)) {
        service_free(service);
        return NULL;
    }
    return service;
}

struct services *services_new(const struct services_config *config, struct server *server,
                              struct moment now)
{
    struct services *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->config = *config;
    s->server = server;
    s->started_ns = now.mono_ns;
    s->poolcounter_locks_room = config->poolcounter_max_locks;
    s->table = table_new(&config->table);
    if (!s->table)
        goto no_memory;
    for (size_t i = 0; i < ARRAY_SIZE(registry); i++) {
        s->services[i] = service_new(s, registry[i]);
        if (!s->services[i])
            goto no_memory;
    }
    s->collected_interval = table_interval(s->table, now.unix_s);
    s->collector.run = collect;
    if (!worker_add_chore(server->workers[0], &s->collector, now.mono_ns + COLLECT_IDLE_NS))
        goto no_memory;
    return s;

no_memory:
    s->collector.run = NULL;
    services_free(&s);
    return NULL;
}

void services_free(struct services **services)
{
    struct services *s = *services;
    if (!s)
        return;
    *services = NULL;
    if (s->collector.run)
        worker_remove_chore(s->server->workers[0], &s->collector);
    for (size_t i = 0; i < ARRAY_SIZE(s->services); i++)
        service_free(s->services[i]);
    table_free(&s->table);
    free(s);
}

void services_drain(struct services *services)
{
    atomic_store(&services->draining, true);
}

struct protocol *services_protocol(struct services *services, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(services->services); i++) {
        struct protocol *protocol = &services->services[i]->protocol;
        if (strcmp(protocol->name, name) == 0)
            return protocol;
    }
    return NULL;
}

/* ---- options ------------------------------------------------------------------------------ */

#define MIB (UINT64_C(1) << 20)

/* clang-format off */
static const struct option_row table_rows[] = {
    { .key = "buckets", OPTION_IS_NUMBER(struct table_settings, buckets), .min = 1,
      .max = 1000000000, .default_text = "16384", .unit = "",
      .help = "how many names the table is made for; it grows when there are more" },
    { .key = "stats_interval", .alias = "stat_interval",
      OPTION_IS_NUMBER(struct table_settings, stats_interval_s), .min = 1, .max = UINT32_MAX,
      .default_text = "86400", .unit = "seconds",
      .help = "interval over which the peak consumption of a counter is taken" },
    { .key = "memory_limit", OPTION_IS_SIZE(struct table_settings, memory_limit), .min = 16 * MIB,
      .max = 32768 * MIB, .default_text = "1G", .unit = "",
      .help = "most memory for names, units and waiters of all protocols" },
};
/* clang-format on */

const struct option_group table_options = {
    .owner = "table",
    .prefix = "counter",
    .rows = table_rows,
    .count = ARRAY_SIZE(table_rows),
    .size = sizeof(struct table_settings),
};

struct services_config services_configure(const struct part_config *parts, size_t count)
{
    struct services_config config = {.counter_max_connections = 0};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(parts[i].name, "table") == 0) {
            const struct table_settings *own = parts[i].own;
            config.table.buckets = own->buckets;
            config.table.memory_limit = (size_t)own->memory_limit;
            config.table.stats_interval_s = own->stats_interval_s;
        } else if (strcmp(parts[i].name, poolcounter_options.name) == 0) {
            const struct poolcounter_settings *own = parts[i].own;
            config.poolcounter_max_connections = parts[i].max_connections;
            config.poolcounter_max_locks = own->max_locks;
            config.poolcounter_max_line = own->max_line;
        } else if (strcmp(parts[i].name, counter_options.name) == 0) {
            config.counter_max_connections = parts[i].max_connections;
        }
    }
    return config;
}
