/*
 * beanstalk.c - parses and composes the requests of job queues.
 *
 * Each verb is a row: its word, the kind of its line, and functions that read and write what
 * follows the word. A request is composed without checks and then parsed: it counts only if that
 * gives the same request. So the bounds are in one place, the parser.
 */
#include "proto/beanstalk.h"

#include "base/check.h"
#include "proto/beanstalk_parts.h"

/* A parsed request of a service has up to 128 bytes, some of them the service's own. */
_Static_assert(sizeof(struct bs_request) <= 120, "a parsed request is small");

/* ---- What follows the verbs ----------------------------------------------------------------- */

/* Readers get what stands behind the first space of the line. What they leave is an error. */

static bool read_id(struct bytes *in, struct bs_request *req)
{
    return take_u64(in, &req->id);
}

static void write_id(struct out *out, const struct bs_request *req)
{
    put_next_number(out, req->id);
}

static bool read_tube(struct bytes *in, struct bs_request *req)
{
    return take_tube(in, &req->tube);
}

static void write_tube(struct out *out, const struct bs_request *req)
{
    put_next_word(out, req->tube);
}

static bool read_put(struct bytes *in, struct bs_request *req)
{
    return take_u32(in, UINT32_MAX, &req->pri) && take_u32(in, UINT32_MAX, &req->delay_s) &&
           take_u32(in, UINT32_MAX, &req->ttr_s) && take_u32(in, UINT32_MAX, &req->body_len);
}

static void write_put(struct out *out, const struct bs_request *req)
{
    put_next_number(out, req->pri);
    put_next_number(out, req->delay_s);
    put_next_number(out, req->ttr_s);
    put_next_number(out, req->body_len);
}

static bool read_put_into(struct bytes *in, struct bs_request *req)
{
    return take_tube(in, &req->tube) && read_put(in, req) && take_options(in, &req->options);
}

static void write_put_into(struct out *out, const struct bs_request *req)
{
    write_tube(out, req);
    write_put(out, req);
    put_option_words(out, &req->options);
}

static bool read_put_batch(struct bytes *in, struct bs_request *req)
{
    return take_tube(in, &req->tube) && take_count(in, &req->count) &&
           take_u32(in, UINT32_MAX, &req->body_len);
}

static void write_put_batch(struct out *out, const struct bs_request *req)
{
    write_tube(out, req);
    put_next_number(out, req->count);
    put_next_number(out, req->body_len);
}

static bool read_wait(struct bytes *in, struct bs_request *req)
{
    return take_u32(in, BS_WAIT_MAX, &req->seconds);
}

static void write_seconds(struct out *out, const struct bs_request *req)
{
    put_next_number(out, req->seconds);
}

static bool read_release(struct bytes *in, struct bs_request *req)
{
    return read_id(in, req) && take_u32(in, UINT32_MAX, &req->pri) &&
           take_u32(in, UINT32_MAX, &req->delay_s);
}

static void write_release(struct out *out, const struct bs_request *req)
{
    write_id(out, req);
    put_next_number(out, req->pri);
    put_next_number(out, req->delay_s);
}

static bool read_bury(struct bytes *in, struct bs_request *req)
{
    return read_id(in, req) && take_u32(in, UINT32_MAX, &req->pri);
}

static void write_bury(struct out *out, const struct bs_request *req)
{
    write_id(out, req);
    put_next_number(out, req->pri);
}

static bool read_kick(struct bytes *in, struct bs_request *req)
{
    return take_u32(in, UINT32_MAX, &req->count);
}

static void write_kick(struct out *out, const struct bs_request *req)
{
    put_next_number(out, req->count);
}

/* The only verb that allows spaces before a name. */
static bool read_pause_tube(struct bytes *in, struct bs_request *req)
{
    while (bytes_take_text(in, " "))
        continue;
    return take_tube(in, &req->tube) && take_u32(in, UINT32_MAX, &req->seconds);
}

static void write_pause_tube(struct out *out, const struct bs_request *req)
{
    write_tube(out, req);
    write_seconds(out, req);
}

static bool read_tube_settings(struct bytes *in, struct bs_request *req)
{
    return take_tube(in, &req->tube) && take_settings(in, &req->settings);
}

static void write_tube_settings(struct out *out, const struct bs_request *req)
{
    write_tube(out, req);
    put_setting_words(out, &req->settings);
}

static bool read_claim(struct bytes *in, struct bs_request *req)
{
    if (!take_count(in, &req->count) || !take_u32(in, UINT32_MAX, &req->seconds))
        return false;
    if (in->len > 0)
        req->tubes = bytes_at(in->data + 1, in->len - 1);
    for (struct bytes name; in->len > 0;) {
        if (!take_next_tube(in, &name))
            return false;
    }
    return true;
}

static void write_claim(struct out *out, const struct bs_request *req)
{
    put_next_number(out, req->count);
    write_seconds(out, req);
    if (req->tubes.len > 0)
        put_next_word(out, req->tubes);
}

static bool read_token(struct bytes *in, struct bs_request *req)
{
    return read_id(in, req) && take_u64(in, &req->token);
}

static void write_token(struct out *out, const struct bs_request *req)
{
    write_id(out, req);
    put_next_number(out, req->token);
}

static bool read_nack(struct bytes *in, struct bs_request *req)
{
    return read_token(in, req) && take_u32(in, UINT32_MAX, &req->delay_s);
}

static void write_nack(struct out *out, const struct bs_request *req)
{
    write_token(out, req);
    put_next_number(out, req->delay_s);
}

static bool read_ready(struct bytes *in, struct bs_request *req)
{
    if (!take_u32(in, UINT32_MAX, &req->seconds) || !take_count(in, &req->count) ||
        !take_pattern(in, &req->tube, &req->ready.prefix))
        return false;
    return in->len == 0 || take_next_tube(in, &req->ready.after);
}

static void write_ready(struct out *out, const struct bs_request *req)
{
    write_seconds(out, req);
    put_next_number(out, req->count);
    put_next_word(out, req->tube);
    if (req->ready.prefix)
        put_byte(out, '*');
    if (req->ready.after.len > 0)
        put_next_word(out, req->ready.after);
}

static bool read_list_jobs(struct bytes *in, struct bs_request *req)
{
    return take_tube(in, &req->tube) && take_state(in, &req->state) && take_u64(in, &req->id) &&
           take_count(in, &req->count);
}

static void write_list_jobs(struct out *out, const struct bs_request *req)
{
    write_tube(out, req);
    put_next_word(out, bs_state_word(req->state));
    put_next_number(out, req->id);
    put_next_number(out, req->count);
}

static bool read_clear(struct bytes *in, struct bs_request *req)
{
    return take_tube(in, &req->tube) && take_state(in, &req->state);
}

static void write_clear(struct out *out, const struct bs_request *req)
{
    write_tube(out, req);
    put_next_word(out, bs_state_word(req->state));
}

/* ---- Verbs ---------------------------------------------------------------------------------- */

#define ALONE_IS_BAD 1u /* without its space, a known verb */
#define HAS_BODY     2u /* a wrong line closes the connection */
#define IS_NEW       4u /* up to BS_NEW_LINE_MAX bytes */

static const struct verb_row {
    /* NULL: nothing may follow the verb. */
    bool (*read)(struct bytes *in, struct bs_request *req);
    void (*write)(struct out *out, const struct bs_request *req);
    unsigned flags;
} verbs[BS_VERB_COUNT] = {
    [BS_VERB_PUT] = {read_put, write_put, HAS_BODY},
    [BS_VERB_RESERVE] = {NULL, NULL, 0},
    [BS_VERB_RESERVE_WITH_TIMEOUT] = {read_wait, write_seconds, ALONE_IS_BAD},
    [BS_VERB_DELETE] = {read_id, write_id, 0},
    [BS_VERB_PUT_INTO] = {read_put_into, write_put_into, IS_NEW | HAS_BODY},
    [BS_VERB_CLAIM] = {read_claim, write_claim, IS_NEW},
    [BS_VERB_ACK] = {read_token, write_token, IS_NEW},
    [BS_VERB_RELEASE] = {read_release, write_release, 0},
    [BS_VERB_BURY] = {read_bury, write_bury, 0},
    [BS_VERB_TOUCH] = {read_id, write_id, 0},
    [BS_VERB_USE] = {read_tube, write_tube, 0},
    [BS_VERB_WATCH] = {read_tube, write_tube, 0},
    [BS_VERB_IGNORE] = {read_tube, write_tube, 0},
    [BS_VERB_RESERVE_JOB] = {read_id, write_id, ALONE_IS_BAD},
    [BS_VERB_KICK] = {read_kick, write_kick, 0},
    [BS_VERB_KICK_JOB] = {read_id, write_id, 0},
    [BS_VERB_PEEK] = {read_id, write_id, 0},
    [BS_VERB_PEEK_READY] = {NULL, NULL, 0},
    [BS_VERB_PEEK_DELAYED] = {NULL, NULL, 0},
    [BS_VERB_PEEK_BURIED] = {NULL, NULL, 0},
    [BS_VERB_STATS] = {NULL, NULL, 0},
    [BS_VERB_STATS_JOB] = {read_id, write_id, 0},
    [BS_VERB_STATS_TUBE] = {read_tube, write_tube, 0},
    [BS_VERB_LIST_TUBES] = {NULL, NULL, 0},
    [BS_VERB_LIST_TUBES_WATCHED] = {NULL, NULL, 0},
    [BS_VERB_LIST_TUBE_USED] = {NULL, NULL, 0},
    [BS_VERB_PAUSE_TUBE] = {read_pause_tube, write_pause_tube, ALONE_IS_BAD},
    [BS_VERB_QUIT] = {NULL, NULL, 0},
    [BS_VERB_TUBE] = {read_tube_settings, write_tube_settings, IS_NEW},
    [BS_VERB_PUT_BATCH] = {read_put_batch, write_put_batch, IS_NEW | HAS_BODY},
    [BS_VERB_NACK] = {read_nack, write_nack, IS_NEW},
    [BS_VERB_RENEW] = {read_token, write_token, IS_NEW},
    [BS_VERB_READY] = {read_ready, write_ready, IS_NEW},
    [BS_VERB_LIST_JOBS] = {read_list_jobs, write_list_jobs, IS_NEW},
    [BS_VERB_CLEAR] = {read_clear, write_clear, IS_NEW},
};

static const struct bytes verb_words[BS_VERB_COUNT] = {
#define ROW(name, word) [BS_VERB_##name] = BYTES_OF_LITERAL(word),
    BS_VERBS(ROW)
#undef ROW
};

/* Returns the verb whose word is all of `word`, or BS_VERB_COUNT. */
static enum bs_verb find_verb(struct bytes word)
{
    size_t i = 0;
    while (i < BS_VERB_COUNT && !bytes_equal(word, verb_words[i]))
        i++;
    return (enum bs_verb)i;
}

/* Splits at the first space. *rest_r has `data` NULL when there is none. */
static enum bs_verb split_verb(struct bytes line, struct bytes *rest_r)
{
    const uint8_t *space = line.len > 0 ? memchr(line.data, ' ', line.len) : NULL;
    *rest_r = (struct bytes){0};
    if (!space)
        return find_verb(line);
    size_t len = (size_t)(space - line.data);
    *rest_r = bytes_at(space + 1, line.len - len - 1);
    return find_verb(bytes_at(line.data, len));
}

/* ---- Requests, read ------------------------------------------------------------------------- */

/* A page can make a browser connect to any port, and choose most lines, but not the first words. */
static bool is_web(struct bytes in)
{
    static const struct bytes beginnings[] = {
        BYTES_OF_LITERAL("GET "),     BYTES_OF_LITERAL("POST "), BYTES_OF_LITERAL("PUT "),
        BYTES_OF_LITERAL("OPTIONS "), BYTES_OF_LITERAL("Host:"),
    };
    if (in.len == 0 || in.data[0] > 'P') /* as all verbs are */
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
        if (bytes_begin_with(in, beginnings[i]))
            return true;
    }
    return false;
}

static enum bs_parsed parse_line(struct bytes line, struct bs_request *req_r)
{
    struct bytes rest;
    enum bs_verb verb = split_verb(line, &rest);
    if (verb == BS_VERB_COUNT) {
        /* Arguments have no NUL byte; so only a wrong verb must be searched for one. */
        bool has_nul = line.len > 0 && memchr(line.data, '\0', line.len);
        return has_nul ? BS_BAD_FORMAT : BS_UNKNOWN_COMMAND;
    }
    const struct verb_row *row = &verbs[verb];
    if (!rest.data && row->read)
        return row->flags & ALONE_IS_BAD ? BS_BAD_FORMAT : BS_UNKNOWN_COMMAND;
    memset(req_r, 0, sizeof(*req_r));
    req_r->verb = verb;
    bool good = row->read ? row->read(&rest, req_r) && rest.len == 0 : !rest.data;
    if (good)
        return BS_PARSED;
    return row->flags & HAS_BODY ? BS_BAD_FORMAT_CLOSE : BS_BAD_FORMAT;
}

/* Looks for the line's end in the first `max` bytes. */
static bool find_line(struct bytes in, size_t max, struct bytes *line_r)
{
    size_t len = in.len < max ? in.len : max;
    *line_r = bytes_at(in.data, line_length(bytes_at(in.data, len)));
    return line_r->len < len;
}

enum bs_parsed bs_parse_request(const uint8_t *data, size_t len, struct bs_request *req_r,
                                size_t *used_r)
{
    struct bytes in = bytes_at(data, len), line, rest;
    *used_r = 0;
    if (is_web(in)) {
        *used_r = len;
        return BS_WEB;
    }
    bool whole = find_line(in, BS_LINE_MAX, &line);
    if (!whole && len < BS_LINE_MAX)
        return BS_MORE;
    if (!whole) {
        enum bs_verb verb = split_verb(bytes_at(data, BS_LINE_MAX), &rest);
        unsigned flags = verb < BS_VERB_COUNT ? verbs[verb].flags : 0;
        if (flags & IS_NEW) {
            whole = find_line(in, BS_NEW_LINE_MAX, &line);
            if (!whole && len < BS_NEW_LINE_MAX)
                return BS_MORE;
        }
        if (!whole && (flags & HAS_BODY)) {
            *used_r = len;
            return BS_BAD_FORMAT_CLOSE;
        }
    }
    if (!whole)
        return bs_skip_line(data, len, used_r) ? BS_BAD_FORMAT : BS_TOO_LONG;
    *used_r = line.len + 2;
    return parse_line(line, req_r);
}

bool bs_skip_line(const uint8_t *data, size_t len, size_t *used_r)
{
    struct bytes in = bytes_at(data, len);
    size_t line_len = line_length(in);
    if (line_len < len) {
        *used_r = line_len + 2;
        return true;
    }
    *used_r = len > 0 && data[len - 1] == '\r' ? len - 1 : len;
    return false;
}

static bool parse_record(struct bytes line, struct bs_record *record_r)
{
    return take_u32(&line, UINT32_MAX, &record_r->pri) &&
           take_u32(&line, UINT32_MAX, &record_r->delay_s) &&
           take_u32(&line, UINT32_MAX, &record_r->ttr_s) &&
           take_u32(&line, UINT32_MAX, &record_r->body_len) &&
           take_options(&line, &record_r->options);
}

enum bs_parsed bs_parse_record(const uint8_t *data, size_t len, struct bs_record *record_r,
                               size_t *used_r)
{
    struct bytes line;
    *used_r = 0;
    if (!find_line(bytes_at(data, len), BS_NEW_LINE_MAX, &line))
        return len < BS_NEW_LINE_MAX ? BS_MORE : BS_BAD_FORMAT;
    *used_r = line.len + 2;
    return parse_record(line, record_r) ? BS_PARSED : BS_BAD_FORMAT;
}

/* ---- Requests, written ---------------------------------------------------------------------- */

/* Compares what the verb has of the union; any other verb has nothing of it. */
static bool same_own(const struct bs_request *a, const struct bs_request *b)
{
    switch (a->verb) {
    case BS_VERB_TUBE:
        return same_settings(&a->settings, &b->settings);
    case BS_VERB_CLAIM:
        return bytes_equal(a->tubes, b->tubes);
    case BS_VERB_READY:
        return bytes_equal(a->ready.after, b->ready.after) && a->ready.prefix == b->ready.prefix;
    default:
        return same_options(&a->options, &b->options);
    }
}

static bool same_request(const struct bs_request *a, const struct bs_request *b)
{
    return a->verb == b->verb && a->state == b->state && a->pri == b->pri &&
           a->delay_s == b->delay_s && a->ttr_s == b->ttr_s && a->body_len == b->body_len &&
           a->seconds == b->seconds && a->count == b->count && a->id == b->id &&
           a->token == b->token && bytes_equal(a->tube, b->tube) && same_own(a, b);
}

size_t bs_compose_request(const struct bs_request *req, uint8_t *to, size_t room)
{
    if ((size_t)req->verb >= BS_VERB_COUNT)
        return 0;
    struct out out = {.to = to, .room = room};
    put_bytes(&out, verb_words[req->verb]);
    if (verbs[req->verb].write)
        verbs[req->verb].write(&out, req);
    size_t len = end_crlf(&out), used;
    struct bs_request again;
    if (len == 0 || bs_parse_request(to, len, &again, &used) != BS_PARSED || used != len)
        return 0;
    return same_request(req, &again) ? len : 0;
}

size_t bs_compose_record(const struct bs_record *record, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    put_number(&out, record->pri, 1);
    put_next_number(&out, record->delay_s);
    put_next_number(&out, record->ttr_s);
    put_next_number(&out, record->body_len);
    put_option_words(&out, &record->options);
    size_t len = end_crlf(&out), used;
    struct bs_record again;
    if (len == 0 || bs_parse_record(to, len, &again, &used) != BS_PARSED || used != len)
        return 0;
    return same_options(&record->options, &again.options) ? len : 0;
}
