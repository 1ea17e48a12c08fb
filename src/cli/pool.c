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
    json_t *pool;                /* show: the row about it, for people; NULL: not yet */
    struct table table, waiters; /* table: of pools, or of members */
};

/* ---- names and pairs ------------------------------------------------------------------------- */

/* NULL, which leaves the member out: an empty name, or 0. */
static json_t *name_if(struct bytes name)
{
    return name.len > 0 ? json_name(name) : NULL;
}

static json_t *number_if(uint64_t number)
{
    return number > 0 ? json_count(number) : NULL;
}

static json_t *pairs_of(const struct pool_pair *pairs, size_t count)
{
    json_t *all = json_object();
    for (size_t i = 0; i < count; i++) {
        struct text key = {0};
        text_add_name(&key, pairs[i].key);
        json_object_set_new(all, text_str(&key), json_name(pairs[i].value));
        text_free(&key);
    }
    return all;
}

static json_t *seconds_of(int64_t ns)
{
    return json_real((double)ns / (double)NS_PER_S);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct column pool_columns[] = {
    {"KIND", 'l', "{kind}"},
    {"MEMBERS", 'r', "{members}"},
    {"FREE", 'r', "{free}"},
    {"TAKEN", 'r', "{taken}"},
    {"CLEANING", 'r', "{cleaning}"},
    {"CHECKING", 'r', "{checking}"},
    {"DIRTY", 'r', "{dirty}"},
    {"STOPPING", 'r', "{stopping}"},
    {"DOWN", 'r', "{down}"},
    {"WAITING", 'r', "{waiting}"},
    {"WANT", 'r', "{want}"},
    {"NAME", 'l', "{name}[group?  @{group}][draining?  (draining)]"},
    {NULL},
};

static const struct column member_columns[] = {
    {"STATE", 'l', "{state}"},
    {"SINCE", 'r', "{s seconds}"},
    {"FENCE", 'r', "{fence}"},
    {"TAKES", 'r', "{takes}"},
    {"FAILS", 'r', "{fails}"},
    {"HOLDER", 'l', "{holder}"},
    {"NAME", 'l', "{name}[then? then={then}][by? by={by}][note? note={note}]{p attributes}"},
    {NULL},
};

static const struct column waiter_columns[] = {
    {"WAITED", 'r', "{s seconds}"},
    {"TIMEOUT", 'r', "{s timeout}"},
    {"COUNT", 'r', "{count}"},
    {"FOR", 'l', "{for}"},
    {"CLIENT", 'l', "{client}[member? member={member}][by? by={by}][with? with]{p with}"},
    {NULL},
};

/* What show says of the pool itself. */
static const char pool_form[] =
    "{name}: {kind}[group?, group {group}][draining?, draining][want?, want {want}]\n"
    "options:{p options}\n"
    "members: {members}: free {free}, taken {taken}, cleaning {cleaning}, checking {checking}, "
    "dirty {dirty}, stopping {stopping}, down {down}";

static void print_tables(const struct work *work)
{
    bool is_list = work->request.verb == POOL_VERB_POOL_LIST;
    if (work->pool)
        print_form(pool_form, work->pool);
    table_print(&work->table, is_list ? "" : "  ");
    if (is_list)
        return;
    printf("waiters: %zu\n", work->waiters.rows);
    table_print(&work->waiters, "  ");
}

/* ---- rows of list and show ------------------------------------------------------------------- */

static void take_pool(struct work *work, const struct pool_pool_reply *pool)
{
    json_t *row = json_make(
        {"type", json_string("pool")}, JSON_NAME(pool->name), {"kind", json_name(pool->kind)},
        {"draining", json_boolean(pool->draining)}, {"group", name_if(pool->group)});
#define ROW(count) json_object_set_new(row, #count, json_count(pool->count));
    POOL_COUNTS(ROW)
#undef ROW
    if (pool->has_want)
        json_object_set_new(row, "want", json_count(pool->want));
    json_object_set_new(row, "options", pairs_of(pool->options, pool->option_count));
    if (work->invocation->options.json || work->request.verb == POOL_VERB_POOL_LIST) {
        table_take(&work->table, row, work->invocation->options.json);
    } else {
        json_decref(work->pool);
        work->pool = row;
    }
}

static void take_member(struct work *work, const struct pool_member_reply *member)
{
    table_take(&work->table,
               json_make({"type", json_string("member")}, JSON_NAME(member->name),
                         {"state", json_name(member->state)},
                         {"seconds", seconds_of(member->since_ns)},
                         {"fence", number_if(member->fence)}, {"holder", name_if(member->holder)},
                         {"takes", json_count(member->takes)}, {"fails", json_count(member->fails)},
                         {"then", name_if(member->then)}, {"by", name_if(member->by)},
                         {"note", name_if(member->note)},
                         {"attributes", pairs_of(member->attrs, member->attr_count)}),
               work->invocation->options.json);
}

static void take_waiter(struct work *work, const struct pool_waiter_reply *waiter)
{
    table_take(&work->waiters,
               json_make({"type", json_string("waiter")}, {"client", json_name(waiter->client)},
                         {"seconds", seconds_of(waiter->since_ns)},
                         {"timeout", seconds_of(waiter->timeout_ns)},
                         {"count", json_count(waiter->count)},
                         {"for", json_string(pool_take_for_words[waiter->take_for])},
                         {"member", name_if(waiter->member)}, {"by", name_if(waiter->by)},
                         {"with", pairs_of(waiter->with, waiter->with_count)}),
               work->invocation->options.json);
}

/* ---- answers --------------------------------------------------------------------------------- */

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
    if (invocation->options.json)
        json_print({"ok", json_true()});
    else
        puts("ok");
}

/* ---- watch ----------------------------------------------------------------------------------- */

/* True if the event is about the pool itself. */
static bool is_of_pool(const struct pool_event_reply *event)
{
    return bytes_equal(event->member, bytes_of("-")) && bytes_equal(event->to, bytes_of("-"));
}

static json_t *event_row(const struct pool_event_reply *event)
{
    return json_make({"type", json_string("event")}, {"pool", json_name(event->pool)},
                     {"member", json_name(event->member)}, {"from", json_name(event->from)},
                     {"to", json_name(event->to)}, {"why", json_name(event->why)},
                     {"fence", number_if(event->fence)}, {"connection", name_if(event->conn)},
                     {"by", name_if(event->by)});
}

static void print_event(const struct pool_event_reply *event)
{
    json_t *row = event_row(event);
    print_form(
        is_of_pool(event)
            ? "{pool} {why}[fence? fence={fence}][connection? conn={connection}][by? by={by}]"
            : "{pool}/{member} {why}: {from} -> {to}[fence? fence={fence}]"
              "[connection? conn={connection}][by? by={by}]",
        row);
    json_decref(row);
}

static void print_lost(const struct work *work, uint64_t lost)
{
    if (work->invocation->options.json)
        json_print({"type", json_string("lost")}, {"events", json_count(lost)});
    else
        printf("%" PRIu64 " events were lost, because they were not read in time\n", lost);
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
        json_line(event_row(&said->event));
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

/* ---- the command line ------------------------------------------------------------------------ */

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
    if (!verb)
        return complain(
            "pool: no such verb: \"%.*s\"; list, show, add, set, drop, watch, member add, "
            "member set and member drop are",
            100, invocation->arguments[0]);
    text_addf(line, "%s", verb->wire);
    if (!add_words(invocation, words, line))
        return false;
    if (pool_parse_request(text_bytes(line), request_r) == POOL_PARSED)
        return true;
    return complain("pool: not of the form \"counterctl pool %s%s\", or a word is too long",
                    verb->words, verb->arguments);
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
        print_tables(work);
    else if (status == STATUS_OK && !has_rows && verb != POOL_VERB_WATCH)
        print_ok(invocation);
    return status;
}

int do_pool(struct invocation *invocation)
{
    struct work work = {.invocation = invocation, .waiters = {.columns = waiter_columns}};
    struct text line = {0};
    int status = STATUS_USAGE;
    if (make_request(invocation, &line, &work.request)) {
        bool is_list = work.request.verb == POOL_VERB_POOL_LIST;
        work.table.columns = is_list ? pool_columns : member_columns;
        status = work_on(&work);
    }
    client_close(&work.client);
    text_free(&line);
    json_decref(work.pool);
    table_free(&work.table);
    table_free(&work.waiters);
    return status;
}
