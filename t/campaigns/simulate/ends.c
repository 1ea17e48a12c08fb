/*
 * ends.c - the ends of connections: each was closed for a reason that its client gave.
 */
#include "t/campaigns/simulate/inside.h"

static struct client *closed; /* since the last look_at_closed */

static unsigned bit(unsigned reason)
{
    return 1u << reason;
}

/* Returns the reasons for which a client may be closed now. */
static unsigned allowed_reasons(const struct client *c)
{
    int64_t now_ns = worker_now(crew[c->worker].worker).mono_ns;
    unsigned allowed = ending ? bit(CLOSE_SHUTDOWN) : 0;
    if (c->killed)
        allowed |= bit(CLOSE_KILLED);
    if (refusals() > 0)
        allowed |= bit(CLOSE_MEMORY);
    if (c->head > 0 && (c->requests[(c->head - 1) % DEPTH].kind == BINARY_BAD_MAGIC ||
                        c->requests[(c->head - 1) % DEPTH].kind == TEXT_TOO_LONG))
        return allowed | bit(CLOSE_PROTOCOL);
    if (c->head > 0 && c->requests[(c->head - 1) % DEPTH].kind == TEXT_QUIT)
        return allowed | bit(CLOSE_PEER);
    if (c->peer.broken)
        allowed |= bit(CLOSE_RESET);
    if (c->peer.ended || c->peer.broken)
        allowed |= bit(CLOSE_PEER);
    if (c->partial && now_ns >= c->partial_ns + TIMEOUT)
        allowed |= bit(CLOSE_REQUEST_TIMEOUT);
    if (queued(&c->reply) && now_ns >= c->progress_ns + TIMEOUT)
        allowed |= bit(CLOSE_WRITE_TIMEOUT);
    return allowed;
}

void on_closed(struct fake_peer *peer)
{
    struct client *c = client_of_peer(peer);
    if (!c->opened) {
        EXPECT(refusals() > 0 || ending, "a client was turned away");
        return;
    }
    EXPECT(c->over);
    c->allowed = allowed_reasons(c);
    struct client *last = open_clients[--open_count];
    open_clients[c->place] = last;
    last->place = c->place;
    crew[c->worker].by_slot[(uint32_t)(c->tag >> 32) & 0xffffff] = NULL;
    c->conn = NULL;
    c->next_closed = closed;
    closed = c;
}

void look_at_closed(void)
{
    unsigned allowed[2] = {0}, told[2] = {0};
    uint64_t clients[2] = {0}, reasons[2] = {0};
    for (; closed; closed = closed->next_closed) {
        clients[closed->text]++;
        allowed[closed->text] |= closed->allowed;
        if (!closed->next_closed && clients[0] + clients[1] == 1) /* there is only one */
            EXPECT(closed->allowed, "client %d was closed for no reason", closed->peer.fd);
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct protocol *p = services_protocol(services, i ? "poolcounter" : "counter");
        for (unsigned r = 0; r < CLOSE_MAX; r++) {
            uint64_t count = atomic_load(&p->closed[r]), more = count - reasons_told[i][r];
            reasons_told[i][r] = count;
            reasons[i] += more;
            told[i] |= more ? bit(r) : 0;
            EXPECT(!more || allowed[i] & bit(r), "closed: %s", protocol_close_word(p->row, r));
        }
        EXPECT(clients[i] == reasons[i]);
    }
}
