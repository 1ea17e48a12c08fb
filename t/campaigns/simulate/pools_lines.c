/*
 * pools_lines.c - EVENT and LOST; and the answers to LIST and SHOW. Each line of a list is compared
 * with the model when it is written; what is there all the while must be in it once.
 */
#include "t/campaigns/simulate/pools_beside.h"

#include "net/conn.h"

struct listing {
    bool show;
    int pool;     /* of SHOW */
    int last;     /* the last pool or member shown */
    uint64_t age; /* of the last waiter shown */
    bool in_waiters, over;
    uint64_t pools[M_POOLS];     /* `grouped` of those that were there; 0: not */
    uint64_t births[M_MEMBERS];  /* of members that were there, and are not shown yet */
    uint64_t waiters[M_CLIENTS]; /* ages of waiters, the same */
};

/* The line at the beginning of what was not compared, and its length with its end. */
static struct bytes next_line(const uint8_t *at, size_t len, size_t *used_r)
{
    const uint8_t *end = len > 0 ? memchr(at, '\n', len) : NULL;
    EXPECT(end, "a line without its end");
    *used_r = (size_t)(end - at) + 1;
    return bytes_at(at, *used_r - 1);
}

/* ---- events -------------------------------------------------------------------------------- */

void note_pools_event(struct client *c, const struct pool_event *event)
{
    static const char *const pool_whys[] = {"add", "set", "drain", "drop"};
    uint8_t line[POOLS_EVENT_ROOM];
    char conn[CONN_TAG_TEXT];
    bool of_member = event->member.len > 0;
    struct pool_event_reply reply = {
        .pool = event->pool,
        .member = of_member ? event->member : bytes_of("-"),
        .from = bytes_of(pool_state_word(event->from)),
        .to = bytes_of(pool_state_word(event->to)),
        .why = bytes_of(event->late ? "late"
                        : of_member ? pool_why_word(event->why)
                                    : pool_whys[event->pool_why]),
        .fence = event->fence,
        .by = event->by,
    };
    conn_tag_text(event->conn, conn);
    if (event->fence > 0)
        reply.conn = bytes_of(conn);
    enqueue(&c->events, line, pool_compose_event(&reply, line, sizeof(line)));
}

void look_at_events(struct client *c, size_t from)
{
    const uint8_t *at = unchecked(c) + from;
    size_t len = queued(&c->said) - from, used, due_used;
    while (len > 0) {
        struct bytes line = next_line(at, len, &used);
        struct pool_answer said;
        pool_parse_reply(line, &said);
        EXPECT(said.reply == POOL_REPLY_EVENT || (said.reply == POOL_REPLY_LOST && said.lost > 0),
               "client %d: \"%.*s\"", c->peer.fd, (int)line.len, (const char *)line.data);
        uint64_t count = said.reply == POOL_REPLY_LOST ? said.lost : 1;
        result->events += said.reply == POOL_REPLY_EVENT;
        result->lost += said.reply == POOL_REPLY_LOST;
        for (; count > 0; count--) {
            struct bytes due =
                next_line(c->events.data + c->events.begin, queued(&c->events), &due_used);
            EXPECT(said.reply == POOL_REPLY_LOST || bytes_equal(due, line),
                   "client %d: \"%.*s\", not \"%.*s\"", c->peer.fd, (int)line.len,
                   (const char *)line.data, (int)due.len, (const char *)due.data);
            c->events.begin += due_used;
        }
        at += used;
        len -= used;
    }
}

/* ---- LIST and SHOW ------------------------------------------------------------------------- */

void begin_listing(struct client *c, bool show, int pool)
{
    struct listing *l = calloc(1, sizeof(*l));
    CHECK(l);
    *l = (struct listing){.show = show, .pool = pool, .last = M_NOBODY};
    for (int p = 0; p < M_POOLS; p++)
        l->pools[p] = model_pools[p].there && (!show || p == pool);
    for (int i = 0; i < M_MEMBERS; i++)
        l->births[i] = model_pools[pool].members[i].there ? model_pools[pool].members[i].birth : 0;
    for (int v = 0; v < M_CLIENTS; v++)
        l->waiters[v] = model_waits_in(v, pool) ? model_clients[v].wait.age : 0;
    c->listing = l;
}

void end_listing(struct client *c)
{
    free(c->listing);
    c->listing = NULL;
}

/* True if the word is the id of this connection, with an address. */
static bool is_client(struct bytes word, uint64_t tag)
{
    char text[CONN_TAG_TEXT];
    conn_tag_text(tag, text);
    size_t len = strlen(text);
    return word.len > len + 1 && memcmp(word.data, text, len) == 0 && word.data[len] == '@';
}

static void look_at_pool(struct listing *l, const struct pool_pool_reply *line)
{
    int p = pool_number(line->name);
    const struct m_pool *pool = &model_pools[p];
    EXPECT(pool->there && line->draining == pool->draining);
    EXPECT(l->show ? p == l->pool && l->pools[p] : p > l->last);
    l->last = l->show ? M_NOBODY : p;
    l->pools[p] = 0;
    EXPECT(
        bytes_equal(line->kind, bytes_of(pool->options.kind == POOL_STATIC ? "static" : "joined")));
    EXPECT(pool->options.group ? bytes_equal(line->group, bytes_of(pool->options.group))
                               : line->group.len == 0);
    EXPECT(line->members == model_member_count(p) && line->free == model_count(p, MEMBER_FREE) &&
           line->taken == model_count(p, MEMBER_TAKEN) &&
           line->cleaning == model_count(p, MEMBER_CLEANING) &&
           line->checking == model_count(p, MEMBER_CHECKING) &&
           line->dirty == model_count(p, MEMBER_DIRTY) &&
           line->stopping == model_count(p, MEMBER_STOPPING) &&
           line->down == model_count(p, MEMBER_DOWN));
    EXPECT(line->waiting == model_waiting(p, true, false));
    EXPECT(line->has_want == (pool->options.kind == POOL_JOINED) &&
           (!line->has_want || line->want == pool->want));
    enum pool_option option = POOL_OPTION_GROUP;
    for (size_t n = 0; n < line->option_count; n++) {
        char text[POOL_OPTION_TEXT];
        option = pool_option_next(&pool->options, option);
        EXPECT(option != POOL_OPTION_COUNT);
        pool_option_text(&pool->options, option, text);
        EXPECT(bytes_equal(line->options[n].key, bytes_of(pool_option_name(option))) &&
               bytes_equal(line->options[n].value, bytes_of(text)));
    }
    EXPECT(pool_option_next(&pool->options, option) == POOL_OPTION_COUNT);
}

static void look_at_member(struct listing *l, const struct pool_member_reply *line)
{
    int i = member_number(line->name);
    const struct m_member *m = &model_pools[l->pool].members[i];
    EXPECT(l->show && !l->in_waiters && i > l->last && m->there);
    l->last = i;
    l->births[i] = 0;
    unsigned attributes[M_KEYS];
    struct pool_attribute at[POOLS_ATTRS_MAX];
    for (size_t n = 0; n < line->attr_count; n++)
        at[n] = (struct pool_attribute){line->attrs[n].key, line->attrs[n].value};
    read_attributes(at, line->attr_count, attributes);
    EXPECT(memcmp(attributes, m->attributes, sizeof(attributes)) == 0);
    EXPECT(bytes_equal(line->state, bytes_of(pool_state_word(m->state))));
    EXPECT(line->takes == m->takes && line->fails == m->fails);
    EXPECT(text_number(line->note) == m->note);
    bool held = m_is_held(m);
    EXPECT(line->fence == (held ? m->fence : 0));
    EXPECT(held ? is_client(line->holder, model_clients[m->holder].tag) : line->holder.len == 0);
    EXPECT(text_number(line->by) == (held ? model_hold_of(l->pool, i)->by : 0));
}

static void look_at_waiter(struct listing *l, const struct pool_waiter_reply *line)
{
    int c = 0;
    while (c < M_CLIENTS &&
           (!model_waits_in(c, l->pool) || !is_client(line->client, model_clients[c].tag)))
        c++;
    EXPECT(l->show && c < M_CLIENTS);
    const struct m_wait *w = &model_clients[c].wait;
    EXPECT(w->age > l->age && line->count == w->ask.count && line->timeout_ns == w->timeout_ns);
    EXPECT(line->take_for == (enum pool_take_for)w->ask.what);
    EXPECT(text_number(line->by) == w->ask.by);
    l->in_waiters = true;
    l->age = w->age;
    l->waiters[c] = 0;
}

/* Everything that was there all the while was shown. */
static void look_at_end(const struct listing *l)
{
    const struct m_pool *pool = &model_pools[l->pool];
    for (int p = 0; p < M_POOLS && !l->show; p++)
        EXPECT(!l->pools[p] || !model_pools[p].there, "pool %d is missing", p);
    for (int i = 0; i < M_MEMBERS && l->show; i++)
        EXPECT(!l->births[i] || !pool->members[i].there || pool->members[i].birth != l->births[i],
               "member %d is missing", i);
    for (int v = 0; v < M_CLIENTS && l->show; v++)
        EXPECT(!l->waiters[v] || !model_waits_in(v, l->pool) ||
                   model_clients[v].wait.age != l->waiters[v],
               "waiter %d is missing", v);
}

bool look_at_listing(struct client *c)
{
    struct listing *l = c->listing;
    while (queued(&c->said) > 0) {
        static struct pool_answer line;
        size_t used;
        EXPECT(!l->over);
        pool_parse_reply(next_line(unchecked(c), queued(&c->said), &used), &line);
        if (line.reply == POOL_REPLY_POOL)
            look_at_pool(l, &line.pool);
        else if (line.reply == POOL_REPLY_MEMBER)
            look_at_member(l, &line.member);
        else if (line.reply == POOL_REPLY_WAITER)
            look_at_waiter(l, &line.waiter);
        else
            l->over = line.reply == POOL_REPLY_END;
        EXPECT(l->over || line.reply != POOL_REPLY_OTHER, "client %d: a wrong line", c->peer.fd);
        c->said.begin += used;
    }
    if (l->over)
        look_at_end(l);
    result->lists += l->over;
    return l->over;
}
