/*
 * checker.c - checks members of a joined pool (checker.h).
 */
#include "cli/checker.h"

#include "base/clock.h"
#include "cli/answer.h"
#include "cli/print.h"
#include "cli/taken.h"

#include <sys/wait.h>

/* The check is over, except for processes. */
static void checked(struct check *check)
{
    check->state = child_runs(&check->child) ? CHECK_ENDS : CHECK_NONE;
    check->checker->on_checked(check->checker->owner, check->slot);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void give_back(struct check *check, bool failed)
{
    struct checker *checker = check->checker;
    struct pool_request request = {
        .verb = POOL_VERB_RETURN, .has_fence = true, .fence = check->fence, .failed = failed};
    if (!check->is_lost)
        ask_pool(&checker->client, &request, checker->options->io_timeout_ns, ignore_answer, NULL);
    checked(check);
}

static void on_end(void *owner, int how, bool leaves_some)
{
    struct check *check = owner;
    timer_clear(check->checker->loop, &check->limit);
    child_signal(&check->child, SIGKILL);
    if (check->state == CHECK_RUNS)
        give_back(check, child_status(how) != 0);
    if (!leaves_some)
        check->state = CHECK_NONE;
}

static void on_limit(void *owner)
{
    struct check *check = owner;
    complain("%s: the check takes too long (--every)", text_str(&check->member));
    child_signal(&check->child, SIGKILL);
}

static void start(struct check *check, struct bytes line)
{
    struct checker *checker = check->checker;
    struct taken taken = {0};
    char *argv[] = {unconst("sh"), unconst("-c"), unconst(checker->options->check), NULL};
    taken_add(&taken, line);
    check->fence = taken.at[0].member.fence;
    taken_environment(&taken, NULL, &check->child.environment);
    environment_add_number(&check->child.environment, "COUNTER_SLOT", check->slot);
    check->is_lost = false;
    if (child_start(&check->child, checker->loop, argv) == STATUS_OK) {
        check->state = CHECK_RUNS;
        timer_set(checker->loop, &check->limit, clock_mono_ns() + checker->options->every_ns);
    } else {
        give_back(check, false); /* not the member's fault */
    }
    taken_free(&taken);
}

/* ---- the connection -------------------------------------------------------------------------- */

static bool on_taken(void *owner, const struct answer *answer)
{
    struct check *check = owner;
    if (answer->pool.reply == POOL_REPLY_TAKEN) {
        start(check, answer->line);
        return true;
    }
    if (answer->pool.reply != POOL_REPLY_TIMEOUT && answer->pool.reply != POOL_REPLY_NO_MEMBER)
        (void)answer_refused(&check->checker->client, answer, "check");
    checked(check);
    return true;
}

static void take(struct check *check)
{
    struct checker *checker = check->checker;
    struct text by = {0};
    taken_by(&by, "check");
    struct pool_request request = {.verb = POOL_VERB_TAKE,
                                   .take_for = POOL_TAKE_FOR_CHECK,
                                   .count = 1,
                                   .target_count = 1,
                                   .targets = {bytes_of(checker->pool)},
                                   .member = text_bytes(&check->member),
                                   .by = text_bytes(&by)};
    check->state = CHECK_TAKES;
    ask_pool(&checker->client, &request, checker->options->io_timeout_ns, on_taken, check);
    text_free(&by);
}

static void on_up(void *owner)
{
    struct checker *checker = owner;
    for (struct check *at = checker->checks; at && checker->client.state == CLIENT_UP;
         at = at->next)
        if (at->state == CHECK_WAITS)
            take(at);
}

/* Ends all checks, after the connection. */
static void end_all(struct checker *checker)
{
    for (struct check *check = checker->checks; check; check = check->next) {
        check->is_lost = true;
        if (check->state == CHECK_RUNS)
            child_signal(&check->child, SIGKILL);
        else if (check->state == CHECK_WAITS || check->state == CHECK_TAKES)
            checked(check);
    }
}

/* The connection is lost, or can't be made. */
static void on_lost(void *owner, enum status status)
{
    struct checker *checker = owner;
    (void)status;
    client_complain(&checker->client);
    end_all(checker);
}

/* ---- checks ---------------------------------------------------------------------------------- */

void checker_add(struct checker *checker, struct check *check, uint32_t slot)
{
    struct check **at = &checker->checks;
    while (*at)
        at = &(*at)->next;
    *at = check;
    *check = (struct check){
        .checker = checker,
        .slot = slot,
        .child = {.on_end = on_end, .owner = check, .death_signal = SIGKILL, .is_apart = true},
        .limit = {.on_due = on_limit, .owner = check}};
}

void checker_check(struct check *check, struct bytes member)
{
    struct checker *checker = check->checker;
    enum status status = STATUS_OK;
    if (check->state != CHECK_NONE) { /* the check of the slot's member before this one */
        checker->on_checked(checker->owner, check->slot);
        return;
    }
    text_clear(&check->member);
    text_add(&check->member, member.data, member.len);
    check->state = CHECK_WAITS;
    if (checker->client.state == CLIENT_CLOSED)
        status = client_begin(&checker->client, &protocol_text, checker->loop, checker->options,
                              on_up, on_lost, checker);
    if (status != STATUS_OK)
        checked(check);
    else if (checker->client.state == CLIENT_UP)
        take(check);
}

void checker_forget(struct check *check)
{
    child_signal(&check->child, SIGKILL);
}

bool checker_runs(const struct checker *checker)
{
    const struct check *at = checker->checks;
    while (at && !child_runs(&at->child))
        at = at->next;
    return at != NULL;
}

void checker_close(struct checker *checker)
{
    client_close(&checker->client);
    end_all(checker);
}

void checker_free(struct checker *checker)
{
    CHECK(!checker_runs(checker));
    client_close(&checker->client);
    for (struct check *at = checker->checks; at; at = at->next)
        text_free(&at->member);
}
