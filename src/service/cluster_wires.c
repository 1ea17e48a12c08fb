/*
 * cluster_wires.c - the wires of the node (cluster/wire.h): to the engine, and to each Sentinel;
 * and what the thread needs for them: TLS, and the files that it may read.
 */
#include "service/cluster.h"

#include "net/lookup.h"

#include <stdio.h>
#include <string.h>

/* A wire never queues more: a node that is full of requests would lose its session, not memory. */
#define WIRE_QUEUE_MAX ((size_t)64 << 20)

static int64_t now_ns(const struct cluster *c)
{
    return c->resource.thread.now.mono_ns;
}

/* ---- wires ----------------------------------------------------------------------------------- */

static void on_wire_opened(void *arg)
{
    const struct cluster_wire *w = arg;
    node_opened(w->cluster->node, w->number, now_ns(w->cluster));
    cluster_stir(w->cluster);
}

static void on_wire_received(void *arg, struct bytes bytes)
{
    const struct cluster_wire *w = arg;
    /* The time after the reading: the thread may have been stopped since its iteration began, and
     * the beats of others count from when they were received. */
    node_received(w->cluster->node, w->number, bytes.data, bytes.len, clock_mono_ns());
    cluster_stir(w->cluster);
}

/* What to do about a failure of TLS, by what it says. */
static const struct {
    const char *says, *advice;
} tls_advice[] = {
    {"its client", "set cluster.cert and cluster.key"},
    {"issuer", "set cluster.ca to the CA of the engine's certificate"},
    {"self-signed", "set cluster.ca to the CA of the engine's certificate"},
    {"mismatch", "set cluster.engine to a name that the engine's certificate has"},
    {"wrong version", "the engine has no TLS there: set its tls-port in cluster.engine"},
};

static void on_wire_closed(void *arg, const char *reason)
{
    const struct cluster_wire *w = arg;
    char text[DIAL_REASON_SIZE + 80];
    const char *advice = NULL;
    for (size_t i = 0; !advice && w->cluster->tls && i < ARRAY_SIZE(tls_advice); i++)
        if (strstr(reason, tls_advice[i].says))
            advice = tls_advice[i].advice;
    snprintf(text, sizeof(text), "%s%s%s", reason, advice ? ": " : "", advice ? advice : "");
    node_closed(w->cluster->node, w->number, text, now_ns(w->cluster));
    cluster_stir(w->cluster);
}

static const struct wire_calls wire_calls = {
    .opened = on_wire_opened, .received = on_wire_received, .closed = on_wire_closed};

void cluster_open_wire(void *arg, unsigned number, const struct url_host *engine, int64_t limit_ns)
{
    struct cluster *c = arg;
    struct cluster_wire *w = &c->wires[number];
    unsigned at = number >= NODE_SENTINEL ? number - NODE_SENTINEL : 0;
    struct dial_target target = url_target(&c->url, at, c->tls);
    if (engine)
        target = (struct dial_target){
            .transport = TRANSPORT_TCP, .host = engine->host, .port = engine->port};
    wire_open(w->wire, &target, limit_ns);
}

void cluster_send(void *arg, unsigned number, const void *data, size_t len)
{
    struct cluster *c = arg;
    wire_send(c->wires[number].wire, bytes_at(data, len));
}

void cluster_close_wire(void *arg, unsigned number)
{
    struct cluster *c = arg;
    wire_close(c->wires[number].wire);
}

/* Files that a TLS client without cluster.ca reads to check the engine's certificate; a reload may
 * empty that. Its own files are read by the main thread. */
static const char *const tls_reads[] = {"/etc/ssl",
                                        "/usr/lib/ssl",
                                        "/usr/share/ca-certificates",
                                        "/usr/local/share/ca-certificates",
                                        "/etc/pki/tls",
                                        "/etc/pki/ca-trust",
                                        NULL};

/* Puts together what the thread may read; NULL after the last. */
static void make_reads(struct cluster *c)
{
    const char *const *const lists[] = {lookup_reads, location_reads,
                                        c->url.kind == URL_TLS ? tls_reads : NULL};
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (size_t n = 0; lists[i] && lists[i][n]; n++) {
            CHECK(count + 1 < ARRAY_SIZE(c->reads));
            c->reads[count++] = lists[i][n];
        }
}

bool cluster_make_wires(struct cluster *c)
{
    make_reads(c);
    unsigned count = NODE_SENTINEL + (c->url.kind == URL_SENTINEL ? c->url.count : 0);
    for (unsigned i = 0; i < count; i++) {
        struct cluster_wire *w = &c->wires[i];
        w->cluster = c;
        w->number = i;
        w->wire = wire_new(&c->resource.thread, WIRE_QUEUE_MAX, &wire_calls, w);
        if (!w->wire)
            return false;
    }
    return true;
}

void cluster_free_wires(struct cluster *c)
{
    for (unsigned i = 0; i < NODE_WIRES; i++)
        wire_free(&c->wires[i].wire);
    tls_free(&c->tls);
}
