/*
 * put.c - `counterctl put`: makes a job of what it reads, or with --lines of each line.
 *
 * Lines are sent before the ones in front of them are answered, as many as a batch may have; then
 * we wait for all their answers. The first refusal ends the work, because what the lines behind it
 * are worth without it is not ours to say.
 */
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/print.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define READ_SIZE 65536

/* A batch: what is sent before we wait for the answers. */
#define BATCH_MAX   200
#define BATCH_BYTES ((size_t)4 << 20)

struct put {
    struct invocation *invocation;
    struct client client;
    struct bs_request request; /* points into the command line */
    const char *from;          /* the input, for people */
    int fd;
    struct text input;     /* unread bytes */
    size_t taken;          /* bytes of it that are done */
    size_t sent, answered; /* jobs */
    size_t bytes;          /* of bodies sent since there was nothing without an answer */
    bool is_refused;
    struct progress progress;
};

/* ---- answers --------------------------------------------------------------------------------- */

/* Says where the job came from that the server refuses. */
static enum status refused(struct put *put, const struct answer *answer)
{
    progress_end(&put->progress);
    if (!put->invocation->options.lines)
        return answer_refused(&put->client, answer, "put: %s", put->from);
    return answer_refused(&put->client, answer, "put: %s, line %zu (the %zu before it are stored)",
                          put->from, put->answered + 1, put->answered);
}

static void print_id(const struct put *put, const struct bs_reply *reply)
{
    bool is_duplicate = reply->answer == BS_ANSWER_DUPLICATE;
    if (put->invocation->options.json) {
        json_print({"id", json_count(reply->id)}, {"duplicate", json_boolean(is_duplicate)});
        return;
    }
    printf("%" PRIu64 "\n", reply->id);
    if (is_duplicate && !put->invocation->options.quiet)
        complain(reply->id ? "put: the tube has a job with this key already: %" PRIu64
                           : "put: a job with this key was done since (%" PRIu64 ")",
                 reply->id);
}

static bool on_put(void *owner, const struct answer *answer)
{
    struct put *put = owner;
    struct loop *loop = put->client.loop;
    if (put->is_refused) /* what is stored behind a refusal can't be told apart by its id */
        return true;
    if (answer->jobs.answer != BS_ANSWER_INSERTED && answer->jobs.answer != BS_ANSWER_DUPLICATE) {
        put->is_refused = true;
        loop_end(loop, (int)refused(put, answer));
        return true;
    }
    print_id(put, &answer->jobs);
    put->answered++;
    progress_show(&put->progress, "%zu jobs stored", put->answered);
    if (put->answered == put->sent) {
        put->bytes = 0;
        loop_end(loop, STATUS_OK);
    }
    return true;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Sends a job. STATUS_OK: its answer may come later. */
static enum status send_job(struct put *put, struct bytes body)
{
    if (body.len > CLIENT_BODY_MAX) {
        progress_end(&put->progress);
        return complain_as(STATUS_NO,
                           "put: %s: job %zu has more than 64 MiB, and no server takes that",
                           put->from, put->sent + 1);
    }
    put->sent++;
    put->bytes += body.len;
    ask_jobs(&put->client, &put->request, body, put->invocation->options.io_timeout_ns, on_put,
             put);
    return STATUS_OK;
}

static enum status await_answers(struct put *put)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && put->answered < put->sent)
        status = client_wait(&put->client);
    return status;
}

/* Sends the lines that have come; at the end of the input also the last one without an end. */
static enum status send_lines(struct put *put, bool is_end)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && put->taken < put->input.len) {
        const char *line = put->input.data + put->taken;
        size_t left = put->input.len - put->taken;
        const char *end = memchr(line, '\n', left);
        if (!end && !is_end && left <= CLIENT_BODY_MAX)
            break;
        size_t len = end ? (size_t)(end - line) : left;
        put->taken += len + (end ? 1 : 0);
        status = send_job(put, bytes_at(line, len));
        if (status == STATUS_OK &&
            (put->sent - put->answered >= BATCH_MAX || put->bytes >= BATCH_BYTES))
            status = await_answers(put);
    }
    if (put->taken > 0)
        memmove(put->input.data, put->input.data + put->taken, put->input.len - put->taken);
    put->input.len -= put->taken;
    put->taken = 0;
    return status;
}

/* ---- input ----------------------------------------------------------------------------------- */

/* Reads once. STATUS_OK: *is_end_r is true at the end of the input. */
static enum status read_input(struct put *put, bool *is_end_r)
{
    static char data[READ_SIZE];
    struct pollfd ready = {.fd = put->fd, .events = POLLIN};
    if (poll(&ready, 1, 0) == 0)
        return STATUS_OK;
    ssize_t n = read(put->fd, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return STATUS_OK;
    if (n < 0) {
        complain("put: can't read %s: %s", put->from, strerrordesc_np(errno));
        return put->fd == STDIN_FILENO ? STATUS_OUTPUT : STATUS_NO_INPUT;
    }
    *is_end_r = n == 0;
    text_add(&put->input, data, (size_t)n);
    return STATUS_OK;
}

static enum status put_input(struct put *put)
{
    bool is_end = false, is_lines = put->invocation->options.lines;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !is_end) {
        fflush(stdout);
        status = client_wait_input(&put->client, put->fd); /* meanwhile answers come */
        if (status == STATUS_OK)
            status = read_input(put, &is_end);
        if (status == STATUS_OK && is_lines)
            status = send_lines(put, is_end);
        else if (status == STATUS_OK && (is_end || put->input.len > CLIENT_BODY_MAX))
            status = send_job(put, text_bytes(&put->input));
    }
    return status == STATUS_OK ? await_answers(put) : status;
}

/* ---- the server and the command line --------------------------------------------------------- */

/* Finds out what the server can, and makes the request fit. A plain beanstalkd puts into the tube
   that is in use. */
static enum status meet_server(struct put *put)
{
    const struct options *options = &put->invocation->options;
    struct client *client = &put->client;
    struct answer answer;
    bool is_plain;
    enum status status = open_jobs(client, &protocol_jobs, put->invocation, &is_plain);
    if (!is_plain)
        return status;
    if (options->unique || options->tries)
        return complain_as(STATUS_NO, "put: %s is no counterd: it has no --%s", client->where,
                           options->unique ? "unique" : "tries");
    struct bs_request use = {.verb = BS_VERB_USE, .tube = put->request.tube};
    put->request.verb = BS_VERB_PUT;
    put->request.tube = (struct bytes){0};
    ask_jobs(client, &use, (struct bytes){0}, 0, NULL, NULL);
    status = client_hear(client, options->io_timeout_ns, &answer);
    if (status == STATUS_OK && answer.jobs.answer != BS_ANSWER_USING)
        status = answer_refused(client, &answer, "put: use");
    return status;
}

/* Makes the request from the command line. Prints what is wrong. */
static bool make_request(struct put *put)
{
    const struct options *options = &put->invocation->options;
    uint8_t line[BS_NEW_LINE_MAX];
    if (!check_tube("put", put->invocation->arguments[0]))
        return false;
    put->request = (struct bs_request){
        .verb = BS_VERB_PUT_INTO,
        .tube = bytes_of(put->invocation->arguments[0]),
        .pri = options->pri,
        .delay_s = options->delay,
        .ttr_s = options->ttr,
        .options = {.key = options->unique ? bytes_of(options->unique) : (struct bytes){0},
                    .tries = options->tries,
                    .has_tries = options->tries > 0},
    };
    if (bs_compose_request(&put->request, line, sizeof line) > 0 &&
        !(options->unique && !options->unique[0]))
        return true;
    return complain(
        "put: --unique: \"%.*s\" is not a key: 1 to %d of A-Z a-z 0-9 - + / ; . $ _ ( ), the "
        "first of them no dash",
        100, options->unique ? options->unique : "", BS_KEY_MAX);
}

/* Opens FILE, or takes standard input. Prints what is wrong. */
static enum status open_input(struct put *put)
{
    const struct invocation *invocation = put->invocation;
    const char *file = invocation->count > 1 ? invocation->arguments[1] : "-";
    put->fd = STDIN_FILENO;
    put->from = "standard input";
    if (strcmp(file, "-") == 0)
        return STATUS_OK;
    put->from = file;
    put->fd = open(file, O_RDONLY | O_CLOEXEC);
    if (put->fd >= 0)
        return STATUS_OK;
    return complain_as(STATUS_NO_INPUT, "put: %s: %s", file, strerrordesc_np(errno));
}

int do_put(struct invocation *invocation)
{
    struct put put = {.invocation = invocation};
    if (!make_request(&put))
        return STATUS_USAGE;
    enum status status = open_input(&put);
    if (status == STATUS_OK)
        status = meet_server(&put);
    if (status == STATUS_OK)
        status = put_input(&put);
    progress_end(&put.progress);
    client_close(&put.client);
    if (put.fd > STDIN_FILENO)
        close(put.fd);
    text_free(&put.input);
    return (int)status;
}
