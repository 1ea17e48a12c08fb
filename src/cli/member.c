/*
 * member.c - `counterctl member`: supplies members of a joined pool.
 *
 * supply.c decides what to do next. Callbacks of the connection, of commands and of signals only
 * report to it; before each wait of the loop we carry out what it returns.
 */
#include "cli/answer.h"
#include "cli/checker.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/reaper.h"
#include "cli/signals.h"
#include "cli/supply.h"

#include "base/clock.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A name's bytes behind the host's: two numbers and two dashes. */
#define NUMBERS_MAX 32

/* A longer line READY makes no request. */
#define READY_MAX POOLS_REQUEST_ROOM

/* What a slot has. */
struct place {
    struct supplier *supplier;
    uint32_t slot;
    struct text name; /* of the member */
    struct text said; /* "READY" and the words behind it */
    bool is_saying;   /* that line has not ended */
    uint32_t joins;   /* JOINs without an answer; that of the member is the last */
    struct child child;
    struct check check;
};

struct supplier {
    const struct invocation *invocation;
    const struct options *options;
    const char *pool;
    struct text name; /* what names begin with; without a command, the whole name */
    uint64_t last;    /* number of the last name */
    struct loop *loop;
    struct supply supply;
    struct timer wake;
    struct client client;
    struct checker checker;
    struct place **places; /* by slot */
    uint32_t count;
    size_t room;
    bool is_proven;      /* the server has taken us once; until then we give up when it refuses */
    bool has_started;    /* the same of the command */
    int status;          /* to exit with when we leave in order */
    bool is_over;        /* loop_end was called */
    bool has_complained; /* of the connection, or of a refusal, since it was well */
};

/* ---- what we ask for ------------------------------------------------------------------------- */

/* Sets an attribute, or replaces its value. False: there are too many. */
static bool set_pair(struct pool_request *request, struct pool_pair pair)
{
    size_t i = 0;
    while (i < request->pair_count && !bytes_equal(request->pairs[i].key, pair.key))
        i++;
    if (i == ARRAY_SIZE(request->pairs))
        return false;
    request->pairs[i] = pair;
    request->pair_count += i == request->pair_count;
    return true;
}

/*
 * Makes the JOIN of a member from the options and its READY line (empty: none), and points into
 * both. Returns false when a word is wrong, or there are too many.
 */
static bool make_join(const struct supplier *s, struct bytes name, struct bytes said,
                      struct pool_request *join_r)
{
    static uint8_t scratch[POOLS_REQUEST_ROOM];
    const struct options *options = s->options;
    struct pool_member_line line = {0};
    *join_r =
        (struct pool_request){.verb = POOL_VERB_JOIN, .pool = bytes_of(s->pool), .member = name};
    /* A READY line has the form of a member's line, with READY in place of its name. */
    if (said.len > 0 && (!pool_parse_member(said, &line) || line.down || line.note.len > 0))
        return false;
    join_r->value = line.value;
    if (line.value.len == 0 && options->value)
        join_r->value = bytes_of(options->value);
    for (size_t i = 0; i < options->attrs.count; i++) {
        const char *given = options->attrs.at[i], *equals = strchr(given, '=');
        if (!equals ||
            !set_pair(join_r, (struct pool_pair){.key = bytes_at(given, (size_t)(equals - given)),
                                                 .value = bytes_of(equals + 1)}))
            return false;
    }
    for (size_t i = 0; i < line.attr_count; i++)
        if (!set_pair(join_r, line.attrs[i]))
            return false;
    return pool_compose_request(join_r, scratch, sizeof scratch) > 0;
}

/* Asks the server; `on_answer` gets `owner`. */
static void ask(struct supplier *s, const struct pool_request *request, answer_handler *on_answer,
                void *owner)
{
    ask_pool(&s->client, request, s->options->io_timeout_ns, on_answer, owner);
}

static void end(struct supplier *s, int status)
{
    s->is_over = true;
    loop_end(s->loop, status);
}

/* Prints why the server refuses us or a member. Before it has taken us once, exits. */
static void refused(struct supplier *s, const char *what, const struct answer *answer)
{
    enum status status = answer_status(answer);
    if (!s->has_complained)
        (void)answer_refused(&s->client, answer, "%s", what);
    s->has_complained = true;
    if (!s->is_proven)
        end(s, (int)status);
}

static void proven(struct supplier *s)
{
    s->is_proven = true;
    s->has_complained = false;
}

static bool on_supplied(void *owner, const struct answer *answer)
{
    struct supplier *s = owner;
    bool is_taken = answer->pool.reply == POOL_REPLY_OK;
    if (is_taken)
        proven(s);
    else
        refused(s, s->pool, answer);
    supply_answered(&s->supply, is_taken, clock_mono_ns());
    return true;
}

static void send_supply(struct supplier *s, bool resigns)
{
    struct pool_request request = {.verb = POOL_VERB_SUPPLY, .pool = bytes_of(s->pool)};
    if (!resigns) {
        request.init = s->options->init;
        request.max = s->supply.rules.max;
    }
    ask(s, &request, resigns ? ignore_answer : on_supplied, s);
}

/* ---- members --------------------------------------------------------------------------------- */

/* True if the member may be able to join later. */
static bool may_join_later(const struct supplier *s, enum pool_reply reply)
{
    return s->supply.rules.is_single || reply == POOL_REPLY_EXISTS ||
           reply == POOL_REPLY_OUT_OF_MEMORY || reply == POOL_REPLY_SHUTTING_DOWN;
}

static bool on_joined(void *owner, const struct answer *answer)
{
    struct place *place = owner;
    struct supplier *s = place->supplier;
    bool is_joined = answer->pool.reply == POOL_REPLY_JOINED;
    if (--place->joins > 0) /* for a command that has ended meanwhile */
        return true;
    if (is_joined) {
        proven(s);
        supply_joined(&s->supply, place->slot, clock_mono_ns());
    } else {
        refused(s, text_str(&place->name), answer);
        supply_refused(&s->supply, place->slot, !may_join_later(s, answer->pool.reply),
                       clock_mono_ns());
    }
    return true;
}

static void join(struct place *place)
{
    struct pool_request request;
    CHECK(make_join(place->supplier, text_bytes(&place->name), text_bytes(&place->said), &request));
    place->joins++;
    ask(place->supplier, &request, on_joined, place);
}

static void drop(struct place *place)
{
    struct pool_request request = {.verb = POOL_VERB_MEMBER_DROP,
                                   .pool = bytes_of(place->supplier->pool),
                                   .member = text_bytes(&place->name),
                                   .now = true};
    ask(place->supplier, &request, ignore_answer, NULL);
}

static void on_checked(void *owner, uint32_t slot)
{
    struct supplier *s = owner;
    supply_checked(&s->supply, slot, clock_mono_ns());
}

/* ---- commands -------------------------------------------------------------------------------- */

/* The command has said READY: the member joins, or its start has failed. What was said is never
   printed, because the value may be a secret. */
static void ready(struct place *place)
{
    struct supplier *s = place->supplier;
    struct pool_request request;
    size_t head = strlen("READY ");
    if (place->said.len <= READY_MAX &&
        make_join(s, text_bytes(&place->name), text_bytes(&place->said), &request)) {
        supply_ready(&s->supply, place->slot, clock_mono_ns());
        return;
    }
    if (place->said.len > READY_MAX ||
        (place->said.len > head && strcspn(place->said.data + head, " ") > POOLS_VALUE_MAX))
        complain("%s: its READY line is too long: a value has up to %d bytes, the line up to %d; "
                 "have the value name a file, or leave attributes out",
                 text_str(&place->name), POOLS_VALUE_MAX, READY_MAX);
    else
        complain("%s: its READY line, which is not shown, is not of the form \"READY [VALUE] "
                 "[K=V]...\"",
                 text_str(&place->name));
    supply_stop(&s->supply, place->slot, true);
}

/* Takes the lines of the command's output that say that it is ready. The first one counts; none is
   passed on, because its value may be a secret. */
static bool take_line(void *owner, struct bytes part, bool is_last)
{
    struct place *place = owner;
    if (!place->is_saying && !bytes_equal(part, bytes_of("READY")) &&
        !bytes_begin_with(part, bytes_of("READY ")))
        return false;
    place->is_saying = !is_last;
    if (supply_state(&place->supplier->supply, place->slot) != SLOT_STARTING)
        return true;
    text_add(&place->said, part.data, part.len);
    if (is_last || place->said.len > READY_MAX)
        ready(place);
    return true;
}

static void on_end(void *owner, int how, bool leaves_some)
{
    struct place *place = owner;
    struct supplier *s = place->supplier;
    const char *command = s->invocation->execute[0];
    if (supply_state(&s->supply, place->slot) != SLOT_ENDING) {
        if (WIFSIGNALED(how))
            complain("%s: signal %d has ended %s", text_str(&place->name), WTERMSIG(how), command);
        else
            complain("%s: %s has ended with status %d", text_str(&place->name), command,
                     WEXITSTATUS(how));
    }
    checker_forget(&place->check);
    supply_ended(&s->supply, place->slot, leaves_some, clock_mono_ns());
}

static struct place *make_place(struct supplier *s, uint32_t slot)
{
    if (slot < s->count)
        return s->places[slot];
    CHECK(slot == s->count); /* slots are used from the lowest on */
    struct place *place = allocate(sizeof *place);
    s->places = array_grow(s->places, slot, &s->room, sizeof(struct place *));
    *place = (struct place){.supplier = s,
                            .slot = slot,
                            .child = {.on_end = on_end,
                                      .take = s->options->ready ? take_line : NULL,
                                      .owner = place,
                                      .death_signal = SIGKILL,
                                      .is_apart = true}};
    checker_add(&s->checker, &place->check, slot);
    return s->places[s->count++] = place;
}

/* Gives the place a name that no member has had: the wall clock's microseconds are in it, and they
   grow with each name. */
static void name_place(struct supplier *s, struct place *place)
{
    uint64_t now = (uint64_t)clock_unix_ns() / 1000;
    s->last = now > s->last ? now : s->last + 1;
    text_clear(&place->name);
    text_add(&place->name, s->name.data, s->name.len);
    if (!s->supply.rules.is_single)
        text_addf(&place->name, "-%u-%" PRIu64, place->slot, s->last);
}

static void start(struct supplier *s, uint32_t slot)
{
    struct place *place = make_place(s, slot);
    struct environment *environment = &place->child.environment;
    name_place(s, place);
    text_clear(&place->said);
    place->is_saying = false;
    if (s->supply.rules.is_single)
        return;
    /* We may be the command of a run --pool, whose member is another one. */
    environment_leave_out(environment, "COUNTER_MEMBER_");
    environment_leave_out(environment, "COUNTER_VALUE");
    environment_leave_out(environment, "COUNTER_FENCE");
    environment_leave_out(environment, "COUNTER_ATTR_");
    environment_add(environment, "COUNTER_POOL", bytes_of(s->pool));
    environment_add(environment, "COUNTER_MEMBER", text_bytes(&place->name));
    environment_add_number(environment, "COUNTER_SLOT", slot);
    int status = child_start(&place->child, s->loop, s->invocation->execute);
    if (status == STATUS_OK)
        s->has_started = true;
    else
        supply_ended(&s->supply, slot, false, clock_mono_ns());
    if (!s->has_started) /* a mistake in the command line, more likely than not */
        end(s, status);
}

static void terminate(struct place *place)
{
    if (place->supplier->supply.rules.is_single) {
        supply_ended(&place->supplier->supply, place->slot, false, clock_mono_ns());
        return;
    }
    child_signal(&place->child, SIGTERM);
    child_signal(&place->child, SIGCONT); /* it may be stopped */
}

/* ---- the connection -------------------------------------------------------------------------- */

static void on_up(void *owner)
{
    struct supplier *s = owner;
    supply_up(&s->supply);
}

static void on_lost(void *owner, enum status status)
{
    struct supplier *s = owner;
    if (!s->is_proven) {
        client_complain(&s->client);
        end(s, (int)status);
    } else if (!s->has_complained && !s->supply.is_finishing) {
        client_complain(&s->client);
        s->has_complained = true;
    }
    for (uint32_t i = 0; i < s->count; i++)
        s->places[i]->joins = 0;
    supply_down(&s->supply, clock_mono_ns());
}

static void finish(struct supplier *s, bool at_once)
{
    checker_close(&s->checker);
    supply_finish(&s->supply, at_once);
}

/* The server wants a member to end. */
static void stop(struct supplier *s, const struct pool_stop_reply *said)
{
    uint32_t i = 0;
    while (i < s->count && !bytes_equal(text_bytes(&s->places[i]->name), said->member))
        i++;
    if (i == s->count)
        return;
    if (!s->supply.rules.is_single) {
        supply_stop(&s->supply, i, false);
        return;
    }
    complain("%s: the server ends it: %.*s", text_str(&s->places[i]->name), (int)said->why.len,
             (const char *)said->why.data);
    finish(s, false);
}

static bool on_notice(void *owner, const struct answer *said)
{
    struct supplier *s = owner;
    if (said->pool.reply == POOL_REPLY_WANT)
        supply_want(&s->supply, said->pool.want.want);
    else if (said->pool.reply == POOL_REPLY_STOP)
        stop(s, &said->pool.stop);
    else
        return false;
    return true;
}

static void connect_to_server(struct supplier *s)
{
    enum status status =
        client_begin(&s->client, &protocol_text, s->loop, s->options, on_up, on_lost, s);
    if (status != STATUS_OK)
        end(s, (int)status);
    s->client.on_notice = on_notice;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void carry_out(struct supplier *s, struct supply_action action)
{
    bool of_slot = action.what >= DO_JOIN && action.what <= DO_KILL;
    struct place *place = of_slot ? s->places[action.slot] : NULL;
    switch (action.what) {
    case DO_CONNECT:
        connect_to_server(s);
        break;
    case DO_SUPPLY:
    case DO_RESIGN:
        send_supply(s, action.what == DO_RESIGN);
        break;
    case DO_START:
        start(s, action.slot);
        break;
    case DO_JOIN:
        join(place);
        break;
    case DO_CHECK:
        checker_check(&place->check, text_bytes(&place->name));
        break;
    case DO_DROP:
        drop(place);
        break;
    case DO_GIVE_UP:
        complain("%s: it does not say READY in time (--start-timeout)", text_str(&place->name));
        __attribute__((fallthrough));
    case DO_TERM:
        terminate(place);
        break;
    case DO_KILL:
        child_signal(&place->child, SIGKILL);
        break;
    case DO_LEAVE:
        if (!checker_runs(&s->checker))
            end(s, s->status);
        break;
    case DO_NOTHING:
        break;
    }
}

/* Carries out all that is to do now, before the loop waits. */
static void proceed(void *owner)
{
    struct supplier *s = owner;
    struct supply_action action;
    do {
        action = supply_next(&s->supply, clock_mono_ns());
        carry_out(s, action);
    } while (!s->is_over && action.what != DO_NOTHING && action.what != DO_LEAVE);
    if (action.what == DO_LEAVE || action.at_ns == SUPPLY_NEVER)
        timer_clear(s->loop, &s->wake);
    else
        timer_set(s->loop, &s->wake, action.at_ns);
}

static void on_signal(void *owner, const struct signalfd_siginfo *taken)
{
    struct supplier *s = owner;
    switch (taken->ssi_signo) {
    case SIGTSTP:
        signals_stop();
        break;
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
        s->status = STATUS_SIGNAL + (int)taken->ssi_signo;
        finish(s, reaper_is_gone());
        break;
    }
}

static int supply(struct supplier *s)
{
    signals_handle(on_signal, s);
    s->loop->before_wait = proceed;
    s->loop->owner = s;
    int status = loop_run(s->loop);
    s->loop->before_wait = NULL;
    timer_clear(s->loop, &s->wake);
    if (s->supply.is_hurried)
        client_close(&s->client);
    else
        (void)client_quit(&s->client);
    return status;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* What names begin with: --name, or the name of this host; and without a command our number. */
static void make_name(struct supplier *s)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (s->options->name) {
        text_addf(&s->name, "%s", s->options->name);
        return;
    }
    (void)!gethostname(host, sizeof host);
    host[HOST_NAME_MAX] = '\0';
    for (char *at = host; *at; at++)
        if (!isgraph((unsigned char)*at))
            *at = '_';
    text_addf(&s->name, "%s", host);
    if (!s->invocation->execute)
        text_addf(&s->name, "-%d", getpid());
}

/* Prints what a word of the command line is not. Returns false. */
static bool wrong(const char *what, const char *given, const char *form)
{
    return complain("member: %s: \"%.*s\" is not %s", what, 100, given, form);
}

/* Checks numbers, and what joins will be made of. Prints what is wrong. */
static bool check_options(const struct supplier *s)
{
    static const struct options none;
    const struct options *given = s->options;
    struct options tried = none;
    struct supplier as_if = {.options = &tried, .pool = s->pool};
    struct pool_request request;
    struct bytes name = bytes_of("x");
    if (given->max && given->init > given->max)
        return complain("member: --init is %u, more than --max, which is %u", given->init,
                        given->max);
    if (!make_join(&as_if, name, (struct bytes){0}, &request))
        return wrong("POOL", s->pool, "the name of a pool");
    name = text_bytes(&s->name);
    if (name.len + NUMBERS_MAX > POOLS_NAME_MAX ||
        !make_join(&as_if, name, (struct bytes){0}, &request))
        return wrong("--name", text_str(&s->name), "a name without spaces, of up to 223 bytes");
    tried.value = given->value;
    if (!make_join(&as_if, name, (struct bytes){0}, &request))
        return wrong("--value", given->value, "a word without spaces, of up to 4096 bytes");
    for (size_t i = 0; i < given->attrs.count; i++) {
        tried.attrs.at[tried.attrs.count++] = given->attrs.at[i];
        if (!make_join(&as_if, name, (struct bytes){0}, &request))
            return wrong("--attr", given->attrs.at[i],
                         "K=V of one more attribute; K begins with a-z and has a-z, 0-9 and _");
    }
    return true;
}

static void init(struct supplier *s, struct invocation *invocation)
{
    const struct options *options = &invocation->options;
    uint32_t least = options->init > 0 ? options->init : 1;
    bool is_single = !invocation->execute;
    struct supply_rules rules = {
        .max = is_single      ? 1
               : options->max ? options->max
                              : least,
        .is_single = is_single,
        .says_ready = options->ready,
        .keeps = options->keep || is_single,
        .start_timeout_ns = options->start_timeout_ns,
        .grace_ns = options->grace_ns,
        .every_ns = options->check ? options->every_ns : 0,
    };
    *s = (struct supplier){.invocation = invocation,
                           .options = options,
                           .pool = invocation->arguments[0],
                           .loop = &invocation->loop,
                           .checker = {.options = options,
                                       .loop = &invocation->loop,
                                       .pool = invocation->arguments[0],
                                       .on_checked = on_checked,
                                       .owner = s}};
    supply_init(&s->supply, &rules);
    make_name(s);
}

static void free_supplier(struct supplier *s)
{
    checker_free(&s->checker);
    client_close(&s->client);
    for (uint32_t i = 0; i < s->count; i++) {
        text_free(&s->places[i]->name);
        text_free(&s->places[i]->said);
        free(s->places[i]);
    }
    free(s->places);
    supply_free(&s->supply);
    text_free(&s->name);
}

int do_member(struct invocation *invocation)
{
    struct supplier supplier;
    int status = STATUS_USAGE;
    init(&supplier, invocation);
    if (check_options(&supplier) && reaper_begin(&invocation->loop, false, &status)) {
        if (status == STATUS_OK)
            status = supply(&supplier);
        reaper_end();
    }
    free_supplier(&supplier);
    return status;
}
