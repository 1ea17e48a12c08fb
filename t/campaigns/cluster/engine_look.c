/* engine_look.c - what the engine in memory holds: its check, and its contents as keys of Redis. */
#include "t/campaigns/cluster/engine_inside.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Looking ---- */

const char *fake_engine_misuse(const struct fake_engine *engine)
{
    return engine->misuse.len > 0 ? engine->misuse.at : NULL;
}

const char *fake_engine_term(const struct fake_engine *engine)
{
    return fe_text_of(engine, engine->term);
}

bool fake_engine_grace(const struct fake_engine *engine)
{
    return engine->data.grace;
}

bool fake_engine_is_empty(const struct fake_engine *engine)
{
    const struct fe_data *data = &engine->data;
    return data->session_count + data->held_count + data->wait_count + data->more_count == 0;
}

uint64_t fake_engine_units(const struct fake_engine *engine, const char *session, const void *name,
                           size_t len)
{
    int of = session ? fe_text(engine->texts, session, strlen(session)) : FE_NONE;
    return fe_units(engine, of, fe_text(engine->texts, name, len));
}

uint64_t fake_engine_waits(const struct fake_engine *engine, const char *session, const void *name,
                           size_t len)
{
    int of = session ? fe_text(engine->texts, session, strlen(session)) : FE_NONE;
    return fe_waits(engine, of, fe_text(engine->texts, name, len));
}

/* ---- The check ---- */

static void problem(struct fake_engine *engine, const char *what, int session, int name)
{
    if (engine->problem.len == 0)
        fe_putf(&engine->problem, "%s: session %s, name %.200s", what, fe_text_of(engine, session),
                fe_text_of(engine, name));
}

static void check_sessions(struct fake_engine *engine)
{
    const struct fe_data *data = &engine->data;
    for (size_t n = 0; n < data->session_count; n++) {
        const struct fe_session *session = &data->sessions[n];
        if (session->beat < 1)
            problem(engine, "a session has no beat", session->id, FE_NONE);
        if (session->life == FE_LIVE && session->last)
            problem(engine, "a live session has a last one", session->id, FE_NONE);
        for (size_t i = 0; i < n; i++) {
            if (data->sessions[i].id == session->id)
                problem(engine, "a session is there twice", session->id, FE_NONE);
            if (data->sessions[i].node == session->node && session->life != FE_ENDED &&
                data->sessions[i].life != FE_ENDED)
                problem(engine, "a node has two sessions", session->id, FE_NONE);
        }
    }
}

static void check_rows(struct fake_engine *engine)
{
    const struct fe_data *data = &engine->data;
    for (size_t n = 0; n < data->held_count; n++) {
        const struct fe_held *held = &data->held[n];
        if (held->units == 0 || held->units > INT64_MAX)
            problem(engine, "units are none", held->session, held->name);
        if (!fe_session(engine, held->session))
            problem(engine, "units are of nobody", held->session, held->name);
        for (size_t i = 0; i < n; i++) {
            if (data->held[i].session == held->session && data->held[i].name == held->name)
                problem(engine, "units are there twice", held->session, held->name);
        }
    }
    for (size_t n = 0; n < data->wait_count; n++) {
        const struct fe_wait *wait = &data->waits[n];
        struct fe_class class;
        if (!fe_class_of(engine, wait->class, &class))
            problem(engine, "a wait has no class", wait->session, wait->name);
        if (!fe_session(engine, wait->session))
            problem(engine, "a wait is of nobody", wait->session, wait->name);
        for (size_t i = 0; i < n; i++) {
            const struct fe_wait *other = &data->waits[i];
            if (other->session == wait->session && other->name == wait->name &&
                other->class == wait->class && other->id == wait->id)
                problem(engine, "a wait is there twice", wait->session, wait->name);
        }
    }
}

const char *fake_engine_check(struct fake_engine *engine)
{
    engine->problem.len = 0;
    check_sessions(engine);
    check_rows(engine);
    return engine->problem.len > 0 ? engine->problem.at : NULL;
}

/* ---- Contents ---- */

/* Lines that will be sorted. */
struct lines {
    const struct fake_engine *engine;
    char **rows;
    size_t count, room;
    struct fe_bytes line;
};

/* A text as part of a line: bytes that are not plain as \xHH. */
static void put_plain(struct lines *lines, const char *bytes, size_t len)
{
    for (size_t n = 0; n < len; n++) {
        unsigned char c = (unsigned char)bytes[n];
        if (c > ' ' && c < 127 && c != '\\')
            fe_put(&lines->line, &c, 1);
        else
            fe_putf(&lines->line, "\\x%02x", c);
    }
}

static void put_text(struct lines *lines, int text)
{
    put_plain(lines, fe_text_of(lines->engine, text), fe_len_of(lines->engine, text));
}

static void end_line(struct lines *lines)
{
    lines->rows = fe_grow(lines->rows, &lines->room, lines->count, sizeof(*lines->rows));
    lines->rows[lines->count++] = lines->line.at;
    lines->line = (struct fe_bytes){0};
}

static void put_session(struct lines *lines, const struct fe_session *session)
{
    static const char *const words[] = {"opening", "live", "ended"};
    if (session->life != FE_ENDED) {
        fe_putf(&lines->line, "node ");
        put_text(lines, session->node);
        fe_putf(&lines->line, " %s", fe_text_of(lines->engine, session->id));
        end_line(lines);
    }
    fe_putf(&lines->line, "beat %s %" PRIu64, fe_text_of(lines->engine, session->id),
            session->beat);
    end_line(lines);
    fe_putf(&lines->line, "s:%s node ", fe_text_of(lines->engine, session->id));
    put_text(lines, session->node);
    fe_putf(&lines->line, " where ");
    put_text(lines, session->where);
    fe_putf(&lines->line, " state %s reaped %d last %s", words[session->life], session->reaped,
            session->last ? fe_text_of(lines->engine, session->last) : "-");
    end_line(lines);
}

static void put_units(struct lines *lines)
{
    const struct fe_data *data = &lines->engine->data;
    for (size_t n = 0; n < data->held_count; n++) {
        const struct fe_held *held = &data->held[n];
        fe_putf(&lines->line, "u:%s ", fe_text_of(lines->engine, held->session));
        put_text(lines, held->name);
        fe_putf(&lines->line, " %" PRIu64, held->units);
        end_line(lines);
        size_t earlier = 0;
        while (earlier < n && data->held[earlier].name != held->name)
            earlier++;
        if (earlier < n)
            continue;
        fe_putf(&lines->line, "units ");
        put_text(lines, held->name);
        fe_putf(&lines->line, " %" PRIu64, fe_units(lines->engine, FE_NONE, held->name));
        end_line(lines);
    }
}

/* The rows of k: and w: of a queue, at its first wait. */
static void put_queue(struct lines *lines, size_t first)
{
    const struct fe_data *data = &lines->engine->data;
    const struct fe_wait *wait = &data->waits[first];
    uint64_t oldest = wait->seq, count = 0;
    for (size_t n = 0; n < data->wait_count; n++) {
        const struct fe_wait *other = &data->waits[n];
        if (other->session != wait->session || other->class != wait->class ||
            other->name != wait->name)
            continue;
        if (n < first)
            return;
        count++;
        if (other->seq < oldest)
            oldest = other->seq;
    }
    const char *class = fe_text_of(lines->engine, wait->class);
    const char *session = fe_text_of(lines->engine, wait->session);
    fe_putf(&lines->line, "w:%s %s:", session, class);
    put_text(lines, wait->name);
    fe_putf(&lines->line, " %" PRIu64, count);
    end_line(lines);
    fe_putf(&lines->line, "k:");
    put_text(lines, wait->name);
    fe_putf(&lines->line, " %s:%s %" PRIu64, session, class, oldest);
    end_line(lines);
}

static void put_waits(struct lines *lines)
{
    const struct fe_data *data = &lines->engine->data;
    for (size_t n = 0; n < data->wait_count; n++) {
        const struct fe_wait *wait = &data->waits[n];
        fe_putf(&lines->line, "q:%s:%s:", fe_text_of(lines->engine, wait->session),
                fe_text_of(lines->engine, wait->class));
        put_text(lines, wait->name);
        fe_putf(&lines->line, " %" PRIu64 " %" PRIu64, wait->id, wait->seq);
        end_line(lines);
        put_queue(lines, n);
    }
}

static int in_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *fake_engine_contents(const struct fake_engine *engine)
{
    const struct fe_data *data = &engine->data;
    struct lines lines = {.engine = engine};
    if (data->version || data->term) {
        fe_putf(&lines.line, "meta version %" PRIu64 " lease %" PRIu64 " grace %d seq %" PRIu64,
                data->version, data->lease, data->grace, data->seq);
        end_line(&lines);
    }
    for (size_t n = 0; n < data->session_count; n++)
        put_session(&lines, &data->sessions[n]);
    put_units(&lines);
    put_waits(&lines);
    for (size_t n = 0; n < data->more_count; n++) {
        fe_putf(&lines.line, "more ");
        put_text(&lines, data->more[n]);
        end_line(&lines);
    }
    if (lines.count > 0)
        qsort(lines.rows, lines.count, sizeof(*lines.rows), in_order);
    struct fe_bytes all = {0};
    fe_put(&all, "", 0);
    for (size_t n = 0; n < lines.count; n++) {
        fe_put(&all, lines.rows[n], strlen(lines.rows[n]));
        fe_put(&all, "\n", 1);
        free(lines.rows[n]);
    }
    free(lines.rows);
    return all.at;
}
