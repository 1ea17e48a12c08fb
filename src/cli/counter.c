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

/* ---- arguments --------------------------------------------------------------------------- */

static bool read_units(const struct invocation *invocation, size_t which, uint32_t least,
                       const char *what, uint32_t *units_r)
{
    const char *given = invocation->arguments[which];
    if (parse_number(bytes_of(given), least, UINT32_MAX, units_r))
        return true;
    complain("%s: %s is \"%.*s\", but must be a whole number from %u to %u",
             invocation->command->name, what, 100, given, least, UINT32_MAX);
    return false;
}

static enum status complain_no_number(const struct client *client)
{
    complain("%s: the answer lacks its number", client->where);
    return STATUS_PROTOCOL;
}

/* A JSON object that has the name. */
static json_t *name_object(const struct text *name)
{
    json_t *object = json_new();
    json_set_name(object, text_bytes(name));
    return object;
}

/* ---- noop, get, release ------------------------------------------------------------------ */

int do_noop(struct invocation *invocation)
{
    struct ctr_request request = {.opcode = CTR_NOOP};
    struct answer reply;
    struct client client = {0};
    enum status status = client_open(&client, &protocol_binary, invocation);
    int64_t asked_ns = clock_mono_ns();
    if (status == STATUS_OK)
        status = ask_binary(&client, &request, &reply);
    double seconds = (double)(clock_mono_ns() - asked_ns) / (double)NS_PER_S;
    char text[NUMBER_TEXT];
    if (status == STATUS_OK && reply.binary.status != CTR_STATUS_SUCCESS) {
        status = answer_refused(&client, &reply, "noop");
    } else if (status == STATUS_OK && invocation->options.json) {
        json_t *object = json_new();
        json_put(object, "ok", json_true());
        json_put(object, "seconds", json_real(seconds));
        json_line(object, stdout);
    } else if (status == STATUS_OK) {
        printf("ok, %s\n", seconds_text(seconds, text));
    }
    client_close(&client);
    return (int)status;
}

static enum status print_get(const struct invocation *invocation, const struct client *client,
                             const struct text *name, const struct answer *reply)
{
    uint32_t in_use = 0;
    bool is_found = reply->binary.status == CTR_STATUS_SUCCESS;
    if (is_found && !ctr_reply_number(&reply->binary, &in_use))
        return complain_no_number(client);
    if (invocation->options.json && (is_found || reply->binary.status == CTR_STATUS_NOT_FOUND)) {
        json_t *object = name_object(name);
        json_put(object, "exists", json_boolean(is_found));
        json_put(object, "in_use", json_integer(in_use));
        json_line(object, stdout);
        return is_found ? STATUS_OK : STATUS_NO;
    }
    if (!is_found)
        return answer_refused(client, reply, "get");
    printf("%u\n", in_use);
    return STATUS_OK;
}

static enum status print_release(const struct invocation *invocation, const struct client *client,
                                 const struct text *name, const struct answer *reply)
{
    bool is_released = reply->binary.status == CTR_STATUS_SUCCESS;
    if (!is_released && !invocation->options.json)
        return answer_refused(client, reply, "release");
    if (invocation->options.json) {
        json_t *object = name_object(name);
        json_put(object, "ok", json_boolean(is_released));
        json_put(object, "status", json_string(answer_word(reply)));
        json_line(object, stdout);
    } else {
        puts("ok");
    }
    return answer_status(reply);
}

/* Sends one request about a name, and prints the reply. */
static int ask_and_print(struct invocation *invocation, struct ctr_request *request,
                         enum status (*print)(const struct invocation *invocation,
                                              const struct client *client, const struct text *name,
                                              const struct answer *reply))
{
    struct text name = {0};
    struct client client = {0};
    struct answer reply;
    enum status status = STATUS_USAGE;
    if (read_name(invocation, invocation->arguments[0], &name) &&
        (request->opcode != CTR_RELEASE ||
         read_units(invocation, 1, 0, "UNITS", &request->units))) {
        request->name = text_bytes(&name);
        status = client_open(&client, &protocol_binary, invocation);
        if (status == STATUS_OK)
            status = ask_binary(&client, request, &reply);
        if (status == STATUS_OK)
            status = print(invocation, &client, &name, &reply);
        client_close(&client);
    }
    text_free(&name);
    return (int)status;
}

int do_get(struct invocation *invocation)
{
    return ask_and_print(invocation, &(struct ctr_request){.opcode = CTR_GET}, print_get);
}

int do_release(struct invocation *invocation)
{
    return ask_and_print(invocation, &(struct ctr_request){.opcode = CTR_RELEASE}, print_release);
}

/* ---- acquire ----------------------------------------------------------------------------- */

/* The units held, and how long. */
struct holding {
    struct invocation *invocation;
    struct client *client;
    const struct text *name;
    uint32_t units;
};

/* Gives the units back as finished work. A lost connection gets a message, no more; a signal ends
   the wait for the answer. Returns the exit status. */
static int give_back(const struct holding *holding)
{
    struct ctr_request request = {
        .opcode = CTR_RELEASE, .units = holding->units, .name = text_bytes(holding->name)};
    struct answer reply;
    enum status status = ask_binary(holding->client, &request, &reply);
    if (status == STATUS_OK && reply.binary.status != CTR_STATUS_SUCCESS)
        (void)answer_refused(holding->client, &reply, "the units were not held to their end");
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
static int hold(const struct holding *holding)
{
    int64_t for_ns = holding->invocation->options.for_ns;
    struct loop *loop = &holding->invocation->loop;
    struct watch input = {.on_ready = end_with_input, .owner = loop};
    struct timer time = {.on_due = end_with_time, .owner = loop};
    if (for_ns == SECONDS_NONE)
        watch_set(loop, &input, STDIN_FILENO, POLLIN);
    else
        timer_set(loop, &time, clock_mono_ns() + for_ns);
    holding->client->on_end = client_lost;
    holding->client->owner = holding->client;
    int status = loop_run(loop);
    holding->client->on_end = NULL;
    watch_clear(loop, &input);
    timer_clear(loop, &time);
    return status;
}

static int hold_and_say(const struct holding *holding)
{
    if (holding->invocation->options.json) {
        json_t *object = name_object(holding->name);
        json_put(object, "acquired", json_integer(holding->units));
        json_line(object, stdout);
    } else {
        printf("acquired %u\n", holding->units);
    }
    int status = print_end(STATUS_OK);
    if (status != STATUS_OK)
        return status;
    status = hold(holding);
    if (status == STATUS_OK)
        status = give_back(holding);
    else if (status != STATUS_LOST)
        (void)give_back(holding);
    client_finish(holding->client);
    return status;
}

static int hold_and_execute(const struct holding *holding)
{
    int how, status = held_run(holding->invocation->execute, NULL, holding->client,
                               &holding->invocation->options, &how);
    if (status == STATUS_OK && holding->client->state == CLIENT_UP)
        status = give_back(holding);
    client_finish(holding->client);
    return status;
}

/* Handles the reply to Acquire: holds the units that it gave. */
static int acquired(const struct holding *holding, const struct answer *reply)
{
    const struct options *options = &holding->invocation->options;
    uint32_t number;
    if (reply->binary.status == CTR_STATUS_SUCCESS) {
        if (!ctr_reply_number(&reply->binary, &number) || number != holding->units)
            return (int)complain_no_number(holding->client);
        return holding->invocation->execute ? hold_and_execute(holding) : hold_and_say(holding);
    }
    if (options->json && !holding->invocation->execute) {
        json_t *object = name_object(holding->name);
        json_put(object, "acquired", json_integer(0));
        json_put(object, "status", json_string(answer_word(reply)));
        json_line(object, stdout);
        return (int)answer_status(reply);
    }
    if (options->quiet && reply->binary.status == CTR_STATUS_NOT_AVAILABLE)
        return STATUS_TEMPORARY;
    return (int)answer_refused(holding->client, reply, "acquire");
}

static int acquire(struct holding *holding, uint32_t maximum)
{
    struct ctr_request request = {.opcode = CTR_ACQUIRE,
                                  .units = holding->units,
                                  .maximum = maximum,
                                  .name = text_bytes(holding->name)};
    struct answer reply;
    struct client client = {0};
    holding->client = &client;
    enum status status = client_open(&client, &protocol_binary, holding->invocation);
    if (status == STATUS_OK)
        status = ask_binary(&client, &request, &reply);
    int exit_status = status == STATUS_OK ? acquired(holding, &reply) : (int)status;
    client_close(&client);
    holding->client = NULL;
    return exit_status;
}

/* Checks UNITS against MAX, and --for against a command. */
static bool check_acquire(const struct invocation *invocation, uint32_t units, uint32_t maximum)
{
    if (units > maximum)
        complain("acquire: UNITS is %u, more than MAX, which is %u", units, maximum);
    else if (invocation->execute && invocation->options.for_ns != SECONDS_NONE)
        complain("acquire: --for and a COMMAND exclude each other: units are held until the "
                 "command ends");
    else
        return true;
    return false;
}

int do_acquire(struct invocation *invocation)
{
    struct text name = {0};
    struct holding holding = {.invocation = invocation, .name = &name};
    uint32_t maximum;
    int status = STATUS_USAGE;
    if (read_name(invocation, invocation->arguments[0], &name) &&
        read_units(invocation, 1, 1, "UNITS", &holding.units) &&
        read_units(invocation, 2, 1, "MAX", &maximum) &&
        check_acquire(invocation, holding.units, maximum)) {
        status = signals_begin(&invocation->loop);
        if (status == STATUS_OK)
            status = acquire(&holding, maximum);
    }
    text_free(&name);
    return status;
}
