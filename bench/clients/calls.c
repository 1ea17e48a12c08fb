/*
 * The same as calls.py, in C: `calls SUBJECT TEXT_PORT JOBS_PORT REDIS_PORT [CA]`. SUBJECT: c
 * (libcounter), bare-c (send and recv with the same bytes).
 */
#include "lib/counter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BODY_BYTES = 100, RECV_BYTES = 16384, SEND_BYTES = 1024 };

typedef void call_fn(const char *tube);

static char body[BODY_BYTES + 1];

static void check(bool is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "calls: %s\n", what);
        exit(1); // NOLINT(concurrency-mt-unsafe): no threads
    }
}

/* ---- libcounter ------------------------------------------------------------------------------ */

static counter_client *client;

/* Runs an operation that must succeed. */
static counter_op *ran(counter_op *op)
{
    check(op && counter_run(op) == COUNTER_OK, op ? counter_op_error(op)->reason : "no memory");
    return op;
}

static void library_open(const char *text, const char *jobs, const char *ca)
{
    char url[512];
    snprintf(url, sizeof(url), "counter://127.0.0.1:%s?jobs=%s%s%s", text, jobs,
             ca ? "&tls=1&tls_ca=" : "", ca ? ca : "");
    struct counter_error error = COUNTER_ERROR;
    client = counter_open(url, &error);
    check(client, error.reason);
}

static void library_lock(const char *tube)
{
    (void)tube;
    counter_op *op = ran(counter_lock(client, counter_str("bench"), NULL));
    counter_op_free(ran(counter_release(counter_take_hold(op), true)));
    counter_op_free(op);
}

static void library_put(const char *tube)
{
    counter_op_free(
        ran(counter_put(client, counter_str(tube), counter_bytes_at(body, BODY_BYTES), NULL)));
}

static void library_claim(const char *tube)
{
    struct counter_claim_args args = COUNTER_CLAIM_ARGS;
    args.timeout = 0;
    struct counter_bytes name = counter_str(tube);
    counter_op *op = ran(counter_claim(client, &name, 1, &args));
    counter_op_free(ran(counter_ack(counter_take_job(op))));
    counter_op_free(op);
}

/* ---- send and recv --------------------------------------------------------------------------- */

static int locks, queue;
static char sent[SEND_BYTES], got[RECV_BYTES];

static int connected(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0,
          "no connection");
    int on = 1;
    struct timeval limit = {.tv_sec = 10};
    check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
              setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0,
          "no option");
    return fd;
}

/* Sends the first `len` bytes of `sent`; `got` has the answer, which must begin with `wanted`. */
static void ask(int fd, int len, const char *wanted)
{
    check(send(fd, sent, (size_t)len, MSG_NOSIGNAL) == len, "not sent");
    ssize_t n = recv(fd, got, sizeof(got) - 1, 0);
    got[n > 0 ? n : 0] = '\0';
    check(strncmp(got, wanted, strlen(wanted)) == 0, "a wrong answer");
}

static void bare_lock(const char *tube)
{
    (void)tube;
    ask(locks, snprintf(sent, sizeof(sent), "ACQ4ME bench 1 101 10.000\n"), "LOCKED\n");
    ask(locks, snprintf(sent, sizeof(sent), "RELEASE bench\n"), "RELEASED\n");
}

static void bare_put(const char *tube)
{
    int len =
        snprintf(sent, sizeof(sent), "put-into %s 1024 0 60 %d\r\n%s\r\n", tube, BODY_BYTES, body);
    ask(queue, len, "INSERTED ");
}

static void bare_claim(const char *tube)
{
    static const char head[] = "CLAIMED 1\r\nRESERVED ";
    ask(queue, snprintf(sent, sizeof(sent), "claim 1 0 %s\r\n", tube), head);
    char *at = got + sizeof(head) - 1;
    unsigned long long id = strtoull(at, &at, 10);
    (void)strtoull(at, &at, 10); /* the size of its body */
    unsigned long long token = strtoull(at, &at, 10);
    ask(queue, snprintf(sent, sizeof(sent), "ack %llu %llu\r\n", id, token), "DELETED\r\n");
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double seconds(const struct timespec *t)
{
    return (double)t->tv_sec + (double)t->tv_nsec / 1e9;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return seconds(&t);
}

/* Processor time of this process. */
static double used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return seconds(&t);
}

int main(int argc, char **argv)
{
    check(argc >= 5, "arguments are missing");
    bool is_library = strcmp(argv[1], "c") == 0;
    memset(body, 'x', BODY_BYTES);
    if (is_library) {
        library_open(argv[2], argv[3], argv[5]);
    } else {
        locks = connected(argv[2]);
        queue = connected(argv[3]);
    }
    puts("{}");
    fflush(stdout);
    char line[256], *rest;
    while (fgets(line, sizeof(line), stdin)) {
        const char *which = strtok_r(line, " \n", &rest);
        unsigned long count = strtoul(rest, &rest, 10);
        const char *tube = strtok_r(NULL, " \n", &rest);
        check(which && tube, "a wrong line");
        call_fn *call = strcmp(which, "lock") == 0  ? (is_library ? library_lock : bare_lock)
                        : strcmp(which, "put") == 0 ? (is_library ? library_put : bare_put)
                                                    : (is_library ? library_claim : bare_claim);
        double before = used(), begin = now();
        for (unsigned long i = 0; i < count; i++)
            call(tube);
        printf("{\"seconds\": %.9f, \"cpu\": %.9f}\n", now() - begin, used() - before);
        fflush(stdout);
    }
    return 0;
}
