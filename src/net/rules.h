/*
 * rules.h - what holds for all connections and may change while the daemon runs: limits, who is
 * allowed, TLS.
 *
 * Rules are a snapshot that never changes. Every worker has one; new rules come to it as a letter,
 * which is part of them, and take effect for it between two turns of its loop: for what begins from
 * then on. Deadlines that run keep their time, handshakes and connections that began under another
 * TLS context keep that.
 *
 * Threads: rules_new in any thread. A snapshot is freed by whoever lets go of it last.
 */
#ifndef NET_RULES_H
#define NET_RULES_H

#include "base/check.h"
#include "net/access.h"
#include "net/tls.h"

#include <stddef.h>
#include <stdint.h>

struct server;

struct server_limits {
    size_t output_buffer;       /* bytes queued for one client, at most; at least 2 */
    uint64_t unfinished;        /* bytes of unfinished requests, of all connections; 0: no limit */
    int64_t request_timeout_ns; /* from the first byte of a request to its last */
    int64_t write_timeout_ns;   /* without the client taking a byte of what is queued */
    int64_t handshake_timeout_ns; /* from the connection to the end of its TLS handshake */
    uint32_t handshakes;          /* TLS handshakes at once, of all workers; 0: no limit */
    uint32_t per_source; /* connections from one address (IPv6: /64); 0: no limit. Those that came
                            while there was none are not counted */
};

struct rules_config {
    struct server_limits limits;
    const struct access_network *allow; /* copied */
    size_t allow_count;                 /* 0: everybody is allowed */
    struct tls *tls;                    /* taken over; NULL: TLS listeners turn clients away */
};

struct rules;

/* NULL: no memory; config->tls is still the caller's. Otherwise to be given to a server, or freed
 * with rules_free. */
struct rules *rules_new(const struct rules_config *config) MUST_USE;
/* Frees *rules that were given to no server, and nulls it. NULL is harmless. */
void rules_free(struct rules **rules);

/*
 * Has `rules`, which it takes over, hold for `server` instead of those before. From the main
 * thread: the first before any of its workers is made, others at any time until the workers are
 * drained.
 */
void server_set_rules(struct server *server, struct rules *rules);
/* Lets go of them, when no worker runs. Harmless when there are none. */
void server_free_rules(struct server *server);

#endif
