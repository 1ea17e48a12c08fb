/*
 * storm.c - many clients of both protocols on a few names, and an observer who counts.
 *
 * usage: storm HOST TEXT_PORT BINARY_PORT SECONDS SEED
 *
 * Every thread is one client after another: it connects, acquires units of a few names, works for a
 * moment, and then releases, closes, half-closes, resets or vanishes amid a request. Each name has
 * one limit, the same in every request.
 *
 * The observer is one atomic count a name. A client raises it after it has read that it holds
 * units, and lowers it before it sends a release or ends. So at any moment the count is at most
 * what the server has given out, and a count above the limit is a fault of the server's, whatever
 * the order in which threads run.
 *
 * At the end all units must be free again and nobody may be waiting. Every blocking call has a
 * timeout. Exits 0 where nothing was violated, 1 where something was, 2 for wrong usage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define THREADS       200
#define NAMES         16
#define HELD_MAX      3
#define REPLY_TIMEOUT 40 /* seconds; far beyond any wait that a client here asks for */
#define FREE_TIMEOUT  10 /* seconds for all units to be free at the end */
#define ROOM          512

#define OP_GET     0x01
#define OP_ACQUIRE 0x02
#define OP_RELEASE 0x03

#define ST_OK            0x00
#define ST_NOT_FOUND     0x01
#define ST_NOT_AVAILABLE 0x21

/* How a client ends. */
enum ending {
    END_RELEASE,  /* releases one by one, then closes */
    END_CLOSE,    /* closes with units held */
    END_HALF,     /* shuts down its sending side and waits for the server to close */
    END_RESET,    /* RST */
    END_PARTIAL,  /* half a request, then close */
    END_UNHEARD,  /* a request whose answer is never read, then close */
    END_RST_WAIT, /* the same, then RST */
    END_COUNT
};

static const char *const ending_names[END_COUNT] = {
    "released", "closed", "half-closed", "reset", "amid a request", "unheard", "unheard and reset",
};

struct held {
    unsigned name;
    uint32_t units;
};

struct client {
    int fd;
    bool is_text;
    uint64_t random;
    uint32_t opaque;
    struct in_addr source; /* each thread has an address of its own, for its own range of ports */
    size_t held_count;
    struct held held[HELD_MAX];
    size_t have; /* bytes read ahead in buffer */
    char buffer[ROOM];
};

struct totals {
    atomic_ulong connections;
    atomic_ulong put_off;
    atomic_ulong locked, done, timed_out, full;
    atomic_ulong acquired, unavailable;
    atomic_ulong endings[END_COUNT];
};

static struct totals totals;
static atomic_long observed[NAMES];
static atomic_long highest[NAMES];
static atomic_ulong violations;
static atomic_bool is_over;

static struct in_addr server_host;
static uint16_t text_port, binary_port;

/* --- small helpers ----------------------------------------------------------------------------*/

static void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void violation(const char *format, ...)
{
    if (atomic_fetch_add(&violations, 1) >= 20) {
        return; /* the first few tell enough */
    }
    char text[ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("violation: %s\n", text);
    fflush(stdout);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t below(struct client *c, uint32_t limit)
{
    return (uint32_t)(next_random(&c->random) % limit);
}

static uint32_t limit_of(unsigned name)
{
    return 1 + name % 5;
}

static void pause_ms(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static void observer_raise(unsigned name, uint32_t units)
{
    long count = atomic_fetch_add(&observed[name], (long)units) + (long)units;
    long seen = atomic_load(&highest[name]);
    while (count > seen && !atomic_compare_exchange_weak(&highest[name], &seen, count)) {
    }
    if (count > (long)limit_of(name)) {
        violation("%ld units of storm-%u at once, limit %u", count, name, limit_of(name));
    }
}

static void observer_lower(unsigned name, uint32_t units)
{
    atomic_fetch_sub(&observed[name], (long)units);
}

/* --- connections ------------------------------------------------------------------------------*/

/* Connects; false where it cannot now (out of ports: put off) or not at all (a violation). */
static bool client_connect(struct client *c)
{
    c->have = 0;
    c->held_count = 0;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        violation("socket: %s", strerror(errno));
        return false;
    }
    int one = 1;
    struct timeval limit = {.tv_sec = REPLY_TIMEOUT};
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = c->source};
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_addr = server_host,
        .sin_port = htons(c->is_text ? text_port : binary_port),
    };
    if ((c->source.s_addr != INADDR_ANY &&
         bind(c->fd, (const struct sockaddr *)&from, sizeof from) < 0) ||
        connect(c->fd, (const struct sockaddr *)&to, sizeof to) < 0) {
        int error = errno;
        close(c->fd);
        c->fd = -1;
        if (error == EADDRNOTAVAIL || error == EADDRINUSE) {
            atomic_fetch_add(&totals.put_off, 1);
            pause_ms(1);
        } else {
            violation("connect: %s", strerror(error));
            pause_ms(100);
        }
        return false;
    }
    atomic_fetch_add(&totals.connections, 1);
    return true;
}

static void client_close(struct client *c)
{
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
}

static void client_reset(struct client *c)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    client_close(c);
}

static bool client_send(struct client *c, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t sent = send(c->fd, at, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            violation("send: %s", strerror(errno));
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* Reads until `want` bytes are in the buffer. */
static bool client_fill(struct client *c, size_t want)
{
    while (c->have < want) {
        ssize_t got = recv(c->fd, c->buffer + c->have, sizeof c->buffer - c->have, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            violation("no answer: %s", got == 0 ? "closed" : strerror(errno));
            return false;
        }
        c->have += (size_t)got;
    }
    return true;
}

static void client_drop(struct client *c, size_t len)
{
    memmove(c->buffer, c->buffer + len, c->have - len);
    c->have -= len;
}

/* --- text -------------------------------------------------------------------------------------*/

/* Reads one line into `line` (`room` bytes, ends with NUL). */
static bool text_line(struct client *c, char *line, size_t room)
{
    for (;;) {
        const char *end = memchr(c->buffer, '\n', c->have);
        if (end != NULL) {
            size_t len = (size_t)(end - c->buffer);
            size_t copied = len < room - 1 ? len : room - 1;
            memcpy(line, c->buffer, copied);
            line[copied] = '\0';
            client_drop(c, len + 1);
            return true;
        }
        if (c->have == sizeof c->buffer) {
            violation("an answer line without an end");
            return false;
        }
        if (!client_fill(c, c->have + 1)) {
            return false;
        }
    }
}

static size_t text_compose_acquire(struct client *c, unsigned name, char *to, size_t room)
{
    const char *verb = below(c, 2) == 0 ? "ACQ4ME" : "ACQ4ANY";
    unsigned maxqueue = below(c, 4) == 0 ? limit_of(name) + below(c, 8) : 1000;
    unsigned wait_ms = below(c, 3) == 0 ? 0 : 1 + below(c, 60);
    int len = snprintf(to, room, "%s storm-%u %u %u %u.%03u\n", verb, name, limit_of(name),
                       maxqueue, wait_ms / 1000, wait_ms % 1000);
    return len > 0 ? (size_t)len : 0;
}

static bool text_acquire(struct client *c, unsigned name)
{
    char line[ROOM];
    size_t len = text_compose_acquire(c, name, line, sizeof line);
    if (!client_send(c, line, len) || !text_line(c, line, sizeof line)) {
        return false;
    }
    if (strcmp(line, "LOCKED") == 0) {
        observer_raise(name, 1);
        c->held[c->held_count++] = (struct held){.name = name, .units = 1};
        atomic_fetch_add(&totals.locked, 1);
    } else if (strcmp(line, "DONE") == 0) {
        atomic_fetch_add(&totals.done, 1);
    } else if (strcmp(line, "TIMEOUT") == 0) {
        atomic_fetch_add(&totals.timed_out, 1);
    } else if (strcmp(line, "QUEUE_FULL") == 0) {
        atomic_fetch_add(&totals.full, 1);
    } else {
        violation("acquiring was answered with \"%s\"", line);
        return false;
    }
    return true;
}

static bool text_release(struct client *c, struct held held)
{
    char line[ROOM];
    int len = snprintf(line, sizeof line, "RELEASE storm-%u\n", held.name);
    if (!client_send(c, line, (size_t)len) || !text_line(c, line, sizeof line)) {
        return false;
    }
    if (strcmp(line, "RELEASED") != 0) {
        violation("releasing was answered with \"%s\"", line);
        return false;
    }
    return true;
}

/* --- binary -----------------------------------------------------------------------------------*/

static void put16(unsigned char *to, uint32_t value)
{
    to[0] = (unsigned char)(value >> 8);
    to[1] = (unsigned char)value;
}

static void put32(unsigned char *to, uint32_t value)
{
    put16(to, value >> 16);
    put16(to + 2, value);
}

static uint32_t get32(const unsigned char *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static size_t binary_compose(struct client *c, unsigned char opcode, unsigned name, uint32_t units,
                             unsigned char *to)
{
    char text[32];
    size_t name_len = (size_t)snprintf(text, sizeof text, "storm-%u", name);
    unsigned char *at = to + 12;
    if (opcode != OP_GET) {
        put32(at, units);
        at += 4;
    }
    if (opcode == OP_ACQUIRE) {
        put32(at, limit_of(name));
        at += 4;
    }
    put16(at, (uint32_t)name_len);
    memcpy(at + 2, text, name_len);
    at += 2 + name_len;
    memset(to, 0, 12);
    to[0] = 0x90;
    to[1] = opcode;
    put32(to + 4, (uint32_t)(at - to - 12));
    put32(to + 8, ++c->opaque);
    return (size_t)(at - to);
}

/* Asks and reads the answer; *number_r is its first four bytes, 0 where it has none. */
static bool binary_ask(struct client *c, unsigned char opcode, unsigned name, uint32_t units,
                       unsigned *status_r, uint32_t *number_r)
{
    unsigned char bytes[ROOM];
    size_t len = binary_compose(c, opcode, name, units, bytes);
    if (!client_send(c, bytes, len) || !client_fill(c, 12)) {
        return false;
    }
    memcpy(bytes, c->buffer, 12);
    uint32_t body = get32(bytes + 4);
    if (bytes[0] != 0x91 || bytes[1] != opcode || bytes[3] != 0 || get32(bytes + 8) != c->opaque ||
        body > 64) {
        violation("no answer begins %02x %02x %02x %02x, body %u, opaque %u (%u is due)", bytes[0],
                  bytes[1], bytes[2], bytes[3], body, get32(bytes + 8), c->opaque);
        return false;
    }
    if (!client_fill(c, 12 + body)) {
        return false;
    }
    *status_r = bytes[2];
    *number_r = 0;
    if (body == 4) {
        memcpy(bytes, c->buffer + 12, 4);
        *number_r = get32(bytes);
    }
    client_drop(c, 12 + body);
    return true;
}

static bool binary_acquire(struct client *c, unsigned name)
{
    uint32_t units = 1 + below(c, limit_of(name)), number = 0;
    unsigned status = 0;
    if (!binary_ask(c, OP_ACQUIRE, name, units, &status, &number)) {
        return false;
    }
    if (status == ST_OK && number == units) {
        observer_raise(name, units);
        c->held[c->held_count++] = (struct held){.name = name, .units = units};
        atomic_fetch_add(&totals.acquired, 1);
    } else if (status == ST_NOT_AVAILABLE) {
        atomic_fetch_add(&totals.unavailable, 1);
    } else {
        violation("acquiring %u was answered with status %#x, %u", units, status, number);
        return false;
    }
    return true;
}

static bool binary_release(struct client *c, struct held held)
{
    unsigned status = 0;
    uint32_t number = 0;
    if (!binary_ask(c, OP_RELEASE, held.name, held.units, &status, &number)) {
        return false;
    }
    if (status != ST_OK) {
        violation("releasing %u was answered with status %#x", held.units, status);
        return false;
    }
    return true;
}

/* --- a client's life --------------------------------------------------------------------------*/

static bool client_acquire(struct client *c)
{
    unsigned name = below(c, NAMES);
    return c->is_text ? text_acquire(c, name) : binary_acquire(c, name);
}

/* Gives back one of what it holds, any of them. */
static bool client_release_one(struct client *c)
{
    size_t at = below(c, (uint32_t)c->held_count);
    struct held held = c->held[at];
    c->held[at] = c->held[--c->held_count];
    observer_lower(held.name, held.units);
    return c->is_text ? text_release(c, held) : binary_release(c, held);
}

static void client_send_partial(struct client *c, bool is_whole)
{
    unsigned char bytes[ROOM];
    unsigned name = below(c, NAMES);
    size_t len;
    if (c->is_text) {
        len = text_compose_acquire(c, name, (char *)bytes, sizeof bytes);
    } else {
        len = binary_compose(c, OP_ACQUIRE, name, limit_of(name), bytes);
    }
    client_send(c, bytes, is_whole ? len : 1 + below(c, (uint32_t)len - 1));
}

static void client_end(struct client *c, enum ending how)
{
    atomic_fetch_add(&totals.endings[how], 1);
    if (how == END_RELEASE) {
        while (c->held_count > 0 && client_release_one(c)) {
        }
    }
    while (c->held_count > 0) {
        struct held held = c->held[--c->held_count];
        observer_lower(held.name, held.units);
    }
    if (how == END_HALF) {
        shutdown(c->fd, SHUT_WR);
        char rest[16];
        ssize_t got = recv(c->fd, rest, sizeof rest, 0);
        if (got != 0 && !(got < 0 && errno == ECONNRESET)) {
            violation("after a half-close: %s", got > 0 ? "an answer" : strerror(errno));
        }
    } else if (how == END_PARTIAL || how == END_UNHEARD || how == END_RST_WAIT) {
        client_send_partial(c, how != END_PARTIAL);
    }
    if (how == END_RESET || how == END_RST_WAIT) {
        client_reset(c);
    } else {
        client_close(c);
    }
}

static void client_live(struct client *c)
{
    if (!client_connect(c)) {
        return;
    }
    unsigned rounds = 1 + below(c, 6);
    bool is_well = true;
    for (unsigned i = 0; i < rounds && is_well; i++) {
        if (c->held_count < HELD_MAX && (c->held_count == 0 || below(c, 2) == 0)) {
            is_well = client_acquire(c);
        } else {
            is_well = client_release_one(c);
        }
        if (below(c, 8) == 0) {
            pause_ms(below(c, 3));
        } else {
            sched_yield();
        }
    }
    client_end(c, is_well ? (enum ending)below(c, END_COUNT) : END_CLOSE);
}

static void *client_thread(void *arg)
{
    struct client *c = arg;
    while (!atomic_load(&is_over)) {
        client_live(c);
    }
    return NULL;
}

/* --- the end ----------------------------------------------------------------------------------*/

/* The consumption of a name by Get; -1 where asking failed. */
static long consumption(struct client *c, unsigned name)
{
    unsigned status = 0;
    uint32_t number = 0;
    if (!binary_ask(c, OP_GET, name, 0, &status, &number)) {
        return -1;
    }
    if (status == ST_NOT_FOUND) {
        return 0;
    }
    if (status != ST_OK) {
        violation("Get was answered with status %#x", status);
        return -1;
    }
    return (long)number;
}

static void check_all_free(uint64_t seed)
{
    struct client c = {.fd = -1, .is_text = false, .random = seed};
    if (!client_connect(&c)) {
        violation("no connection to check with");
        return;
    }
    uint64_t until = now_ms() + FREE_TIMEOUT * 1000;
    for (unsigned name = 0; name < NAMES; name++) {
        long count;
        while ((count = consumption(&c, name)) > 0 && now_ms() < until) {
            pause_ms(2);
        }
        if (count != 0) {
            violation("storm-%u has %ld units left, held by nobody", name, count);
        }
    }
    client_close(&c);
}

static void check_stat_is_zero(const char *name)
{
    struct client c = {.fd = -1, .is_text = true};
    char line[ROOM], awaited[64];
    snprintf(awaited, sizeof awaited, "%s: 0", name);
    if (!client_connect(&c)) {
        violation("no connection to check with");
        return;
    }
    uint64_t until = now_ms() + FREE_TIMEOUT * 1000;
    for (;;) {
        int len = snprintf(line, sizeof line, "STATS %s\n", name);
        if (!client_send(&c, line, (size_t)len) || !text_line(&c, line, sizeof line)) {
            break;
        }
        if (strcmp(line, awaited) == 0) {
            break;
        }
        if (now_ms() >= until) {
            violation("at the end: %s", line);
            break;
        }
        pause_ms(2);
    }
    client_close(&c);
}

static void print_totals(void)
{
    printf("connections %lu (put off %lu)\n", atomic_load(&totals.connections),
           atomic_load(&totals.put_off));
    printf("text: LOCKED %lu, DONE %lu, TIMEOUT %lu, QUEUE_FULL %lu\n", atomic_load(&totals.locked),
           atomic_load(&totals.done), atomic_load(&totals.timed_out), atomic_load(&totals.full));
    printf("binary: acquired %lu, not available %lu\n", atomic_load(&totals.acquired),
           atomic_load(&totals.unavailable));
    printf("ends:");
    for (unsigned i = 0; i < END_COUNT; i++) {
        printf("%s %s %lu", i == 0 ? "" : ",", ending_names[i], atomic_load(&totals.endings[i]));
    }
    printf("\nmost at once, of the limit:");
    for (unsigned i = 0; i < NAMES; i++) {
        printf(" %ld/%u", atomic_load(&highest[i]), limit_of(i));
    }
    printf("\nviolations %lu\n", atomic_load(&violations));
}

static bool parse_number(const char *text, unsigned long max, unsigned long *number_r)
{
    char *end = NULL;
    errno = 0;
    *number_r = strtoul(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *number_r <= max;
}

int main(int argc, char **argv)
{
    unsigned long text = 0, binary = 0, seconds = 0, seed = 0;
    if (argc != 6 || inet_pton(AF_INET, argv[1], &server_host) != 1 ||
        !parse_number(argv[2], 65535, &text) || !parse_number(argv[3], 65535, &binary) ||
        !parse_number(argv[4], 3600, &seconds) || !parse_number(argv[5], UINT32_MAX, &seed)) {
        fprintf(stderr, "usage: storm HOST TEXT_PORT BINARY_PORT SECONDS SEED\n");
        return 2;
    }
    text_port = (uint16_t)text;
    binary_port = (uint16_t)binary;
    printf("seed %lu\n", seed);
    fflush(stdout);

    static struct client clients[THREADS];
    static pthread_t threads[THREADS];
    bool is_loopback = ntohl(server_host.s_addr) >> 24 == 127;
    unsigned started = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        struct client *c = &clients[i];
        c->fd = -1;
        c->is_text = i % 2 == 0;
        c->random = (uint64_t)seed << 32 | i;
        c->source.s_addr = is_loopback ? htonl(0x7f4d0001u + i) : INADDR_ANY;
        if (pthread_create(&threads[i], NULL, client_thread, c) != 0) {
            violation("only %u threads could be started", i);
            break;
        }
        started++;
    }
    uint64_t until = now_ms() + seconds * 1000;
    while (now_ms() < until && atomic_load(&violations) < 20) {
        pause_ms(10);
    }
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }

    check_all_free(seed);
    check_stat_is_zero("waiting_workers");
    check_stat_is_zero("processing_workers");
    for (unsigned i = 0; i < NAMES; i++) {
        if (atomic_load(&observed[i]) != 0) {
            violation("the observer of storm-%u ends at %ld", i, atomic_load(&observed[i]));
        }
    }
    if (seconds > 0 && (atomic_load(&totals.locked) == 0 || atomic_load(&totals.acquired) == 0)) {
        violation("nobody was ever given anything");
    }
    print_totals();
    return atomic_load(&violations) == 0 ? 0 : 1;
}
