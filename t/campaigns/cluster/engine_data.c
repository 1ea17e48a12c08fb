/* engine_data.c - the data of the engine in memory: texts, units, waits, and hand over.
 */
#include "t/campaigns/cluster/engine_inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Bytes ---- */

void *fe_grow(void *rows, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return rows;
    *room = *room ? 2 * *room : 8;
    rows = realloc(rows, *room * size);
    if (!rows)
        abort();
    return rows;
}

void fe_put(struct fe_bytes *bytes, const void *more, size_t len)
{
    if (bytes->len + len + 1 > bytes->room) {
        bytes->room = 2 * (bytes->len + len + 1);
        bytes->at = realloc(bytes->at, bytes->room);
        if (!bytes->at)
            abort();
    }
    if (len > 0)
        memcpy(bytes->at + bytes->len, more, len);
    bytes->len += len;
    bytes->at[bytes->len] = 0;
}

void fe_putf(struct fe_bytes *bytes, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fe_put(bytes, text, len < (int)sizeof(text) ? (size_t)len : sizeof(text) - 1);
}

void fe_took(struct fe_bytes *bytes, size_t len)
{
    if (len == 0)
        return;
    bytes->len -= len;
    memmove(bytes->at, bytes->at + len, bytes->len);
}

/* ---- Texts ---- */

static uint64_t mixed(const unsigned char *bytes, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t n = 0; n < len; n++)
        hash = (hash ^ bytes[n]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

static void rehash(struct fe_texts *texts)
{
    free(texts->slots);
    texts->slot_count = texts->slot_count ? 2 * texts->slot_count : 64;
    texts->slots = calloc(texts->slot_count, sizeof(*texts->slots));
    if (!texts->slots)
        abort();
    for (size_t n = 1; n < texts->count; n++) {
        const struct fe_text *row = &texts->rows[n];
        size_t at = mixed((const unsigned char *)row->bytes, row->len) % texts->slot_count;
        while (texts->slots[at])
            at = (at + 1) % texts->slot_count;
        texts->slots[at] = (int)n;
    }
}

int fe_text(struct fe_texts *texts, const void *bytes, size_t len)
{
    if (len == 0)
        return FE_NONE;
    if (texts->count == 0)
        texts->count = 1; /* the empty text */
    if (2 * texts->count >= texts->slot_count)
        rehash(texts);
    size_t at = mixed(bytes, len) % texts->slot_count;
    for (; texts->slots[at]; at = (at + 1) % texts->slot_count) {
        const struct fe_text *row = &texts->rows[texts->slots[at]];
        if (row->len == len && memcmp(row->bytes, bytes, len) == 0)
            return texts->slots[at];
    }
    texts->rows = fe_grow(texts->rows, &texts->room, texts->count, sizeof(*texts->rows));
    char *copy = malloc(len + 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, len);
    copy[len] = 0;
    texts->rows[texts->count] = (struct fe_text){copy, len};
    texts->slots[at] = (int)texts->count;
    return (int)texts->count++;
}

const char *fe_text_of(const struct fake_engine *engine, int text)
{
    return text ? engine->texts->rows[text].bytes : "";
}

size_t fe_len_of(const struct fake_engine *engine, int text)
{
    return text ? engine->texts->rows[text].len : 0;
}

/* ---- Copies ---- */

void fe_data_free(struct fe_data *data)
{
    free(data->sessions);
    free(data->held);
    free(data->waits);
    free(data->more);
    *data = (struct fe_data){0};
}

static void *copied(const void *rows, size_t count, size_t size)
{
    if (count == 0)
        return NULL;
    void *copy = malloc(count * size);
    if (!copy)
        abort();
    memcpy(copy, rows, count * size);
    return copy;
}

struct fe_data fe_data_copy(const struct fe_data *data)
{
    struct fe_data copy = *data;
    copy.sessions = copied(data->sessions, data->session_count, sizeof(*data->sessions));
    copy.held = copied(data->held, data->held_count, sizeof(*data->held));
    copy.waits = copied(data->waits, data->wait_count, sizeof(*data->waits));
    copy.more = copied(data->more, data->more_count, sizeof(*data->more));
    copy.session_room = data->session_count;
    copy.held_room = data->held_count;
    copy.wait_room = data->wait_count;
    copy.more_room = data->more_count;
    return copy;
}

/* ---- Sessions ---- */

struct fe_session *fe_session(struct fake_engine *engine, int id)
{
    for (size_t n = 0; n < engine->data.session_count; n++) {
        if (engine->data.sessions[n].id == id)
            return &engine->data.sessions[n];
    }
    return NULL;
}

struct fe_session *fe_of_node(struct fake_engine *engine, int node)
{
    for (size_t n = 0; n < engine->data.session_count; n++) {
        struct fe_session *session = &engine->data.sessions[n];
        if (session->node == node && session->life != FE_ENDED)
            return session;
    }
    return NULL;
}

void fe_drop_session(struct fake_engine *engine, int id)
{
    struct fe_data *data = &engine->data;
    size_t kept = 0;
    for (size_t n = 0; n < data->session_count; n++) {
        if (data->sessions[n].id != id)
            data->sessions[kept++] = data->sessions[n];
    }
    data->session_count = kept;
}

/* ---- Units ---- */

static struct fe_held *held_of(const struct fake_engine *engine, int session, int name)
{
    for (size_t n = 0; n < engine->data.held_count; n++) {
        struct fe_held *held = &engine->data.held[n];
        if (held->session == session && held->name == name)
            return held;
    }
    return NULL;
}

uint64_t fe_units(const struct fake_engine *engine, int session, int name)
{
    uint64_t units = 0;
    for (size_t n = 0; n < engine->data.held_count; n++) {
        const struct fe_held *held = &engine->data.held[n];
        if (held->name == name && (!session || held->session == session))
            units += held->units;
    }
    return units;
}

void fe_add_units(struct fake_engine *engine, int session, int name, uint64_t units)
{
    struct fe_data *data = &engine->data;
    struct fe_held *held = held_of(engine, session, name);
    if (held) {
        held->units += units;
    } else if (units > 0) {
        data->held = fe_grow(data->held, &data->held_room, data->held_count, sizeof(*data->held));
        data->held[data->held_count++] = (struct fe_held){session, name, units};
    }
}

void fe_drop_units(struct fake_engine *engine, int session, int name, uint64_t units)
{
    struct fe_data *data = &engine->data;
    struct fe_held *held = held_of(engine, session, name);
    if (!held)
        return;
    held->units -= units;
    if (held->units > 0)
        return;
    data->held_count--;
    memmove(held, held + 1, (size_t)(data->held + data->held_count - held) * sizeof(*held));
}

/* ---- Waits ---- */

uint64_t fe_waits(const struct fake_engine *engine, int session, int name)
{
    uint64_t waits = 0;
    for (size_t n = 0; n < engine->data.wait_count; n++) {
        const struct fe_wait *wait = &engine->data.waits[n];
        waits += wait->name == name && (!session || wait->session == session);
    }
    return waits;
}

static bool of_one_queue(const struct fe_wait *a, const struct fe_wait *b)
{
    return a->session == b->session && a->class == b->class && a->name == b->name;
}

size_t fe_pairs(const struct fake_engine *engine, int name, int session, int class, bool *has)
{
    size_t pairs = 0;
    *has = false;
    for (size_t n = 0; n < engine->data.wait_count; n++) {
        const struct fe_wait *wait = &engine->data.waits[n];
        if (wait->name != name)
            continue;
        if (wait->session == session && wait->class == class)
            *has = true;
        size_t earlier = 0;
        while (earlier < n && !of_one_queue(&engine->data.waits[earlier], wait))
            earlier++;
        pairs += earlier == n;
    }
    return pairs;
}

void fe_add_wait(struct fake_engine *engine, struct fe_wait wait)
{
    struct fe_data *data = &engine->data;
    data->waits = fe_grow(data->waits, &data->wait_room, data->wait_count, sizeof(*data->waits));
    data->waits[data->wait_count++] = wait;
}

size_t fe_drop_waits(struct fake_engine *engine, int session, int name, int class)
{
    struct fe_data *data = &engine->data;
    size_t kept = 0;
    for (size_t n = 0; n < data->wait_count; n++) {
        const struct fe_wait *wait = &data->waits[n];
        bool drop = wait->name == name && (!session || wait->session == session) &&
                    (!class || wait->class == class);
        if (!drop)
            data->waits[kept++] = *wait;
    }
    size_t dropped = data->wait_count - kept;
    data->wait_count = kept;
    return dropped;
}

/* Texts in the order of Redis: bytes, then the shorter one. */
static int compared(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

bool fe_before(const struct fake_engine *engine, const struct fe_wait *a, const struct fe_wait *b)
{
    if (a->seq != b->seq)
        return a->seq < b->seq;
    char text[2][128];
    if (of_one_queue(a, b)) {
        snprintf(text[0], sizeof(text[0]), "%" PRIu64, a->id);
        snprintf(text[1], sizeof(text[1]), "%" PRIu64, b->id);
    } else {
        snprintf(text[0], sizeof(text[0]), "%s:%s", fe_text_of(engine, a->session),
                 fe_text_of(engine, a->class));
        snprintf(text[1], sizeof(text[1]), "%s:%s", fe_text_of(engine, b->session),
                 fe_text_of(engine, b->class));
    }
    return compared(text[0], strlen(text[0]), text[1], strlen(text[1])) < 0;
}

bool fe_class_of(const struct fake_engine *engine, int class, struct fe_class *found)
{
    const char *text = fe_text_of(engine, class);
    char *end;
    if ((text[0] != 'n' && text[0] != 'm' && text[0] != 'a') || (text[1] != 's' && text[1] != 'l'))
        return false;
    *found = (struct fe_class){.kind = text[0], .strict = text[1] == 's'};
    found->units = strtoull(text + 2, &end, 10);
    if (end == text + 2 || *end != '/')
        return false;
    const char *limit = end + 1;
    found->limit = strtoull(limit, &end, 10);
    return end > limit && *end == 0;
}

/* ---- Names that are not finished ---- */

void fe_add_more(struct fake_engine *engine, int name)
{
    struct fe_data *data = &engine->data;
    for (size_t n = 0; n < data->more_count; n++) {
        if (data->more[n] == name)
            return;
    }
    data->more = fe_grow(data->more, &data->more_room, data->more_count, sizeof(*data->more));
    data->more[data->more_count++] = name;
}

void fe_drop_more(struct fake_engine *engine, int name)
{
    struct fe_data *data = &engine->data;
    size_t kept = 0;
    for (size_t n = 0; n < data->more_count; n++) {
        if (data->more[n] != name)
            data->more[kept++] = data->more[n];
    }
    data->more_count = kept;
}

bool fe_is_wrong(const struct fake_engine *engine, int name)
{
    bool found = false;
    for (size_t n = 0; n < FE_WRONG; n++)
        found = found || (name && engine->data.wrong[n] == name);
    return found;
}

/* ---- Messages ---- */

size_t fe_publish(struct fake_engine *engine, int session, const char *bytes, size_t len)
{
    struct fe_bytes channel = {0};
    fe_putf(&channel, "%sto:%s", engine->prefix, fe_text_of(engine, session));
    int wanted = fe_text(engine->texts, channel.at, channel.len);
    free(channel.at);
    size_t reached = 0;
    for (struct fake_link *link = engine->links; link; link = link->next) {
        for (size_t n = 0; n < link->channel_count; n++) {
            if (link->channels[n] != wanted)
                continue;
            fe_say_array(&link->out, 3);
            fe_say_text(&link->out, "message");
            fe_say_text(&link->out, fe_text_of(engine, wanted));
            fe_say_bytes(&link->out, bytes, len);
            reached++;
            break;
        }
    }
    engine->counts.messages += reached;
    return reached;
}

/* ---- Hand over ---- */

/* The wait that goes next: the first of those that fit, `m` before `a`. NULL: nothing fits. */
static struct fe_wait *next_of(struct fake_engine *engine, int name)
{
    uint64_t used = fe_units(engine, FE_NONE, name);
    struct fe_wait *best = NULL;
    char best_kind = 0;
    for (size_t n = 0; n < engine->data.wait_count; n++) {
        struct fe_wait *wait = &engine->data.waits[n];
        struct fe_class class;
        if (wait->name != name || !fe_class_of(engine, wait->class, &class))
            continue;
        if (used + class.units > class.limit || (class.strict && engine->data.grace))
            continue;
        if (!best || (class.kind == 'm' && best_kind == 'a') ||
            (class.kind == best_kind && fe_before(engine, wait, best))) {
            best = wait;
            best_kind = class.kind;
        }
    }
    return best;
}

/* Grants a wait, or drops it if nobody reads of it. */
static void grant(struct fake_engine *engine, struct fe_wait *wait)
{
    struct fe_wait granted = *wait;
    struct fe_data *data = &engine->data;
    data->wait_count--;
    memmove(wait, wait + 1, (size_t)(data->waits + data->wait_count - wait) * sizeof(*wait));
    struct fe_class class;
    if (!fe_class_of(engine, granted.class, &class))
        abort();
    struct fe_bytes message = {0};
    fe_putf(&message, "G %" PRIu64 " %" PRIu64 " ", granted.id, class.units);
    fe_put(&message, fe_text_of(engine, granted.name), fe_len_of(engine, granted.name));
    if (fe_publish(engine, granted.session, message.at, message.len) > 0)
        fe_add_units(engine, granted.session, granted.name, class.units);
    free(message.at);
}

bool fe_hand_over(struct fe_run *run, int name)
{
    struct fake_engine *engine = run->engine;
    if (fe_is_wrong(engine, name)) {
        fe_add_more(engine, name);
        return false;
    }
    for (;;) {
        struct fe_wait *wait = next_of(engine, name);
        if (!wait)
            return true;
        if (run->left == 0) {
            fe_add_more(engine, name);
            return false;
        }
        run->left--;
        const struct fe_session *session = fe_session(engine, wait->session);
        if (!session || session->life == FE_ENDED)
            fe_drop_waits(engine, wait->session, name, wait->class);
        else
            grant(engine, wait);
    }
}

/* The next session that waits in a class `a` of the name: by the first of its waits. */
static const struct fe_wait *next_done(const struct fake_engine *engine, int name)
{
    const struct fe_wait *first = NULL;
    for (size_t n = 0; n < engine->data.wait_count; n++) {
        const struct fe_wait *wait = &engine->data.waits[n];
        if (wait->name == name && fe_text_of(engine, wait->class)[0] == 'a' &&
            (!first || fe_before(engine, wait, first)))
            first = wait;
    }
    return first;
}

void fe_done(struct fe_run *run, int name)
{
    struct fake_engine *engine = run->engine;
    const struct fe_wait *first;
    while ((first = next_done(engine, name))) {
        int session = first->session;
        struct fe_bytes message = {0};
        fe_putf(&message, "D %" PRIu64 " ", engine->data.seq);
        fe_put(&message, fe_text_of(engine, name), fe_len_of(engine, name));
        fe_publish(engine, session, message.at, message.len);
        free(message.at);
        struct fe_data *data = &engine->data;
        size_t kept = 0;
        for (size_t n = 0; n < data->wait_count; n++) {
            const struct fe_wait *wait = &data->waits[n];
            if (wait->name != name || wait->session != session ||
                fe_text_of(engine, wait->class)[0] != 'a')
                data->waits[kept++] = *wait;
        }
        data->wait_count = kept;
    }
}
