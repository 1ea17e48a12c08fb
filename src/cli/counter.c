/*
 * counter.c - the commands of the binary protocol that make one request: noop, get, acquire,
 * release.
 */
#include "base/clock.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/held.h"
#include "cli/print.h"
#include "cli/signals.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* A request, and its reply. */
struct call {
    struct invocation *invocation;
    struct client client;
    struct text name; /* noop: none */
    struct ctr_request request;
    struct answer reply;
    double seconds; /* until the reply */
};

static bool is_good(const struct call *call)
{
    return call->reply.binary.status == CTR_STATUS_SUCCESS;
}

static int complain_no_number(const struct call *call)
{
    return complain_as(STATUS_PROTOCOL, "%s: the answer lacks its number", call->client.where);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool read_units(const struct invocation *invocation, size_t which, uint32_t least,
                       const char *what, uint32_t *units_r)
{
    const char *given = invocation->arguments[which];
    if (parse_number(bytes_of(given), least, UINT32_MAX, units_r))
        return true;
    return complain("%s: %s is \"%.*s\", but must be a whole number from %u to %u",
                    invocation->command->name, what, 100, given, least, UINT32_MAX);
}

/* Reads UNITS and MAX of acquire, and checks --for against a command. */
static bool read_acquire(const struct invocation *invocation, struct ctr_request *request)
{
    if (!read_units(invocation, 1, 1, "UNITS", &request->units) ||
        !read_units(invocation, 2, 1, "MAX", &request->maximum))
        return false;
    if (request->units > request->maximum)
        complain("acquire: UNITS is %u, more than MAX, which is %u", request->units,
                 request->maximum);
    else if (invocation->execute && invocation->options.for_ns != SECONDS_NONE)
        complain("acquire: --for and a COMMAND exclude each other: units are held until the "
                 "command ends");
    else
        return true;
    return false;
}

/* Makes the request from the command line. Prints what is wrong. */
static bool make_request(struct call *call)
{
    struct ctr_request *request = &call->request;
    if (request->opcode == CTR_NOOP)
        return true;
    if (!read_name(call->invocation, call->invocation->arguments[0], &call->name))
        return false;
    request->name = text_bytes(&call->name);
    if (request->opcode == CTR_ACQUIRE)
        return read_acquire(call->invocation, request);
    return request->opcode != CTR_RELEASE ||
           read_units(call->invocation, 1, 0, "UNITS", &request->units);
}

/* Sends the request of the command line, and calls `take` with its reply. */
static int ask_for(struct invocation *invocation, enum ctr_opcode opcode,
                   int (*take)(struct call *call))
{
    struct call call = {.invocation = invocation, .request.opcode = opcode};
    int status = STATUS_USAGE;
    if (make_request(&call)) {
        status = opcode == CTR_ACQUIRE ? signals_begin(&invocation->loop) : STATUS_OK;
        if (status == STATUS_OK)
            status = (int)client_open(&call.client, &protocol_binary, invocation);
        int64_t asked_ns = clock_mono_ns();
        if (status == STATUS_OK)
            status = (int)ask_binary(&call.client, &call.request, &call.reply);
        call.seconds = (double)(clock_mono_ns() - asked_ns) / (double)NS_PER_S;
        if (status == STATUS_OK)
            status = take(&call);
        client_close(&call.client);
    }
    text_free(&call.name);
    return status;
}

/* ---- noop, get, release ---------------------------------------------------------------------- */

static int take_noop(struct call *call)
{
    char text[NUMBER_TEXT];
    if (!is_good(call))
        return (int)answer_refused(&call->client, &call->reply, "noop");
    if (call->invocation->options.json)
        json_print({"ok", json_true()}, {"seconds", json_real(call->seconds)});
    else
        printf("ok, %s\n", seconds_text(call->seconds, text));
    return STATUS_OK;
}

int do_noop(struct invocation *invocation)
{
    return ask_for(invocation, CTR_NOOP, take_noop);
}

static int take_get(struct call *call)
{
    uint32_t in_use = 0;
    bool is_found = is_good(call);
    if (is_found && !ctr_reply_number(&call->reply.binary, &in_use))
        return complain_no_number(call);
    if (call->invocation->options.json &&
        (is_found || call->reply.binary.status == CTR_STATUS_NOT_FOUND)) {
        json_print(JSON_NAME(call->request.name), {"exists", json_boolean(is_found)},
                   {"in_use", json_count(in_use)});
        return is_found ? STATUS_OK : STATUS_NO;
    }
    if (!is_found)
        return (int)answer_refused(&call->client, &call->reply, "get");
    printf("%u\n", in_use);
    return STATUS_OK;
}

int do_get(struct invocation *invocation)
{
    return ask_for(invocation, CTR_GET, take_get);
}

static int take_release(struct call *call)
{
    if (call->invocation->options.json) {
        json_print(JSON_NAME(call->request.name), {"ok", json_boolean(is_good(call))},
                   {"status", json_string(answer_word(&call->reply))});
        return (int)answer_status(&call->reply);
    }
    if (!is_good(call))
        return (int)answer_refused(&call->client, &call->reply, "release");
    puts("ok");
    return STATUS_OK;
}

int do_release(struct invocation *invocation)
{
    return ask_for(invocation, CTR_RELEASE, take_release);
}

/* ---- acquire --------------------------------------------------------------------------------- */

/* Gives the units back as finished work. A lost connection gets a message, no more; a signal ends
   the wait for the answer. Returns the exit status. */
static int give_back(struct call *call)
{
    call->request.opcode = CTR_RELEASE;
    enum status status = ask_binary(&call->client, &call->request, &call->reply);
    if (status == STATUS_OK && !is_good(call))
        (void)answer_refused(&call->client, &call->reply, "the units were not held to their end");
    return status > STATUS_SIGNAL ? (int)status : STATUS_OK;
}

/* Drops what standard input has; ends the loop at its end. */
static void end_with_input(void *loop, short revents)
{
    char nowhere[4096];
    ssize_t n = read(STDIN_FILENO, nowhere, sizeof nowhere);
    (void)revents;
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        loop_end(loop, STATUS_OK);
}

static void end_with_time(void *loop)
{
    loop_end(loop, STATUS_OK);
}

/* Waits until the time is over, standard input ends, a signal arrives or the connection is lost. */
static int hold(struct call *call)
{
    int64_t for_ns = call->invocation->options.for_ns;
    struct loop *loop = &call->invocation->loop;
    struct watch input = {.on_ready = end_with_input, .owner = loop};
    struct timer time = {.on_due = end_with_time, .owner = loop};
    if (for_ns == SECONDS_NONE)
        watch_set(loop, &input, STDIN_FILENO, POLLIN);
    else
        timer_set(loop, &time, clock_mono_ns() + for_ns);
    call->client.on_end = client_lost;
    call->client.owner = &call->client;
    int status = loop_run(loop);
    call->client.on_end = NULL;
    watch_clear(loop, &input);
    timer_clear(loop, &time);
    return status;
}

static int hold_and_say(struct call *call)
{
    if (call->invocation->options.json)
        json_print(JSON_NAME(call->request.name), {"acquired", json_count(call->request.units)});
    else
        printf("acquired %u\n", call->request.units);
    int status = print_end(STATUS_OK);
    if (status != STATUS_OK)
        return status;
    status = hold(call);
    if (status == STATUS_OK)
        status = give_back(call);
    else if (status != STATUS_LOST)
        (void)give_back(call);
    client_finish(&call->client);
    return status;
}

static int hold_and_execute(struct call *call)
{
    int how, status = held_run(call->invocation->execute, NULL, &call->client,
                               &call->invocation->options, &how);
    if (status == STATUS_OK && call->client.state == CLIENT_UP)
        status = give_back(call);
    client_finish(&call->client);
    return status;
}

/* Handles the reply to Acquire: holds the units that it gave. */
static int take_acquire(struct call *call)
{
    const struct options *options = &call->invocation->options;
    uint32_t number;
    if (is_good(call)) {
        if (!ctr_reply_number(&call->reply.binary, &number) || number != call->request.units)
            return complain_no_number(call);
        return call->invocation->execute ? hold_and_execute(call) : hold_and_say(call);
    }
    if (options->json && !call->invocation->execute) {
        json_print(JSON_NAME(call->request.name), {"acquired", json_count(0)},
                   {"status", json_string(answer_word(&call->reply))});
        return (int)answer_status(&call->reply);
    }
    if (options->quiet && call->reply.binary.status == CTR_STATUS_NOT_AVAILABLE)
        return STATUS_TEMPORARY;
    return (int)answer_refused(&call->client, &call->reply, "acquire");
}

int do_acquire(struct invocation *invocation)
{
    return ask_for(invocation, CTR_ACQUIRE, take_acquire);
}
