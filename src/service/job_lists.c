/*
 * job_lists.c - the lists of tubes, which may be long.
 *
 * The first line tells the length of all, so the names are taken first, in steps. They are shared
 * with the tubes: a name costs 8 bytes until all are written, and its text only while its tube has
 * gone. Both count with the unfinished requests (conn_hold), as if all tubes had gone: clients that
 * do not read could have lists of other tubes again and again. Then they are written in pieces, as
 * the client reads them.
 */
#include "service/job_session.h"

#include "base/record.h"

#include <stdlib.h>
#include <string.h>

/* So many names are read under the lock, or written, at once. */
#define LIST_STEP 1000u
#define NAME_SIZE sizeof(void *) /* of a pointer to a name */

struct job_list {
    enum bs_verb verb;
    struct job_body **names;
    size_t count, told; /* names; those that were written */
    size_t len;         /* bytes of the text */
    size_t held;        /* bytes that count for the connection */
    uint64_t tube;      /* where taking goes on; the same of the watched ones: */
    struct tube_watch *watch;
    bool taken, begun; /* all names are there; the first line was written */
};

/* The bytes of a name's line. */
static size_t item_len(const struct job_body *name)
{
    return name->len + sizeof("- \n") - 1;
}

/* Takes the next names. Returns false without memory. */
static bool take_names(struct conn *conn, struct job_list *list)
{
    size_t count;
    struct job_body **names = realloc(list->names, (list->count + LIST_STEP) * NAME_SIZE);
    if (!names)
        return false;
    list->names = names;
    names += list->count;
    list->taken =
        list->verb == BS_VERB_LIST_TUBES
            ? jobs_list_tubes(conn_jobs(conn), &list->tube, LIST_STEP, names, &count)
            : jobs_list_watched(job_session(conn)->client, &list->watch, LIST_STEP, names, &count);
    for (size_t n = 0; n < count; n++)
        list->len += item_len(names[n]);
    list->count += count;
    return list->len <= UINT32_MAX;
}

/* Has the names that were taken count for the connection. Returns false if there is no room. */
static bool hold_names(struct conn *conn, struct job_list *list)
{
    size_t need = list->len + list->count * NAME_SIZE;
    if (!conn_hold(conn, need - list->held))
        return false;
    list->held = need;
    return true;
}

void job_list_free(struct conn *conn)
{
    struct job_list *list = job_session(conn)->list;
    job_session(conn)->list = NULL;
    if (!list)
        return;
    while (list->told < list->count)
        job_body_drop(conn_jobs(conn), &list->names[list->told++]);
    free(list->names);
    conn_unhold(conn, list->held);
    free(list);
}

/* Writes the answer's line and the first one of the text to `to` (BS_REPLY_ROOM bytes). */
static size_t compose_start(const struct job_list *list, uint8_t *to)
{
    const struct bs_reply head = {.answer = BS_ANSWER_OK, .body_len = (uint32_t)list->len};
    size_t len = bs_compose_reply(&head, to, BS_REPLY_ROOM);
    memcpy(to + len, BS_TEXT_START, sizeof(BS_TEXT_START) - 1);
    return len + sizeof(BS_TEXT_START) - 1;
}

static size_t compose_name(const struct job_body *name, uint8_t *to)
{
    return bs_compose_item(bytes_at(name->bytes, name->len), to, BS_REPLY_ROOM);
}

static void begin(struct conn *conn, struct job_list *list)
{
    conn_replied(conn, compose_start(list, conn_reply_room(conn, BS_REPLY_ROOM)));
    service_count(conn, list->verb, JOB_OUTCOME_OK);
    list->begun = true;
}

/* Writes the next name. */
static void tell(struct conn *conn, struct job_list *list)
{
    struct job_body **name = &list->names[list->told++];
    conn_replied(conn, compose_name(*name, conn_reply_room(conn, BS_REPLY_ROOM)));
    job_body_drop(conn_jobs(conn), name);
}

bool job_list_step(struct conn *conn)
{
    struct job_list *list = job_session(conn)->list;
    if (!list)
        return true; /* the record of an upgrade had the rest */
    if (!list->taken && (!take_names(conn, list) || !hold_names(conn, list))) {
        job_answer(conn, list->verb, BS_ANSWER_OUT_OF_MEMORY);
        job_list_free(conn);
        return true;
    }
    if (!list->taken)
        return false;
    if (!list->begun)
        begin(conn, list);
    for (unsigned n = 0; n < LIST_STEP && list->told < list->count && !conn_is_full(conn); n++)
        tell(conn, list);
    if (list->told < list->count)
        return false;
    conn_reply(conn, "\r\n", 2);
    job_list_free(conn);
    return true;
}

bool job_list_begin(struct conn *conn, enum bs_verb verb)
{
    struct job_list *list = calloc(1, sizeof(*list));
    if (!list) {
        job_answer(conn, verb, BS_ANSWER_OUT_OF_MEMORY);
        return true;
    }
    list->verb = verb;
    list->len = sizeof(BS_TEXT_START) - 1;
    job_session(conn)->list = list;
    return job_list_step(conn);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

void job_list_save(struct conn *conn, struct record_writer *w)
{
    struct job_list *list = job_session(conn)->list;
    uint8_t text[BS_REPLY_ROOM];
    while (list && !list->taken && take_names(conn, list))
        continue;
    if (!list || !list->taken) {
        struct bytes refusal = bs_answer_line(BS_ANSWER_OUT_OF_MEMORY);
        record_put_u32(w, list != NULL);
        if (list)
            record_put_bytes(w, refusal.data, refusal.len);
        return;
    }
    record_put_u32(w, (uint32_t)(list->count - list->told) + 1 + !list->begun);
    if (!list->begun)
        record_put_bytes(w, text, compose_start(list, text));
    for (size_t n = list->told; n < list->count; n++)
        record_put_bytes(w, text, compose_name(list->names[n], text));
    record_put_bytes(w, "\r\n", 2);
}

void job_list_restore(struct conn *conn, struct record_reader *r)
{
    uint32_t pieces = record_get_u32(r);
    for (uint32_t n = 0; n < pieces && record_ok(r); n++) {
        const void *data;
        size_t len = record_get_bytes(r, &data);
        if (record_ok(r) && len > BS_REPLY_ROOM)
            record_refuse(r, "a list of a connection of jobs is not good");
        else if (record_ok(r))
            conn_reply(conn, data, len);
    }
}
