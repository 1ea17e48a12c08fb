/*
 * pool.c - `counterctl pool`: the verbs of pools, for operators.
 *
 * The words of the command line are those of the request, so the request's parser checks them. Rows
 * are collected for their columns; JSON is printed as it arrives, and so are events.
 */
#include "base/clock.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/print.h"

#include <inttypes.h>
#include <string.h>

struct work {
    struct invocation *invocation;
    struct client client;
    struct pool_request request; /* points into the text of the request */
    struct text head;            /* show: about the pool, for people */
    struct columns pools, members, waiters;
};

/* ---- names and pairs --------------------------------------------------------------------- */

/* Adds " KEY=VALUE", but nothing for an empty value. */
static void add_pair(struct text *to, const char *key, struct bytes value)
{
    if (value.len == 0)
        return;
    text_addf(to, " %s=", key);
    text_add_name(to, value);
}

static void add_pairs(struct text *to, const struct pool_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        text_addf(to, " ");
        text_add_name(to, pairs[i].key);
        text_addf(to, "=");
        text_add_name(to, pairs[i].value);
    }
}

/* Sets nothing for an empty name. */
static void json_put_if(json_t *object, const char *key, struct bytes name)
{
    if (name.len > 0)
        json_put_name(object, key, name);
}

static void json_put_pairs(json_t *object, const char *key, const struct pool_pair *pairs,
                           size_t count)
{
    json_t *all = json_new();
    for (size_t i = 0; i < count; i++) {
        struct text name = {0};
        text_add_name(&name, pairs[i].key);
        json_put_name(all, text_str(&name), pairs[i].value);
        text_free(&name);
    }
    json_put(object, key, all);
}

static void json_put_number(json_t *object, const char *key, uint64_t number)
{
    json_put(object, key, json_integer((json_int_t)number));
}

static void json_put_seconds(json_t *object, int64_t ns)
{
    json_put(object, "seconds", json_real((double)ns / (double)NS_PER_S));
}

static json_t *json_row(const char *type)
{
    json_t *object = json_new();
    json_put(object, "type", json_string(type));
    return object;
}

static void add_seconds(struct columns *columns, int64_t ns)
{
    char text[NUMBER_TEXT];
    columns_add_text(columns, seconds_text((double)ns / (double)NS_PER_S, text));
}

static const char *const for_words[] = {
    [POOL_TAKE_FOR_USE] = "use", [POOL_TAKE_FOR_CLEAN] = "clean", [POOL_TAKE_FOR_CHECK] = "check"};

/* ---- rows of list and show --------------------------------------------------------------- */

static void print_pool_json(const struct pool_pool_reply *pool)
{
    json_t *object = json_row("pool");
    json_set_name(object, pool->name);
    json_put_name(object, "kind", pool->kind);
    json_put(object, "draining", json_boolean(pool->draining));
    json_put_if(object, "group", pool->group);
#define ROW(count) json_put_number(object, #count, pool->count);
    POOL_COUNTS(ROW)
#undef ROW
    if (pool->has_want)
        json_put_number(object, "want", pool->want);
    json_put_pairs(object, "options", pool->options, pool->option_count);
    json_line(object, stdout);
}

static void add_pool(struct columns *columns, const struct pool_pool_reply *pool)
{
    struct text name = {0};
    columns_add_name(columns, pool->kind);
#define ROW(count) columns_add(columns, "%u", pool->count);
    POOL_COUNTS(ROW)
#undef ROW
    if (pool->has_want)
        columns_add(columns, "%u", pool->want);
    else
        columns_add_text(columns, "-");
    text_add_name(&name, pool->name);
    if (pool->group.len > 0) {
        text_addf(&name, "  @");
        text_add_name(&name, pool->group);
    }
    if (pool->draining)
        text_addf(&name, "  (draining)");
    columns_add_text(columns, text_str(&name));
    text_free(&name);
}

/* The lines of show about the pool. */
static void add_head(struct text *head, const struct pool_pool_reply *pool)
{
    text_add_name(head, pool->name);
    text_addf(head, ": ");
    text_add_name(head, pool->kind);
    if (pool->group.len > 0) {
        text_addf(head, ", group ");
        text_add_name(head, pool->group);
    }
    if (pool->draining)
        text_addf(head, ", draining");
    if (pool->has_want)
        text_addf(head, ", want %u", pool->want);
    text_addf(head, "\noptions:");
    add_pairs(head, pool->options, pool->option_count);
    text_addf(head, "\nmembers: %u: free %u, taken %u, cleaning %u, checking %u, dirty %u, ",
              pool->members, pool->free, pool->taken, pool->cleaning, pool->checking, pool->dirty);
    text_addf(head, "stopping %u, down %u\n", pool->stopping, pool->down);
}

static void take_pool(struct work *work, const struct pool_pool_reply *pool)
{
    if (work->invocation->options.json)
        print_pool_json(pool);
    else if (work->request.verb == POOL_VERB_POOL_LIST)
        add_pool(&work->pools, pool);
    else
        add_head(&work->head, pool);
}

static void print_member_json(const struct pool_member_reply *member)
{
    json_t *object = json_row("member");
    json_set_name(object, member->name);
    json_put_name(object, "state", member->state);
    json_put_seconds(object, member->since_ns);
    if (member->fence)
        json_put_number(object, "fence", member->fence);
    json_put_if(object, "holder", member->holder);
    json_put_number(object, "takes", member->takes);
    json_put_number(object, "fails", member->fails);
    json_put_if(object, "then", member->then);
    json_put_if(object, "by", member->by);
    json_put_if(object, "note", member->note);
    json_put_pairs(object, "attributes", member->attrs, member->attr_count);
    json_line(object, stdout);
}

static void take_member(struct work *work, const struct pool_member_reply *member)
{
    struct text name = {0};
    if (work->invocation->options.json) {
        print_member_json(member);
        return;
    }
    columns_add_name(&work->members, member->state);
    add_seconds(&work->members, member->since_ns);
    if (member->fence)
        columns_add(&work->members, "%" PRIu64, member->fence);
    else
        columns_add_text(&work->members, "-");
    columns_add(&work->members, "%" PRIu64, member->takes);
    columns_add(&work->members, "%" PRIu64, member->fails);
    columns_add_name(&work->members, member->holder);
    text_add_name(&name, member->name);
    add_pair(&name, "then", member->then);
    add_pair(&name, "by", member->by);
    add_pair(&name, "note", member->note);
    add_pairs(&name, member->attrs, member->attr_count);
    columns_add_text(&work->members, text_str(&name));
    text_free(&name);
}

static void print_waiter_json(const struct pool_waiter_reply *waiter)
{
    json_t *object = json_row("waiter");
    json_put_name(object, "client", waiter->client);
    json_put_seconds(object, waiter->since_ns);
    json_put(object, "timeout", json_real((double)waiter->timeout_ns / (double)NS_PER_S));
    json_put_number(object, "count", waiter->count);
    json_put(object, "for", json_string(for_words[waiter->take_for]));
    json_put_if(object, "member", waiter->member);
    json_put_if(object, "by", waiter->by);
    json_put_pairs(object, "with", waiter->with, waiter->with_count);
    json_line(object, stdout);
}

static void take_waiter(struct work *work, const struct pool_waiter_reply *waiter)
{
    struct text client = {0};
    if (work->invocation->options.json) {
        print_waiter_json(waiter);
        return;
    }
    add_seconds(&work->waiters, waiter->since_ns);
    add_seconds(&work->waiters, waiter->timeout_ns);
    columns_add(&work->waiters, "%u", waiter->count);
    columns_add_text(&work->waiters, for_words[waiter->take_for]);
    text_add_name(&client, waiter->client);
    add_pair(&client, "member", waiter->member);
    add_pair(&client, "by", waiter->by);
    if (waiter->with_count > 0)
        text_addf(&client, " with");
    add_pairs(&client, waiter->with, waiter->with_count);
    columns_add_text(&work->waiters, text_str(&client));
    text_free(&client);
}

static void print_rows(const struct work *work)
{
    if (work->request.verb == POOL_VERB_POOL_LIST) {
        columns_print(&work->pools, "", stdout);
        return;
    }
    fputs(text_str(&work->head), stdout);
    columns_print(&work->members, "  ", stdout);
    printf("waiters: %zu\n", work->waiters.count / 5);
    columns_print(&work->waiters, "  ", stdout);
}

/* ---- answers ----------------------------------------------------------------------------- */

/* Prints that the server has refused, and returns the exit status. */
static enum status refused(const struct work *work, const struct answer *answer)
{
    struct text what = {0};
    text_addf(&what, "pool");
    for (size_t i = 0; i < work->invocation->count && i < 4; i++)
        text_addf(&what, " %.*s", 100, work->invocation->arguments[i]);
    enum status status = answer_refused(&work->client, answer, "%s", text_str(&what));
    text_free(&what);
    return status;
}

/* Step: hears the answer: OK, or rows and END. */
static enum status hear(struct work *work, bool has_rows)
{
    struct answer answer;
    do {
        enum status status =
            client_hear(&work->client, work->invocation->options.io_timeout_ns, &answer);
        if (status != STATUS_OK)
            return status;
        if (has_rows && answer.pool.reply == POOL_REPLY_POOL)
            take_pool(work, &answer.pool.pool);
        else if (has_rows && answer.pool.reply == POOL_REPLY_MEMBER)
            take_member(work, &answer.pool.member);
        else if (has_rows && answer.pool.reply == POOL_REPLY_WAITER)
            take_waiter(work, &answer.pool.waiter);
        else if (answer.pool.reply != (has_rows ? POOL_REPLY_END : POOL_REPLY_OK))
            return refused(work, &answer);
    } while (has_rows && answer.pool.reply != POOL_REPLY_END);
    return STATUS_OK;
}

static void print_ok(const struct invocation *invocation)
{
    if (invocation->options.json) {
        json_t *object = json_new();
        json_put(object, "ok", json_true());
        json_line(object, stdout);
    } else {
        puts("ok");
    }
}

/* ---- watch ------------------------------------------------------------------------------- */

static void print_event_json(const struct pool_event_reply *event)
{
    json_t *object = json_row("event");
    json_put_name(object, "pool", event->pool);
    json_put_name(object, "member", event->member);
    json_put_name(object, "from", event->from);
    json_put_name(object, "to", event->to);
    json_put_name(object, "why", event->why);
    if (event->fence)
        json_put_number(object, "fence", event->fence);
    json_put_if(object, "connection", event->conn);
    json_put_if(object, "by", event->by);
    json_line(object, stdout);
}

/* True if the event is about the pool itself. */
static bool is_of_pool(const struct pool_event_reply *event)
{
    return bytes_equal(event->member, bytes_of("-")) && bytes_equal(event->to, bytes_of("-"));
}

static void print_event(const struct pool_event_reply *event)
{
    struct text text = {0};
    text_add_name(&text, event->pool);
    if (!is_of_pool(event)) {
        text_addf(&text, "/");
        text_add_name(&text, event->member);
    }
    text_addf(&text, " ");
    text_add_name(&text, event->why);
    if (!is_of_pool(event)) {
        text_addf(&text, ": ");
        text_add_name(&text, event->from);
        text_addf(&text, " -> ");
        text_add_name(&text, event->to);
    }
    if (event->fence)
        text_addf(&text, " fence=%" PRIu64, event->fence);
    add_pair(&text, "conn", event->conn);
    add_pair(&text, "by", event->by);
    puts(text_str(&text));
    text_free(&text);
}

static void print_lost(const struct work *work, uint64_t lost)
{
    if (work->invocation->options.json) {
        json_t *object = json_row("lost");
        json_put_number(object, "events", lost);
        json_line(object, stdout);
    } else {
        printf("%" PRIu64 " events were lost, because they were not read in time\n", lost);
    }
}

static bool take_event(void *owner, const struct answer *answer)
{
    struct work *work = owner;
    const struct pool_answer *said = &answer->pool;
    if (said->reply == POOL_REPLY_LOST)
        print_lost(work, said->lost);
    else if (said->reply != POOL_REPLY_EVENT)
        return false;
    else if (work->invocation->options.json)
        print_event_json(&said->event);
    else
        print_event(&said->event);
    int status = print_end(STATUS_OK);
    bool is_end = said->reply == POOL_REPLY_EVENT && is_of_pool(&said->event) &&
                  bytes_equal(said->event.pool, work->request.pool) &&
                  bytes_equal(said->event.why, bytes_of("drop"));
    if (is_end || status != STATUS_OK)
        loop_end(work->client.loop, status);
    return true;
}

/* ---- the command line -------------------------------------------------------------------- */

static const struct verb {
    const char *words; /* on the command line; the arguments follow */
    const char *wire;
    const char *arguments; /* for people */
} verbs[] = {
    {"list", "POOL LIST", " [PREFIX]"},
    {"show", "POOL SHOW", " POOL"},
    {"add", "POOL ADD", " POOL [OPTION=VALUE]..."},
    {"set", "POOL SET", " POOL OPTION=VALUE..."},
    {"drop", "POOL DROP", " POOL [now]"},
    {"watch", "WATCH", " POOL|*"},
    {"member add", "MEMBER ADD", " POOL MEMBER [VALUE [K=V]...]"},
    {"member set", "MEMBER SET", " POOL MEMBER K=V... [now]"},
    {"member drop", "MEMBER DROP", " POOL MEMBER [now]"},
};

/* The verb that the arguments begin with, and its number of words; NULL: none. */
static const struct verb *find_verb(const struct invocation *invocation, size_t *words_r)
{
    bool is_member = strcmp(invocation->arguments[0], "member") == 0 && invocation->count > 1;
    struct text given = {0};
    const struct verb *found = NULL;
    text_addf(&given, "%s", invocation->arguments[0]);
    if (is_member)
        text_addf(&given, " %s", invocation->arguments[1]);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (strcmp(verbs[i].words, text_str(&given)) == 0)
            found = &verbs[i];
    *words_r = is_member ? 2 : 1;
    text_free(&given);
    return found;
}

/* Adds the words of the request. Prints what is wrong. */
static bool add_words(const struct invocation *invocation, size_t from, struct text *line)
{
    for (size_t i = from; i < invocation->count; i++) {
        struct text word = {0};
        bool good = read_name(invocation, invocation->arguments[i], &word);
        if (good && strcspn(text_str(&word), " \r\n") < word.len) {
            complain("pool: argument %zu has a space, the end of a line or a NUL, which names and "
                     "values can't have",
                     i + 1);
            good = false;
        }
        text_addf(line, " ");
        text_add(line, word.data, word.len);
        text_free(&word);
        if (!good)
            return false;
    }
    return true;
}

/* Makes the request from the arguments. Prints what is wrong. */
static bool make_request(const struct invocation *invocation, struct text *line,
                         struct pool_request *request_r)
{
    size_t words;
    const struct verb *verb = find_verb(invocation, &words);
    if (!verb) {
        complain("pool: no such verb: \"%.*s\"; list, show, add, set, drop, watch, member add, "
                 "member set and member drop are",
                 100, invocation->arguments[0]);
        return false;
    }
    text_addf(line, "%s", verb->wire);
    if (!add_words(invocation, words, line))
        return false;
    if (pool_parse_request(text_bytes(line), request_r) == POOL_PARSED)
        return true;
    complain("pool: not of the form \"counterctl pool %s%s\", or a word is too long", verb->words,
             verb->arguments);
    return false;
}

static int work_on(struct work *work)
{
    struct invocation *invocation = work->invocation;
    int status = (int)client_open(&work->client, &protocol_text, invocation);
    if (status != STATUS_OK)
        return status;
    enum pool_verb verb = work->request.verb;
    if (verb == POOL_VERB_WATCH) {
        work->client.on_notice = take_event;
        work->client.owner = work;
    }
    bool has_rows = verb == POOL_VERB_POOL_LIST || verb == POOL_VERB_POOL_SHOW;
    ask_pool(&work->client, &work->request, 0, NULL, NULL);
    status = (int)hear(work, has_rows);
    if (status == STATUS_OK && verb == POOL_VERB_WATCH) /* its events come behind */
        status = (int)client_wait(&work->client);
    if (status == STATUS_OK && has_rows && !invocation->options.json)
        print_rows(work);
    else if (status == STATUS_OK && !has_rows && verb != POOL_VERB_WATCH)
        print_ok(invocation);
    return status;
}

int do_pool(struct invocation *invocation)
{
    struct work work = {
        .invocation = invocation,
        .pools = {.heads = {"KIND", "MEMBERS", "FREE", "TAKEN", "CLEANING", "CHECKING", "DIRTY",
                            "STOPPING", "DOWN", "WAITING", "WANT", "NAME"},
                  .align = "lrrrrrrrrrrl"},
        .members = {.heads = {"STATE", "SINCE", "FENCE", "TAKES", "FAILS", "HOLDER", "NAME"},
                    .align = "lrrrrll"},
        .waiters = {.heads = {"WAITED", "TIMEOUT", "COUNT", "FOR", "CLIENT"}, .align = "rrrll"},
    };
    struct text line = {0};
    int status = STATUS_USAGE;
    if (make_request(invocation, &line, &work.request))
        status = work_on(&work);
    client_close(&work.client);
    text_free(&line);
    text_free(&work.head);
    columns_free(&work.pools);
    columns_free(&work.members);
    columns_free(&work.waiters);
    return status;
}
