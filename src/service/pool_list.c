/*
 * pool_list.c - LIST and SHOW: answers in pieces, as the connection takes them. Each piece begins
 * after the last pool, member or waiter of the one before.
 */
#include "base/record.h"
#include "service/pool_verbs_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A piece has so many lines at most. */
#define LINES_MAX 32

enum stage { STAGE_POOLS, STAGE_MEMBERS, STAGE_WAITERS, STAGE_COUNT };

struct pool_listing {
    struct conn *conn;
    uint8_t stage; /* enum stage */
    uint8_t len;   /* of name */
    uint8_t after; /* bytes of last */
    uint64_t after_seq;
    uint8_t name[POOL_NAME_MAX]; /* the pool, or the prefix */
    uint8_t last[POOL_NAME_MAX]; /* the last pool or member shown */
};

static void note_last(struct pool_listing *listing, struct bytes name)
{
    listing->after = (uint8_t)name.len;
    memcpy(listing->last, name.data, name.len);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void write_pool(struct conn *conn, const struct pool_entry *entry)
{
    uint8_t line[POOLS_POOL_ROOM];
    char texts[POOL_OPTION_COUNT][POOL_OPTION_TEXT];
    const struct pool_options *o = entry->options;
    struct pool_pool_reply reply = {
        .name = entry->name,
        .kind = bytes_of(pool_option_word(POOL_OPTION_KIND, o->kind)),
        .draining = entry->draining,
        .group = o->group ? bytes_of(o->group) : bytes_at(NULL, 0),
        .members = entry->members,
        .free = entry->states[MEMBER_FREE],
        .taken = entry->states[MEMBER_TAKEN],
        .cleaning = entry->states[MEMBER_CLEANING],
        .checking = entry->states[MEMBER_CHECKING],
        .dirty = entry->states[MEMBER_DIRTY],
        .stopping = entry->states[MEMBER_STOPPING],
        .down = entry->states[MEMBER_DOWN],
        .waiting = entry->waiting,
        .has_want = o->kind == POOL_JOINED,
        .want = entry->want,
    };
    enum pool_option option = POOL_OPTION_GROUP;
    while ((option = pool_option_next(o, option)) != POOL_OPTION_COUNT) {
        pool_option_text(o, option, texts[option]);
        reply.options[reply.option_count++] =
            (struct pool_pair){bytes_of(pool_option_name(option)), bytes_of(texts[option])};
    }
    conn_reply(conn, line, pool_compose_pool(&reply, line, sizeof(line)));
}

static bool visit_pool(void *arg, const struct pool_entry *entry)
{
    struct pool_listing *listing = arg;
    write_pool(listing->conn, entry);
    note_last(listing, entry->name);
    return true;
}

static void visit_one_pool(void *arg, const struct pool_entry *entry)
{
    write_pool(((struct pool_listing *)arg)->conn, entry);
}

/* Writes the id and the address of a connection: "0.12.3@10.0.0.7:53122". */
static struct bytes client_text(uint64_t tag, const void *owner, char *to, size_t size)
{
    char id[CONN_TAG_TEXT];
    conn_tag_text(tag, id);
    int len = snprintf(to, size, "%s@%s", id, pool_session_peer(owner));
    return bytes_at(to, (size_t)len);
}

static bool visit_member(void *arg, const struct pool_member_entry *entry)
{
    struct pool_listing *listing = arg;
    uint8_t line[POOLS_MEMBER_ROOM];
    char holder[CONN_TAG_TEXT + CONN_PEER_TEXT + 1];
    struct pool_member_reply reply = {
        .name = entry->name,
        .state = bytes_of(pool_state_word(entry->state)),
        .since_ns = service_now(listing->conn).mono_ns - entry->since_ns,
        .fence = entry->fence,
        .takes = entry->takes,
        .fails = entry->fails,
        .then = entry->then ? bytes_of(entry->then) : bytes_at(NULL, 0),
        .by = entry->by,
        .note = entry->note,
        .attr_count = entry->attribute_count,
    };
    if (reply.since_ns < 0) /* another worker's clock is ahead */
        reply.since_ns = 0;
    if (entry->fence > 0)
        reply.holder = client_text(entry->holder, entry->holder_owner, holder, sizeof(holder));
    for (size_t i = 0; i < entry->attribute_count; i++)
        reply.attrs[i] = (struct pool_pair){entry->attributes[i].key, entry->attributes[i].value};
    conn_reply(listing->conn, line, pool_compose_member(&reply, line, sizeof(line)));
    note_last(listing, entry->name);
    return true;
}

static bool visit_waiter(void *arg, const struct pool_waiter_entry *entry)
{
    struct pool_listing *listing = arg;
    uint8_t line[POOLS_WAITER_ROOM];
    char client[CONN_TAG_TEXT + CONN_PEER_TEXT + 1];
    struct pool_waiter_reply reply = {
        .client = client_text(entry->client, entry->owner, client, sizeof(client)),
        .since_ns = service_now(listing->conn).mono_ns - entry->since_ns,
        .timeout_ns = entry->timeout_ns,
        .count = entry->count,
        .take_for = (enum pool_take_for)entry->what,
        .member = entry->member,
        .by = entry->by,
        .with_count = entry->with_count,
    };
    if (reply.since_ns < 0)
        reply.since_ns = 0;
    for (size_t i = 0; i < entry->with_count; i++)
        reply.with[i] = (struct pool_pair){entry->with[i].key, entry->with[i].value};
    conn_reply(listing->conn, line, pool_compose_waiter(&reply, line, sizeof(line)));
    listing->after_seq = entry->seq;
    return true;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

enum pool_reply pool_list_begin(struct conn *conn, bool show, struct bytes name)
{
    struct pool_session *s = pool_session_make(conn);
    bool good = s && conn_extend(conn); /* the answer of a wait may have to follow */
    struct pool_listing *listing = good ? calloc(1, sizeof(*listing)) : NULL;
    if (!listing)
        return POOL_REPLY_OUT_OF_MEMORY;
    listing->conn = conn;
    if (show && !pool_show(pools_of(pool_services_of(conn)), name, visit_one_pool, listing,
                           service_now(conn))) {
        free(listing);
        return POOL_REPLY_NO_POOL;
    }
    listing->stage = show ? STAGE_MEMBERS : STAGE_POOLS;
    listing->len = (uint8_t)name.len;
    if (name.len > 0)
        memcpy(listing->name, name.data, name.len);
    s->listing = listing;
    return POOL_REPLY_OK;
}

/* Writes a piece. Returns true when the stage is over. */
static bool write_piece(struct pool_listing *l)
{
    struct pools *pools = pools_of(pool_services_of(l->conn));
    struct bytes name = bytes_at(l->name, l->len), after = bytes_at(l->last, l->after);
    switch ((enum stage)l->stage) {
    case STAGE_POOLS:
        return pools_list(pools, name, after, LINES_MAX, visit_pool, l, service_now(l->conn));
    case STAGE_MEMBERS:
        return pool_show_members(pools, name, after, LINES_MAX, visit_member, l);
    case STAGE_WAITERS:
        return pool_show_waiters(pools, name, l->after_seq, LINES_MAX, visit_waiter, l);
    case STAGE_COUNT:
        break;
    }
    CHECK(false);
}

bool pool_list_resume(struct conn *conn)
{
    struct pool_session *s = pool_session_of(conn);
    struct pool_listing *l = s->listing;
    if (!write_piece(l))
        return false;
    if (l->stage == STAGE_MEMBERS) {
        l->stage = STAGE_WAITERS;
        return false;
    }
    struct bytes end = pool_reply_line(POOL_REPLY_END);
    conn_reply(conn, end.data, end.len);
    free(l);
    s->listing = NULL;
    if (s->client) /* TAKEN lines that came meanwhile follow */
        pool_client_position(s->client, conn_output_end(conn));
    return true;
}

/* ---- upgrades -------------------------------------------------------------------------------- */

/* The kinds of answers in pieces, in a record. */
enum in_pieces { NOT_IN_PIECES, IS_LISTING, IS_TAKE, IS_OVER };

/* u8 enum in_pieces; of a listing: u8 stage, bytes name, last, u64 the age of the last waiter. */
void pool_list_save(const struct pool_session *s, struct record_writer *w)
{
    static const uint8_t kinds[] = {NOT_IN_PIECES, IS_TAKE, IS_OVER};
    const struct pool_listing *l = s->listing;
    record_put_u8(w, l ? IS_LISTING : kinds[s->turn]);
    if (!l)
        return;
    record_put_u8(w, l->stage);
    record_put_bytes(w, l->name, l->len);
    record_put_bytes(w, l->last, l->after);
    record_put_u64(w, l->after_seq);
}

bool pool_list_restore(struct pool_session *s, struct record_reader *r)
{
    const void *name, *last;
    uint8_t kind = record_get_u8(r);
    if (kind == IS_TAKE)
        s->turn = TURN_LOOKS;
    else if (kind == IS_OVER)
        s->turn = TURN_OVER;
    if (kind > IS_OVER || (kind != NOT_IN_PIECES) != conn_in_pieces(s->conn) ||
        (s->turn != TURN_GOES_ON && !s->client) ||
        (kind == IS_TAKE && !pool_client_look_on(s->client)) ||
        (kind != IS_TAKE && s->client && pool_client_looks(s->client)))
        record_refuse(r, "an answer in pieces does not match its connection");
    if (!record_ok(r) || kind != IS_LISTING)
        return record_ok(r);
    uint8_t stage = record_get_u8(r);
    size_t len = record_get_bytes(r, &name), after = record_get_bytes(r, &last);
    uint64_t seq = record_get_u64(r);
    if (stage >= STAGE_COUNT || len > POOL_NAME_MAX || after > POOL_NAME_MAX)
        record_refuse(r, "a list of pools is out of its range");
    if (!record_ok(r))
        return false;
    struct pool_listing *l = calloc(1, sizeof(*l));
    if (!l) {
        record_refuse(r, "there is no memory for a list of pools");
        return false;
    }
    l->conn = s->conn;
    l->stage = stage;
    l->len = (uint8_t)len;
    l->after = (uint8_t)after;
    l->after_seq = seq;
    if (len > 0)
        memcpy(l->name, name, len);
    if (after > 0)
        memcpy(l->last, last, after);
    s->listing = l;
    return true;
}
