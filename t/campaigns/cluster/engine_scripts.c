/* engine_scripts.c - the scripts of the engine in memory, but the ops: sessions, beats, reaping. */
#include "t/campaigns/cluster/engine_inside.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool fe_digits(const char *text, size_t len, uint64_t *value)
{
    *value = 0;
    for (size_t n = 0; n < len; n++) {
        if (!isdigit((unsigned char)text[n]) || n > 19)
            return false;
        *value = *value * 10 + (uint64_t)(text[n] - '0');
    }
    return len > 0;
}

bool fe_number(const struct fe_text *arg, uint64_t *value)
{
    return fe_digits(arg->bytes, arg->len, value);
}

int fe_arg(struct fe_run *run, size_t n)
{
    return fe_text(run->engine->texts, run->args[n].bytes, run->args[n].len);
}

void fe_misused(struct fe_run *run, const char *what)
{
    struct fe_bytes *misuse = &run->engine->misuse;
    if (misuse->len > 0)
        return;
    fe_putf(misuse, "%s:", what);
    for (size_t n = 0; n < run->arg_count; n++)
        fe_putf(misuse, " %.200s", run->args[n].bytes);
}

struct fe_session *fe_asking(struct fe_run *run, bool live_only)
{
    struct fe_session *session = fe_session(run->engine, fe_arg(run, 0));
    if (session && (session->life == FE_LIVE || (session->life == FE_OPENING && !live_only)))
        return session;
    fe_say_error(run->out, "SESSION it is not live");
    return NULL;
}

static bool is(const struct fe_text *arg, const char *text)
{
    return arg->len == strlen(text) && memcmp(arg->bytes, text, arg->len) == 0;
}

/* True if this text is the session's beat. */
static bool is_beat(const struct fe_text *arg, const struct fe_session *session)
{
    uint64_t beat;
    return fe_number(arg, &beat) && beat == session->beat;
}

/* ---- open: S node where digest lease seq last [X b]... ---- */

enum { S, NODE, WHERE, DIGEST, LEASE, SEQ, LAST, FIRST_X };

/* True if the session is one of the X, with its beat or known to be over. */
static bool is_listed(struct fe_run *run, const struct fe_session *session)
{
    for (size_t n = FIRST_X; n + 1 < run->arg_count; n += 2) {
        if (fe_arg(run, n) == session->id &&
            (is(&run->args[n + 1], "-") || is_beat(&run->args[n + 1], session)))
            return true;
    }
    return false;
}

/* A namesake that lives, or NULL. */
static struct fe_session *namesake(struct fe_run *run)
{
    struct fe_session *other = fe_of_node(run->engine, fe_arg(run, NODE));
    if (!other || other->where == fe_arg(run, WHERE) || is_listed(run, other))
        return NULL;
    return other;
}

/* Answers LEASE if other nodes have another one. */
static bool other_lease(struct fe_run *run, uint64_t lease)
{
    struct fake_engine *engine = run->engine;
    struct fe_bytes list = {0};
    size_t count = 0;
    for (size_t n = 0; n < engine->data.session_count; n++) {
        const struct fe_session *session = &engine->data.sessions[n];
        if (session->life == FE_ENDED || session->node == fe_arg(run, NODE) ||
            is_listed(run, session))
            continue;
        fe_say_text(&list, fe_text_of(engine, session->id));
        fe_say_number(&list, session->beat);
        count++;
    }
    bool differs = count > 0 && engine->data.lease != lease;
    if (differs) {
        fe_say_array(run->out, 2 + 2 * count);
        fe_say_text(run->out, "LEASE");
        fe_say_integer(run->out, (int64_t)engine->data.lease);
        fe_put(run->out, list.at, list.len);
    }
    free(list.at);
    return differs;
}

/* Answers why there is no session. */
static bool refused(struct fe_run *run, uint64_t lease)
{
    struct fake_engine *engine = run->engine;
    if (!is(&run->args[LAST], "-")) {
        const struct fe_session *last = fe_session(engine, fe_arg(run, LAST));
        if (last ? last->reaped : !engine->data.grace) {
            fe_say_array(run->out, 1);
            fe_say_text(run->out, "REAPED");
            return true;
        }
    }
    const struct fe_session *other = namesake(run);
    if (other) {
        fe_say_array(run->out, 5);
        fe_say_text(run->out, "NODE");
        fe_say_text(run->out, fe_text_of(engine, other->id));
        fe_say_text(run->out, fe_text_of(engine, other->where));
        fe_say_number(run->out, other->beat);
        fe_say_integer(run->out, (int64_t)engine->data.lease);
        return true;
    }
    return other_lease(run, lease);
}

static void begin(struct fe_run *run, uint64_t lease, uint64_t seq)
{
    struct fe_data *data = &run->engine->data;
    for (size_t n = 0; n < data->session_count; n++) {
        struct fe_session *session = &data->sessions[n];
        if (session->node == fe_arg(run, NODE) || is_listed(run, session))
            session->life = FE_ENDED;
    }
    data->version = 1;
    data->lease = lease;
    if (data->seq < seq)
        data->seq = seq;
    if (data->seq < 1)
        data->seq = 1;
    data->sessions =
        fe_grow(data->sessions, &data->session_room, data->session_count, sizeof(*data->sessions));
    data->sessions[data->session_count++] = (struct fe_session){
        .id = fe_arg(run, S),
        .node = fe_arg(run, NODE),
        .where = fe_arg(run, WHERE),
        .digest = fe_arg(run, DIGEST),
        .last = is(&run->args[LAST], "-") ? FE_NONE : fe_arg(run, LAST),
        .life = FE_OPENING,
        .beat = 1,
    };
}

static bool is_session(const struct fe_text *arg)
{
    return arg->len == 16 && strspn(arg->bytes, "0123456789abcdef") == 16;
}

static void script_open(struct fe_run *run)
{
    struct fake_engine *engine = run->engine;
    uint64_t lease, seq;
    if (run->arg_count < FIRST_X || (run->arg_count - FIRST_X) % 2 != 0 ||
        !fe_number(&run->args[LEASE], &lease) || !fe_number(&run->args[SEQ], &seq) ||
        !is_session(&run->args[S]) || run->args[NODE].len == 0 ||
        fe_session(engine, fe_arg(run, S)) ||
        !(is(&run->args[LAST], "-") || is_session(&run->args[LAST]))) {
        fe_misused(run, "open is wrong");
        fe_say_error(run->out, "ERR open is wrong");
        return;
    }
    if (engine->forbidden) {
        fe_say_array(run->out, 2);
        fe_say_text(run->out, "ACL");
        fe_say_text(run->out, engine->forbidden);
        return;
    }
    if (engine->data.version > 1) {
        fe_say_array(run->out, 2);
        fe_say_text(run->out, "VERSION");
        fe_say_number(run->out, engine->data.version);
        return;
    }
    if (engine->data.term != engine->term) {
        engine->data.term = engine->term;
        engine->data.grace = true;
    }
    if (refused(run, lease))
        return;
    begin(run, lease, seq);
    fe_say_array(run->out, 3);
    fe_say_text(run->out, "OPEN");
    fe_say_text(run->out, fe_text_of(engine, engine->data.term));
    fe_say_integer(run->out, engine->data.grace);
}

/* ---- ready, beat, grace, leave, look ---- */

static void script_ready(struct fe_run *run)
{
    struct fe_session *session = fe_asking(run, false);
    if (!session)
        return;
    session->life = FE_LIVE;
    session->last = FE_NONE;
    session->beat++;
    struct fe_bytes list = {0};
    size_t count = 0;
    for (size_t n = 0; n < run->engine->data.session_count; n++) {
        const struct fe_session *other = &run->engine->data.sessions[n];
        if (other->node != session->node || other->life != FE_ENDED)
            continue;
        fe_say_text(&list, fe_text_of(run->engine, other->id));
        fe_say_number(&list, other->beat);
        count++;
    }
    fe_say_array(run->out, 2 * count);
    fe_put(run->out, list.at, list.len);
    free(list.at);
}

static void script_beat(struct fe_run *run)
{
    struct fake_engine *engine = run->engine;
    struct fe_session *session = fe_asking(run, true);
    if (!session)
        return;
    if (engine->data.term != engine->term) {
        fe_say_error(run->out, "TERM it is another one");
        return;
    }
    if (engine->info[4] && strncmp(engine->info[4], "allkeys", 7) == 0) {
        char text[64] = "POLICY ";
        strncat(text, engine->info[4], sizeof(text) - sizeof("POLICY "));
        fe_say_error(run->out, text);
        return;
    }
    session->beat++;
    struct fe_bytes message = {0};
    fe_putf(&message, "B %" PRIu64, session->beat);
    size_t reached = fe_publish(engine, session->id, message.at, message.len);
    free(message.at);
    if (reached == 0) {
        fe_say_error(run->out, "DEAF nobody reads its channel");
        return;
    }
    const struct fe_data *data = &engine->data;
    size_t more = data->more_count < FE_MORE_SHOWN ? data->more_count : FE_MORE_SHOWN;
    fe_say_array(run->out, 3);
    fe_say_integer(run->out, data->grace);
    fe_say_array(run->out, more);
    for (size_t n = 0; n < more; n++)
        fe_say_bytes(run->out, fe_text_of(engine, data->more[n]), fe_len_of(engine, data->more[n]));
    fe_say_array(run->out, 2 * data->session_count);
    for (size_t n = 0; n < data->session_count; n++) {
        fe_say_text(run->out, fe_text_of(engine, data->sessions[n].id));
        fe_say_number(run->out, data->sessions[n].beat);
    }
}

static void script_grace(struct fe_run *run)
{
    struct fake_engine *engine = run->engine;
    if (!fe_asking(run, true))
        return;
    int term = run->arg_count > 1 ? fe_arg(run, 1) : FE_NONE;
    bool same = term == engine->term && term == engine->data.term;
    if (same)
        engine->data.grace = false;
    fe_say_integer(run->out, same);
}

static bool has_any(const struct fake_engine *engine, int session)
{
    for (size_t n = 0; n < engine->data.held_count; n++) {
        if (engine->data.held[n].session == session)
            return true;
    }
    for (size_t n = 0; n < engine->data.wait_count; n++) {
        if (engine->data.waits[n].session == session)
            return true;
    }
    return false;
}

static void script_leave(struct fe_run *run)
{
    int id = fe_arg(run, 0);
    if (!fe_session(run->engine, id)) {
        fe_say_error(run->out, "SESSION it is unknown");
    } else if (has_any(run->engine, id)) {
        fe_say_error(run->out, "HOLDS it has units or waits");
    } else {
        fe_drop_session(run->engine, id);
        fe_say_integer(run->out, 1);
    }
}

/* Names with units of a session. */
static size_t names_of(const struct fake_engine *engine, int id)
{
    size_t names = 0;
    for (size_t n = 0; n < engine->data.held_count; n++)
        names += engine->data.held[n].session == id;
    return names;
}

/* Pairs of a class and a name with waits of a session. */
static size_t queues_of(const struct fake_engine *engine, int id)
{
    const struct fe_wait *waits = engine->data.waits;
    size_t queues = 0;
    for (size_t n = 0; n < engine->data.wait_count; n++) {
        if (waits[n].session != id)
            continue;
        size_t earlier = 0;
        while (earlier < n &&
               (waits[earlier].session != id || waits[earlier].name != waits[n].name ||
                waits[earlier].class != waits[n].class))
            earlier++;
        queues += earlier == n;
    }
    return queues;
}

static void script_look(struct fe_run *run)
{
    static const char *const words[] = {"opening", "live", "ended"};
    const struct fake_engine *engine = run->engine;
    const struct fe_data *data = &engine->data;
    fe_say_array(run->out, data->session_count);
    for (size_t n = 0; n < data->session_count; n++) {
        const struct fe_session *session = &data->sessions[n];
        fe_say_array(run->out, 10);
        fe_say_text(run->out, fe_text_of(engine, session->id));
        fe_say_text(run->out, fe_text_of(engine, session->node));
        fe_say_text(run->out, words[session->life]);
        fe_say_number(run->out, session->beat);
        fe_say_text(run->out, fe_text_of(engine, session->digest));
        fe_say_integer(run->out, (int64_t)names_of(engine, session->id));
        fe_say_integer(run->out, (int64_t)queues_of(engine, session->id));
        fe_say_integer(run->out, -1);
        fe_say_integer(run->out, (int64_t)data->lease);
        fe_say_integer(run->out, session->reaped);
    }
}

/* ---- reap: S X b cursor ---- */

/* Marks a session of another node, so that its process learns of it when it opens. */
static void mark_reaped(struct fake_engine *engine, struct fe_session *session)
{
    session->reaped = true;
    struct fe_session *last = session->last ? fe_session(engine, session->last) : NULL;
    if (last)
        last->reaped = true;
    for (size_t n = 0; n < engine->data.session_count; n++) {
        struct fe_session *other = &engine->data.sessions[n];
        if (other->node == session->node && other->life == FE_OPENING && other->last &&
            (other->last == session->id || other->last == session->last))
            other->life = FE_ENDED;
    }
}

/* Hands a name over; if that is not finished, adds it to `broken`, once. */
static void hand_over_or_note(struct fe_run *run, int name, struct fe_bytes *broken, size_t *count)
{
    const struct fake_engine *engine = run->engine;
    if (fe_hand_over(run, name))
        return;
    struct fe_bytes said = {0};
    fe_say_bytes(&said, fe_text_of(engine, name), fe_len_of(engine, name));
    if (!broken->len || !memmem(broken->at, broken->len, said.at, said.len)) {
        fe_put(broken, said.at, said.len);
        ++*count;
    }
    free(said.at);
}

/* Gives back some of what an ended session has; whether the waits of a name went with its last
 * class. Names whose hand over is not finished go to `broken`; returns how many. */
static size_t give_back(struct fe_run *run, int id, struct fe_bytes *broken)
{
    size_t count = 0;
    struct fe_data *data = &run->engine->data;
    uint32_t rows = run->engine->bound;
    for (size_t n = 0; n < data->held_count && rows > 0;) {
        struct fe_held held = data->held[n];
        if (held.session != id) {
            n++;
            continue;
        }
        rows--;
        fe_drop_units(run->engine, id, held.name, held.units);
        hand_over_or_note(run, held.name, broken, &count);
    }
    for (size_t n = 0; n < data->wait_count && rows > 0;) {
        struct fe_wait wait = data->waits[n];
        if (wait.session != id) {
            n++;
            continue;
        }
        rows--;
        fe_drop_waits(run->engine, id, wait.name, wait.class);
        hand_over_or_note(run, wait.name, broken, &count);
        n = 0; /* the hand over moves rows */
    }
    return count;
}

static void say_left(struct fe_run *run, size_t left, const struct fe_bytes *broken, size_t count)
{
    fe_say_array(run->out, 3);
    fe_say_integer(run->out, (int64_t)left);
    fe_say_number(run->out, left); /* any cursor will do, as the next call begins at the front */
    fe_say_array(run->out, count);
    fe_put(run->out, broken->at, broken->len);
}

void fe_run_reap(struct fe_run *run)
{
    struct fake_engine *engine = run->engine;
    const struct fe_session *asking = fe_asking(run, false);
    if (!asking)
        return;
    struct fe_session *session = fe_session(engine, fe_arg(run, 1));
    if (!session || !is_beat(&run->args[2], session)) {
        say_left(run, 0, &(struct fe_bytes){0}, 0);
        return;
    }
    session->life = FE_ENDED;
    if (session->node != asking->node)
        mark_reaped(engine, session);
    int id = session->id;
    struct fe_bytes broken = {0};
    size_t count = give_back(run, id, &broken);
    size_t left = names_of(engine, id) + queues_of(engine, id);
    if (left == 0)
        fe_drop_session(engine, id);
    say_left(run, left, &broken, count);
    free(broken.at);
}

void fe_run_script(struct fe_run *run, enum fake_script script)
{
    static const size_t fewest[FAKE_SCRIPTS] = {
        [FAKE_OPEN] = FIRST_X, [FAKE_CALL] = 1,  [FAKE_GIVE] = 1,
        [FAKE_READY] = 1,      [FAKE_BEAT] = 1,  [FAKE_REAP] = 4,
        [FAKE_GRACE] = 2,      [FAKE_LEAVE] = 1, [FAKE_LOOK] = 0};
    if (run->arg_count < fewest[script]) {
        fe_misused(run, "a script lacks arguments");
        fe_say_error(run->out, "ERR arguments are missing");
        return;
    }
    switch (script) {
    case FAKE_OPEN:
        script_open(run);
        break;
    case FAKE_CALL:
    case FAKE_GIVE:
        fe_run_ops(run, script == FAKE_CALL);
        break;
    case FAKE_READY:
        script_ready(run);
        break;
    case FAKE_BEAT:
        script_beat(run);
        break;
    case FAKE_REAP:
        fe_run_reap(run);
        break;
    case FAKE_GRACE:
        script_grace(run);
        break;
    case FAKE_LEAVE:
        script_leave(run);
        break;
    case FAKE_LOOK:
        script_look(run);
        break;
    case FAKE_SCRIPTS:
        break;
    }
}
