/* snapshot_internal.h - the fields of rules, for snapshot.c and worker_internal.h. */
#ifndef NET_RULES_INTERNAL_H
#define NET_RULES_INTERNAL_H

#include "base/mail.h"
#include "net/conn.h"
#include "net/snapshot.h"

#include <stdatomic.h>

/* A snapshot of rules; it never changes. snapshot.c says who frees it. */
struct snapshot {
    _Atomic uint32_t holders;
    struct server_limits limits;
    struct tls *tls; /* NULL: none */
    struct mail messages[WORKERS_MAX];
    size_t allow_count;
    struct access_network allow[];
};

/* Adds a holder, which must call snapshot_free. */
struct snapshot *snapshot_share(struct snapshot *snapshot);

#endif
