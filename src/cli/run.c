/*
 * run.c - `counterctl run`: a command under a lock of the text protocol.
 *
 * The lock is given back with RELEASE only where the command has exited with 0: RELEASE tells those
 * who wait for anybody's work (ACQ4ANY) that it is done. After any other end the connection is
 * just closed, and the next of them does the work.
 */
#include "base/clock.h"
#include "cli/ask.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/print.h"

#include <string.h>

/*
 * The key as it is sent: spaces as MediaWiki's client sends them, so that both mean the same lock.
 * Other bytes that would break the line, or were hardly meant, are refused.
 */
static bool make_key(const struct invocation *invocation, struct text *key)
{
    struct text given = {0};
    bool good = read_name(invocation, invocation->arguments[0], &given);
    struct bytes bytes = text_bytes(&given);
    for (size_t i = 0; good && i < bytes.len; i++) {
        uint8_t byte = bytes.data[i];
        if (byte == ' ') {
            text_add(key, "%20", 3);
        } else if (byte < ' ' || byte == 0x7f) {
            complain("run: byte %zu of the key is the control 0x%02x, which a key can't hold; "
                     "leave it out, or write it as %%%02X if all who use the key do so",
                     i + 1, byte, byte);
            good = false;
        } else {
            text_add(key, &byte, 1);
        }
    }
    if (good && key->len > PC_KEY_MAX) {
        complain("run: the key has %zu bytes as it is sent (a space takes 3); keys have at most %d",
                 key->len, PC_KEY_MAX);
        good = false;
    }
    text_free(&given);
    return good;
}

/* Says why there is no lock, and returns the exit status of that. */
static enum status not_locked(const struct invocation *invocation, enum pc_reply reply,
                              struct bytes line)
{
    const struct options *options = &invocation->options;
    const char *key = invocation->arguments[0];
    struct text shown = {0}, said = {0};
    enum status status = STATUS_PROTOCOL;
    if (options->escapes)
        text_add_shown(&shown, key);
    else
        text_add_name(&shown, bytes_of(key));
    switch (reply) {
    case PC_REPLY_DONE:
        text_addf(&said, "somebody else has just done the work: %s is not executed",
                  invocation->execute[0]);
        status = STATUS_OK;
        break;
    case PC_REPLY_TIMEOUT:
        text_addf(&said,
                  options->timeout_ns == 0 ? "%u hold it already (--workers)"
                                           : "%u held it all the time (--workers)",
                  options->workers);
        status = STATUS_TEMPORARY;
        break;
    case PC_REPLY_QUEUE_FULL:
        text_addf(&said, "%u hold it or wait for it already (--queue)", options->queue);
        status = STATUS_UNAVAILABLE;
        break;
    case PC_REPLY_OUT_OF_MEMORY:
    case PC_REPLY_SHUTTING_DOWN:
    case PC_REPLY_LOCK_HELD:
        status = STATUS_UNAVAILABLE;
        __attribute__((fallthrough));
    default:
        text_addf(&said, "the server answers: ");
        struct text answer = {0};
        text_add(&answer, line.data, line.len < 200 ? line.len : 200);
        text_add_shown(&said, text_str(&answer));
        text_free(&answer);
    }
    if (!options->quiet || status == STATUS_PROTOCOL)
        complain("lock %.*s: %s", 200, text_str(&shown), text_str(&said));
    text_free(&shown);
    text_free(&said);
    return status;
}

/* Asks for the lock and waits for it. STATUS_OK: *reply_r has come. */
static enum status wait_for_lock(struct client *client, struct signals *signals,
                                 const struct options *options, const struct text *key,
                                 enum pc_reply *reply_r, struct bytes *line_r)
{
    bool forever = options->timeout_ns == SECONDS_NONE;
    struct pc_request request = {
        .verb = options->any ? PC_ACQ4ANY : PC_ACQ4ME,
        .key = text_bytes(key),
        .workers = options->workers,
        .maxqueue = options->queue,
        .timeout_ns = forever ? PC_TIMEOUT_MAX_NS : options->timeout_ns,
    };
    enum status status = ask_send_line(client, &request);
    if (status != STATUS_OK)
        return status;
    int64_t deadline =
        forever ? SECONDS_NONE : clock_mono_ns() + options->timeout_ns + client->io_timeout_ns;
    do
        status = ask_line(client, deadline, reply_r, line_r);
    while (ask_again(signals, &status));
    return status;
}

/* Gives the lock back as work done. That the connection is lost by now is worth a word only. */
static void release(struct client *client, const struct text *key)
{
    struct pc_request request = {.verb = PC_RELEASE, .key = text_bytes(key)};
    enum pc_reply reply;
    struct bytes line;
    client->interrupt = -1;
    if (ask_send_line(client, &request) != STATUS_OK ||
        ask_line(client, clock_mono_ns() + client->io_timeout_ns, &reply, &line) != STATUS_OK)
        return;
    if (reply != PC_REPLY_RELEASED)
        complain("%s: the lock was not held to its end: %.*s", client->where, (int)line.len,
                 (const char *)line.data);
}

/* Holds the lock while the command runs. */
static int run_locked(struct invocation *invocation, struct client *client, struct signals *signals,
                      const struct text *key)
{
    struct child_result result =
        child_run(invocation->execute, client, signals, &invocation->options);
    if (!result.is_lost && result.status == STATUS_OK)
        release(client, key);
    client_finish(client);
    return result.status;
}

static int run(struct invocation *invocation, struct signals *signals, const struct text *key)
{
    const struct options *options = &invocation->options;
    struct client client;
    enum pc_reply reply;
    struct bytes line;
    enum status status = ask_open_until(&client, options, PORT_TEXT, signals);
    if (status == STATUS_OK)
        status = wait_for_lock(&client, signals, options, key, &reply, &line);
    int exit_status = (int)status;
    if (status == STATUS_OK)
        exit_status = reply == PC_REPLY_LOCKED ? run_locked(invocation, &client, signals, key)
                                               : (int)not_locked(invocation, reply, line);
    client_close(&client);
    return exit_status;
}

int do_run(struct invocation *invocation)
{
    struct text key = {0};
    struct signals signals;
    int status = STATUS_USAGE;
    if (make_key(invocation, &key)) {
        status = signals_begin(&signals);
        if (status == STATUS_OK) {
            status = run(invocation, &signals, &key);
            signals_close(&signals);
        }
    }
    text_free(&key);
    return status;
}
