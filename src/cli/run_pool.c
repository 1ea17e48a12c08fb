/*
 * run_pool.c - `counterctl run --pool`: runs a command while holding members of a pool.
 *
 * The command's end says what becomes of the members: fail if a signal ended it or it exited with a
 * status of --fail-on, else ok. If a signal ends our wait, we say QUIT, because a member that has
 * just been sent to us would else count as one of a crashed client.
 */
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/held.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/taken.h"

#include <ctype.h>
#include <string.h>
#include <sys/wait.h>

/* The number of exit statuses of a process. */
#define EXITS 256

struct run {
    struct invocation *invocation;
    struct client client;
    struct text by;
    struct pool_request take; /* points into `by` and into the command line */
    bool fails_on[EXITS];     /* by exit status */
    struct taken taken;
    bool is_gone; /* a member had been taken away */
};

/* ---- the command line ------------------------------------------------------------------------ */

/* Prints what a value of an option is not. Returns false. */
static bool wrong(const char *option, const char *given, const char *form)
{
    return complain("run: %s: \"%.*s\" is not %s", option, 100, given, form);
}

/* True if the request is good with what an option has just added. */
static bool is_good(const struct run *run)
{
    uint8_t line[POOLS_REQUEST_ROOM];
    return pool_compose_request(&run->take, line, sizeof line) > 0;
}

static bool read_target(struct run *run, const char *given)
{
    struct pool_request *take = &run->take;
    if (given[0] == '@') {
        take->group = bytes_of(given + 1);
        return is_good(run) || wrong("--pool", given, "@GROUP");
    }
    const char *at = given, *next = given;
    for (; next && take->target_count < POOLS_TARGETS_MAX; at = next + 1) {
        next = strchr(at, ',');
        take->targets[take->target_count++] = bytes_at(at, next ? (size_t)(next - at) : strlen(at));
    }
    return (!next && is_good(run)) ||
           wrong("--pool", given, "POOL, or up to 16 different ones with commas between them");
}

static bool read_with(struct run *run, const struct texts *with)
{
    struct pool_request *take = &run->take;
    for (size_t i = 0; i < with->count; i++) {
        size_t len = strcspn(with->at[i], "=");
        const char *value = with->at[i] + len + (with->at[i][len] ? 1 : 0);
        take->pairs[take->pair_count++] =
            (struct pool_pair){.key = bytes_at(with->at[i], len), .value = bytes_of(value)};
        if (!with->at[i][len] || !is_good(run))
            return wrong("--with", with->at[i],
                         "K=V of one more attribute; K begins with a-z and has a-z, 0-9 and _");
    }
    return true;
}

/* Reads --fail-on: "nonzero", or numbers with commas between them. */
static bool read_fail_on(struct run *run, const char *given)
{
    if (strcmp(given, "nonzero") == 0) {
        memset(run->fails_on + 1, true, EXITS - 1);
        return true;
    }
    const char *at = given;
    do {
        size_t len = strcspn(at, ",");
        uint32_t number;
        if (!parse_number(bytes_at(at, len), 0, EXITS - 1, &number))
            return wrong("--fail-on", given,
                         "\"nonzero\", or exit statuses from 0 to 255 with commas between them");
        run->fails_on[number] = true;
        at += len;
    } while (*at++);
    return true;
}

static bool is_variable(const char *name)
{
    size_t len = 0;
    while (isalpha((unsigned char)name[len]) || name[len] == '_' ||
           (len > 0 && isdigit((unsigned char)name[len])))
        len++;
    return len > 0 && !name[len];
}

/* Makes the request from the command line. Prints what is wrong. */
static bool make_request(struct run *run)
{
    const struct invocation *invocation = run->invocation;
    const struct options *options = &invocation->options;
    bool forever = options->timeout_ns == SECONDS_NONE;
    taken_by(&run->by, invocation->execute[0]);
    run->take = (struct pool_request){
        .verb = POOL_VERB_TAKE,
        .count = 1,
        .timeout_ns = forever ? POOLS_TIMEOUT_MAX_NS : options->timeout_ns,
        .by = text_bytes(&run->by),
    };
    if (!read_target(run, options->pool) || !read_with(run, &options->with) ||
        (options->fail_on && !read_fail_on(run, options->fail_on)))
        return false;
    if (options->env && !is_variable(options->env))
        return wrong("--env", options->env, "the name of a variable: letters, digits and _");
    run->take.count = options->count;
    if (!options->member)
        return true;
    run->take.member = bytes_of(options->member);
    return is_good(run) ||
           wrong("--member", options->member, "the name of a member; --pool must be one pool");
}

/* ---- TAKE ------------------------------------------------------------------------------------ */

/* Prints why there is no member, and returns the exit status. */
static enum status not_taken(const struct run *run, const struct answer *answer)
{
    const struct options *options = &run->invocation->options;
    enum status status = answer_status(answer);
    bool is_usual = status == STATUS_TEMPORARY || status == STATUS_UNAVAILABLE;
    if (is_usual && options->quiet)
        return status;
    if (answer->pool.reply == POOL_REPLY_TIMEOUT && options->timeout_ns != 0)
        complain("pool %s: timed out, no member that fits became free", options->pool);
    else
        (void)answer_refused(&run->client, answer, "pool %s", options->pool);
    return status;
}

/* Takes a line of the answer to TAKE: one for each member, or a refusal. */
static bool take_line(void *owner, const struct answer *answer)
{
    struct run *run = owner;
    enum status status = STATUS_OK;
    if (answer->pool.reply == POOL_REPLY_TAKEN)
        taken_add(&run->taken, answer->line);
    else
        status = not_taken(run, answer);
    bool is_last = status != STATUS_OK || run->taken.count == run->take.count;
    if (is_last)
        loop_end(run->client.loop, (int)status);
    return is_last;
}

/* Takes the members, and waits for them. STATUS_OK: we hold them. */
static int take(struct run *run)
{
    const struct options *options = &run->invocation->options;
    bool forever = options->timeout_ns == SECONDS_NONE;
    ask_pool(&run->client, &run->take,
             forever ? SECONDS_NONE : options->timeout_ns + options->io_timeout_ns, take_line, run);
    int status = loop_run(run->client.loop);
    if (status > STATUS_SIGNAL)
        client_quit(&run->client);
    return status;
}

/* ---- RETURN ---------------------------------------------------------------------------------- */

static void not_returned(struct run *run, const struct pool_taken_reply *member,
                         const struct answer *answer)
{
    struct text what = {0};
    taken_add_name(&what, member);
    if (answer->pool.reply == POOL_REPLY_GONE)
        complain("%s was taken away while %s ran: by an operator, by hold_max of the pool, or "
                 "because it ended; others may have used it meanwhile",
                 text_str(&what), run->invocation->execute[0]);
    else
        (void)answer_refused(&run->client, answer, "%s", text_str(&what));
    run->is_gone = true;
    text_free(&what);
}

/* Gives the members back. Returns as client_hear does. */
static enum status give_back(struct run *run, bool failed)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < run->taken.count; i++) {
        struct pool_request request = taken_return(&run->taken.at[i], failed);
        ask_pool(&run->client, &request, 0, NULL, NULL);
    }
    for (size_t i = 0; i < run->taken.count && status == STATUS_OK; i++) {
        struct answer answer;
        status = client_hear(&run->client, run->client.options->io_timeout_ns, &answer);
        if (status == STATUS_OK && answer.pool.reply != POOL_REPLY_RETURNED)
            not_returned(run, &run->taken.at[i].member, &answer);
    }
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run_holding(struct run *run)
{
    const struct options *options = &run->invocation->options;
    struct environment environment = {0};
    int how;
    taken_environment(&run->taken, options->env, &environment);
    int status = held_run(run->invocation->execute, &environment, &run->client, options, &how);
    enum status returned = STATUS_LOST;
    if (run->client.state == CLIENT_UP)
        returned = give_back(run, WIFSIGNALED(how) || run->fails_on[WEXITSTATUS(how)]);
    client_finish(&run->client);
    if (returned > STATUS_SIGNAL)
        return (int)returned;
    return returned != STATUS_OK || run->is_gone ? STATUS_LOST : status;
}

int run_with_pool(struct invocation *invocation)
{
    struct run run = {.invocation = invocation};
    int status = STATUS_USAGE;
    if (make_request(&run)) {
        status = signals_begin(&invocation->loop);
        if (status == STATUS_OK)
            status = (int)client_open(&run.client, &protocol_text, invocation);
        if (status == STATUS_OK)
            status = take(&run);
        if (status == STATUS_OK)
            status = run_holding(&run);
        client_close(&run.client);
    }
    taken_free(&run.taken);
    text_free(&run.by);
    return status;
}
