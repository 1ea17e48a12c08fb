/*
 * look.c - compares everything: sums, queues, and the state at rest, when nothing may be left over.
 */
#include "t/campaigns/simulate/inside.h"

#include "net/private.h"

uint64_t dropped;

void learn_of_dropped(void)
{
    struct table_stats s;
    table_get_stats(services->table, fake_now, &s);
    if (s.dropped_early == dropped)
        return;
    dropped = s.dropped_early;
    for (unsigned n = 0; n < mix.names; n++) {
        uint32_t consumption;
        if (model_exists(&model, n) && model.names[n].consumption == 0 &&
            table_get(services->table, mix.name[n], fake_now, &consumption) == TABLE_NOT_FOUND)
            model.names[n].present = false;
    }
}

void compare_sums(void)
{
    struct table_stats s;
    learn_of_dropped();
    table_get_stats(services->table, fake_now, &s);
    uint64_t names = 0;
    for (unsigned n = 0; n < mix.names; n++)
        names += model_exists(&model, n);
    EXPECT(s.units == model.units && s.waiting == model.waiting && s.names == names);
}

void compare_line(unsigned n)
{
    static struct table_wait waits[4096];
    struct table_entry entry;
    size_t count = 0;
    const struct model_name *m = &model.names[n];
    if (!m->waiting)
        return;
    EXPECT(table_inspect(services->table, mix.name[n], fake_now, &entry, waits, ARRAY_SIZE(waits),
                         &count) == TABLE_OK);
    EXPECT(entry.waiting == m->waiting && entry.consumption == m->consumption);
    for (size_t i = 0; i < count; i++) {
        const struct client *c = container_of(m->line[i], struct client, has.wait);
        EXPECT(waits[i].tag == c->tag && waits[i].kind == c->has.wait.kind, "place %zu", i);
    }
}

/* Checks that nothing was forgotten. Call when nothing more happens by itself. */
static void compare_quiet(bool windows_open)
{
    EXPECT(model.untold == 0, "%" PRIu64 " verdicts were not told", model.untold);
    for (unsigned i = 0; i < open_count; i++) {
        const struct client *c = open_clients[i];
        EXPECT(c->over || c->has.wait.state != WAIT_WAITING || c->deadline_ns > fake_now.mono_ns,
               "client %d: a timeout is late", c->peer.fd);
        /* Reloads may have lowered the limit under what is queued, and raised it again: the
         * connection then waits until the client reads. */
        bool is_full =
            conn_is_full(c->conn) || (c->conn->reading == READING_FULL && queued(&c->reply) > 0);
        EXPECT(c->over || !c->partial || is_full ||
                   c->partial_again_ns + TIMEOUT > fake_now.mono_ns,
               "client %d: an unfinished request stays", c->peer.fd);
        EXPECT(!queued(&c->reply) || c->progress_ns + TIMEOUT + NS_PER_S > fake_now.mono_ns,
               "client %d takes nothing, and stays", c->peer.fd);
        if (!windows_open)
            continue;
        EXPECT(queued(&c->reply) == 0, "client %d was not sent all", c->peer.fd);
        EXPECT(c->over || c->head == c->tail, "client %d was not served", c->peer.fd);
        EXPECT(c->over || (!c->peer.ended && !c->peer.broken), "client %d was not closed",
               c->peer.fd);
    }
    table_check(services->table);
}

void become_quiet(bool windows_open)
{
    for (unsigned i = 0; i < open_count; i++) {
        struct client *c = open_clients[i];
        if (windows_open) {
            arrive(c, SIZE_MAX);
            c->peer.window = SIZE_MAX;
            c->peer.news = true;
            heat(c);
        }
    }
    unsigned clients = mix.clients;
    mix.clients = 0;
    for (unsigned i = 0; !is_quiet(); i++) {
        take_turns(true);
        EXPECT(i < 100000, "it does not come to rest");
    }
    mix.clients = clients;
    compare_sums();
    compare_quiet(windows_open);
}
