/*
 * client.c - tests libcounter against a hostile server: all calls, what gives holds and jobs back,
 * and connections of the lower floor.
 *
 * The first byte chooses the call, the second one what follows it. The rest is what the server
 * says, on whichever connection is the newest. Byte 0xff and one more tell it to do something else:
 *
 *     0  hears what the client says, and steps it, before it goes on
 *     1  closes the connection
 *     2  answers the client's greeting of jobs
 *     3  says the opaque of the last binary request
 *     4  lets a second pass
 *
 * At the end it closes everything, and time passes as the client waits.
 *
 * Promises: each operation ends; its results are within what was asked for; texts of errors and
 * events are printable and fit; no piece of memory is bigger than what has come allows; everything
 * can be freed after it, and then no connection is left.
 */
#include "base/clock.h"
#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "lib/counter.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TURNS     500
#define PIECE_MAX ((size_t)512 << 10)
#define HELLO     "OK 20\r\n---\nname: \"default\"\n\r\n"

/* ---- time and memory ------------------------------------------------------------------------- */

static int64_t now_ns;

int64_t __wrap_clock_mono_ns(void);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);

int64_t __wrap_clock_mono_ns(void)
{
    return now_ns;
}

void *__wrap_malloc(size_t size)
{
    CHECK(size <= PIECE_MAX);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    CHECK(size == 0 || count <= PIECE_MAX / size);
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *at, size_t size)
{
    CHECK(size <= PIECE_MAX);
    return __real_realloc(at, size);
}

/* ---- the server ------------------------------------------------------------------------------ */

static int listeners[COUNTER_RAW] = {-1, -1, -1}; /* by protocol; they live on */
static char url[256];
static struct input script;
static int conns[64];
static size_t conn_count;
static uint8_t opaque[4];

static void open_listeners(void)
{
    if (listeners[0] >= 0)
        return;
    for (int i = 0; i < COUNTER_RAW; i++) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int len =
            snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "counter-fuzz-%d-%d", getpid(), i);
        listeners[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
        CHECK(bind(listeners[i], (struct sockaddr *)&at, size) == 0 &&
              listen(listeners[i], 64) == 0);
    }
    snprintf(url, sizeof(url),
             "counter://?text=unix:@counter-fuzz-%d-0&binary=unix:@counter-fuzz-%d-1"
             "&jobs=unix:@counter-fuzz-%d-2&max_body=100000",
             getpid(), getpid(), getpid());
}

/* Accepts new connections, and hears all. Returns whether there was anything. */
static bool hear(void)
{
    uint8_t heard[4096];
    bool any = false;
    for (int i = 0; i < COUNTER_RAW; i++)
        for (int fd; conn_count < ARRAY_SIZE(conns) &&
                     (fd = accept4(listeners[i], NULL, NULL, SOCK_NONBLOCK)) >= 0;
             any = true)
            conns[conn_count++] = fd;
    for (size_t i = 0; i < conn_count; i++)
        for (ssize_t got; (got = recv(conns[i], heard, sizeof(heard), MSG_DONTWAIT)) > 0;
             any = true)
            if (heard[0] == 0x90 && got >= 12)
                memcpy(opaque, heard + 8, 4);
    return any;
}

static void say(const void *bytes, size_t len)
{
    if (conn_count > 0)
        (void)send(conns[conn_count - 1], bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void drop(void)
{
    if (conn_count > 0)
        close(conns[--conn_count]);
}

/* Goes on with the script, to its next pause. Returns false at its end. */
static bool server_turn(void)
{
    (void)hear();
    while (script.left > 0) {
        const uint8_t *mark = memchr(script.at, 0xff, script.left);
        size_t len;
        const uint8_t *bytes =
            input_bytes(&script, mark ? (size_t)(mark - script.at) : script.left, &len);
        if (len > 0)
            say(bytes, len);
        (void)input_byte(&script);
        switch (mark ? input_byte(&script) % 5 : 0) {
        case 0:
            return true;
        case 1:
            drop();
            break;
        case 2:
            say(HELLO, sizeof(HELLO) - 1);
            break;
        case 3:
            say(opaque, sizeof(opaque));
            break;
        default:
            now_ns += NS_PER_S;
            break;
        }
    }
    while (conn_count > 0)
        drop();
    return false;
}

/* ---- what is promised ------------------------------------------------------------------------ */

static void check_text(const char *text, size_t room)
{
    size_t len = strnlen(text, room);
    CHECK(len < room);
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t size = utf8_decode((const uint8_t *)text + i, len - i, &code);
        CHECK(size > 0 && code >= 0x20 && code != 0x7f);
        i += size;
    }
}

static void check_error(const struct counter_error *error, int status)
{
    CHECK(error->status == status);
    check_text(error->server, sizeof(error->server));
    check_text(error->target, sizeof(error->target));
    check_text(error->answer, sizeof(error->answer));
    check_text(error->reason, sizeof(error->reason));
    CHECK(status != COUNTER_UNREACHABLE || !error->sent);
    CHECK(status != COUNTER_NO_MEMORY || error->answer[0]); /* ours is not short */
}

static void check_events(counter_client *client)
{
    const struct counter_event *event;
    for (int i = 0; (event = counter_next_event(client)); i++) {
        CHECK(i < 64 && event->kind && event->server);
        if (event->name)
            check_text(event->name, 208);
        CHECK(event->status == COUNTER_OK || event->status >= COUNTER_USAGE);
    }
}

/* Runs an operation against the script. Returns its status. */
static int run(counter_op *op)
{
    int status, turns = 0;
    CHECK(op);
    while ((status = counter_step(op)) == COUNTER_AGAIN) {
        CHECK(turns++ < TURNS);
        int wait_ms = counter_wait_ms(op), fd = counter_fd(op);
        CHECK(fd >= 0 || wait_ms >= 0);
        if (!server_turn() && !hear() && wait_ms >= 0)
            now_ns += (int64_t)wait_ms * NS_PER_MS;
    }
    check_error(counter_op_error(op), status);
    return status;
}

static void end(counter_op *op)
{
    (void)run(op);
    counter_op_free(op);
}

static void check_rows(counter_op *op, size_t most)
{
    const struct counter_row *row;
    for (size_t i = 0; (row = counter_next_row(op)); i++) {
        CHECK(i < most);
        uint8_t *key = exact_copy(row->key.data, row->key.len);
        uint8_t *value = exact_copy(row->value.data, row->value.len);
        free(key);
        free(value);
        CHECK(row->id >> 63 == 0);
    }
}

/* ---- the calls ------------------------------------------------------------------------------- */

static counter_client *client;
static uint8_t next; /* what follows */

static void hold(counter_op *op, size_t members)
{
    counter_hold *hold = run(op) == COUNTER_OK ? counter_take_hold(op) : NULL;
    counter_op_free(op);
    if (!hold)
        return;
    const struct counter_member *member;
    size_t count = 0;
    for (; (member = counter_hold_member(hold, count)); count++) {
        uint8_t *value = exact_copy(member->value.data, member->value.len);
        free(value);
        CHECK(member->name.len > 0 && member->fence >> 63 == 0 && member->attr_count < 1000);
        for (size_t i = 0; i < member->attr_count; i++)
            free(exact_copy(member->attrs[i].value.data, member->attrs[i].value.len));
    }
    CHECK(count == members);
    int status = counter_hold_check(hold);
    CHECK(status == COUNTER_OK || status == COUNTER_LOST);
    if (next % 3 == 0)
        counter_hold_free(hold);
    else
        end(counter_release(hold, next % 3 == 1));
}

static void ack(counter_op *op, size_t most)
{
    counter_job *job;
    size_t count = 0;
    int status = run(op);
    for (; status == COUNTER_OK && (job = counter_take_job(op)); count++) {
        const struct counter_job_view *view = counter_job_view(job);
        free(exact_copy(view->body.data, view->body.len));
        CHECK(view->id >> 63 == 0 && view->tube.len > 0 && !view->is_lost);
        switch ((next + count) % 5) {
        case 0:
            counter_job_free(job);
            break;
        case 1:
            end(counter_ack(job));
            break;
        case 2:
            end(counter_nack(job, 1));
            break;
        case 3:
            end(counter_bury(job));
            break;
        default:
            end(counter_renew(job));
            counter_job_free(job);
            break;
        }
    }
    CHECK(count <= most);
    counter_op_free(op);
}

static void rows(counter_op *op, size_t most)
{
    if (run(op) == COUNTER_OK)
        check_rows(op, most);
    counter_op_free(op);
}

static void list_jobs(void)
{
    counter_op *op = counter_list_jobs(client, counter_str("t"), "ready");
    for (int i = 0; i < 5 && run(op) == COUNTER_OK; i++)
        check_rows(op, 100);
    counter_op_free(op);
}

static void member(void)
{
    struct counter_pair attrs = {counter_str("size"), counter_str("80")};
    struct counter_member_args args = COUNTER_MEMBER_ARGS;
    args.count = 1 + next / 3 % 3;
    args.attrs = &attrs;
    args.attr_count = 1;
    hold(counter_member(client, counter_str("gpu"), &args), args.count);
}

static void units(void)
{
    struct counter_units_args args = COUNTER_UNITS_ARGS;
    args.count = 2;
    args.limit = 3;
    hold(counter_units(client, counter_str("k"), &args), 0);
}

static void put(bool is_keyed)
{
    struct counter_new_job jobs[3] = {{.body = {"x", 1}}, {.body = {"", 0}}, {.body = {"y", 1}}};
    struct counter_put_args args = COUNTER_PUT_ARGS;
    if (is_keyed)
        args.key = counter_str("key");
    if (next % 2)
        rows(counter_put(client, counter_str("t"), jobs[0].body, &args), 1);
    else
        rows(counter_put_many(client, counter_str("t"), jobs, 3), 3);
}

static void claim(void)
{
    struct counter_bytes tubes[2] = {counter_str("t"), counter_str("u")};
    struct counter_claim_args args = COUNTER_CLAIM_ARGS;
    args.count = 1 + next / 5 % 4;
    ack(counter_claim(client, tubes, 2, &args), args.count);
}

static void tube(void)
{
    struct counter_pair setting = {counter_str("limit"), counter_str("5")};
    rows(counter_tube(client, counter_str("t"), &setting, next % 2), 100000);
}

static void talk(void)
{
    enum counter_protocol protocol = (enum counter_protocol)(next % 4);
    counter_link *link = counter_link_open(client, protocol, 0);
    struct counter_message message = COUNTER_MESSAGE;
    int status = COUNTER_OK;
    CHECK(link);
    (void)counter_link_say(link, "TAKE gpu 10\n", 12);
    for (int turns = 0; status <= COUNTER_AGAIN; turns++) {
        CHECK(turns < TURNS);
        status = counter_link_step(link);
        if (next & 16 && turns == 2)
            counter_link_finish(link);
        int got;
        while ((got = counter_link_next(link, &message)) == COUNTER_OK) {
            free(exact_copy(message.line.data, message.line.len));
            free(exact_copy(message.body.data, message.body.len));
            CHECK(message.line.len <= 65536 && message.body.len <= 100000 + 65536);
            CHECK(protocol != COUNTER_BINARY || message.line.len == 12);
        }
        if (got != COUNTER_AGAIN)
            status = got;
        int wait_ms = counter_link_wait_ms(link);
        if (!server_turn() && !hear() && wait_ms >= 0)
            now_ns += (int64_t)wait_ms * NS_PER_MS;
    }
    CHECK(counter_link_step(link) == status);
    check_error(counter_link_error(link), status);
    counter_link_free(link);
}

static void call(unsigned which)
{
    struct counter_lock_args shared = COUNTER_LOCK_ARGS;
    shared.shared = true;
    switch (which) {
    case 0:
        hold(counter_lock(client, counter_str("k"), NULL), 0);
        break;
    case 1:
        hold(counter_lock(client, counter_str("k"), &shared), 0);
        break;
    case 2:
        units();
        break;
    case 3:
        rows(counter_usage(client, counter_str("k")), 1);
        break;
    case 4:
        member();
        break;
    case 5:
    case 6:
        put(which == 6);
        break;
    case 7:
        claim();
        break;
    case 8:
        tube();
        break;
    case 9:
        rows(counter_ready(client, counter_str("*"), NULL), 1000);
        break;
    case 10:
        list_jobs();
        break;
    case 11:
        rows(counter_clear(client, counter_str("t"), "all"), 1);
        break;
    case 12:
        rows(next % 2 ? counter_delete(client, 7) : counter_kick(client, 7), 1);
        break;
    default:
        talk();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_listeners();
    script = (struct input){data, size};
    now_ns = NS_PER_S;
    unsigned which = input_byte(&script) % 14;
    next = input_byte(&script);
    client = counter_open(url, NULL);
    CHECK(client);
    call(which);
    if (next & 128) /* once more, perhaps over the same connection */
        call(which);
    check_events(client);
    counter_close(client);
    (void)hear();
    while (conn_count > 0) {
        char byte;
        ssize_t got = recv(conns[conn_count - 1], &byte, 1, MSG_DONTWAIT);
        CHECK(got == 0 || (got < 0 && errno == ECONNRESET)); /* the client's end is closed */
        drop();
    }
    return 0;
}
