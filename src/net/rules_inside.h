/* rules_inside.h - the fields of rules, for rules.c and worker_inside.h. */
#ifndef NET_RULES_INSIDE_H
#define NET_RULES_INSIDE_H

#include "base/mail.h"
#include "net/conn.h"
#include "net/rules.h"

#include <stdatomic.h>

/* A snapshot of rules; it never changes. rules.c says who frees it. */
struct rules {
    _Atomic uint32_t holders;
    struct server_limits limits;
    struct tls *tls; /* NULL: none */
    struct mail letters[WORKERS_MAX];
    size_t allow_count;
    struct access_network allow[];
};

/* Adds a holder, which must call rules_free. */
struct rules *rules_share(struct rules *rules);

#endif
