/*
 * ask_pool.c - the client of pools (ask_pool.h).
 */
#include "cli/ask_pool.h"

#include "base/clock.h"
#include "cli/ask_text.h"
#include "cli/print.h"
#include "cli/signals.h"

#include <ctype.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

/* How long QUIT may take; no signal ends it. */
#define QUIT_NS NS_PER_S

/* ---- requests ---------------------------------------------------------------------------- */

static size_t take_line(struct client *client, struct bytes data)
{
    struct pool_line line;
    enum pc_reply ignored;
    size_t used;
    enum pc_parsed parsed =
        pc_parse_reply(data.data, data.len, ASK_LINE_MAX, &ignored, &line.line, &used);
    if (parsed == PC_MORE)
        return 0;
    if (parsed != PC_OK)
        return client_refuse(client);
    bool is_notice = client->on_notice && client->on_notice(client->owner, line.line);
    if (!is_notice && client->count > 0) {
        pool_parse_reply(line.line, &line.answer);
        client_answer(client, &line);
    }
    return used;
}

const struct protocol protocol_pool = {
    .name = "text protocol", .port = PORT_TEXT, .parts_max = ASK_PARTS_MAX, .take = take_line};

void ask_pool(struct client *client, const struct pool_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner)
{
    uint8_t line[POOLS_REQUEST_ROOM];
    size_t len = pool_compose_request(request, line, sizeof line);
    CHECK(len > 0);
    client_ask(client,
               (struct ask){.on_answer = on_answer, .owner = owner, .timeout_ns = timeout_ns}, line,
               len);
}

enum status ask_pool_wait(struct client *client, const struct pool_request *request,
                          int64_t timeout_ns, struct pool_line *line_r)
{
    ask_pool(client, request, timeout_ns, client_keep,
             client_expect(client, line_r, sizeof *line_r));
    return client_wait(client);
}

void ask_pool_by(struct text *by_r, const char *command)
{
    char host[HOST_NAME_MAX + 1] = "";
    const struct passwd *user = getpwuid(geteuid()); /* NOLINT(concurrency-mt-unsafe): one thread */
    const char *slash = strrchr(command, '/');
    (void)!gethostname(host, sizeof host);
    host[HOST_NAME_MAX] = '\0';
    text_clear(by_r);
    if (user)
        text_addf(by_r, "%s", user->pw_name);
    else
        text_addf(by_r, "%u", geteuid());
    text_addf(by_r, "@%s:%s", host, slash ? slash + 1 : command);
    if (by_r->len > POOLS_BY_MAX)
        by_r->len = POOLS_BY_MAX;
    by_r->data[by_r->len] = '\0';
    for (size_t i = 0; i < by_r->len; i++)
        if (!isgraph((unsigned char)by_r->data[i]))
            by_r->data[i] = '_';
}

/* ---- lines between answers --------------------------------------------------------------- */

bool ask_pool_is_notice(struct bytes line)
{
    static const char *const heads[] = {"WANT ", "STOP ", "EVENT ", "LOST "};
    for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
        if (bytes_begin_with(line, bytes_of(heads[i])))
            return true;
    return false;
}

/* ---- quit -------------------------------------------------------------------------------- */

/* Takes all lines, because BYE may overtake the answer of a wait. */
static bool await_bye(void *owner, struct bytes line)
{
    const struct client *client = owner;
    if (bytes_equal(line, bytes_of("BYE")))
        loop_end(client->link.loop, STATUS_OK);
    return true;
}

static void on_end(void *owner, enum status status)
{
    const struct client *client = owner;
    loop_end(client->link.loop, (int)status);
}

bool ask_pool_quit(struct client *client)
{
    struct pool_request quit = {.verb = POOL_VERB_QUIT};
    bool is_said = false;
    if (client->link.state == LINK_UP) {
        signals_handle(NULL, NULL); /* another one ends this wait */
        client->count = 0;          /* nobody waits for their answers */
        client->owner = client;
        client->on_notice = await_bye;
        client->on_end = on_end;
        /* Its time limit is all that we need; await_bye takes the answer. */
        ask_pool(client, &quit, QUIT_NS, NULL, NULL);
        is_said = loop_run(client->link.loop) == STATUS_OK;
    }
    client_close(client);
    return is_said;
}

/* ---- refusals ---------------------------------------------------------------------------- */

/* The exit status for each reply, and what it means for people. */
static const struct meaning {
    enum pool_reply reply;
    enum status status;
    const char *text;
} meanings[] = {
    {POOL_REPLY_RETURNED, STATUS_OK, "returned"},
    {POOL_REPLY_JOINED, STATUS_OK, "joined"},
    {POOL_REPLY_OK, STATUS_OK, "ok"},
    {POOL_REPLY_BYE, STATUS_OK, "bye"},
    {POOL_REPLY_GONE, STATUS_LOST, "it was taken away meanwhile"},
    {POOL_REPLY_NOT_TAKEN, STATUS_LOST, "this connection does not hold it"},
    {POOL_REPLY_TIMEOUT, STATUS_TEMPORARY, "no member that fits is free"},
    {POOL_REPLY_QUEUE_FULL, STATUS_UNAVAILABLE, "the queue is full (option queue_max of the pool)"},
    {POOL_REPLY_SHUTTING_DOWN, STATUS_UNAVAILABLE, "it is shutting down"},
    {POOL_REPLY_OUT_OF_MEMORY, STATUS_UNAVAILABLE,
     "it has no memory (option counter.memory_limit of the server)"},
    {POOL_REPLY_TOO_MANY, STATUS_UNAVAILABLE,
     "that is more than it allows (options pools.* of the server)"},
    {POOL_REPLY_POOL_FULL, STATUS_UNAVAILABLE,
     "the pool is full (its option max, or pools.max_members of the server)"},
    {POOL_REPLY_DENIED, STATUS_DENIED,
     "this host may not do that (options pools.operators and pools.suppliers of the server)"},
    {POOL_REPLY_NO_POOL, STATUS_NO, "there is no such pool"},
    {POOL_REPLY_NO_MEMBER, STATUS_NO, "there is no such member"},
    {POOL_REPLY_WRONG_KIND, STATUS_NO, "that can't be done with a pool of this kind"},
    {POOL_REPLY_EXISTS, STATUS_NO, "the name is in use"},
    {POOL_REPLY_LINE_TOO_LONG, STATUS_USAGE,
     "the request is too long (option poolcounter.max_line of the server)"},
    {POOL_REPLY_BAD_COMMAND, STATUS_PROTOCOL, "it knows nothing of pools: is it too old?"},
};

static const struct meaning *meaning_of(enum pool_reply reply)
{
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if (meanings[i].reply == reply)
            return &meanings[i];
    return NULL;
}

enum status ask_pool_status(enum pool_reply reply)
{
    const struct meaning *meaning = meaning_of(reply);
    if (meaning)
        return meaning->status;
    return reply == POOL_REPLY_BAD_VALUE ? STATUS_USAGE : STATUS_PROTOCOL;
}

void ask_pool_explain(struct text *to, const struct pool_line *line)
{
    const struct meaning *meaning = meaning_of(line->answer.reply);
    if (meaning) {
        text_addf(to, "%s", meaning->text);
    } else if (line->answer.reply == POOL_REPLY_BAD_VALUE) {
        text_addf(to, "the value of ");
        text_add_name(to, line->answer.bad_value);
        text_addf(to, " is wrong, or the pool has no such option");
    } else {
        text_add_name(to, bytes_at(line->line.data, line->line.len < 200 ? line->line.len : 200));
    }
}

enum status ask_pool_refused(const struct client *client, const char *what,
                             const struct pool_line *line)
{
    struct text said = {0};
    ask_pool_explain(&said, line);
    complain("%s: %s answers: %s", what, client->link.where, text_str(&said));
    text_free(&said);
    return ask_pool_status(line->answer.reply);
}
