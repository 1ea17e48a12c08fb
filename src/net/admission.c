/*
 * admission.c - accepts or refuses new connections. It checks the access list, the limits for one
 * address and for one protocol, and the limit of TLS handshakes. The limits come from the worker's
 * rules and from struct protocol. A refused connection is closed, counted by its reason, and logged
 * at a bounded rate.
 *
 * Threads: the thread of the worker that is passed.
 */
#include "net/worker_internal.h"

#include "base/log.h"
#include "net/address.h"

bool admission_asks_address(const struct worker *worker)
{
    return worker->snapshot->allow_count > 0 || worker->snapshot->limits.per_source > 0;
}

/* Closes a connection that was not admitted, and counts `reason`. */
static bool turn_away(struct protocol *protocol, struct stream *stream, enum close_reason reason)
{
    atomic_fetch_add_explicit(&protocol->closed[reason], 1, memory_order_relaxed);
    stream_close(stream);
    return false;
}

/* True when the access list allows `from`; logs a refusal. */
static bool admit_address(const struct worker *worker, const struct protocol *protocol,
                          const struct sockaddr *from)
{
    static struct log_limit denials;
    char text[ADDRESS_TEXT];
    if (access_allows(worker->snapshot->allow, worker->snapshot->allow_count, from))
        return true;
    address_text(from, text, sizeof(text));
    log_warning_limited(&denials,
                        "%s: connection from %s refused: access.allow does not contain its address",
                        protocol->row->name, text);
    return false;
}

/* Returns true when the address `from` may have one more connection; it is then counted. */
static bool admit_source(struct worker *worker, const struct protocol *protocol,
                         const struct sockaddr *from, uint32_t *source_r)
{
    static struct log_limit crowds, shortages;
    char text[ADDRESS_TEXT];
    uint32_t limit = worker->snapshot->limits.per_source;
    uint32_t source = source_enter(&worker->server->sources, from, limit);
    if (source == SOURCE_NO_MEMORY) {
        log_warning_limited(&shortages, "%s: connection refused: no memory to count its address",
                            protocol->row->name);
        return false;
    }
    if (source != SOURCE_FULL) {
        *source_r = source;
        return true;
    }
    address_text(from, text, sizeof(text));
    log_warning_limited(
        &crowds,
        "%s: connection from %s refused: its address has %u connections, the maximum "
        "(access.max_per_source)",
        protocol->row->name, text, limit);
    return false;
}

/* Returns true when the protocol may have one more connection; it is then counted. */
static bool admit_one_more(struct protocol *protocol)
{
    static struct log_limit refusals;
    uint32_t now_open =
        atomic_fetch_add_explicit(&protocol->connections, 1, memory_order_relaxed) + 1;
    uint32_t limit = atomic_load_explicit(&protocol->max_connections, memory_order_relaxed);
    if (!limit || now_open <= limit)
        return true;
    atomic_fetch_sub_explicit(&protocol->connections, 1, memory_order_relaxed);
    log_warning_limited(&refusals,
                        "%s: connection refused: %u connections are open, the maximum "
                        "(max_connections)",
                        protocol->row->name, limit);
    return false;
}

bool admission_enter(struct worker *worker, struct protocol *protocol, struct stream *stream,
                     const struct sockaddr *from, uint32_t *source_r)
{
    *source_r = 0;
    if (from && !admit_address(worker, protocol, from))
        return turn_away(protocol, stream, CLOSE_DENIED);
    if (from && worker->snapshot->limits.per_source &&
        !admit_source(worker, protocol, from, source_r))
        return turn_away(protocol, stream, CLOSE_SOURCE);
    if (admit_one_more(protocol))
        return true;
    source_leave(&worker->server->sources, *source_r);
    return turn_away(protocol, stream, CLOSE_REFUSED);
}

struct claim *admission_handshake(struct worker *worker, const struct protocol *protocol,
                                  uint64_t tag, int fd, uint32_t *source)
{
    static struct log_limit without_tls, too_many;
    if (!worker->snapshot->tls) {
        log_warning_limited(&without_tls,
                            "%s: TLS connection refused: no certificate is configured (tls.cert)",
                            protocol->row->name);
        return NULL;
    }
    if (!*source)
        *source = source_enter_peer(&worker->server->sources, fd);
    struct claim *claim = *source ? claim_handshake(worker, tag, *source) : NULL;
    if (!claim)
        log_warning_limited(&too_many,
                            "%s: TLS connection refused: %u handshakes are in progress, the "
                            "maximum, or a quarter of that from its address (tls.max_handshakes)",
                            protocol->row->name, worker->snapshot->limits.handshakes);
    return claim;
}

void admission_leave(struct worker *worker, struct protocol *protocol, struct stream *stream,
                     uint32_t source)
{
    source_leave(&worker->server->sources, source);
    atomic_fetch_sub_explicit(&protocol->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&protocol->connections_made, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&protocol->closed[CLOSE_HANDSHAKE], 1, memory_order_relaxed);
    stream_close(stream);
}
