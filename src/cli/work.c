/*
 * work.c - `counterctl work`: executes a command for each job of tubes, several at once (slots.h).
 * A place, which is a slot with one job at a time, goes through these states:
 *
 *     paused -> claiming -> looking (what the job is) -> locking (with --lock)
 *     -> running -> reporting -> claiming
 *
 * When the connection is lost while the command runs, the job may still be ours: in a tube with
 * claim=lease the reservation outlives the connection, and the server. So the command goes on, and
 * when the server answers again we ask by renewing. A plain beanstalkd has no leases: there the
 * command ends at once, and so it does whenever the server says that the job is not ours any more,
 * because another worker may run it.
 */
#include "base/clock.h"
#include "cli/print.h"
#include "cli/reaper.h"
#include "cli/slots.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The longest that a failed job waits, in seconds. */
#define DELAY_MAX 3600u

/* The exit status of a command that wants its job buried. */
#define EXIT_BURY 100

enum state { PAUSED, CLAIMING, LOOKING, LOCKING, RUNNING, REPORTING };

/* What becomes of a job. */
enum result { DONE, BURY, RETRY, RETURN };

struct place {
    struct slot slot;
    enum state state;
    struct client lock;
    struct timer renewal;
    bool is_known;   /* the connection is up, and the server has said what it is */
    bool is_plain;   /* it is no counterd */
    bool must_pause; /* before the next claim */
    /* the job; id 0: none */
    uint64_t id, token, try;
    uint32_t pri, ttr_s;
    struct text tube, body;
    bool is_lost;       /* the job is not ours any more */
    bool is_ended;      /* we have told the command to end */
    bool is_said_again; /* the report was sent once already */
    enum result result;
    uint32_t delay_s;
};

struct work {
    struct slots slots;
    struct options lock_options; /* of the connections that hold the lock */
    char lock_server[SERVER_TEXT];
    struct text tubes; /* with a space between them */
};

static void claim(struct place *place);
static void report(struct place *place);

static struct work *work_of(const struct place *place)
{
    return container_of(place->slot.all, struct work, slots);
}

/* ---- complaints ------------------------------------------------------------------------------ */

/* Complains about the job of a place. */
PRINTF_LIKE(2, 3)
static void complain_of(const struct place *place, const char *format, ...)
{
    struct text what = {0};
    va_list values;
    text_addf(&what, "job %" PRIu64 " of %s, try %" PRIu64 ": ", place->id, text_str(&place->tube),
              place->try);
    va_start(values, format);
    text_vaddf(&what, format, values);
    va_end(values);
    complain("%s", text_str(&what));
    text_free(&what);
}

/* ---- the states of a place ------------------------------------------------------------------- */

static void forget(void *owner)
{
    struct place *place = owner;
    timer_clear(place->slot.loop, &place->renewal);
    client_close(&place->lock);
    text_free(&place->tube);
    text_free(&place->body);
    place->id = 0;
    place->is_lost = place->is_ended = place->is_said_again = false;
}

/* The job is reported or lost: goes on with the next. */
static void go_on(struct place *place)
{
    forget(place);
    if (place->slot.all->is_ending) {
        slot_over(&place->slot);
    } else if (!place->is_known || place->must_pause) {
        place->must_pause = false;
        place->state = PAUSED;
        slot_pause(&place->slot);
    } else {
        claim(place);
    }
}

static void terminate(struct place *place)
{
    place->is_ended = true;
    child_terminate(&place->slot.child, place->slot.options->grace_ns);
}

/* Decides what becomes of the job, and tells the server. */
static void decide(struct place *place, enum result result, uint32_t delay_s)
{
    timer_clear(place->slot.loop, &place->renewal);
    client_close(&place->lock);
    place->state = REPORTING;
    place->result = result;
    place->delay_s = delay_s;
    if (place->is_known)
        report(place);
    /* Else it is told when the server answers again. */
}

/* Takes no more jobs. A place without a job is over; another one when its job's command has ended
   and the server was told. `at_once`: the command is told to end, and nobody waits for what the
   server answers. */
static void stop(void *owner, bool at_once)
{
    struct place *place = owner;
    if (place->state == LOCKING)
        decide(place, RETURN, 0);
    else if (place->state == RUNNING && at_once)
        terminate(place);
    else if (place->state < LOOKING || at_once)
        slot_over(&place->slot);
}

/* Pauses in trouble with the server; or is over with all others. */
static void be_in_trouble(struct place *place, bool is_pausing)
{
    if (is_pausing && place->state != REPORTING)
        place->state = PAUSED;
    if (is_pausing)
        return;
    if (place->id && place->state == REPORTING)
        complain_of(place, "the server was not told how it ended; it may run again");
    slot_over(&place->slot);
}

static void refused(struct place *place, const char *request, const struct answer *answer)
{
    be_in_trouble(place, slot_refused(&place->slot, request, answer,
                                      answer_status(answer) == STATUS_PROTOCOL));
}

static void ask(struct place *place, struct bs_request request, answer_handler *on_answer)
{
    ask_jobs(&place->slot.client, &request, (struct bytes){0}, place->slot.options->io_timeout_ns,
             on_answer, place);
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* Says what becomes of a job that has not gone well. */
static void say_report(const struct place *place, bool is_buried)
{
    if (place->slot.options->quiet || place->result == DONE)
        return;
    if (place->result == RETURN && !is_buried)
        complain_of(place, "given back");
    else if (is_buried && place->result != BURY)
        complain_of(place, "that was its last try; it is buried");
    else if (is_buried)
        complain_of(place, "it is buried");
    else
        complain_of(place, "it is tried again in %u s", place->delay_s);
}

static bool on_report(void *owner, const struct answer *answer)
{
    struct place *place = owner;
    enum bs_answer reply = answer->jobs.answer;
    if (reply == BS_ANSWER_DELETED || reply == BS_ANSWER_RELEASED || reply == BS_ANSWER_BURIED) {
        say_report(place, reply == BS_ANSWER_BURIED);
        place->slot.pause_ns = 0;
        go_on(place);
    } else if (reply == BS_ANSWER_NOT_FOUND) {
        /* A first report may have been carried out, and its answer lost. */
        if (!place->is_said_again)
            complain_of(place, "its reservation was over before the server was told how it ended; "
                               "it may run again (is its --ttr too short?)");
        go_on(place);
    } else {
        place->is_said_again = true;
        refused(place, "the end of a job", answer);
    }
    return true;
}

static void report(struct place *place)
{
    bool is_plain = place->is_plain;
    struct bs_request request = {.id = place->id};
    if (place->result == DONE) {
        request.verb = is_plain ? BS_VERB_DELETE : BS_VERB_ACK;
    } else if (place->result == BURY) {
        request.verb = BS_VERB_BURY;
        request.pri = place->pri;
    } else {
        request.verb = is_plain ? BS_VERB_RELEASE : BS_VERB_NACK;
        request.delay_s = place->delay_s;
        if (is_plain)
            request.pri = place->pri;
    }
    if (request.verb == BS_VERB_ACK || request.verb == BS_VERB_NACK)
        request.token = place->token;
    ask(place, request, on_report);
}

/* ---- renewing -------------------------------------------------------------------------------- */

/* The server, or its loss, says that the job is not ours any more. */
static void lose(struct place *place, const char *why)
{
    bool runs = child_runs(&place->slot.child);
    complain_of(place, "%s, so another worker may run it%s%s%s", why, runs ? "; " : "",
                runs ? place->slot.command : "", runs ? " gets TERM" : "");
    place->is_lost = true;
    timer_clear(place->slot.loop, &place->renewal);
    if (runs)
        terminate(place);
    else
        go_on(place);
}

static void renew(void *owner);

static void renew_later(struct place *place)
{
    place->renewal.on_due = renew;
    place->renewal.owner = place;
    timer_set(place->slot.loop, &place->renewal, clock_mono_ns() + place->ttr_s * NS_PER_S / 3);
}

static bool on_renewed(void *owner, const struct answer *answer)
{
    struct place *place = owner;
    if (place->state != LOCKING && place->state != RUNNING)
        return true;
    if (answer->jobs.answer == BS_ANSWER_NOT_FOUND && !place->is_lost)
        lose(place, "its reservation is over");
    else if (!place->is_lost)
        renew_later(place);
    return true;
}

static void renew(void *owner)
{
    struct place *place = owner;
    struct bs_request request = {.verb = place->is_plain ? BS_VERB_TOUCH : BS_VERB_RENEW,
                                 .id = place->id,
                                 .token = place->token};
    if (place->is_known)
        ask(place, request, on_renewed);
}

/* ---- running --------------------------------------------------------------------------------- */

/* How long a failed job waits: longer after each try. */
static uint32_t delay_after(const struct place *place)
{
    uint64_t delay = place->slot.options->backoff;
    for (uint64_t i = 1; i < place->try && delay > 0 && delay < DELAY_MAX; i++)
        delay *= 2;
    return delay < DELAY_MAX ? (uint32_t)delay : DELAY_MAX;
}

static void on_failure(struct place *place, int how)
{
    const struct options *options = place->slot.options;
    struct text what = {0};
    child_explain(&what, place->slot.command, how);
    if (!options->quiet)
        complain_of(place, "%s", text_str(&what));
    text_free(&what);
    if (options->once && !place->slot.all->is_ending)
        place->slot.all->status = child_status(how);
    bool is_last = options->tries > 0 && place->try >= options->tries;
    bool is_bad = WIFEXITED(how) && WEXITSTATUS(how) == EXIT_BURY;
    decide(place, is_last || is_bad ? BURY : RETRY, delay_after(place));
}

static void on_command_end(void *owner, int how, bool leaves_some)
{
    struct place *place = owner;
    bool was_ended = place->is_ended;
    if (leaves_some) { /* what it has started ends with it */
        terminate(place);
        place->is_ended = was_ended;
        return;
    }
    if (place->is_lost)
        go_on(place);
    else if (was_ended) /* it may say that it is done, and not be */
        decide(place, RETURN, 0);
    else if (how == 0)
        decide(place, DONE, 0);
    else
        on_failure(place, how);
}

/* Makes a file of the body, from which the command reads. Returns -1 after printing why there is
   none. */
static int make_input(const struct place *place)
{
    int fd = memfd_create("job", MFD_CLOEXEC);
    size_t written = 0;
    ssize_t n = 0;
    while (fd >= 0 && n >= 0 && written < place->body.len) {
        n = write(fd, place->body.data + written, place->body.len - written);
        written += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0 && n >= 0 && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    complain_of(place, "no memory for its input: %s", strerrordesc_np(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static void start_command(struct place *place)
{
    struct child *child = &place->slot.child;
    int status = STATUS_SYSTEM;
    place->state = RUNNING;
    child->input = make_input(place);
    if (child->input >= 0) {
        environment_add_number(&child->environment, "COUNTER_JOB_ID", place->id);
        environment_add(&child->environment, "COUNTER_JOB_TUBE", text_bytes(&place->tube));
        environment_add_number(&child->environment, "COUNTER_JOB_TRY", place->try);
        status = child_start(child, place->slot.loop, place->slot.all->invocation->execute);
        close(child->input);
    }
    text_free(&place->body);
    if (status != STATUS_OK) {
        decide(place, RETURN, 0);
        slots_end(place->slot.all, status, false);
    }
}

/* ---- the lock -------------------------------------------------------------------------------- */

/* There is no lock: gives the job back for a time. */
static void on_no_lock(struct place *place, struct text *what)
{
    uint32_t delay = place->slot.options->backoff;
    text_addf(what, "; the job waits");
    complain_once(&place->slot.all->said, what);
    text_free(what);
    place->must_pause = true;
    decide(place, RETURN, delay > 0 ? delay : 1);
}

static bool on_lock(void *owner, const struct answer *answer)
{
    struct place *place = owner;
    if (answer->text == PC_REPLY_LOCKED) {
        start_command(place);
        return true;
    }
    struct text what = {0};
    text_addf(&what, "--lock %s: %s answers: ", place->slot.options->lock, place->lock.where);
    text_add_name(&what, answer->line);
    on_no_lock(place, &what);
    return true;
}

static void on_lock_up(void *owner)
{
    struct place *place = owner;
    const struct options *options = place->slot.options;
    struct pc_request request = {
        .verb = PC_ACQ4ME,
        .key = bytes_of(options->lock),
        .workers = options->workers,
        .maxqueue = UINT32_MAX,
        .timeout_ns = PC_TIMEOUT_MAX_NS,
    };
    ask_text(&place->lock, &request, SECONDS_NONE, on_lock, place);
}

static void on_lock_lost(void *owner, enum status status)
{
    struct place *place = owner;
    struct text what = {0};
    (void)status;
    text_addf(&what, "--lock %s: %s: %s", place->slot.options->lock, place->lock.where,
              place->lock.reason);
    if (place->state == LOCKING) {
        on_no_lock(place, &what);
        return;
    }
    complain_of(place, "%s; %s goes on without the lock", text_str(&what), place->slot.command);
    text_free(&what);
}

static void take_lock(struct place *place)
{
    place->state = LOCKING;
    enum status status =
        client_begin(&place->lock, &protocol_text, place->slot.loop, &work_of(place)->lock_options,
                     on_lock_up, on_lock_lost, place);
    if (status != STATUS_OK)
        slots_end(place->slot.all, (int)status, false);
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Takes what the server says about the job, and begins with it. */
static bool on_look(void *owner, const struct answer *answer)
{
    struct place *place = owner;
    const struct options *options = place->slot.options;
    if (answer->jobs.answer == BS_ANSWER_NOT_FOUND) {
        go_on(place); /* somebody has deleted it */
        return true;
    }
    if (answer->jobs.answer != BS_ANSWER_OK) {
        forget(place);
        refused(place, "stats-job", answer);
        return true;
    }
    place->pri = (uint32_t)dictionary_number(answer->body, "pri");
    place->ttr_s = (uint32_t)dictionary_number(answer->body, "ttr");
    if (place->ttr_s == 0)
        place->ttr_s = 1;
    if (place->is_plain) {
        struct bytes tube = dictionary_value(answer->body, "tube");
        text_add_name(&place->tube, tube);
        place->try = dictionary_number(answer->body, "reserves");
    }
    renew_later(place);
    if (place->slot.all->is_ending) {
        decide(place, RETURN, 0);
    } else if (!place->is_plain && options->tries > 0 && place->try > options->tries) {
        complain_of(place, "workers were lost with it, and its tries are used up (--tries)");
        decide(place, BURY, 0);
    } else if (options->lock) {
        take_lock(place);
    } else {
        start_command(place);
    }
    return true;
}

static void look(struct place *place, const struct answer *answer)
{
    const struct bs_reply *reply = &answer->jobs;
    text_clear(&place->slot.all->said);
    place->state = LOOKING;
    place->id = reply->id;
    place->token = reply->token;
    place->try = reply->try;
    if (!place->is_plain)
        text_add_name(&place->tube, reply->tube);
    text_add(&place->body, answer->body.data, answer->body.len);
    ask(place, (struct bs_request){.verb = BS_VERB_STATS_JOB, .id = place->id}, on_look);
}

static bool on_claim(void *owner, const struct answer *answer)
{
    struct place *place = owner;
    switch (answer->jobs.answer) {
    case BS_ANSWER_CLAIMED:
        if (answer->jobs.count == 1)
            return false; /* the job comes next */
        refused(place, "claim", answer);
        return true;
    case BS_ANSWER_CLAIMED_JOB:
    case BS_ANSWER_RESERVED:
        look(place, answer);
        return true;
    case BS_ANSWER_TIMED_OUT:
    case BS_ANSWER_DEADLINE_SOON:
        if (place->slot.options->once)
            slot_over(&place->slot);
        else
            claim(place);
        return true;
    default:
        refused(place, "claim", answer);
        return true;
    }
}

static void claim(struct place *place)
{
    bool once = place->slot.options->once;
    struct bs_request request = {.verb = BS_VERB_CLAIM,
                                 .count = 1,
                                 .seconds = once ? 0 : BS_WAIT_MAX,
                                 .tubes = text_bytes(&work_of(place)->tubes)};
    if (place->is_plain)
        request = (struct bs_request){.verb = BS_VERB_RESERVE_WITH_TIMEOUT,
                                      .seconds = once ? 0 : BS_WAIT_MAX};
    place->state = CLAIMING;
    ask_jobs(&place->slot.client, &request, (struct bytes){0},
             once ? place->slot.options->io_timeout_ns : SECONDS_NONE, on_claim, place);
}

/* ---- the connection -------------------------------------------------------------------------- */

static bool on_watch(void *owner, const struct answer *answer)
{
    struct place *place = owner;
    if (answer->jobs.answer != BS_ANSWER_WATCHING) {
        (void)answer_refused(&place->slot.client, answer, "watch");
        slots_end(place->slot.all, STATUS_PROTOCOL, false);
    }
    return true;
}

/* A plain beanstalkd gives jobs of watched tubes. */
static void watch_tubes(struct place *place)
{
    struct bytes left = text_bytes(&work_of(place)->tubes), tube, own = bytes_of("default");
    bool has_default = false;
    while (bs_next_tube(&left, &tube)) {
        has_default |= bytes_equal(tube, own);
        ask(place, (struct bs_request){.verb = BS_VERB_WATCH, .tube = tube}, on_watch);
    }
    if (!has_default)
        ask(place, (struct bs_request){.verb = BS_VERB_IGNORE, .tube = own}, on_watch);
}

static bool on_kind(void *owner, const struct answer *answer)
{
    struct place *place = owner;
    place->is_known = true;
    place->is_plain = answer_is_plain(answer);
    text_clear(&place->slot.all->said);
    timer_clear(place->slot.loop, &place->slot.pause);
    if (place->is_plain)
        watch_tubes(place);
    if (place->state == REPORTING) {
        report(place);
    } else if (place->state == RUNNING && !place->is_lost) {
        if (place->is_plain)
            lose(place, "the connection was lost");
        else
            renew(place);
    } else if (place->state != RUNNING) {
        place->slot.pause_ns = 0;
        claim(place);
    }
    return true;
}

static void on_up(void *owner)
{
    struct place *place = owner;
    ask(place, kind_request(), on_kind);
}

static void on_lost(void *owner, enum status status)
{
    struct place *place = owner;
    struct text what = {0};
    place->is_known = false;
    text_addf(&what, "%s: %s", place->slot.client.where, place->slot.client.reason);
    if (place->state == RUNNING) {
        complain_once(&place->slot.all->said, &what);
        text_free(&what);
        if (place->is_plain && !place->is_lost)
            lose(place, "the connection was lost");
        slot_pause(&place->slot);
        return;
    }
    if (place->state == REPORTING) {
        place->is_said_again = true;
    } else {
        forget(place);
        place->state = PAUSED;
    }
    be_in_trouble(place, slot_trouble(&place->slot, &what, status, status == STATUS_PROTOCOL));
}

/* The pause is over, and the connection was not lost. */
static void on_again(void *owner)
{
    struct place *place = owner;
    if (place->is_known && place->state == REPORTING)
        report(place);
    else if (place->is_known && place->state == PAUSED)
        claim(place);
}

/* ---- the command line ------------------------------------------------------------------------ */

static bool read_tubes(struct work *work)
{
    const struct invocation *invocation = work->slots.invocation;
    uint8_t line[BS_NEW_LINE_MAX];
    for (size_t i = 0; i < invocation->count; i++) {
        if (!check_tube("work", invocation->arguments[i]))
            return false;
        text_addf(&work->tubes, "%s%s", i ? " " : "", invocation->arguments[i]);
    }
    struct bs_request request = {.verb = BS_VERB_CLAIM,
                                 .count = 1,
                                 .seconds = BS_WAIT_MAX,
                                 .tubes = text_bytes(&work->tubes)};
    if (bs_compose_request(&request, line, sizeof line) > 0)
        return true;
    return complain("work: the names of all tubes together are too long for one request");
}

/* Finds out where the lock is. Prints what is wrong. */
static bool read_lock(struct work *work)
{
    const struct options *options = &work->slots.invocation->options;
    struct server server;
    if (!options->lock)
        return true;
    bool good = options->lock[0] && strlen(options->lock) <= PC_KEY_MAX;
    for (const char *at = options->lock; good && *at; at++)
        good = (unsigned char)*at > ' ' && *at != 0x7f;
    if (!good)
        return complain("work: --lock: not a key: 1 to %d bytes without spaces and controls",
                        PC_KEY_MAX);
    work->lock_options = *options;
    work->lock_options.server = options->lock_server;
    if (options->lock_server)
        return server_find(&work->lock_options, &server);
    if (!server_find(options, &server))
        return false;
    if (server.is_unix || options->tls)
        return complain(
            "work: --lock: where is the server of locks? Name it with --lock-server, because "
            "--server is a unix socket or a TLS port of the job queues");
    server.port = 0;
    work->lock_options.server = server_text(&server, PORT_TEXT, work->lock_server);
    return true;
}

int do_work(struct invocation *invocation)
{
    static const struct slots_kind kind = {.size = sizeof(struct place),
                                           .protocol = &protocol_jobs,
                                           .on_up = on_up,
                                           .on_lost = on_lost,
                                           .on_again = on_again,
                                           .on_end = on_command_end,
                                           .stop = stop,
                                           .forget = forget};
    struct work work = {
        .slots = {.kind = &kind, .invocation = invocation, .count = invocation->options.jobs}};
    int status = STATUS_USAGE;
    if (read_tubes(&work) && read_lock(&work) && reaper_begin(&invocation->loop, false, &status)) {
        if (status == STATUS_OK)
            status = slots_run(&work.slots);
        reaper_end();
    }
    text_free(&work.tubes);
    return status;
}
