/*
 * clean.c - `counterctl clean`: cleans the dirty members of a pool, several at once.
 *
 * Each job has a connection, and takes one member after another over it: a wait needs a connection
 * of its own, and the loss of one concerns one member. What fails is tried again, after a pause
 * that grows with each failure, so neither a server that has gone nor a command that can't work is
 * asked without end.
 *
 * A member whose connection is lost is dirty again and goes to another cleaner, so its command must
 * end at once. For the same reason a signal that ends us returns what is being cleaned as failed,
 * and a job that only waits closes its connection, without QUIT: that would say that a member which
 * has just been sent to us is clean.
 */
#include "base/clock.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/reaper.h"
#include "cli/runner.h"
#include "cli/signals.h"
#include "cli/taken.h"

#include <stdlib.h>
#include <sys/wait.h>

/* One member at a time. It is paused, or connects, waits for a member, runs the command, or returns
   the member; or it is over. */
struct job {
    struct clean *clean;
    struct client client;
    struct runner runner;
    struct timer pause;
    int64_t pause_ns; /* the next pause */
    struct taken taken;
    bool failed; /* the command's end is no success */
    bool is_over;
};

struct clean {
    struct invocation *invocation;
    struct text by;
    struct pool_request take; /* points into `by` and into the command line */
    struct job *jobs;
    size_t count, over; /* jobs: all, and those that are over */
    struct text names;  /* --once: dirty members to take, each ended by NUL */
    size_t dirty, next; /* --once: how many they are, and the place of the next */
    struct text said;   /* the last complaint about the server, which all jobs meet; empty when it
                           works again */
    bool is_ending;
    int status; /* to exit with */
};

/* ---- complaints -------------------------------------------------------------------------- */

static void complain_of(const struct job *job, const char *what)
{
    struct text name = {0};
    const struct pool_taken_reply *member = &job->taken.at[0].member;
    text_add_name(&name, member->pool);
    text_addf(&name, "/");
    text_add_name(&name, member->member);
    complain("%s: %s", text_str(&name), what);
    text_free(&name);
}

/* ---- the states of a job ----------------------------------------------------------------- */

static void give_back(struct job *job);

static void finish(struct job *job)
{
    struct clean *clean = job->clean;
    if (job->is_over)
        return;
    job->is_over = true;
    timer_clear(&clean->invocation->loop, &job->pause);
    client_close(&job->client);
    taken_free(&job->taken);
    if (++clean->over == clean->count)
        loop_end(&clean->invocation->loop, clean->status);
}

/* Ends the command: at once if the reaper was killed, which is to end all. */
static void terminate(struct job *job)
{
    runner_terminate(&job->runner, reaper_is_gone() ? 0 : job->clean->invocation->options.grace_ns);
}

/* Ends all jobs: those that run a command when it has ended. The first reason counts. */
static void end_all(struct clean *clean, int status)
{
    if (clean->is_ending)
        return;
    clean->is_ending = true;
    clean->status = status;
    for (size_t i = 0; i < clean->count; i++) {
        struct job *job = &clean->jobs[i];
        if (runner_runs(&job->runner))
            terminate(job);
        else if (job->taken.count == 0)
            finish(job);
    }
}

/* Tries again later: connects if the connection was lost, and asks for a member. */
static void pause_job(struct job *job)
{
    timer_pause(&job->clean->invocation->loop, &job->pause, &job->pause_ns);
}

/* Says what is wrong with the server, and frees the text. Tries again later, or ends all jobs if
   that is of no use, or with --once. */
static void be_in_trouble(struct job *job, struct text *what, enum status status, bool is_final)
{
    struct clean *clean = job->clean;
    is_final |= clean->invocation->options.once;
    if (!is_final)
        text_addf(what, "; trying again");
    if (!clean->is_ending)
        complain_once(&clean->said, what);
    text_free(what);
    if (is_final)
        end_all(clean, (int)status);
    if (clean->is_ending)
        finish(job);
    else
        pause_job(job);
}

/* ---- taking a member --------------------------------------------------------------------- */

static bool on_take(void *owner, const struct answer *answer);

/* Asks for a dirty member; with --once for the next one of the list, and is over behind the last.
 */
static void take(struct job *job)
{
    struct clean *clean = job->clean;
    struct pool_request request = clean->take;
    bool is_once = clean->invocation->options.once;
    if (is_once) {
        if (clean->next == clean->names.len) {
            finish(job);
            return;
        }
        request.member = bytes_of(clean->names.data + clean->next);
        clean->next += request.member.len + 1;
    }
    ask_pool(&job->client, &request, is_once ? job->client.options->io_timeout_ns : SECONDS_NONE,
             on_take, job);
}

static void start_command(struct job *job)
{
    struct clean *clean = job->clean;
    struct environment environment = {0};
    taken_environment(&job->taken, NULL, &environment);
    int status = runner_start(&job->runner, &clean->invocation->loop, clean->invocation->execute,
                              &environment);
    environment_free(&environment);
    if (status != STATUS_OK) {
        end_all(clean, status);
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
    struct clean *clean = job->clean;
    enum pool_reply reply = answer->pool.reply;
    if (reply == POOL_REPLY_TAKEN) {
        text_clear(&clean->said);
        taken_add(&job->taken, answer->line);
        start_command(job);
    } else if (clean->invocation->options.once &&
               (reply == POOL_REPLY_TIMEOUT || reply == POOL_REPLY_NO_MEMBER)) {
        take(job); /* somebody else has it, or it has gone */
    } else {
        struct text what = {0};
        enum status status = answer_status(answer);
        text_addf(&what, "pool %s: %s answers: ", clean->invocation->arguments[0],
                  job->client.where);
        answer_explain(&what, answer);
        be_in_trouble(job, &what, status, is_final(answer));
    }
    return true;
}

/* ---- the end of a command, and giving the member back ------------------------------------- */

static bool on_return(void *owner, const struct answer *answer)
{
    struct job *job = owner;
    if (answer->pool.reply != POOL_REPLY_RETURNED) {
        struct text what = {0};
        answer_explain(&what, answer);
        complain_of(job, text_str(&what));
        text_free(&what);
    }
    taken_free(&job->taken);
    if (job->clean->is_ending) {
        finish(job);
    } else if (job->failed) {
        pause_job(job);
    } else {
        job->pause_ns = PAUSE_MIN_NS;
        take(job);
    }
    return true;
}

static void give_back(struct job *job)
{
    struct pool_request request = {.verb = POOL_VERB_RETURN,
                                   .has_fence = true,
                                   .fence = job->taken.at[0].member.fence,
                                   .failed = job->failed};
    ask_pool(&job->client, &request, job->client.options->io_timeout_ns, on_return, job);
}

static void complain_of_command(const struct job *job, int how)
{
    struct text what = {0};
    const char *name = job->clean->invocation->execute[0];
    if (WIFSIGNALED(how))
        text_addf(&what, "signal %d ended %s: it is not clean", WTERMSIG(how), name);
    else
        text_addf(&what, "%s exited with %d: it is not clean", name, WEXITSTATUS(how));
    complain_of(job, text_str(&what));
    text_free(&what);
}

static void on_command_end(void *owner, int how, bool leaves_some)
{
    struct job *job = owner;
    struct clean *clean = job->clean;
    if (leaves_some) { /* what it has started ends with it */
        terminate(job);
        return;
    }
    bool is_lost = job->client.state != CLIENT_UP;
    /* What we have told to end may say that it is done. */
    job->failed = how != 0 || clean->is_ending;
    if (how != 0 && !clean->is_ending && !is_lost) {
        complain_of_command(job, how);
        if (clean->invocation->options.once)
            clean->status = child_status(how);
    }
    if (!is_lost) {
        give_back(job);
        return;
    }
    taken_free(&job->taken);
    if (clean->is_ending)
        finish(job);
    else
        pause_job(job);
}

/* ---- the connection ---------------------------------------------------------------------- */

static void on_up(void *job)
{
    take(job);
}

static void on_lost(void *owner, enum status status)
{
    struct job *job = owner;
    struct clean *clean = job->clean;
    struct text what = {0};
    text_addf(&what, "%s: %s", job->client.where, job->client.reason);
    if (runner_runs(&job->runner)) {
        text_addf(&what, "; what is being cleaned is dirty again, and %s gets TERM",
                  clean->invocation->execute[0]);
        complain_once(&clean->said, &what);
        text_free(&what);
        if (clean->invocation->options.once)
            end_all(clean, STATUS_LOST);
        terminate(job);
        return;
    }
    taken_free(&job->taken);
    be_in_trouble(job, &what, status, status == STATUS_PROTOCOL);
}

static enum status begin(struct job *job)
{
    struct invocation *invocation = job->clean->invocation;
    return client_begin(&job->client, &protocol_text, &invocation->loop, &invocation->options,
                        on_up, on_lost, job);
}

static void on_pause_over(void *owner)
{
    struct job *job = owner;
    if (job->client.state == CLIENT_UP) {
        take(job);
        return;
    }
    enum status status = begin(job);
    if (status != STATUS_OK)
        end_all(job->clean, (int)status);
}

/* ---- all jobs ---------------------------------------------------------------------------- */

static void on_signal(void *owner, const struct signalfd_siginfo *taken)
{
    int number = (int)taken->ssi_signo;
    if (number == SIGTSTP)
        signals_stop();
    else if (number != SIGCONT)
        end_all(owner, STATUS_SIGNAL + number);
}

/* Step: finds the members that are dirty now. Returns the exit status. */
static enum status list_dirty(struct clean *clean)
{
    struct invocation *invocation = clean->invocation;
    struct client *client = &clean->jobs[0].client;
    struct pool_request show = {.verb = POOL_VERB_POOL_SHOW, .pool = clean->take.targets[0]};
    struct answer answer;
    enum status status = client_open(client, &protocol_text, invocation);
    if (status == STATUS_OK)
        ask_pool(client, &show, 0, NULL, NULL);
    while (status == STATUS_OK) {
        status = client_hear(client, invocation->options.io_timeout_ns, &answer);
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
            status = answer_refused(client, &answer, "pool %s", invocation->arguments[0]);
        }
    }
    client_close(client);
    return status;
}

/* Makes the request from the command line. Prints what is wrong. */
static bool make_request(struct clean *clean)
{
    const struct invocation *invocation = clean->invocation;
    uint8_t line[POOLS_REQUEST_ROOM];
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
    complain("clean: \"%.*s\" is not the name of a pool", 100, invocation->arguments[0]);
    return false;
}

static int run_jobs(struct clean *clean)
{
    struct loop *loop = &clean->invocation->loop;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < clean->count && status == STATUS_OK; i++) {
        struct job *job = &clean->jobs[i];
        *job = (struct job){.clean = clean,
                            .pause = {.on_due = on_pause_over, .owner = job},
                            .pause_ns = PAUSE_MIN_NS,
                            .runner = {.on_end = on_command_end, .owner = job}};
        status = begin(job);
    }
    signals_handle(on_signal, clean);
    return status == STATUS_OK ? loop_run(loop) : (int)status;
}

int do_clean(struct invocation *invocation)
{
    struct clean clean = {.invocation = invocation, .count = invocation->options.jobs};
    int status = STATUS_USAGE;
    clean.jobs = calloc(clean.count, sizeof *clean.jobs);
    if (!clean.jobs)
        out_of_memory();
    if (make_request(&clean) && reaper_begin(true, &status)) {
        status = signals_begin(&invocation->loop);
        if (status == STATUS_OK)
            status = reaper_watch(&invocation->loop);
        if (status == STATUS_OK && invocation->options.once) {
            status = (int)list_dirty(&clean);
            if (clean.dirty < clean.count)
                clean.count = clean.dirty;
        }
        if (status == STATUS_OK && clean.count > 0)
            status = run_jobs(&clean);
        reaper_end();
    }
    for (size_t i = 0; i < clean.count; i++)
        client_close(&clean.jobs[i].client);
    free(clean.jobs);
    text_free(&clean.by);
    text_free(&clean.names);
    text_free(&clean.said);
    return status;
}
