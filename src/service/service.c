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

/*
 * The collector looks at so many names at a time, and then leaves the worker to others for a while:
 * four times as long as it took, or just as long where names stand in the way of memory.
 */
#define COLLECT_LOOKS    512
#define COLLECT_IDLE_NS  NS_PER_S
#define COLLECT_PAUSE_NS (NS_PER_MS / 20) /* at least */

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

void service_close_holder(struct conn *conn, struct holder *holder)
{
    verdicts out;
    mail_list_init(&out);
    table_close(service_table(conn), holder, service_now(conn), NULL, &out);
    service_deliver(conn_worker(conn), &out);
}

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

static void service_free(struct service *service)
{
    if (!service)
        return;
    free(service->tallies);
    free(service);
}

static struct service *service_new(struct services *services, const struct service_row *row)
{
    CHECK(row->tallies_size % 64 == 0);
    size_t tallies_size = services->server->count * row->tallies_size;
    struct service *service = calloc(1, sizeof(*service));
    if (!service)
        return NULL;
    service->services = services;
    service->tallies = aligned_alloc(64, tallies_size);
    if (!service->tallies) {
        free(service);
        return NULL;
    }
    memset(service->tallies, 0, tallies_size);
    row->init(service);
    service->protocol.service = service;
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

struct protocol *services_protocol(struct services *services, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(services->services); i++) {
        struct protocol *protocol = &services->services[i]->protocol;
        if (strcmp(protocol->name, name) == 0)
            return protocol;
    }
    return NULL;
}
