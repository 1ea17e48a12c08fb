/*
 * snapshot.h - settings for all connections that may change while the daemon runs: limits, access
 * list, TLS.
 *
 * Rules are a snapshot that never changes. Each worker has one. New rules are sent to each worker
 * as a message. The worker uses them from its next iteration on. A deadline that is already set
 * keeps its time; a connection that started with another TLS context keeps that context.
 *
 * Threads: snapshot_new in any thread. The last holder frees the snapshot, in its own thread.
 */
#ifndef NET_SNAPSHOT_H
#define NET_SNAPSHOT_H

#include "base/check.h"
#include "net/access.h"
#include "net/tls.h"

#include <stddef.h>
#include <stdint.h>

/* Limits: maximum numbers and times. */
struct server_limits {
    size_t output_buffer;         /* bytes queued for one client; at least 2 */
    uint64_t unfinished;          /* bytes that unfinished requests claim (claims.c); 0: no limit */
    int64_t request_timeout_ns;   /* from the first byte of a request to its last */
    int64_t write_timeout_ns;     /* without the client reading any queued byte */
    int64_t handshake_timeout_ns; /* from the connection to the end of its TLS handshake */
    uint32_t handshakes;          /* TLS handshakes at once (claims.c); 0: no limit */
    uint32_t per_source; /* connections from one address (IPv6: /64); 0: no limit. Connections that
                            were opened without a limit may not be counted */
};

struct snapshot_config {
    struct server_limits limits;
    const struct access_network *allow; /* copied */
    size_t allow_count;                 /* 0: every address is allowed */
    struct tls *tls;                    /* moves to the rules; NULL: TLS listeners refuse clients */
};

struct snapshot;

/* Makes rules. The caller gives them to a server or frees them with snapshot_free. Returns NULL
 * when there is no memory; the caller then still owns config->tls. */
struct snapshot *snapshot_new(const struct snapshot_config *config) MUST_USE;
/* Frees *snapshot that no server has, and sets it to NULL. NULL is harmless. */
void snapshot_free(struct snapshot **snapshot);

#endif
