/*
 * run.c - `counterctl run`: runs a command under a lock of the text protocol, or with a member of a
 * pool (run_pool.c).
 *
 * RELEASE tells waiting ACQ4ANY clients that the work is done, so we send it only if the command
 * exited with 0. Otherwise we just close the connection, and the next of them does the work.
 */
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/held.h"
#include "cli/print.h"
#include "cli/signals.h"

#include <string.h>

/*
 * Makes the key to send: spaces become %20, as in MediaWiki's client, so that both mean the same
 * lock. Refuses other bytes that would break the line or are probably a mistake.
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
                     "leave it out, or write it as %%%02X if all users of the key do",
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

/* Prints why there is no lock, and returns the exit status. */
static enum status not_locked(const struct invocation *invocation, const struct answer *answer)
{
    const struct options *options = &invocation->options;
    const char *key = invocation->arguments[0];
    struct text shown = {0}, said = {0};
    enum status status = STATUS_PROTOCOL;
    if (options->escapes)
        text_add_shown(&shown, key);
    else
        text_add_name(&shown, bytes_of(key));
    switch (answer->text) {
    case PC_REPLY_DONE:
        text_addf(&said, "another client has just done the work: %s is not executed",
                  invocation->execute[0]);
        status = STATUS_OK;
        break;
    case PC_REPLY_TIMEOUT:
        text_addf(&said,
                  options->timeout_ns == 0 ? "all slots are taken, limit %u (--workers)"
                                           : "timed out, no slot became free, limit %u (--workers)",
                  options->workers);
        status = STATUS_TEMPORARY;
        break;
    case PC_REPLY_QUEUE_FULL:
        text_addf(&said, "the queue is full, limit %u (--queue)", options->queue);
        status = STATUS_UNAVAILABLE;
        break;
    case PC_REPLY_OUT_OF_MEMORY:
    case PC_REPLY_SHUTTING_DOWN:
    case PC_REPLY_ENGINE_AWAY:
    case PC_REPLY_ENGINE_FULL:
    case PC_REPLY_LOCK_HELD:
        status = STATUS_UNAVAILABLE;
        __attribute__((fallthrough));
    default:
        text_addf(&said, "the server answers: %.*s",
                  (int)(answer->line.len < 200 ? answer->line.len : 200),
                  (const char *)answer->line.data);
    }
    if (!options->quiet || status == STATUS_PROTOCOL)
        complain("lock %.*s: %s", 200, text_str(&shown), text_str(&said));
    text_free(&shown);
    text_free(&said);
    return status;
}

/* Requests the lock and waits for it. STATUS_OK: the answer has arrived. */
static enum status wait_for_lock(struct client *client, const struct options *options,
                                 const struct text *key, struct answer *answer_r)
{
    bool forever = options->timeout_ns == SECONDS_NONE;
    struct pc_request request = {
        .verb = options->any ? PC_ACQ4ANY : PC_ACQ4ME,
        .key = text_bytes(key),
        .workers = options->workers,
        .maxqueue = options->queue,
        .timeout_ns = forever ? PC_TIMEOUT_MAX_NS : options->timeout_ns,
    };
    ask_text(client, &request, 0, NULL, NULL);
    return client_hear(
        client, forever ? SECONDS_NONE : options->timeout_ns + options->io_timeout_ns, answer_r);
}

/* Gives the lock back as finished work. A lost connection gets a message, no more; a signal ends
   the wait for the answer. Returns the exit status. */
static int release(struct client *client, const struct text *key)
{
    struct pc_request request = {.verb = PC_RELEASE, .key = text_bytes(key)};
    struct answer answer;
    ask_text(client, &request, 0, NULL, NULL);
    enum status status = client_hear(client, client->options->io_timeout_ns, &answer);
    if (status == STATUS_OK && answer.text != PC_REPLY_RELEASED)
        complain("%s: the lock was lost before its release: %.*s", client->where,
                 (int)answer.line.len, (const char *)answer.line.data);
    return status > STATUS_SIGNAL ? (int)status : STATUS_OK;
}

static int run(struct invocation *invocation, const struct text *key)
{
    const struct options *options = &invocation->options;
    struct client client = {0};
    struct answer answer;
    int how;
    enum status status = client_open(&client, &protocol_text, invocation);
    if (status == STATUS_OK)
        status = wait_for_lock(&client, options, key, &answer);
    int exit_status = (int)status;
    if (status == STATUS_OK && answer.text != PC_REPLY_LOCKED) {
        exit_status = (int)not_locked(invocation, &answer);
    } else if (status == STATUS_OK) {
        exit_status = held_run(invocation->execute, NULL, &client, options, &how);
        if (exit_status == STATUS_OK && client.state == CLIENT_UP)
            exit_status = release(&client, key);
        client_finish(&client);
    }
    client_close(&client);
    return exit_status;
}

int do_run(struct invocation *invocation)
{
    struct text key = {0};
    int status = STATUS_USAGE;
    if (invocation->options.pool)
        return run_with_pool(invocation);
    if (make_key(invocation, &key)) {
        status = signals_begin(&invocation->loop);
        if (status == STATUS_OK)
            status = run(invocation, &key);
    }
    text_free(&key);
    return status;
}
