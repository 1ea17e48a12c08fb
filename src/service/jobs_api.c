/*
 * jobs_api.c - tubes and jobs as JSON, page by page. See tubes_monitor.h.
 *
 * A list is made in steps. A step reads a piece under the lock of the jobs. Tubes are not kept in
 * the order of their names, so a page of them reads all tubes, piece by piece, and keeps the first
 * ones behind its cursor. A tube that is there all the while is listed once. Jobs are ordered by
 * id.
 */
#include "base/heap.h"
#include "base/number.h"
#include "base/utf8.h"
#include "net/query.h"
#include "service/job_session.h"
#include "service/tubes_monitor.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
#define TUBES_PIECE   128
#define JOBS_PIECE    64
#define ANSWER_MAX    ((size_t)256 * 1024)
#define BODY_MAX      ((size_t)64 * 1024) /* of a body that is shown */

static struct bytes name_of(const struct tube_stats *stats)
{
    return bytes_at(stats->name, strlen(stats->name));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_settings(struct json_text *to, const struct job_settings *s)
{
    json_text_open(to, "settings", '{');
    for (unsigned n = 0; n < JOB_SETTING_READ_ONLY; n++) {
        const struct job_setting_row *row = &job_setting_rows[n];
        if (row->words)
            json_text_string(to, row->key, bytes_of(row->words[s->is[n]]));
        else
            json_text_number(to, row->key, s->is[n]);
    }
    json_text_string(to, "read_only", bytes_of(s->read_only));
    json_text_close(to, '}');
}

static void write_tube(struct json_text *to, const char *key, const struct tube_stats *stats)
{
    uint64_t jobs = 0;
    json_text_open(to, key, '{');
    json_text_readable(to, "name", name_of(stats));
    json_text_percent(to, "id", name_of(stats));
    json_text_open(to, "states", '{');
    for (unsigned i = 0; i < JOB_STATES; i++) {
        json_text_number(to, job_state_word(i), stats->states[i]);
        jobs += stats->states[i];
    }
    json_text_close(to, '}');
    json_text_number(to, "jobs", jobs);
    json_text_number(to, "urgent", stats->urgent);
    if (stats->states[JOB_READY] > 0)
        json_text_number(to, "oldest_ready_seconds", stats->oldest_ready_s);
    else
        json_text_null(to, "oldest_ready_seconds");
    json_text_number(to, "waiting", stats->waiting);
    json_text_number(to, "watching", stats->watching);
    json_text_number(to, "using", stats->using);
    json_text_number(to, "pause_seconds", stats->pause_s);
    json_text_number(to, "pause_left_seconds", stats->pause_left_s);
    json_text_open(to, "totals", '{');
    json_text_number(to, "puts", stats->total_jobs);
    json_text_number(to, "duplicates", stats->duplicates);
    json_text_number(to, "claims", stats->claims);
    json_text_number(to, "dropped", stats->dropped);
    json_text_number(to, "acks", stats->acks);
    json_text_number(to, "recycled", stats->recycled);
    json_text_number(to, "abandoned", stats->abandoned);
    json_text_close(to, '}');
    write_settings(to, &stats->settings);
    json_text_close(to, '}');
}

/* Writes the members of a job; its object is open. */
static void write_job(struct json_text *to, const struct job_stats *stats)
{
    json_text_number(to, "id", stats->id);
    json_text_string(to, "state", bytes_of(job_state_word(stats->state)));
    json_text_number(to, "pri", stats->pri);
    json_text_number(to, "age_seconds", stats->age_s);
    json_text_number(to, "delay_seconds", stats->delay_s);
    json_text_number(to, "ttr_seconds", stats->ttr_s);
    if (stats->state == JOB_RESERVED || stats->state == JOB_DELAYED)
        json_text_number(to, "left_seconds", stats->time_left_s);
    else
        json_text_null(to, "left_seconds");
    json_text_number(to, "tries", stats->tries);
    json_text_number(to, "reserves", stats->counts.of[JOB_RESERVES]);
    json_text_number(to, "timeouts", stats->counts.of[JOB_TIMEOUTS]);
    json_text_number(to, "releases", stats->counts.of[JOB_RELEASES]);
    json_text_number(to, "buries", stats->counts.of[JOB_BURIES]);
    json_text_number(to, "kicks", stats->counts.of[JOB_KICKS]);
    json_text_number(to, "body_bytes", stats->body_len);
}

/* The length of the text at the start of a body, at most BODY_MAX, that ends with a character; 0:
 * it is no text. A null byte is none: some readers of JSON refuse it. */
static size_t text_len(struct bytes body)
{
    size_t len = 0, max = body.len < BODY_MAX ? body.len : BODY_MAX;
    uint32_t code;
    while (len < max) {
        size_t one = utf8_decode(body.data + len, body.len - len, &code);
        if (one == 0 || code == 0)
            return 0;
        if (len + one > max)
            break;
        len += one;
    }
    return len;
}

static void write_base64(struct json_text *to, const char *key, struct bytes from)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct text text = {0};
    for (size_t i = 0; i < from.len; i += 3) {
        size_t left = from.len - i;
        uint32_t three = (uint32_t)from.data[i] << 16;
        three |= left > 1 ? (uint32_t)from.data[i + 1] << 8 : 0;
        three |= left > 2 ? from.data[i + 2] : 0;
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63], '=', '='};
        if (left > 1)
            four[2] = digits[three >> 6 & 63];
        if (left > 2)
            four[3] = digits[three & 63];
        text_add(&text, four, sizeof(four));
    }
    to->text.failed = to->text.failed || text.failed;
    json_text_string(to, key, bytes_at(text_str(&text), text.len));
    text_free(&text);
}

static void write_body(struct json_text *to, struct bytes body)
{
    size_t len = text_len(body);
    bool is_text = len > 0 || body.len == 0;
    if (!is_text)
        len = body.len < BODY_MAX ? body.len : BODY_MAX;
    json_text_string(to, "encoding", bytes_of(is_text ? "text" : "base64"));
    json_text_bool(to, "cut", len < body.len);
    if (is_text)
        json_text_string(to, "body", bytes_at(body.data, len));
    else
        write_base64(to, "body", bytes_at(body.data, len));
}

/* ---- tubes ----------------------------------------------------------------------------------- */

struct tubes_page {
    struct jobs *jobs;
    unsigned limit;
    uint8_t prefix[HTTP_HEADERS_MAX], after[HTTP_HEADERS_MAX];
    size_t prefix_len, after_len;
    uint64_t place;
    struct tube_stats *tubes; /* the first ones, as a heap; room for `limit` */
    size_t count;
    bool more; /* others come after them */
};

static int by_name(const void *a, const void *b, void *none)
{
    (void)none;
    return bytes_compare(name_of(a), name_of(b));
}

static const struct heap first_names = {sizeof(struct tube_stats), by_name, NULL};

static void pick_tube(void *arg, const struct tube_stats *stats)
{
    struct tubes_page *page = arg;
    struct bytes name = name_of(stats);
    struct tube_stats tube = *stats;
    if (!bytes_begin_with(name, bytes_at(page->prefix, page->prefix_len)) ||
        bytes_compare(name, bytes_at(page->after, page->after_len)) <= 0)
        return;
    if (!heap_keep(&first_names, page->tubes, &page->count, page->limit, &tube))
        page->more = true;
}

static void take_tubes(void *arg, struct http_request *request)
{
    struct tubes_page *page = arg;
    if (!jobs_visit_tubes(page->jobs, &page->place, TUBES_PIECE, clock_now(), pick_tube, page))
        return;
    struct json_text json = json_text_begin();
    qsort_r(page->tubes, page->count, sizeof(page->tubes[0]), by_name, NULL);
    json_text_open(&json, "tubes", '[');
    for (size_t i = 0; i < page->count; i++)
        write_tube(&json, NULL, &page->tubes[i]);
    json_text_close(&json, ']');
    if (page->more)
        json_text_percent(&json, "cursor", name_of(&page->tubes[page->count - 1]));
    else
        json_text_null(&json, "cursor");
    http_answer_json(request, 200, &json);
}

static void end_tubes(void *arg)
{
    struct tubes_page *page = arg;
    free(page->tubes);
    free(page);
}

void get_tubes(const struct route_request *r)
{
    enum { PREFIX, LIMIT, CURSOR };
    static const char *const names[] = {"prefix", "limit", "cursor", NULL};
    struct query query;
    if (jobs_refuse_stopped(r))
        return;
    struct tubes_page *page = route_alloc(r, sizeof(*page));
    if (!page)
        return;
    page->jobs = jobs_of(r->services);
    page->limit = LIMIT_DEFAULT;
    bool good = query_read(&query, r->http, names) &&
                query_bytes(&query, PREFIX, page->prefix, &page->prefix_len) &&
                query_bytes(&query, CURSOR, page->after, &page->after_len) &&
                query_number(&query, LIMIT, 1, LIMIT_MAX, &page->limit);
    if (good)
        page->tubes = route_alloc(r, page->limit * sizeof(*page->tubes));
    route_steps(r, page->tubes != NULL, take_tubes, end_tubes, page);
}

void get_tube(const struct route_request *r)
{
    uint8_t decoded[HTTP_HEADERS_MAX];
    struct bytes name;
    struct tube_stats stats;
    if (jobs_refuse_stopped(r) || !query_none(r->http) ||
        !slug_name(r, "tube", "TUBE", decoded, &name))
        return;
    if (jobs_stats_tube(jobs_of(r->services), name, clock_now(), &stats) != JOBS_OK) {
        http_error(r->http, 404, "there is no such tube");
        return;
    }
    struct json_text json = json_text_begin();
    write_tube(&json, "tube", &stats);
    http_answer_json(r->http, 200, &json);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct jobs_page {
    struct jobs *jobs;
    uint8_t tube[HTTP_HEADERS_MAX];
    size_t tube_len;
    unsigned state, left; /* left: jobs to list at most */
    uint64_t after;
    struct json_text json;
    struct job_stats piece[JOBS_PIECE];
};

static void take_jobs(void *arg, struct http_request *request)
{
    struct jobs_page *page = arg;
    struct json_text *to = &page->json;
    size_t count;
    uint64_t next;
    enum jobs_status status = jobs_list_stats(
        page->jobs, bytes_at(page->tube, page->tube_len), page->state, page->after,
        page->left < JOBS_PIECE ? page->left : JOBS_PIECE, clock_now(), page->piece, &count, &next);
    if (status != JOBS_OK && to->text.len == 0) {
        http_error(request, 404, "there is no such tube");
        return;
    }
    if (to->text.len == 0) {
        json_text_open(to, NULL, '{');
        json_text_open(to, "jobs", '[');
    }
    for (size_t i = 0; i < count; i++) {
        json_text_open(to, NULL, '{');
        write_job(to, &page->piece[i]);
        json_text_close(to, '}');
    }
    page->left -= (unsigned)count;
    page->after = next;
    if (next > 0 && page->left > 0 && to->text.len < ANSWER_MAX)
        return;
    json_text_close(to, ']');
    if (next > 0)
        json_text_number(to, "next", next);
    else
        json_text_null(to, "next");
    http_answer_json(request, 200, to);
}

static void end_jobs(void *arg)
{
    struct jobs_page *page = arg;
    text_free(&page->json.text);
    free(page);
}

void get_jobs(const struct route_request *r)
{
    enum { TUBE, STATE, AFTER, LIMIT };
    static const char *const names[] = {"tube", "state", "after", "limit", NULL};
    static const char *const states[] = {"ready",     "delayed", "reserved", "buried",
                                         "abandoned", "all",     NULL};
    struct query query;
    if (jobs_refuse_stopped(r))
        return;
    struct jobs_page *page = route_alloc(r, sizeof(*page));
    if (!page)
        return;
    page->jobs = jobs_of(r->services);
    page->state = JOBS_ALL;
    page->left = LIMIT_DEFAULT;
    bool good = query_read(&query, r->http, names) &&
                query_bytes(&query, TUBE, page->tube, &page->tube_len) &&
                query_word(&query, STATE, states, &page->state) &&
                query_number(&query, LIMIT, 1, LIMIT_MAX, &page->left);
    struct bytes after = query.values[AFTER];
    if (good && after.data && !number_parse(after, UINT64_MAX, &page->after)) {
        http_error(r->http, 400, "after: it is the id of a job");
        good = false;
    } else if (good && page->tube_len == 0) {
        http_error(r->http, 400, "tube=TUBE is missing, percent-encoded");
        good = false;
    }
    route_steps(r, good, take_jobs, end_jobs, page);
}

void jobs_answer_job(struct services *services, struct http_request *request,
                     const struct job_view *view)
{
    struct job_stats stats;
    if (jobs_stats_job(jobs_of(services), view->id, clock_now(), &stats) != JOBS_OK) {
        http_error(request, 404, "there is no such job");
        return;
    }
    struct json_text json = json_text_begin();
    json_text_open(&json, "job", '{');
    write_job(&json, &stats);
    json_text_string(&json, "tube", bytes_of(stats.tube));
    json_text_percent(&json, "tube_id", bytes_of(stats.tube));
    write_body(&json, bytes_at(view->body->bytes, view->body->len));
    json_text_close(&json, '}');
    http_answer_json(request, 200, &json);
}

void get_job(const struct route_request *r)
{
    struct jobs *jobs = jobs_of(r->services);
    struct job_view view;
    uint64_t id;
    if (jobs_refuse_stopped(r) || !query_none(r->http) || !jobs_read_id(r, &id))
        return;
    if (jobs_peek(jobs, id, &view) != JOBS_OK) {
        http_error(r->http, 404, "there is no such job");
    } else if (view.body) {
        jobs_answer_job(r->services, r->http, &view);
        job_body_drop(jobs, &view.body);
    } else {
        jobs_read_body(r->services, r->http, &view);
    }
}
