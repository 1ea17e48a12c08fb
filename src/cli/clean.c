/*
 * clean.c - `counterctl clean`: cleans the dirty members of a pool, several at once (slots.h).
 *
 * A member whose connection is lost is dirty again and goes to another cleaner, so its command must
 * end at once. For the same reason a signal that ends us returns what is being cleaned as failed,
 * and a slot that only waits closes its connection, without QUIT: that would say that a member
 * which has just been sent to us is clean.
 */
#include "cli/print.h"
#include "cli/reaper.h"
#include "cli/slots.h"
#include "cli/taken.h"

/* One member at a time. */
struct job {
    struct slot slot;
    struct taken taken;
    bool failed;    /* the command's end is no success */
    bool is_ending; /* stop has been called */
};

struct clean {
    struct slots slots;
    struct text by, what;     /* what: "pool POOL" */
    struct pool_request take; /* points into `by` and into the command line */
    struct text names;        /* --once: dirty members to take, each ended by NUL */
    size_t dirty, next;       /* --once: how many they are, and the place of the next */
};

static struct clean *clean_of(const struct job *job)
{
    return container_of(job->slot.all, struct clean, slots);
}

static void complain_of(const struct job *job, const struct text *what)
{
    struct text name = {0};
    taken_add_name(&name, &job->taken.at[0].member);
    complain("%s: %s", text_str(&name), text_str(what));
    text_free(&name);
}

static void forget(void *owner)
{
    struct job *job = owner;
    taken_free(&job->taken);
}

/* Ends the command: at once if the reaper was killed, which is to end all. */
static void terminate(struct job *job)
{
    child_terminate(&job->slot.child, reaper_is_gone() ? 0 : job->slot.options->grace_ns);
}

/* Ends the command; a further signal changes nothing. A slot that returns a member goes on. */
static void stop(void *owner, bool at_once)
{
    struct job *job = owner;
    (void)at_once;
    if (job->is_ending)
        return;
    job->is_ending = true;
    if (child_runs(&job->slot.child))
        terminate(job);
    else if (job->taken.count == 0)
        slot_over(&job->slot);
}

/* ---- giving a member back -------------------------------------------------------------------- */

static void take(void *owner);

/* The member is returned or lost: goes on with the next. */
static void go_on(struct job *job)
{
    forget(job);
    if (job->slot.all->is_ending) {
        slot_over(&job->slot);
    } else if (job->failed || job->slot.client.state != CLIENT_UP) {
        slot_pause(&job->slot);
    } else {
        job->slot.pause_ns = 0;
        take(job);
    }
}

static bool on_return(void *owner, const struct answer *answer)
{
    struct job *job = owner;
    if (answer->pool.reply != POOL_REPLY_RETURNED) {
        struct text what = {0};
        answer_explain(&what, answer);
        complain_of(job, &what);
        text_free(&what);
    }
    go_on(job);
    return true;
}

static void give_back(struct job *job)
{
    struct pool_request request = taken_return(&job->taken.at[0], job->failed);
    ask_pool(&job->slot.client, &request, job->slot.options->io_timeout_ns, on_return, job);
}

static void on_command_end(void *owner, int how, bool leaves_some)
{
    struct job *job = owner;
    struct slots *all = job->slot.all;
    if (leaves_some) { /* what it has started ends with it */
        terminate(job);
        return;
    }
    bool is_lost = job->slot.client.state != CLIENT_UP;
    /* What we have told to end may say that it is done. */
    job->failed = how != 0 || all->is_ending;
    if (how != 0 && !all->is_ending && !is_lost) {
        struct text what = {0};
        child_explain(&what, job->slot.command, how);
        text_addf(&what, ": it is not clean");
        complain_of(job, &what);
        text_free(&what);
        if (job->slot.options->once)
            all->status = child_status(how);
    }
    if (is_lost)
        go_on(job);
    else
        give_back(job);
}

/* ---- taking a member ------------------------------------------------------------------------- */

static void start_command(struct job *job)
{
    struct slots *all = job->slot.all;
    taken_environment(&job->taken, NULL, &job->slot.child.environment);
    int status = child_start(&job->slot.child, job->slot.loop, all->invocation->execute);
    if (status != STATUS_OK) {
        slots_end(all, status, false);
        job->failed = true;
        give_back(job);
    }
}

/* True for a refusal that another try can't change. */
static bool is_final(const struct answer *answer)
{
    enum status status = answer_status(answer);
    return answer->pool.reply != POOL_REPLY_NO_POOL && status != STATUS_UNAVAILABLE &&
           status != STATUS_TEMPORARY;
}

static bool on_take(void *owner, const struct answer *answer)
{
    struct job *job = owner;
    struct clean *clean = clean_of(job);
    enum pool_reply reply = answer->pool.reply;
    if (reply == POOL_REPLY_TAKEN) {
        text_clear(&clean->slots.said);
        taken_add(&job->taken, answer->line);
        start_command(job);
    } else if (job->slot.options->once &&
               (reply == POOL_REPLY_TIMEOUT || reply == POOL_REPLY_NO_MEMBER)) {
        take(job); /* somebody else has it, or it has gone */
    } else if (!slot_refused(&job->slot, text_str(&clean->what), answer, is_final(answer))) {
        slot_over(&job->slot);
    }
    return true;
}

/* Asks for a dirty member; with --once for the next one of the list, and is over behind the last.
 */
static void take(void *owner)
{
    struct job *job = owner;
    struct clean *clean = clean_of(job);
    struct pool_request request = clean->take;
    bool is_once = job->slot.options->once;
    if (is_once && clean->next == clean->names.len) {
        slot_over(&job->slot);
        return;
    }
    if (is_once) {
        request.member = bytes_of(clean->names.data + clean->next);
        clean->next += request.member.len + 1;
    }
    ask_pool(&job->slot.client, &request, is_once ? job->slot.options->io_timeout_ns : SECONDS_NONE,
             on_take, job);
}

static void on_lost(void *owner, enum status status)
{
    struct job *job = owner;
    struct slots *all = job->slot.all;
    struct text what = {0};
    text_addf(&what, "%s: %s", job->slot.client.where, job->slot.client.reason);
    if (!child_runs(&job->slot.child)) {
        forget(job);
        if (!slot_trouble(&job->slot, &what, status, status == STATUS_PROTOCOL))
            slot_over(&job->slot);
        return;
    }
    text_addf(&what, "; what is being cleaned is dirty again, and %s gets TERM", job->slot.command);
    complain_once(&all->said, &what);
    text_free(&what);
    if (job->slot.options->once)
        slots_end(all, STATUS_LOST, false);
    terminate(job);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* Step: finds the members that are dirty now. Returns the exit status. */
static enum status list_dirty(struct clean *clean)
{
    struct invocation *invocation = clean->slots.invocation;
    struct client client = {0};
    struct pool_request show = {.verb = POOL_VERB_POOL_SHOW, .pool = clean->take.targets[0]};
    struct answer answer;
    enum status status = client_open(&client, &protocol_text, invocation);
    if (status == STATUS_OK)
        ask_pool(&client, &show, 0, NULL, NULL);
    while (status == STATUS_OK) {
        status = client_hear(&client, invocation->options.io_timeout_ns, &answer);
        enum pool_reply reply = answer.pool.reply;
        if (status != STATUS_OK || reply == POOL_REPLY_END)
            break;
        const struct pool_member_reply *member = &answer.pool.member;
        if (reply == POOL_REPLY_MEMBER && bytes_equal(member->state, bytes_of("dirty"))) {
            text_add(&clean->names, member->name.data, member->name.len);
            text_add(&clean->names, "", 1);
            clean->dirty++;
        } else if (reply != POOL_REPLY_MEMBER && reply != POOL_REPLY_POOL &&
                   reply != POOL_REPLY_WAITER) {
            status = answer_refused(&client, &answer, "%s", text_str(&clean->what));
        }
    }
    client_close(&client);
    return status;
}

/* Makes the request from the command line. Prints what is wrong. */
static bool make_request(struct clean *clean)
{
    const struct invocation *invocation = clean->slots.invocation;
    uint8_t line[POOLS_REQUEST_ROOM];
    text_addf(&clean->what, "pool %s", invocation->arguments[0]);
    taken_by(&clean->by, invocation->execute[0]);
    clean->take = (struct pool_request){
        .verb = POOL_VERB_TAKE,
        .take_for = POOL_TAKE_FOR_CLEAN,
        .count = 1,
        .timeout_ns = invocation->options.once ? 0 : POOLS_TIMEOUT_MAX_NS,
        .by = text_bytes(&clean->by),
        .targets = {bytes_of(invocation->arguments[0])},
        .target_count = 1,
    };
    if (pool_compose_request(&clean->take, line, sizeof line) > 0)
        return true;
    return complain("clean: \"%.*s\" is not the name of a pool", 100, invocation->arguments[0]);
}

int do_clean(struct invocation *invocation)
{
    static const struct slots_kind kind = {.size = sizeof(struct job),
                                           .protocol = &protocol_text,
                                           .on_up = take,
                                           .on_lost = on_lost,
                                           .on_again = take,
                                           .on_end = on_command_end,
                                           .stop = stop,
                                           .forget = forget,
                                           .heeds_user_signals = true};
    struct clean clean = {
        .slots = {.kind = &kind, .invocation = invocation, .count = invocation->options.jobs}};
    struct slots *all = &clean.slots;
    int status = STATUS_USAGE;
    if (make_request(&clean) && reaper_begin(&invocation->loop, true, &status)) {
        if (status == STATUS_OK && invocation->options.once) {
            status = (int)list_dirty(&clean);
            all->count = clean.dirty < all->count ? clean.dirty : all->count;
        }
        if (status == STATUS_OK && all->count > 0)
            status = slots_run(all);
        reaper_end();
    }
    text_free(&clean.by);
    text_free(&clean.what);
    text_free(&clean.names);
    return status;
}
