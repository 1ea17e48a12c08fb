/*
 * claims.c - what connections take of two things that all of them share: memory for unfinished
 * requests (limits.unfinished), and TLS handshakes (tls.max_handshakes). It is also counted for
 * each source (sources.h), so that a connection of those that take most goes when a limit is met:
 *
 * - memory: the largest request of the source that has most, with what is claimed. Requests of up
 *   to CLAIM_FREE bytes claim nothing.
 * - handshakes: a source has at most a quarter of them. The oldest handshake without a byte goes:
 *   of the source if it has its quarter, of all if there are no more. If there is none, the new
 *   connection is refused.
 *
 * A connection that has to go counts no more at once, and is closed by a message to its worker.
 *
 * Threads: that of the connection's worker. Takes the lock of the sources; finding who goes takes
 * logarithmic time, and a claim of memory has at most CLAIM_EVICTIONS others go.
 *
 * Each source with claims has an account. Trees order the accounts by memory, the requests of an
 * account by size, and silent handshakes by age.
 *
 * An evicted claim leaves the trees and counts under the lock. From then on its message frees the
 * claim, and the connection may only forget it.
 */
#include "net/worker_internal.h"

#include <stdlib.h>

struct account {
    struct tree_node node; /* among the accounts, the one with most memory first */
    struct tree requests;  /* claims of memory, the largest first */
    struct tree silent;    /* claims of handshakes without a byte, the oldest first */
    uint64_t bytes;
    uint32_t handshakes;
    uint32_t source;
};

struct claim {
    struct mail mail;           /* closes the connection */
    struct tree_node of_source; /* in `requests` or `silent` of the account */
    struct tree_node of_all;    /* a silent handshake: in `silent` of the sources */
    struct account *account;
    uint64_t tag;
    uint64_t size; /* memory: bytes; a handshake: its number */
    bool handshake, evicted;
};

/* ---- order ----------------------------------------------------------------------------------- */

static int by_memory(const struct tree_node *a, const struct tree_node *b)
{
    const struct account *x = container_of(unconst(a), struct account, node);
    const struct account *y = container_of(unconst(b), struct account, node);
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->source < y->source ? -1 : 1;
}

static int by_size(const struct tree_node *a, const struct tree_node *b)
{
    const struct claim *x = container_of(unconst(a), struct claim, of_source);
    const struct claim *y = container_of(unconst(b), struct claim, of_source);
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->tag < y->tag ? -1 : 1;
}

static int by_age_of_source(const struct tree_node *a, const struct tree_node *b)
{
    const struct claim *x = container_of(unconst(a), struct claim, of_source);
    return x->size < container_of(unconst(b), struct claim, of_source)->size ? -1 : 1;
}

static int by_age(const struct tree_node *a, const struct tree_node *b)
{
    const struct claim *x = container_of(unconst(a), struct claim, of_all);
    return x->size < container_of(unconst(b), struct claim, of_all)->size ? -1 : 1;
}

/* ---- counting, under the lock ---------------------------------------------------------------- */

/* Changes what a request claims. 0: it is in no tree. */
static void resize(struct server *server, struct claim *claim, uint64_t size)
{
    struct account *account = claim->account;
    struct tree *accounts = &server->sources.accounts;
    if (tree_has(&claim->of_source))
        tree_remove(&account->requests, &claim->of_source);
    if (tree_has(&account->node))
        tree_remove(accounts, &account->node);
    account->bytes += size - claim->size;
    atomic_fetch_add_explicit(&server->unfinished, size - claim->size, memory_order_relaxed);
    claim->size = size;
    if (size > 0)
        tree_add(&account->requests, &claim->of_source);
    if (account->bytes > 0)
        tree_add(accounts, &account->node);
}

static void hush(struct server *server, struct claim *claim)
{
    if (!tree_has(&claim->of_all))
        return;
    tree_remove(&claim->account->silent, &claim->of_source);
    tree_remove(&server->sources.silent, &claim->of_all);
}

/* Takes a claim out of all counts. */
static void take_out(struct server *server, struct claim *claim)
{
    if (!claim->handshake) {
        resize(server, claim, 0);
        return;
    }
    hush(server, claim);
    claim->account->handshakes--;
    atomic_fetch_sub_explicit(&server->handshakes, 1, memory_order_relaxed);
}

/* The message to a connection that has to go. It may have ended meanwhile, or its handshake. */
static void go(struct mail *mail, void *reader)
{
    struct claim *claim = container_of(mail, struct claim, mail);
    struct conn *conn = conn_find(reader, claim->tag);
    if (conn && conn->claim == claim) {
        conn->claim = NULL;
        if (claim->handshake)
            conn_handshake_failed(conn, "it was silent, and others need its place", false);
        else
            conn_close(conn, CLOSE_UNFINISHED);
    }
    free(claim);
}

static void evict(struct server *server, struct claim *claim)
{
    take_out(server, claim);
    claim->evicted = true;
    claim->mail.deliver = go;
    reactor_post(worker_reactor(server->workers[conn_tag_worker(claim->tag)]), &claim->mail);
}

/* Has others go until all requests fit into `limit`. Returns false when `claim` itself has to. */
static bool make_room(struct server *server, const struct claim *claim, uint64_t limit)
{
    for (unsigned i = 0; atomic_load_explicit(&server->unfinished, memory_order_relaxed) > limit;
         i++) {
        struct tree_node *most = tree_first(&server->sources.accounts);
        struct tree *requests = &container_of(most, struct account, node)->requests;
        struct claim *largest = container_of(tree_first(requests), struct claim, of_source);
        if (largest == claim || i == CLAIM_EVICTIONS)
            return false;
        evict(server, largest);
    }
    return true;
}

/* Finds or makes the account of a source. Returns NULL when there is no memory. */
static struct account *account_of(struct server *server, uint32_t source)
{
    struct account **place = source_account(&server->sources, source), *account = *place;
    if (account)
        return account;
    account = *place = calloc(1, sizeof(*account));
    if (!account)
        return NULL;
    account->source = source;
    tree_init(&account->requests, by_size, source);
    tree_init(&account->silent, by_age_of_source, source);
    if (!server->sources.accounts.compare) {
        tree_init(&server->sources.accounts, by_memory, 1);
        tree_init(&server->sources.silent, by_age, 2);
    }
    return account;
}

/* ---- claims ---------------------------------------------------------------------------------- */

/* Makes the connection's claim of memory. Returns NULL when there is no memory. */
static struct claim *claim_new(struct conn *conn)
{
    struct server *server = conn->worker->server;
    if (!conn->source)
        conn->source = source_enter_peer(&server->sources, conn->stream.fd);
    struct claim *claim = conn->source ? calloc(1, sizeof(*claim)) : NULL;
    if (!claim)
        return NULL;
    claim->tag = conn_tag(conn);
    lock_acquire(&server->sources.lock);
    claim->account = account_of(server, conn->source);
    lock_release(&server->sources.lock);
    if (claim->account)
        return claim;
    free(claim);
    return NULL;
}

bool claim_memory(struct conn *conn, uint64_t bytes, enum close_reason *why_r)
{
    struct server *server = conn->worker->server;
    uint64_t limit = conn->worker->snapshot->limits.unfinished;
    if (bytes == 0)
        return true;
    if (!limit || server->restores) /* the limit may have been lower since a reload */
        limit = UINT64_MAX / 2;
    *why_r = CLOSE_UNFINISHED;
    if (bytes > limit)
        return false;
    if (!conn->claim)
        conn->claim = claim_new(conn);
    struct claim *claim = conn->claim;
    if (!claim) {
        *why_r = CLOSE_MEMORY;
        return false;
    }
    lock_acquire(&server->sources.lock);
    bool may = !claim->evicted;
    if (may) {
        resize(server, claim, claim->size + bytes);
        may = make_room(server, claim, limit);
        if (!may)
            resize(server, claim, claim->size - bytes);
    }
    bool none = !claim->evicted && claim->size == 0;
    lock_release(&server->sources.lock);
    if (none)
        claim_end(conn->worker, &conn->claim);
    return may;
}

void claim_less(struct conn *conn, uint64_t bytes)
{
    struct claim *claim = conn->claim;
    if (bytes == 0 || !claim)
        return;
    struct server *server = conn->worker->server;
    lock_acquire(&server->sources.lock);
    bool evicted = claim->evicted;
    if (!evicted) {
        CHECK(bytes <= claim->size);
        resize(server, claim, claim->size - bytes);
    }
    bool none = !evicted && claim->size == 0;
    lock_release(&server->sources.lock);
    if (none)
        claim_end(conn->worker, &conn->claim);
}

struct claim *claim_handshake(struct worker *worker, uint64_t tag, uint32_t source)
{
    struct server *server = worker->server;
    struct sources *sources = &server->sources;
    uint32_t limit = worker->snapshot->limits.handshakes, quarter = limit / 4 ? limit / 4 : 1;
    struct claim *claim = calloc(1, sizeof(*claim));
    if (!claim)
        return NULL;
    lock_acquire(&sources->lock);
    struct account *account = account_of(server, source);
    bool may = account != NULL;
    const struct tree *full = NULL; /* whose oldest has to go */
    if (may && limit && account->handshakes >= quarter)
        full = &account->silent;
    else if (may && limit && atomic_load(&server->handshakes) >= limit)
        full = &sources->silent;
    struct tree_node *oldest = full ? tree_first(full) : NULL;
    if (oldest && full == &sources->silent)
        evict(server, container_of(oldest, struct claim, of_all));
    else if (oldest)
        evict(server, container_of(oldest, struct claim, of_source));
    else if (full)
        may = false;
    if (may) {
        *claim = (struct claim){
            .account = account, .tag = tag, .size = ++sources->handshakes, .handshake = true};
        account->handshakes++;
        atomic_fetch_add_explicit(&server->handshakes, 1, memory_order_relaxed);
        tree_add(&account->silent, &claim->of_source);
        tree_add(&sources->silent, &claim->of_all);
    }
    lock_release(&sources->lock);
    if (may)
        return claim;
    free(claim);
    return NULL;
}

void claim_heard(struct conn *conn)
{
    struct server *server = conn->worker->server;
    lock_acquire(&server->sources.lock);
    if (conn->claim && !conn->claim->evicted)
        hush(server, conn->claim);
    lock_release(&server->sources.lock);
}

void claim_end(struct worker *worker, struct claim **claim)
{
    struct claim *c = *claim;
    if (!c)
        return;
    *claim = NULL;
    struct server *server = worker->server;
    lock_acquire(&server->sources.lock);
    bool evicted = c->evicted; /* its message frees it */
    if (!evicted)
        take_out(server, c);
    lock_release(&server->sources.lock);
    if (!evicted)
        free(c);
}
