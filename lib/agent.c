/*
 * agent.c - makes the calls of the stories with libcounter: a JSON object in each line of stdin and
 * stdout (clients/stories/README.md). One loop polls stdin and all operations under way.
 */
#include "lib/counter.h"

#include <jansson.h>
#include <math.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a call gave, by handle; one of three. */
static struct kept {
    struct kept *next;
    counter_client *client;
    counter_hold *hold;
    counter_job *job;
    char name[];
} * kept;

/* A call under way. */
static struct call {
    struct call *next;
    json_t *command, *args;
    const char *verb;
    counter_op *op;
    json_t *rows;                 /* of list_jobs, which ends several times */
    struct counter_new_job *jobs; /* of put_many, until it ends */
    struct counter_put_args *puts;
} * calls;

static bool unfit; /* a number of the call is none that its type can say */

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Makes bytes of all {"hex": ...}. */
static json_t *decoded(json_t *value)
{
    const char *key, *hex = json_string_value(json_object_get(value, "hex"));
    json_t *part;
    size_t i;
    if (hex && json_object_size(value) == 1) {
        size_t len = strlen(hex) / 2;
        char *to = malloc(len + 1);
        for (i = 0; i < len; i++) {
            char digits[3] = {hex[2 * i], hex[2 * i + 1]};
            to[i] = (char)strtoul(digits, NULL, 16);
        }
        part = json_stringn_nocheck(to, len);
        free(to);
        return part;
    }
    json_object_foreach(value, key, part) json_object_set_new(value, key, decoded(part));
    json_array_foreach(value, i, part) json_array_set_new(value, i, decoded(part));
    return json_incref(value);
}

static json_t *as_hex(struct counter_bytes from)
{
    char *hex = calloc(from.len + 1, 2);
    for (size_t i = 0; i < from.len; i++)
        sprintf(hex + 2 * i, "%02x", ((const unsigned char *)from.data)[i]);
    json_t *made = json_pack("{s:s}", "hex", hex);
    free(hex);
    return made;
}

static json_t *as_text(struct counter_bytes from)
{
    if (!from.data)
        return json_null();
    json_t *text = json_stringn(from.data, from.len);
    return text ? text : as_hex(from);
}

static json_t *as_digits(uint64_t number)
{
    return json_sprintf("%llu", (unsigned long long)number);
}

static struct counter_bytes bytes_of(const json_t *string)
{
    return counter_bytes_at(json_string_value(string), json_string_length(string));
}

static struct counter_bytes bytes(const json_t *args, const char *key)
{
    return bytes_of(json_object_get(args, key));
}

/* Sets *to if the argument is there. */
static void number(const json_t *args, const char *key, uint32_t *to)
{
    const json_t *value = json_object_get(args, key);
    if (!value)
        return;
    json_int_t n = json_integer_value(value);
    unfit |= n < 0 || n > UINT32_MAX || (n == 0 && strcmp(key, "queue") == 0); /* 0: its default */
    *to = (uint32_t)n;
}

static void seconds(const json_t *args, const char *key, double *to)
{
    const json_t *value = json_object_get(args, key);
    if (value)
        *to = json_is_string(value) ? strtod(json_string_value(value), NULL)
                                    : json_number_value(value);
}

static void say(json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(line);
}

static void say_events(void)
{
    const struct counter_event *e;
    for (struct kept *k = kept; k; k = k->next)
        while (k->client && (e = counter_next_event(k->client)))
            say(json_pack("{s:s,s:s,s:s?,s:s?,s:s?}", "event", e->kind, "server", e->server, "name",
                          e->name, "result", e->result, "error",
                          e->status ? counter_status_name(e->status) : NULL));
}

static json_t *failed(const struct counter_error *e)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:b}", "error", counter_status_name(e->status), "server",
                     e->server, "target", e->target, "answer", e->answer, "reason", e->reason,
                     "sent", e->sent);
}

static json_t *usage_of(const char *reason)
{
    struct counter_error error = COUNTER_ERROR;
    error.status = COUNTER_USAGE;
    snprintf(error.reason, sizeof(error.reason), "%s", reason);
    return failed(&error);
}

static json_t *valued(json_t *value)
{
    return json_pack("{s:o}", "value", value);
}

/* ---- handles --------------------------------------------------------------------------------- */

static struct kept *keep(const char *name)
{
    struct kept *k = kept;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    if (!k) {
        k = calloc(1, sizeof(*k) + strlen(name) + 1);
        memcpy(k->name, name, strlen(name));
        k->next = kept;
        kept = k;
    }
    return k;
}

static const char *said(const struct call *call, const char *key, const char *otherwise)
{
    const json_t *text = json_object_get(call->command, key);
    return text ? json_string_value(text) : otherwise;
}

static json_t *drop(const char *of)
{
    for (struct kept *k = kept; k; k = k->next)
        if (strncmp(k->name, of, strlen(of)) == 0 && strchr(".", k->name[strlen(of)])) {
            counter_hold_free(k->hold);
            counter_job_free(k->job);
            k->hold = NULL;
            k->job = NULL;
        }
    return valued(json_null());
}

/* ---- calls that end at once ------------------------------------------------------------------ */

/* Options are parameters of the URL here; they win over its own ones. */
static char *url_with(const char *url, json_t *options)
{
    char *made, *text, separator = '?', key[64];
    const char *name, *part = url + strcspn(url, "?");
    size_t len;
    json_t *value;
    FILE *to = open_memstream(&made, &len);
    fprintf(to, "%.*s", (int)(part - url), url);
    while (*part && *++part) {
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(part, "&="), part);
        len = strcspn(part, "&");
        if (!json_object_get(options, key))
            fprintf(to, "%c%.*s", separator, (int)len, part), separator = '&';
        part += len;
    }
    json_object_foreach(options, name, value)
    {
        text = json_is_boolean(value)  ? strdup(json_is_true(value) ? "1" : "0")
               : json_is_string(value) ? strdup(json_string_value(value))
                                       : json_dumps(value, JSON_ENCODE_ANY);
        fprintf(to, "%c%s=", separator, name);
        for (const char *c = text; *c; c++)
            fprintf(to, "%%%02X", (unsigned char)*c);
        separator = '&';
        free(text);
    }
    fclose(to);
    return made;
}

static json_t *open_client(const struct call *call)
{
    struct counter_error error = COUNTER_ERROR;
    const char *url = json_string_value(json_object_get(call->args, "url"));
    if (!url && json_object_size(call->args) > 0) {
        url = getenv("COUNTER_URL"); // NOLINT(concurrency-mt-unsafe): one thread
        url = url && *url ? url : "counter://127.0.0.1";
    }
    json_t *options = json_copy(call->args);
    json_object_del(options, "url");
    char *made = url ? url_with(url, options) : NULL;
    counter_client *client = counter_open(made, &error);
    free(made);
    json_decref(options);
    if (!client)
        return failed(&error);
    counter_resolve(client); /* an unknown name is an error of the calls */
    keep(said(call, "as", "client"))->client = client;
    return valued(json_null());
}

static json_t *servers_for(const json_t *args)
{
    json_t *servers = json_object_get(args, "servers"), *list = json_array();
    size_t i, n = json_array_size(servers), order[64];
    const char *texts[64];
    for (i = 0; i < n; i++)
        texts[i] = json_string_value(json_array_get(servers, i));
    counter_servers_for(bytes(args, "name"), texts, n, order);
    for (i = 0; i < n; i++)
        json_array_append(list, json_array_get(servers, order[i]));
    return valued(list);
}

static json_t *is_lost(const struct kept *k)
{
    const struct counter_job_view *view = k->job ? counter_job_view(k->job) : NULL;
    bool lost = view ? view->is_lost : !k->hold || counter_hold_check(k->hold) == COUNTER_LOST;
    return valued(json_boolean(lost));
}

static json_t *cancel(const char *of)
{
    for (struct call *c = calls; c; c = c->next)
        if (c->op && strcmp(said(c, "as", ""), of) == 0) {
            counter_op_free(c->op);
            c->op = NULL;
            say_events();
            say(json_pack("{s:O,s:s}", "id", json_object_get(c->command, "id"), "error",
                          "Cancelled"));
        }
    return valued(json_null());
}

static json_t *begin(struct call *call);
static json_t *go_on(struct call *call, int (*go)(counter_op *));
static void free_call(struct call *call);

/* Makes the calls in a child, and returns what they gave. */
static json_t *in_child(json_t *then)
{
    int ends[2];
    size_t i;
    json_t *command, *given = json_array();
    if (pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        for (struct kept *k = kept; k; k = k->next)
            if (k->client)
                counter_forked(k->client);
        json_array_foreach(then, i, command)
        {
            struct call *call = calloc(1, sizeof(*call));
            call->command = json_incref(command);
            json_t *result = begin(call);
            json_array_append_new(given, result ? result : go_on(call, counter_run));
            free_call(call);
        }
        json_dumpfd(given, ends[1], 0);
        _exit(0);
    }
    close(ends[1]);
    json_decref(given);
    given = json_loadfd(ends[0], 0, NULL);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return valued(given);
}

/* ---- calls that make operations -------------------------------------------------------------- */

static struct counter_put_args put_args(const json_t *args)
{
    struct counter_put_args put = COUNTER_PUT_ARGS;
    const json_t *root = json_object_get(args, "root");
    number(args, "priority", &put.priority);
    number(args, "tries", &put.tries);
    seconds(args, "delay", &put.delay);
    seconds(args, "ttr", &put.ttr);
    seconds(args, "at", &put.at);
    put.key = bytes(args, "key");
    if (root) {
        put.root = bytes_of(json_array_get(root, 0));
        put.root_at = json_number_value(json_array_get(root, 1));
    }
    return put;
}

static counter_op *put_many(struct call *call, counter_client *client)
{
    const json_t *list = json_object_get(call->args, "jobs");
    size_t n = json_array_size(list);
    call->jobs = calloc(n + 1, sizeof(*call->jobs));
    call->puts = calloc(n + 1, sizeof(*call->puts));
    for (size_t i = 0; i < n; i++) {
        call->puts[i] = put_args(json_array_get(list, i));
        call->jobs[i].body = bytes(json_array_get(list, i), "body");
        call->jobs[i].args = &call->puts[i];
    }
    return counter_put_many(client, bytes(call->args, "tube"), call->jobs, n);
}

static counter_op *member(json_t *args, counter_client *client)
{
    struct counter_member_args m = COUNTER_MEMBER_ARGS;
    struct counter_pair attrs[64];
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(args, "attrs"), key, value) attrs[m.attr_count++] =
        (struct counter_pair){counter_str(key), bytes_of(value)};
    m.attrs = attrs;
    m.name = bytes(args, "name");
    m.by = bytes(args, "by");
    if (json_object_get(args, "purpose"))
        m.purpose = bytes(args, "purpose");
    number(args, "count", &m.count);
    seconds(args, "timeout", &m.timeout);
    return counter_member(client, bytes(args, "target"), &m);
}

static counter_op *claim(const json_t *args, counter_client *client)
{
    struct counter_claim_args c = COUNTER_CLAIM_ARGS;
    struct counter_bytes tubes[64];
    const json_t *list = json_object_get(args, "tubes");
    for (size_t i = 0; i < json_array_size(list); i++)
        tubes[i] = bytes_of(json_array_get(list, i));
    number(args, "count", &c.count);
    seconds(args, "timeout", &c.timeout);
    return counter_claim(client, tubes, json_array_size(list), &c);
}

static counter_op *tube(const json_t *args, counter_client *client)
{
    struct counter_pair settings[64];
    char *texts[64];
    const char *key;
    size_t n = 0;
    json_t *value;
    json_object_foreach(json_object_get(args, "settings"), key, value)
    {
        texts[n] = json_is_string(value) ? strdup(json_string_value(value))
                                         : json_dumps(value, JSON_ENCODE_ANY);
        settings[n] = (struct counter_pair){counter_str(key), counter_str(texts[n])};
        n++;
    }
    counter_op *op = counter_tube(client, bytes(args, "name"), settings, n);
    while (n > 0)
        free(texts[--n]);
    return op;
}

static counter_op *acquire(const char *verb, json_t *args, counter_client *client)
{
    struct counter_lock_args l = COUNTER_LOCK_ARGS;
    struct counter_units_args u = COUNTER_UNITS_ARGS;
    if (strcmp(verb, "member") == 0)
        return member(args, client);
    number(args, "workers", &l.workers);
    number(args, "queue", &l.queue);
    number(args, "count", &u.count);
    number(args, "limit", &u.limit);
    seconds(args, "timeout", &l.timeout);
    l.shared = json_is_true(json_object_get(args, "shared"));
    return strcmp(verb, "lock") == 0 ? counter_lock(client, bytes(args, "name"), &l)
                                     : counter_units(client, bytes(args, "name"), &u);
}

static counter_op *ask(struct call *call, counter_client *client)
{
    json_t *args = call->args;
    json_int_t id = json_integer_value(json_object_get(args, "id"));
    struct counter_ready_args r = COUNTER_READY_ARGS;
    struct counter_put_args put = put_args(args);
    const char *verb = call->verb, *state = json_string_value(json_object_get(args, "state"));
    unfit |= id < 0;
    if (strcmp(verb, "usage") == 0)
        return counter_usage(client, bytes(args, "name"));
    if (strcmp(verb, "put") == 0)
        return counter_put(client, bytes(args, "tube"), bytes(args, "body"), &put);
    if (strcmp(verb, "put_many") == 0)
        return put_many(call, client);
    if (strcmp(verb, "claim") == 0)
        return claim(args, client);
    if (strcmp(verb, "tube") == 0)
        return tube(args, client);
    if (strcmp(verb, "list_jobs") == 0)
        return counter_list_jobs(client, bytes(args, "tube"), state);
    if (strcmp(verb, "clear") == 0)
        return counter_clear(client, bytes(args, "tube"), state);
    if (strcmp(verb, "delete") == 0)
        return counter_delete(client, (uint64_t)id);
    if (strcmp(verb, "kick") == 0)
        return counter_kick(client, (uint64_t)id);
    if (strcmp(verb, "ready") != 0)
        return acquire(verb, args, client);
    r.after = bytes(args, "after");
    number(args, "limit", &r.limit);
    seconds(args, "timeout", &r.timeout);
    return counter_ready(client, bytes(args, "pattern"), &r);
}

/* Makes the call. Returns its result, or NULL while its operation is under way. */
static json_t *begin(struct call *call)
{
    const char *verb = call->verb = said(call, "do", ""), *of = said(call, "of", "client");
    call->args = json_object_get(call->command, "args");
    call->args = call->args ? decoded(call->args) : json_object();
    struct kept *k = keep(of);
    if (strcmp(verb, "open") == 0)
        return open_client(call);
    if (strcmp(verb, "servers_for") == 0)
        return servers_for(call->args);
    if (strcmp(verb, "fork") == 0)
        return in_child(json_object_get(call->args, "then"));
    if (strcmp(verb, "cancel") == 0)
        return cancel(of);
    if (strcmp(verb, "lost") == 0)
        return is_lost(k);
    if (strcmp(verb, "drop") == 0)
        return drop(of);
    if (strcmp(verb, "close") == 0) {
        counter_close(k->client);
        k->client = NULL;
        return valued(json_null());
    }
    unfit = false;
    if (strcmp(verb, "release") == 0) {
        if (!k->hold)
            return valued(json_null());
        call->op = counter_release(k->hold, !json_is_false(json_object_get(call->args, "ok")));
        k->hold = NULL;
    } else if (strstr("ack nack bury renew", verb)) {
        if (!k->job)
            return usage_of("the job has ended");
        double delay = 0;
        seconds(call->args, "delay", &delay);
        call->op = *verb == 'a'   ? counter_ack(k->job)
                   : *verb == 'n' ? counter_nack(k->job, delay)
                   : *verb == 'b' ? counter_bury(k->job)
                                  : counter_renew(k->job);
        k->job = *verb == 'r' ? k->job : NULL;
    } else {
        call->op = k->client ? ask(call, k->client) : NULL;
        if (!k->client || unfit)
            return usage_of(unfit ? "no value of its type" : "the client is closed");
    }
    return NULL;
}

/* ---- results --------------------------------------------------------------------------------- */

static json_t *job_of(const struct call *call, counter_job *job, size_t number)
{
    const struct counter_job_view *view = counter_job_view(job);
    char name[256];
    snprintf(name, sizeof(name), "%s.%zu", said(call, "as", ""), number);
    json_t *shown = json_pack("{s:I,s:o,s:o,s:I,s:o}", "id", (json_int_t)view->id, "token",
                              as_digits(view->token), "tube", as_text(view->tube), "tries",
                              (json_int_t)view->tries, "body", as_hex(view->body));
    keep(name)->job = job;
    return shown;
}

static json_t *member_of(const struct counter_member *m)
{
    json_t *attrs = json_object();
    for (size_t i = 0; i < m->attr_count; i++) {
        struct counter_bytes key = m->attrs[i].key;
        json_object_setn_new(attrs, key.data, key.len, as_text(m->attrs[i].value));
    }
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "pool", as_text(m->pool), "name", as_text(m->name),
                     "value", as_text(m->value), "attrs", attrs, "fence", as_digits(m->fence));
}

static json_t *hold_of(const struct call *call, counter_hold *hold)
{
    const struct counter_member *m = counter_hold_member(hold, 0);
    json_t *all = json_array(), *shown = m ? member_of(m) : json_object();
    for (size_t i = 0; (m = counter_hold_member(hold, i)); i++)
        json_array_append_new(all, member_of(m));
    if (json_array_size(all) > 0)
        json_object_set(shown, "all", all);
    else
        json_object_set_new(shown, "name", as_text(bytes(call->args, "name")));
    json_decref(all);
    json_object_set(shown, "count", json_object_get(call->args, "count"));
    json_object_set_new(shown, "done", json_boolean(counter_hold_is_done(hold)));
    json_object_set_new(shown, "server", json_string(counter_hold_server(hold)));
    struct kept *k = keep(said(call, "as", ""));
    counter_hold_free(k->hold);
    k->hold = hold;
    return shown;
}

static json_t *row_of(const char *verb, const struct counter_row *row)
{
    if (strstr(verb, "put"))
        return json_pack("{s:I,s:b}", "id", (json_int_t)row->id, "duplicate", row->is_duplicate);
    if (strcmp(verb, "list_jobs") == 0)
        return json_pack("{s:I,s:s,s:I,s:o}", "id", (json_int_t)row->id, "state", row->state,
                         "tries", (json_int_t)row->tries, "body",
                         row->value.data ? as_hex(row->value) : json_null());
    if (strcmp(verb, "ready") == 0)
        return json_pack("[o,I]", as_text(row->key), (json_int_t)row->number);
    if (strcmp(verb, "nack") == 0)
        return json_pack("{s:b}", "buried", row->number == 1);
    if (strcmp(verb, "tube") == 0)
        return row->is_number ? json_loadb(row->value.data, row->value.len, JSON_DECODE_ANY, NULL)
                              : as_text(row->value);
    return json_integer((json_int_t)row->number);
}

/* What an operation gave that ended well. */
static json_t *value_of(struct call *call)
{
    const char *verb = call->verb;
    const struct counter_row *row;
    counter_job *job;
    counter_hold *hold = counter_take_hold(call->op);
    if (hold)
        return hold_of(call, hold);
    json_t *dictionary = json_object(), *list = call->rows ? json_incref(call->rows) : json_array();
    while ((job = counter_take_job(call->op)))
        json_array_append_new(list, job_of(call, job, json_array_size(list)));
    while ((row = counter_next_row(call->op))) {
        json_object_setn_new(dictionary, row->key.data ? row->key.data : "", row->key.len,
                             row_of(verb, row));
        json_array_append_new(list, row_of(verb, row));
    }
    json_t *value = strcmp(verb, "tube") == 0 ? dictionary
                    : strstr("put_many claim ready list_jobs", verb) && strcmp(verb, "put") != 0
                        ? list
                        : json_array_get(list, 0);
    value = value ? json_incref(value) : json_null();
    json_decref(dictionary);
    json_decref(list);
    return value;
}

/* Goes on with a call by counter_step or counter_run. Returns its result; NULL: not yet. */
static json_t *go_on(struct call *call, int (*go)(counter_op *))
{
    const struct counter_row *row;
    if (!call->op)
        return json_pack("{s:s}", "error", "NoMemory");
    int status = go(call->op);
    if (status == COUNTER_OK && strcmp(call->verb, "list_jobs") == 0)
        while ((row = counter_next_row(call->op))) {
            call->rows = call->rows ? call->rows : json_array();
            do
                json_array_append_new(call->rows, row_of(call->verb, row));
            while ((row = counter_next_row(call->op)));
            if ((status = go(call->op)) != COUNTER_OK)
                break;
        }
    if (status == COUNTER_AGAIN)
        return NULL;
    return status == COUNTER_OK ? valued(value_of(call)) : failed(counter_op_error(call->op));
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void free_call(struct call *call)
{
    counter_op_free(call->op);
    free(call->jobs);
    free(call->puts);
    json_decref(call->rows);
    json_decref(call->args);
    json_decref(call->command);
    free(call);
}

/* Says what came of a call. */
static void answer(struct call *call, json_t *result)
{
    say_events();
    json_object_set(result, "id", json_object_get(call->command, "id"));
    say(result);
    counter_op_free(call->op);
    call->op = NULL;
}

static void step_all(void)
{
    json_t *result;
    for (struct call **at = &calls, *c; (c = *at);) {
        if (c->op && (result = go_on(c, counter_step)))
            answer(c, result);
        if (c->op) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        free_call(c);
    }
    say_events();
}

static void take(const char *line, size_t len)
{
    struct call *call = calloc(1, sizeof(*call));
    call->command = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    json_t *result = begin(call);
    call->next = calls;
    calls = call;
    if (result || (result = go_on(call, counter_step)))
        answer(call, result);
}

/* Reads what is there, and makes the calls of whole lines. Returns false at the end. */
static bool read_calls(void)
{
    static char *buffer, *end;
    static size_t len, room;
    if (room - len < 65536)
        buffer = realloc(buffer, room = 2 * room + 131072);
    ssize_t got = read(STDIN_FILENO, buffer + len, room - len);
    len += got > 0 ? (size_t)got : 0;
    while (got > 0 && (end = memchr(buffer, '\n', len))) {
        take(buffer, (size_t)(end - buffer));
        len -= (size_t)(end + 1 - buffer);
        memmove(buffer, end + 1, len);
    }
    return got > 0;
}

/* What a program has in OpenSSL's error queue stays there, whatever the library does. */
static void keep_error(void)
{
    if (ERR_GET_REASON(ERR_get_error()) != 42 || ERR_peek_error() != 0) {
        fputs("agent: the error queue is not as it was\n", stderr);
        abort();
    }
    ERR_raise(ERR_LIB_USER, 42);
}

int main(void)
{
    static struct pollfd fds[4096];
    ERR_raise(ERR_LIB_USER, 42);
    say(json_pack("{s:s,s:[s,s,s]}", "agent", "c", "can", "later", "cancel", "fork"));
    for (;;) {
        nfds_t n = 1;
        int wait_ms = -1;
        step_all();
        keep_error();
        for (struct call *c = calls; c; c = c->next) {
            int ms = counter_wait_ms(c->op);
            wait_ms = ms >= 0 && (wait_ms < 0 || ms < wait_ms) ? ms : wait_ms;
            fds[n++] = (struct pollfd){.fd = counter_fd(c->op), .events = counter_events(c->op)};
        }
        fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
        poll(fds, n, wait_ms);
        if (fds[0].revents && !read_calls())
            return 0;
    }
}
