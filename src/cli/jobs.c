/*
 * jobs.c - `counterctl jobs`: what is in the job queues, for operators.
 *
 * Lists come in pages. Requests that need an answer for each tube or job are sent together, up to a
 * page of them, and then awaited. Backups and draining are asked for at the admin interface
 * instead.
 */
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/http.h"
#include "cli/job_lines.h"
#include "cli/print.h"

#include "base/clock.h"
#include "base/number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* Jobs of a page, and requests without an answer. */
#define PAGE 100

/* Pages without a job, in a row. */
#define EMPTY_PAGES_MAX 1000

/* Bodies of a page: the most that a server may have unsent, and the job that passes it. */
#define PAGE_BYTES_MAX (((size_t)16 << 20) + CLIENT_BODY_MAX)

/* Bytes of bodies that import sends before it waits, and bytes of a body that a list shows. */
#define BATCH_BYTES ((size_t)4 << 20)
#define SHOWN_MAX   60

/* A job that came with list-jobs. */
struct listed {
    uint64_t id, try;
    enum bs_state state;
    bool unreadable; /* the server cannot read its body */
    struct text body;
};

/* A job on its way to the server. */
struct import {
    size_t line;
    uint32_t pri;
    bool is_buried;
};

struct work {
    struct invocation *invocation;
    char **words; /* behind the verb */
    size_t count;
    struct client client;
    bool is_plain;
    struct bytes tube;
    enum bs_state state;
    struct table table;
    struct progress progress;
    size_t done;       /* tubes or jobs */
    size_t unreadable; /* jobs that were left out */
    size_t limit;      /* of rows */
    /* a page of list-jobs */
    struct listed page[PAGE];
    size_t listed, bytes; /* bytes: of bodies */
    uint64_t after, next;
    unsigned empty; /* pages without a job, in a row */
    /* import */
    struct import imports[PAGE]; /* those that are not awaited yet */
    size_t importing;
    const char *from;
    size_t line;
};

/* ---- requests -------------------------------------------------------------------------------- */

/* Prints that the server has refused a request. Returns the exit status. */
static enum status refused(struct work *work, const char *what, const struct answer *answer)
{
    progress_end(&work->progress);
    return answer_refused(&work->client, answer, "%s", what);
}

static void ask(struct work *work, struct bs_request request)
{
    ask_jobs(&work->client, &request, (struct bytes){0}, 0, NULL, NULL);
}

static enum status hear(struct work *work, struct answer *answer_r)
{
    return client_hear(&work->client, work->invocation->options.io_timeout_ns, answer_r);
}

/* Step: hears an answer, which must be `wanted`; of a job to import, or of the verb (NULL). */
static enum status hear_of(struct work *work, const struct import *import, enum bs_answer wanted,
                           struct answer *answer_r)
{
    struct text what = {0};
    enum status status = hear(work, answer_r);
    if (status != STATUS_OK || answer_r->jobs.answer == wanted)
        return status;
    text_addf(&what, "jobs %s", work->count > 0 ? work->words[0] : "tubes");
    if (import)
        text_addf(&what, ": %s, line %zu (the %zu before it are stored)", work->from, import->line,
                  work->done);
    status = refused(work, text_str(&what), answer_r);
    text_free(&what);
    return status;
}

/* Step: the same with the request. */
static enum status demand(struct work *work, struct bs_request request, enum bs_answer wanted,
                          struct answer *answer_r)
{
    ask(work, request);
    return hear_of(work, NULL, wanted, answer_r);
}

static void print_number(const struct work *work, const char *key, uint64_t number)
{
    if (work->invocation->options.json)
        json_print({key, json_count(number)});
    else
        printf("%s: %" PRIu64 "\n", key, number);
}

/* ---- tubes ----------------------------------------------------------------------------------- */

static const struct column tube_columns[] = {
    {"READY", 'r', "{current-jobs-ready}"},
    {"DELAYED", 'r', "{current-jobs-delayed}"},
    {"RESERVED", 'r', "{current-jobs-reserved}"},
    {"BURIED", 'r', "{current-jobs-buried}"},
    {"ABANDONED", 'r', "{current-jobs-abandoned}"},
    {"OLDEST", 'r', "{s oldest-ready-age}"},
    {"TUBE", 'l', "{name}[read-only?  (read-only)][+pause-time-left?  (paused)]"},
    {NULL},
};

static enum status show_tube(struct work *work, const struct answer *answer)
{
    if (answer->jobs.answer == BS_ANSWER_NOT_FOUND) /* it has gone meanwhile */
        return STATUS_OK;
    if (answer->jobs.answer != BS_ANSWER_OK)
        return refused(work, "jobs tubes", answer);
    table_take(&work->table, job_line_dictionary(answer->body), work->invocation->options.json);
    return STATUS_OK;
}

static enum status do_tubes(struct work *work)
{
    struct answer answer;
    struct text names = {0};
    struct bs_entry entry;
    size_t asked = 0;
    enum status status =
        demand(work, (struct bs_request){.verb = BS_VERB_LIST_TUBES}, BS_ANSWER_OK, &answer);
    if (status == STATUS_OK)
        text_add(&names, answer.body.data, answer.body.len);
    struct bytes left = text_bytes(&names);
    do {
        for (asked = 0; asked < PAGE && work->done < work->limit && bs_next_entry(&left, &entry);) {
            if (!bs_is_tube_name(entry.value))
                continue;
            ask(work,
                (struct bs_request){.verb = work->is_plain ? BS_VERB_STATS_TUBE : BS_VERB_TUBE,
                                    .tube = entry.value});
            asked++;
            work->done++;
        }
        for (size_t i = 0; status == STATUS_OK && i < asked; i++) {
            status = hear(work, &answer);
            if (status == STATUS_OK)
                status = show_tube(work, &answer);
        }
    } while (status == STATUS_OK && asked > 0);
    table_print(&work->table, "");
    text_free(&names);
    return status;
}

/* ---- list and export ------------------------------------------------------------------------- */

/* True for a job that the page may go on with: ids ascend, so a list has an end. */
static bool is_next_job(const struct work *work, const struct answer *answer)
{
    const struct bs_reply *reply = &answer->jobs;
    return (reply->answer == BS_ANSWER_LISTED_JOB || reply->answer == BS_ANSWER_UNREADABLE_JOB) &&
           reply->id > work->after && answer->body.len <= PAGE_BYTES_MAX - work->bytes;
}

static void take_job(struct work *work, const struct answer *answer)
{
    struct listed *job = &work->page[work->listed++];
    work->after = job->id = answer->jobs.id;
    work->bytes += answer->body.len;
    work->empty = 0;
    job->unreadable = answer->jobs.answer == BS_ANSWER_UNREADABLE_JOB;
    job->try = answer->jobs.try;
    job->state = answer->jobs.state;
    text_free(&job->body); /* the next page may have its bytes elsewhere */
    text_add(&job->body, answer->body.data, answer->body.len);
}

/* Step: takes the jobs behind those of the last page. Jobs may go before their bodies are read. */
static enum status list_page(struct work *work)
{
    struct answer answer;
    struct bs_request request = {.verb = BS_VERB_LIST_JOBS,
                                 .tube = work->tube,
                                 .state = work->state,
                                 .id = work->after,
                                 .count = PAGE};
    enum status status = demand(work, request, BS_ANSWER_LISTED, &answer);
    if (status != STATUS_OK)
        return status;
    size_t expected = (size_t)answer.jobs.count;
    work->next = answer.jobs.next;
    work->listed = work->bytes = 0;
    bool good = expected <= PAGE && (expected > 0 || work->next == 0 ||
                                     (work->next > work->after && work->empty++ < EMPTY_PAGES_MAX));
    while (good && work->listed < expected) {
        status = hear(work, &answer);
        if (status != STATUS_OK)
            return status;
        good = is_next_job(work, &answer);
        if (good)
            take_job(work, &answer);
    }
    if (!good || (work->next > 0 && work->next < work->after))
        return refused(work, work->words[0], &answer);
    work->after = work->next;
    return STATUS_OK;
}

static const struct column job_columns[] = {
    {"ID", 'r', "{id}"},     {"STATE", 'l', "{state}"}, {"TRY", 'r', "{try}"},
    {"SIZE", 'r', "{size}"}, {"BODY", 'l', "{shown}"},  {NULL},
};

static void show_job(struct work *work, const struct listed *job)
{
    struct bytes body = text_bytes(&job->body);
    json_t *row =
        json_make({"id", json_count(job->id)}, {"state", json_string(bs_state_words[job->state])},
                  {"try", json_count(job->try)});
    if (!work->invocation->options.json) {
        struct text shown = {0};
        char size[NUMBER_TEXT];
        text_add_name(&shown, bytes_at(body.data, body.len < SHOWN_MAX ? body.len : SHOWN_MAX));
        text_addf(&shown, body.len > SHOWN_MAX ? "..." : "");
        size_text((double)body.len, size);
        json_object_set_new(row, "size", json_string(job->unreadable ? "?" : size));
        json_object_set_new(row, "shown",
                            json_string(job->unreadable ? "(cannot be read)" : text_str(&shown)));
        text_free(&shown);
    } else if (job->unreadable) {
        json_object_set_new(row, "unreadable", json_true());
    } else {
        job_line_set_body(row, body);
    }
    table_take(&work->table, row, work->invocation->options.json);
}

static enum status do_list(struct work *work)
{
    enum status status;
    do {
        status = list_page(work);
        for (size_t i = 0; status == STATUS_OK && i < work->listed && work->done < work->limit;
             i++) {
            show_job(work, &work->page[i]);
            work->done++;
        }
    } while (status == STATUS_OK && work->next > 0 && work->done < work->limit);
    table_print(&work->table, "");
    return status;
}

/* Step: hears what the server says about a job of the page, and prints the job. */
static enum status export_job(struct work *work, const struct listed *job)
{
    struct answer answer;
    enum status status = hear(work, &answer);
    if (status != STATUS_OK || answer.jobs.answer == BS_ANSWER_NOT_FOUND) /* done meanwhile */
        return status;
    if (answer.jobs.answer != BS_ANSWER_OK)
        return refused(work, "jobs export", &answer);
    uint64_t delay =
        job->state == BS_STATE_DELAYED ? dictionary_number(answer.body, "time-left") : 0;
    json_t *object = json_make(
        {"tube", json_name(work->tube)}, {"id", json_count(job->id)},
        {"state", json_string(bs_state_words[job->state])},
        {"pri", json_count(dictionary_number(answer.body, "pri"))}, {"delay", json_count(delay)},
        {"ttr", json_count(dictionary_number(answer.body, "ttr"))}, {"try", json_count(job->try)});
    job_line_set_body(object, text_bytes(&job->body));
    json_line(object);
    work->done++;
    progress_show(&work->progress, "%zu jobs exported", work->done);
    return STATUS_OK;
}

static void leave_out(struct work *work, const struct listed *job)
{
    progress_end(&work->progress);
    complain("jobs export: the server cannot read job %" PRIu64 ", which is left out; its log says "
             "why",
             job->id);
    work->unreadable++;
}

static enum status do_export(struct work *work)
{
    enum status status;
    do {
        status = list_page(work);
        for (size_t i = 0; status == STATUS_OK && i < work->listed; i++) {
            if (work->page[i].unreadable)
                leave_out(work, &work->page[i]);
            else
                ask(work, (struct bs_request){.verb = BS_VERB_STATS_JOB, .id = work->page[i].id});
        }
        for (size_t i = 0; status == STATUS_OK && i < work->listed; i++)
            if (!work->page[i].unreadable)
                status = export_job(work, &work->page[i]);
        if (status == STATUS_OK)
            status = (enum status)print_end(STATUS_OK);
    } while (status == STATUS_OK && work->next > 0);
    progress_end(&work->progress);
    return status == STATUS_OK && work->unreadable > 0 ? STATUS_DATA : status;
}

/* ---- import ---------------------------------------------------------------------------------- */

/* Step: awaits the answers to all that was sent, and buries the jobs that must be. */
static enum status await_answers(struct work *work)
{
    struct answer answer;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < work->importing; i++) {
        const struct import *import = &work->imports[i];
        if (work->is_plain)
            status = hear_of(work, import, BS_ANSWER_USING, &answer);
        if (status == STATUS_OK)
            status = hear_of(work, import, BS_ANSWER_INSERTED, &answer);
        if (status != STATUS_OK)
            return status;
        work->done++;
        progress_show(&work->progress, "%zu jobs imported", work->done);
        if (!import->is_buried)
            continue;
        ask(work, (struct bs_request){.verb = BS_VERB_RESERVE_JOB, .id = answer.jobs.id});
        ask(work,
            (struct bs_request){.verb = BS_VERB_BURY, .id = answer.jobs.id, .pri = import->pri});
    }
    for (size_t i = 0; status == STATUS_OK && i < work->importing; i++) {
        if (!work->imports[i].is_buried)
            continue;
        status = hear_of(work, &work->imports[i], BS_ANSWER_RESERVED, &answer);
        if (status == STATUS_OK)
            status = hear_of(work, &work->imports[i], BS_ANSWER_BURIED, &answer);
    }
    work->importing = 0;
    return status;
}

/* Sends a job. A buried one has a long delay until it is buried, so that nobody takes it. */
static void send_job(struct work *work, const struct job_line *job)
{
    struct import *import = &work->imports[work->importing++];
    struct bytes tube = text_bytes(&job->tube);
    *import = (struct import){.line = work->line, .pri = job->pri, .is_buried = job->is_buried};
    struct bs_request put = {.verb = work->is_plain ? BS_VERB_PUT : BS_VERB_PUT_INTO,
                             .pri = job->pri,
                             .delay_s = job->is_buried ? UINT32_MAX : job->delay_s,
                             .ttr_s = job->ttr_s};
    if (work->is_plain)
        ask(work, (struct bs_request){.verb = BS_VERB_USE, .tube = tube});
    else
        put.tube = tube;
    ask_jobs(&work->client, &put, text_bytes(&job->body), 0, NULL, NULL);
}

/* Imports a line. `*bytes` counts what was sent since the last wait. */
static enum status import_line(struct work *work, struct bytes line, size_t *bytes)
{
    struct job_line job = {0};
    struct text reason = {0};
    enum status status = STATUS_OK;
    bool good = job_line_parse(line, &job, &reason);
    if (good && job.body.len > CLIENT_BODY_MAX) {
        text_addf(&reason, "the body has more than 64 MiB, and no server takes that");
        good = false;
    }
    if (good) {
        send_job(work, &job);
        *bytes += job.body.len;
        if (work->importing == PAGE || *bytes >= BATCH_BYTES) {
            status = await_answers(work);
            *bytes = 0;
        }
    } else if ((status = await_answers(work)) == STATUS_OK) {
        progress_end(&work->progress);
        status = complain_as(STATUS_USAGE,
                             "jobs import: %s, line %zu (the %zu jobs before it are stored): %s",
                             work->from, work->line, work->done, text_str(&reason));
    }
    text_free(&reason);
    job_line_free(&job);
    return status;
}

static enum status import_all(struct work *work, FILE *input)
{
    enum status status = STATUS_OK;
    char *line = NULL;
    size_t room = 0, bytes = 0;
    ssize_t len;
    while (status == STATUS_OK && (len = getline(&line, &room, input)) >= 0) {
        work->line++;
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
            len--;
        if (len > 0)
            status = import_line(work, bytes_at(line, (size_t)len), &bytes);
    }
    free(line);
    if (status == STATUS_OK && ferror(input))
        status = complain_as(STATUS_OUTPUT, "jobs import: can't read %s: %s", work->from,
                             strerrordesc_np(errno));
    return status == STATUS_OK ? await_answers(work) : status;
}

static enum status do_import(struct work *work)
{
    const char *file = work->count > 1 ? work->words[1] : "-";
    bool is_stdin = strcmp(file, "-") == 0;
    work->from = is_stdin ? "standard input" : file;
    FILE *input = is_stdin ? stdin : fopen(file, "re");
    if (!input)
        return complain_as(STATUS_NO_INPUT, "jobs import: %s: %s", file, strerrordesc_np(errno));
    enum status status = import_all(work, input);
    progress_end(&work->progress);
    if (status == STATUS_OK)
        print_number(work, "imported", work->done);
    if (!is_stdin)
        fclose(input);
    return status;
}

/* ---- peek, kick, clear ----------------------------------------------------------------------- */

/* Prints a body as it is; on a terminal with escapes, because it could steer that. */
static void print_body(struct bytes body)
{
    if (!isatty(STDOUT_FILENO)) {
        fwrite(body.data, 1, body.len, stdout);
        return;
    }
    while (body.len > 0) {
        const uint8_t *end = memchr(body.data, '\n', body.len);
        size_t len = end ? (size_t)(end - body.data) : body.len;
        struct text line = {0};
        text_add_name(&line, bytes_at(body.data, len));
        puts(text_str(&line));
        text_free(&line);
        bytes_take(&body, len + (end ? 1 : 0));
    }
}

static enum status do_peek(struct work *work)
{
    struct answer answer;
    uint64_t id;
    struct text body = {0};
    if (!number_parse(bytes_of(work->words[1]), UINT64_MAX, &id))
        return complain_as(STATUS_USAGE, "jobs peek: ID is not the number of a job");
    enum status status =
        demand(work, (struct bs_request){.verb = BS_VERB_PEEK, .id = id}, BS_ANSWER_FOUND, &answer);
    if (status != STATUS_OK)
        return status;
    if (!work->invocation->options.json) {
        print_body(answer.body);
        return STATUS_OK;
    }
    text_add(&body, answer.body.data, answer.body.len);
    status = demand(work, (struct bs_request){.verb = BS_VERB_STATS_JOB, .id = id}, BS_ANSWER_OK,
                    &answer);
    if (status == STATUS_OK) {
        json_t *object = job_line_dictionary(answer.body);
        job_line_set_body(object, text_bytes(&body));
        json_line(object);
    }
    text_free(&body);
    return status;
}

static enum status do_kick(struct work *work)
{
    struct answer answer;
    struct bs_request use = {.verb = BS_VERB_USE, .tube = work->tube};
    struct bs_request kick = {.verb = BS_VERB_KICK};
    if (!parse_number(bytes_of(work->words[2]), 1, UINT32_MAX, &kick.count))
        return complain_as(STATUS_USAGE, "jobs kick: N is not a whole number from 1 to %u",
                           UINT32_MAX);
    enum status status = demand(work, use, BS_ANSWER_USING, &answer);
    if (status == STATUS_OK)
        status = demand(work, kick, BS_ANSWER_KICKED, &answer);
    if (status == STATUS_OK)
        print_number(work, "kicked", answer.jobs.count);
    return status;
}

static enum status do_clear(struct work *work)
{
    struct answer answer;
    struct bs_request request = {.verb = BS_VERB_CLEAR, .tube = work->tube, .state = work->state};
    enum status status = demand(work, request, BS_ANSWER_CLEARED, &answer);
    if (status == STATUS_OK)
        print_number(work, "cleared", answer.jobs.count);
    return status;
}

/* ---- backup ---------------------------------------------------------------------------------- */

/* The interval of looks at a backup, and how long they may get no answer. */
#define BACKUP_LOOK_MS    100
#define BACKUP_SILENCE_NS (10 * NS_PER_S)

static void show_backup(struct work *work, const json_t *answer)
{
    double done = json_number_at(answer, "done_bytes", 0);
    double total = json_number_at(answer, "total_bytes", 0);
    progress_show(&work->progress, "backup: %.0f of %.0f MB (%.0f %%)", done / 1e6, total / 1e6,
                  total > 0 ? 100 * done / total : 0);
}

/* Prints what has come of it, and frees the answer. */
static enum status end_backup(struct work *work, json_t *answer)
{
    const char *file = work->words[1];
    bool is_its = strcmp(json_text_at(answer, "file", ""), file) == 0;
    bool is_good = is_its && json_is_true_at(answer, "good");
    progress_end(&work->progress);
    if (!is_its)
        complain("jobs backup: the server knows nothing of it any more: it was restarted or "
                 "upgraded, or has made another backup since; its log says what came of this one");
    else if (!is_good)
        complain("jobs backup: %s", json_text_at(answer, "reason", "-"));
    else if (!work->invocation->options.json)
        print_line(stdout, "%s/%s: %.0f bytes in %.1f s", json_text_at(answer, "folder", ""), file,
                   json_number_at(answer, "total_bytes", 0), json_number_at(answer, "seconds", 0));
    if (is_its && work->invocation->options.json)
        json_line(answer);
    else
        json_decref(answer);
    return is_good ? STATUS_OK : STATUS_TEMPORARY;
}

/* Waits until the backup that the server has begun is over. It may not answer for a while. */
static enum status await_backup(struct work *work, json_t *answer)
{
    struct pollfd none = {.fd = -1};
    enum status status = STATUS_OK;
    int64_t until_ns = INT64_MAX; /* while it answers */
    bool is_late = false;
    while (!is_late && (!answer || json_is_true_at(answer, "running"))) {
        struct http_call call = {0};
        if (answer)
            show_backup(work, answer);
        json_decref(answer);
        (void)poll(&none, 1, BACKUP_LOOK_MS);
        int64_t now_ns = clock_mono_ns();
        http_run(work->invocation->http, &call, "/api/v1/backup", false);
        is_late = clock_mono_ns() >= until_ns;
        status = http_status(&call, is_late);
        answer = status == STATUS_OK ? json_incref(call.answer) : NULL;
        is_late &= !answer;
        if (answer)
            until_ns = INT64_MAX;
        else if (until_ns == INT64_MAX)
            until_ns = now_ns + BACKUP_SILENCE_NS;
        http_call_free(&call);
    }
    if (answer)
        return end_backup(work, answer);
    progress_end(&work->progress);
    return status;
}

static enum status do_backup(struct work *work)
{
    struct text path = {0};
    json_t *answer = NULL;
    text_addf(&path, "/api/v1/backup?file=");
    text_add_percent(&path, bytes_of(work->words[1]));
    enum status status = http_ask(work->invocation, text_str(&path), true, &answer);
    text_free(&path);
    work->progress.is_silent = true;
    if (status == STATUS_OK)
        status = await_backup(work, answer);
    else
        json_decref(answer);
    /* 409: the name is taken, or another backup is made. */
    return status == STATUS_CONFIG ? STATUS_TEMPORARY : status;
}

/* ---- drain ----------------------------------------------------------------------------------- */

static void say_drain(const json_t *answer)
{
    if (json_is_true_at(answer, "switched"))
        puts("draining: no new jobs are taken, until \"jobs drain --off\" or the server's next "
             "start");
    else if (json_is_true_at(answer, "draining"))
        puts("draining: the server is about to end");
    else
        puts("not draining: new jobs are taken");
}

static enum status do_drain(struct work *work)
{
    struct text path = {0};
    text_addf(&path, "/api/v1/drain?jobs=%s", work->invocation->options.off ? "off" : "on");
    return http_show(work->invocation, &path, true, say_drain);
}

/* ---- the command line ------------------------------------------------------------------------ */

static const struct verb {
    const char *word, *words;
    size_t least, most; /* words behind it */
    bool has_tube;      /* the first word is one */
    /* Whom it asks: any server of job queues, counterd alone, or the admin interface. */
    enum { ANY_SERVER, COUNTERD, ADMIN } asks;
    enum status (*run)(struct work *work);
} verbs[] = {
    {"tubes", "", 0, 0, false, ANY_SERVER, do_tubes},
    {"list", " TUBE [STATE]", 1, 2, true, COUNTERD, do_list},
    {"peek", " ID", 1, 1, false, ANY_SERVER, do_peek},
    {"kick", " TUBE N", 2, 2, true, ANY_SERVER, do_kick},
    {"clear", " TUBE STATE", 2, 2, true, COUNTERD, do_clear},
    {"export", " TUBE", 1, 1, true, COUNTERD, do_export},
    {"import", " [FILE|-]", 0, 1, false, ANY_SERVER, do_import},
    {"backup", " FILE", 1, 1, false, ADMIN, do_backup},
    {"drain", " [--off]", 0, 0, false, ADMIN, do_drain},
};

static const char *verb_word(size_t index)
{
    return index < ARRAY_SIZE(verbs) ? verbs[index].word : NULL;
}

/* Finds the verb. Prints what is wrong. */
static const struct verb *find_verb(const struct work *work)
{
    const char *word = work->count > 0 ? work->words[0] : "tubes";
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        const struct verb *verb = &verbs[i];
        size_t words = work->count > 0 ? work->count - 1 : 0;
        if (strcmp(verb->word, word) != 0)
            continue;
        if (words >= verb->least && words <= verb->most)
            return verb;
        complain("jobs: not of the form \"counterctl jobs %s%s\"", verb->word, verb->words);
        return NULL;
    }
    const char *nearest = nearest_word(word, verb_word);
    complain("jobs: no such verb: \"%.*s\"%s%s; \"counterctl help jobs\" lists them", 100, word,
             nearest ? "; did you mean: " : "", nearest ? nearest : "");
    return NULL;
}

/* Reads the state of list and clear. Prints what is wrong. */
static bool read_state(struct work *work)
{
    work->state = work->count < 3 ? BS_STATE_ALL : bs_find_state(bytes_of(work->words[2]));
    return work->state != BS_STATE_NONE ||
           complain("jobs: STATE is none of ready, delayed, reserved, buried, abandoned, all");
}

static bool read_words(struct work *work, const struct verb *verb)
{
    if (work->invocation->options.off && verb->run != do_drain)
        return complain("jobs: --off is an option of \"jobs drain\"");
    if (!verb->has_tube)
        return true;
    work->tube = bytes_of(work->words[1]);
    return check_tube("jobs", work->words[1]) && (verb->run == do_kick || read_state(work));
}

int do_jobs(struct invocation *invocation)
{
    struct work *work = allocate(sizeof *work);
    work->invocation = invocation;
    work->words = invocation->arguments;
    work->count = invocation->count;
    work->limit = invocation->options.limit ? invocation->options.limit : SIZE_MAX;
    const struct verb *verb = find_verb(work);
    enum status status = STATUS_USAGE;
    work->table.columns = verb && verb->run == do_list ? job_columns : tube_columns;
    if (verb && read_words(work, verb)) {
        status = STATUS_OK;
        if (verb->asks != ADMIN)
            status =
                open_jobs(&work->client, verb->run == do_tubes ? &protocol_tubes : &protocol_jobs,
                          invocation, &work->is_plain);
        if (status == STATUS_OK && work->is_plain && verb->asks == COUNTERD)
            status = complain_as(STATUS_NO, "jobs %s: %s is no counterd: it can't do that",
                                 verb->word, work->client.where);
        if (status == STATUS_OK)
            status = verb->run(work);
    }
    client_close(&work->client);
    table_free(&work->table);
    for (size_t i = 0; i < PAGE; i++)
        text_free(&work->page[i].body);
    free(work);
    return (int)status;
}
