/*
 * script.h - the clients and the protocol of script_test.c; the head of conn.script has its
 * requests. What is known of a client is outside of the session, whose only byte says that it is
 * open: a restored connection finds it by its descriptor.
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "base/number.h"
#include "base/record.h"
#include "net/carry.h"
#include "net/listener.h"
#include "net/worker_internal.h"
#include "t/campaigns/simulate/fake.h"
#include "t/unit/unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CLIENTS = 700, LINE_MAX_LEN = 1024, PENDING = 64, DEADLINES = 8, KEEP = 1 << 17 };

enum mode { PLAIN, SPLIT, SHORT, UPGRADE, SPREAD, MODES };
static const char *const mode_words[] = {"plain", "split", "short", "upgrade", "spread"};

struct client {
    struct fake_peer peer; /* first */
    char name[32];
    struct conn *conn;  /* while it is served */
    struct conn *found; /* until it closes */
    char *got;
    size_t got_len, got_room;

    unsigned writes, served, resumes, asked, rooms, ends, expired, lines, lost;
    uint64_t mark;                     /* a position of its output, set by each answer */
    uint64_t close_end, close_written; /* what `close` saw */
    unsigned closes;                   /* calls of `close` */
    bool refuses;                      /* may_write closes */
    bool expires_again;                /* `expire` sets the deadline to a second */
    unsigned pieces, piece;            /* of an answer: how many more, and their length */
    uint32_t numbers[PENDING];         /* of pending answers, oldest first */
    unsigned pending;
    uint64_t left, kept; /* of a request in parts */
    bool keeps, is_full;
};

static struct client clients[CLIENTS];
static unsigned client_count;
static struct server server;
static struct protocol_row row;
static struct protocol protocol;
static struct traffic traffic[2]; /* of each worker */
static struct snapshot_config config;
static unsigned line_number, shares, consumed[CLOSE_MAX];
static enum mode mode;
static bool no_memory, abandons;
static size_t unsent_max;
static char bytes[KEEP];

/* Ends the test with a message that begins with the place in the script. */
static void wrong(const char *format, ...) PRINTF_LIKE(1, 2);
static void wrong(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ck_abort_msg("conn.script:%u (%s): %s", line_number, mode_words[mode], text);
}

#define EXPECT(cond, ...)                                                                          \
    do {                                                                                           \
        if (!(cond))                                                                               \
            wrong(__VA_ARGS__);                                                                    \
    } while (0)

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory ? NULL : __real_calloc(count, size);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

static struct client *client_of(const struct conn *conn)
{
    return &clients[conn->stream.fd];
}

/* ---- the protocol ---------------------------------------------------------------------------- */

struct request {
    const uint8_t *text;
    size_t len;
    bool is_part, is_too_long;
};

static const uint8_t *ahead[PROTOCOL_BATCH];
static unsigned ahead_next, ahead_count;

static enum parsed parse(struct conn *conn, const uint8_t *data, size_t len, void *to,
                         size_t *used_r)
{
    const struct client *c = client_of(conn);
    struct request *request = to;
    ahead_count = 0;
    CHECK(len > 0);
    if (c->left > 0) {
        *used_r = len < c->left ? len : c->left;
        *request = (struct request){.text = data, .len = *used_r, .is_part = true};
        return PARSED_LAST;
    }
    const uint8_t *end = memchr(data, '\n', len < LINE_MAX_LEN ? len : LINE_MAX_LEN);
    bool counted = data[0] == 'n'; /* nDDTEXT */
    *request = (struct request){.text = data, .is_too_long = !end && len >= LINE_MAX_LEN};
    if (counted && len >= 3)
        request->len = 3 + strtoul((char[]){(char)data[1], (char)data[2], '\0'}, NULL, 10);
    *used_r = counted ? (len < 3 ? 3 : request->len) : request->is_too_long ? LINE_MAX_LEN : 0;
    if (counted ? len < *used_r : !end && !request->is_too_long)
        return PARSED_MORE;
    if (!counted && end) {
        request->len = (size_t)(end - data);
        *used_r = request->len + 1;
    }
    return counted || data[0] == 'S' || data[0] == 'K' ? PARSED_LAST : PARSED;
}

static void prefetch(struct conn *conn, void *requests, unsigned count)
{
    const struct request *request = requests;
    (void)conn;
    CHECK(count > 1 && count <= PROTOCOL_BATCH);
    ahead_next = 0;
    ahead_count = count;
    for (unsigned i = 0; i < count; i++)
        ahead[i] = request[i].text;
}

static void drop_share(const void *at)
{
    CHECK(at == bytes && shares > 0);
    shares--;
}

static void reply(struct conn *conn, const char *text, size_t len)
{
    conn_reply(conn, text, len);
    if (protocol_is_extended(&row) || conn->extended)
        client_of(conn)->mark = conn_output_end(conn);
}

static void reply_text(struct conn *conn, const char *text)
{
    reply(conn, text, strlen(text));
}

static void interject(struct conn *conn)
{
    struct client *c = client_of(conn);
    char line[32];
    int len = snprintf(line, sizeof(line), "<%u>", c->lines + c->lost);
    if (conn_interject(conn, line, (size_t)len, unsent_max))
        c->lines++;
    else
        c->lost++;
}

static bool pend(struct conn *conn)
{
    struct client *c = client_of(conn);
    CHECK(c->pending < PENDING);
    return conn_pend(conn, &c->numbers[c->pending++]);
}

/* The answer of the client's pending request number `i`. */
static void answer(struct client *c, unsigned i, const char *text)
{
    CHECK(i < c->pending);
    uint32_t number = c->numbers[i];
    memmove(c->numbers + i, c->numbers + i + 1, (--c->pending - i) * sizeof(c->numbers[0]));
    conn_answer(c->conn, number);
    const char *mark = strchr(text, '*');
    if (mark) {
        conn_reply(c->conn, text, (size_t)(mark - text));
        conn_check_output(c->conn);
        text = mark + 1;
    }
    reply_text(c->conn, text);
    conn_answered(c->conn);
}

struct later {
    struct message message; /* first */
    unsigned number;
};

static void deliver(struct mail *mail, void *reader)
{
    struct later *later = (struct later *)(void *)mail;
    struct conn *conn = conn_by_tag(reader, later->message.to);
    CHECK(conn);
    answer(client_of(conn), later->number, "by message,");
    free(later);
}

static void send_message(struct conn *conn, unsigned number)
{
    struct later *later = __real_calloc(1, sizeof(*later));
    CHECK(later);
    later->message = (struct message){.mail.deliver = deliver, .to = conn_tag(conn)};
    later->number = number;
    worker_deliver(conn_worker(conn), &later->message);
}

static enum served serve_part(struct conn *conn, struct client *c, size_t len)
{
    c->left -= len;
    if (c->keeps && !c->is_full && !conn_hold(conn, len)) {
        c->is_full = true;
        conn_unhold(conn, c->kept);
        c->kept = 0;
    } else if (c->keeps && !c->is_full) {
        c->kept += len;
    }
    if (c->left > 0)
        return SERVED_PART;
    reply_text(conn, c->is_full ? "full" : "done");
    conn_unhold(conn, c->kept);
    c->kept = 0;
    return SERVED;
}

static struct client *client_named(const char *name)
{
    for (unsigned i = 0; i < client_count; i++) {
        if (strcmp(clients[i].name, name) == 0)
            return &clients[i];
    }
    return NULL;
}

static enum served finish(struct conn *conn, const char *text)
{
    reply_text(conn, text);
    conn_finish(conn, CLOSE_PROTOCOL);
    return SERVED_LAST;
}

/* Serves a line whose answer may come later: pending, in pieces, after parts or the last. */
static enum served serve_later(struct conn *conn, struct client *c, char *line)
{
    char *rest = line + 1;
    unsigned number = (unsigned)strtoul(rest, &rest, 10);
    switch (line[0]) {
    case 'd':
        if (conn_pending(conn) > 0)
            return SERVED_LATER;
        c->pieces = number;
        c->piece = *rest ? (unsigned)strtoul(rest, NULL, 10) : 1;
        return SERVED_PIECES;
    case 'p':
        return pend(conn) ? SERVED_PENDING_NEXT : finish(conn, "no memory");
    case 'q':
        return pend(conn) ? SERVED_PENDING : finish(conn, "no memory");
    case 'r':
        CHECK(pend(conn));
        send_message(conn, c->pending - 1);
        return SERVED_PENDING;
    case 'a':
        send_message(conn, number);
        reply_text(conn, "asked,");
        return SERVED;
    case 'l':
        if (conn_pending(conn) > 0)
            return SERVED_LATER;
        reply_text(conn, "last,");
        return SERVED;
    case 'S':
    case 'K':
        c->left = strtoull(line + 1, NULL, 10);
        c->keeps = line[0] == 'K';
        c->is_full = false;
        return SERVED_PART;
    default:
        return finish(conn, "bye");
    }
}

static enum served serve_line(struct conn *conn, struct client *c, char *line)
{
    char *rest = line + 1;
    unsigned number = (unsigned)strtoul(rest, &rest, 10);
    switch (line[0]) {
    case 'w':
        conn_dear(conn);
        /* fall through */
    case 'e':
        reply_text(conn, line + 1);
        return SERVED;
    case 'n':
        reply_text(conn, line + 3);
        return SERVED;
    case 'c':
        conn_check_output(conn);
        reply_text(conn, line + 1);
        return SERVED;
    case 'b':
        reply(conn, memset(bytes, 'b', sizeof(bytes)), number);
        return SERVED;
    case 's':
        shares++;
        conn_reply_shared(conn, memset(bytes, 's', sizeof(bytes)), number, drop_share);
        return SERVED;
    case 'x':
        reply_text(conn, "x");
        CHECK(conn_extend(conn));
        c->mark = conn_output_end(conn);
        return SERVED;
    case 'i':
        interject(conn);
        reply_text(conn, "i");
        return SERVED;
    case 't':
        conn_expire_in(conn, number, (int64_t)strtoul(rest, NULL, 10) * NS_PER_S);
        return SERVED;
    case 'u':
        conn_clear_deadline(conn, number);
        return SERVED;
    case 'k':
        conn_close(conn, CLOSE_OWN + number);
        return SERVED_LAST;
    default:
        return serve_later(conn, c, line);
    }
}

static enum served serve(struct conn *conn, const void *parsed)
{
    const struct request *request = parsed;
    struct client *c = client_of(conn);
    char line[LINE_MAX_LEN + 1];
    if (ahead_count > 0)
        CHECK(ahead_next < ahead_count && ahead[ahead_next++] == request->text);
    if (request->is_part)
        return serve_part(conn, c, request->len);
    if (request->is_too_long)
        return finish(conn, "too long");
    memcpy(line, request->text, request->len);
    line[request->len] = '\0';
    enum served served = serve_line(conn, c, line);
    c->served += served != SERVED_LATER;
    return served;
}

static bool resume(struct conn *conn)
{
    struct client *c = client_of(conn);
    c->resumes++;
    memset(bytes, 'P', sizeof(bytes));
    if (c->pieces > 0)
        reply(conn, bytes, c->piece);
    return c->pieces == 0 || --c->pieces == 0;
}

static void on_open(struct conn *conn)
{
    struct client *c = client_of(conn);
    CHECK(!c->conn && *(uint8_t *)conn_session(conn) == 0);
    c->conn = conn;
    *(uint8_t *)conn_session(conn) = 1;
}

static void on_close(struct conn *conn)
{
    if (abandons) /* it has no descriptor any more */
        return;
    struct client *c = client_of(conn);
    CHECK(c->conn == conn && *(uint8_t *)conn_session(conn) == 1);
    *(uint8_t *)conn_session(conn) = 0;
    c->conn = NULL;
    c->closes++;
    if (!conn->extended)
        return;
    c->close_end = conn_output_end(conn);
    for (c->close_written = 0; conn_was_written(conn, c->close_written);)
        c->close_written++;
}

static void expire(struct conn *conn, unsigned which)
{
    struct client *c = client_of(conn);
    CHECK(!conn_expires(conn, which));
    c->expired++;
    if (c->expires_again)
        conn_expire_in(conn, which, NS_PER_S);
    else
        reply_text(conn, (char[]){'!', (char)('0' + which), '\0'});
}

static void ended(struct conn *conn)
{
    client_of(conn)->ends++;
}

static void room(struct conn *conn)
{
    struct client *c = client_of(conn);
    c->rooms++;
    if (c->lost == 0)
        return;
    char line[32];
    int len = snprintf(line, sizeof(line), "<lost %u>", c->lost);
    CHECK(conn_interject(conn, line, (size_t)len, unsent_max));
    c->lines += c->lost;
    c->lost = 0;
}

static bool may_write(struct conn *conn)
{
    struct client *c = client_of(conn);
    c->asked++;
    if (c->refuses)
        conn_close(conn, CLOSE_OWN);
    return !c->refuses;
}

static void save(struct conn *conn, struct record_writer *w)
{
    record_put_u8(w, *(uint8_t *)conn_session(conn));
    record_put_i64(w, conn->extended ? conn_position_save(conn, client_of(conn)->mark) : 0);
}

static bool restore(struct conn *conn, struct record_reader *r)
{
    struct client *c = client_of(conn);
    if (conn->stream.fd < 0) /* a dry run */
        return record_get_u8(r) <= 1 && (record_get_i64(r), record_ok(r));
    c->conn = conn;
    *(uint8_t *)conn_session(conn) = record_get_u8(r);
    int64_t mark = record_get_i64(r);
    if (conn->extended)
        c->mark = conn_position_restore(conn, mark);
    for (unsigned i = c->pending; i > 0; i--)
        c->numbers[i - 1] -= c->numbers[0];
    return record_ok(r);
}

static const char *const ends[] = {"bored", "tired", NULL};
static const struct protocol_row whole_row = {.name = "script",
                                              .request_size = sizeof(struct request),
                                              .ends = ends,
                                              .open = on_open,
                                              .parse = parse,
                                              .prefetch = prefetch,
                                              .serve = serve,
                                              .resume = resume,
                                              .expire = expire,
                                              .ended = ended,
                                              .room = room,
                                              .may_write = may_write,
                                              .close = on_close,
                                              .save = save,
                                              .restore = restore};

#endif
