/*
 * pool_lines.c - lines that no request of the connection asked for: the end of its wait, WANT,
 * STOP, EVENT, LOST. They come between answers; those that meet an answer in pieces follow it.
 *
 * Events of all threads are collected as text in the session, under the pools' lock, and given to
 * the connection when its message comes. At most a twelfth of limits.output_buffer is collected,
 * and events are given to the connection while less than another twelfth is unsent. What does not
 * fit is counted, and LOST says how many events are missing there.
 */
#include "base/record.h"
#include "service/pool_verbs_internal.h"

#include <stdlib.h>
#include <string.h>

/* Size of a buffer for events at first. */
#define EVENT_ROOM_FIRST 1024

/* Adds a line between two answers, whatever is unsent: there are few of this kind. */
static void add_line(struct pool_session *s, const void *line, size_t len)
{
    CHECK(len > 0 && conn_interject(s->conn, line, len, SIZE_MAX));
}

/* ---- the end of a wait, STOP, WANT ----------------------------------------------------------- */

/* Converts attributes to the codec's form. Returns their number. */
static size_t convert(const struct pool_attribute *from, size_t count, struct pool_pair *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (struct pool_pair){from[i].key, from[i].value};
    return count;
}

/* Adds a TAKEN line that cannot be made in its place: it is too long, or comes later. */
static __attribute__((noinline)) void add_taken(struct pool_session *s,
                                                const struct pool_taken_reply *reply)
{
    uint8_t line[POOLS_TAKEN_ROOM];
    size_t len = pool_compose_taken(reply, line, sizeof(line));
    if (s->turn == TURN_LOOKS) /* it is the answer in pieces */
        conn_reply(s->conn, line, len);
    else
        add_line(s, line, len);
}

static void on_taken(void *owner, const struct pool_taken *taken)
{
    struct pool_session *s = owner;
    struct pool_taken_reply reply;
    reply.pool = taken->pool;
    reply.member = taken->member;
    reply.fence = taken->fence;
    reply.value = taken->value;
    reply.attr_count = convert(taken->attributes, taken->attribute_count, reply.attrs);
    size_t room = pool_taken_room(&reply);
    if (likely(room <= CONN_REPLY_MAX && (s->turn == TURN_LOOKS || !conn_in_pieces(s->conn))))
        conn_replied(s->conn, pool_compose_taken(&reply, conn_reply_room(s->conn, room), room));
    else
        add_taken(s, &reply);
    if (wait_of(s->conn)->on == WAIT_ON_POOL) /* else it is the answer to the current request */
        pool_verbs_wait_over(s->conn, OUTCOME_TAKEN);
}

static void on_refused(void *owner, enum pool_status why)
{
    struct pool_session *s = owner;
    bool full = why == POOL_QUEUE_FULL;
    struct bytes line = pool_reply_line(full ? POOL_REPLY_QUEUE_FULL : POOL_REPLY_NO_POOL);
    add_line(s, line.data, line.len);
    pool_verbs_wait_over(s->conn, full ? OUTCOME_QUEUE_FULL : OUTCOME_ERROR);
}

static void on_stop(void *owner, struct bytes pool, struct bytes member, enum pool_why why)
{
    uint8_t line[POOLS_STOP_ROOM];
    struct pool_stop_reply reply = {
        .pool = pool, .member = member, .why = bytes_of(pool_why_word(why))};
    add_line(owner, line, pool_compose_stop(&reply, line, sizeof(line)));
}

/* Only the last number counts, and it may change often: a client that does not read is told it when
 * there is room. */
static bool on_want(void *owner, struct bytes pool, uint32_t want)
{
    const struct pool_session *s = owner;
    uint8_t line[POOLS_WANT_ROOM];
    struct pool_want_reply reply = {.pool = pool, .want = want};
    size_t len = pool_compose_want(&reply, line, sizeof(line));
    return conn_interject(s->conn, line, len, conn_output_limit(s->conn) / 4);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Three such parts are at most a quarter of the output limit: one collected, one given while
 * another was still unsent. */
size_t pool_event_max(const struct conn *conn)
{
    return conn_output_limit(conn) / 12;
}

/* Makes room for `len` more bytes. Returns false when there is none, or no memory. */
static bool make_room(struct pool_session *s, size_t len)
{
    if (len > s->event_max || s->event_bytes > s->event_max - len)
        return false;
    size_t room = s->event_room ? s->event_room : EVENT_ROOM_FIRST;
    while (room < s->event_bytes + len)
        room *= 2;
    if (room == s->event_room)
        return true;
    uint8_t *events = realloc(s->events, room);
    if (!events)
        return false;
    s->events = events;
    s->event_room = room;
    return true;
}

static void append(struct pool_session *s, const uint8_t *line, size_t len)
{
    memcpy(s->events + s->event_bytes, line, len);
    s->event_bytes += len;
}

/* Collects an event, or counts it as lost. */
static void collect(struct pool_session *s, const uint8_t *line, size_t len)
{
    uint8_t lost[POOLS_LOST_ROOM];
    size_t lost_len = s->lost > 0 ? pool_compose_lost(s->lost, lost, sizeof(lost)) : 0;
    if (!make_room(s, lost_len + len)) {
        s->lost++;
        return;
    }
    if (lost_len > 0)
        append(s, lost, lost_len);
    s->lost = 0;
    append(s, line, len);
}

void pool_note_event(void *owner, const struct pool_event *event)
{
    static const char *const pool_whys[] = {[POOL_ADDED] = "add",
                                            [POOL_CHANGED] = "set",
                                            [POOL_DRAINS] = "drain",
                                            [POOL_DROPPED] = "drop"};
    uint8_t line[POOLS_EVENT_ROOM];
    char conn[CONN_TAG_TEXT];
    const char *why = event->late             ? "late"
                      : event->member.len > 0 ? pool_why_word(event->why)
                                              : pool_whys[event->pool_why];
    struct pool_event_reply reply = {
        .pool = event->pool,
        .member = event->member.len > 0 ? event->member : bytes_of("-"),
        .from = bytes_of(pool_state_word(event->from)),
        .to = bytes_of(pool_state_word(event->to)),
        .why = bytes_of(why),
        .fence = event->fence,
        .by = event->by,
    };
    if (event->fence > 0) {
        conn_tag_text(event->conn, conn);
        reply.conn = bytes_of(conn);
    }
    collect(owner, line, pool_compose_event(&reply, line, sizeof(line)));
}

/* Gives the connection what was collected. Under the pools' lock. */
static bool on_events(void *owner)
{
    struct pool_session *s = owner;
    s->event_max = pool_event_max(s->conn);
    if (s->event_bytes > 0 && !conn_interject(s->conn, s->events, s->event_bytes, s->event_max))
        return false;
    free(s->events);
    s->events = NULL;
    s->event_bytes = s->event_room = 0;
    if (s->lost > 0) {
        uint8_t lost[POOLS_LOST_ROOM];
        size_t len = pool_compose_lost(s->lost, lost, sizeof(lost));
        if (!conn_interject(s->conn, lost, len, s->event_max))
            return false;
        s->lost = 0;
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

const struct pool_reader pool_lines_reader = {.taken = on_taken,
                                              .refused = on_refused,
                                              .stop = on_stop,
                                              .want = on_want,
                                              .events = on_events};

void pool_lines_read(struct conn *conn)
{
    const struct pool_session *s = pool_session_of(conn);
    uint64_t position = conn_in_pieces(conn) ? POOL_POSITION_LATER : conn_output_end(conn);
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    pool_client_read(s->client, &pool_lines_reader, position, service_now(conn), &outbox);
    pool_verbs_deliver(conn, &outbox);
}

void pool_on_message(struct mail *mail, void *worker)
{
    struct pool_client *client = pool_client_of(mail);
    uint64_t tag = pool_client_tag(client);
    if (!pool_client_message(client))
        return; /* the connection has closed */
    struct conn *conn = conn_by_tag(worker, tag);
    CHECK(conn); /* closing it would have ended the client */
    if (pool_session_of(conn)->turn == TURN_LOOKS)
        pool_verbs_take_on(conn); /* it may be served, or refused */
    pool_lines_read(conn);
}

void pool_verbs_room(struct conn *conn)
{
    pool_lines_read(conn);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

void pool_lines_save(const struct pool_session *s, struct record_writer *w)
{
    record_put_bytes(w, s->events, s->event_bytes);
    record_put_u64(w, s->lost);
}

bool pool_lines_restore(struct pool_session *s, struct record_reader *r)
{
    const void *events;
    size_t len = record_get_bytes(r, &events);
    s->lost = record_get_u64(r);
    if (!record_ok(r) || len == 0)
        return record_ok(r);
    s->events = malloc(len);
    if (!s->events) {
        record_refuse(r, "there is no memory for events");
        return false;
    }
    memcpy(s->events, events, len);
    s->event_bytes = s->event_room = len;
    return true;
}
