/*
 * storm.c - many clients of both protocols on a few names, and an observer that counts.
 *
 * usage: storm HOST TEXT_PORT BINARY_PORT SECONDS SEED
 *
 * Every thread runs one client after another: it connects, acquires units of a few names, works for
 * a moment, and then releases, closes, half-closes, resets or vanishes in the middle of a request.
 * Each name has one limit, the same in every request.
 *
 * The observer is one atomic count for each name. A client raises it after it has read that it
 * holds units, and lowers it before it sends a release or ends. So the count is never above the
 * number of units that the server has given out, and a count above the limit is a fault of the
 * server, whatever the order of threads.
 *
 * At the end all units must be free again and nobody may wait. Every blocking call has a timeout.
 * Exits 0 without a violation, 1 with one, 2 for wrong usage.
 */
#include "t/campaigns/history/peer.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define THREADS  200
#define NAMES    16
#define HELD_MAX 3
#define FREE_NS  (INT64_C(10) * 1000000000) /* time for all units to become free at the end */
#define ROOM     PEER_LINE

/* How a client ends. */
enum ending {
    END_RELEASE,  /* releases one by one, then closes */
    END_CLOSE,    /* closes with units held */
    END_HALF,     /* shuts down its sending side and waits for the server to close */
    END_RESET,    /* RST */
    END_PARTIAL,  /* half a request, then close */
    END_UNHEARD,  /* a request whose answer is never read, then close */
    END_RST_WAIT, /* like END_UNHEARD, then RST */
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
    unsigned number;
    bool is_text;
    uint64_t random;
    struct peer peer;
    size_t held_count;
    struct held held[HELD_MAX];
};

struct totals {
    atomic_ulong connections;
    atomic_ulong locked, done, timed_out, full;
    atomic_ulong acquired, unavailable;
    atomic_ulong endings[END_COUNT];
};

static struct totals totals;
static atomic_long observed[NAMES];
static atomic_long highest[NAMES];
static atomic_ulong violations;
static atomic_bool is_over;

static struct peer_server server;

/* --- small helpers ----------------------------------------------------------------------------*/

static void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void violation(const char *format, ...)
{
    if (atomic_fetch_add(&violations, 1) >= 20) {
        return; /* print only the first few */
    }
    char text[ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("violation: %s\n", text);
    fflush(stdout);
}

static uint32_t below(struct client *c, uint32_t limit)
{
    return peer_below(&c->random, limit);
}

static uint32_t limit_of(unsigned name)
{
    return 1 + name % 5;
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

/* Prints what went wrong with its connection. */
static bool complain(const struct client *c)
{
    violation("%s", c->peer.error);
    return false;
}

/* --- text -------------------------------------------------------------------------------------*/

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
    if (!peer_send(&c->peer, line, len) || !peer_line(&c->peer, line)) {
        return complain(c);
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
    if (!peer_send(&c->peer, line, (size_t)len) || !peer_line(&c->peer, line)) {
        return complain(c);
    }
    if (strcmp(line, "RELEASED") != 0) {
        violation("releasing was answered with \"%s\"", line);
        return false;
    }
    return true;
}

/* --- binary -----------------------------------------------------------------------------------*/

static void name_text(unsigned name, char *to)
{
    snprintf(to, ROOM, "storm-%u", name);
}

static bool binary_acquire(struct client *c, unsigned name)
{
    uint32_t units = 1 + below(c, limit_of(name)), number = 0;
    unsigned status = 0;
    char text[ROOM];
    name_text(name, text);
    if (!peer_ask(&c->peer, PEER_ACQUIRE, text, units, limit_of(name), &status, &number)) {
        return complain(c);
    }
    if (status == PEER_OK && number == units) {
        observer_raise(name, units);
        c->held[c->held_count++] = (struct held){.name = name, .units = units};
        atomic_fetch_add(&totals.acquired, 1);
    } else if (status == PEER_NOT_AVAILABLE) {
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
    char text[ROOM];
    name_text(held.name, text);
    if (!peer_ask(&c->peer, PEER_RELEASE, text, held.units, 0, &status, &number)) {
        return complain(c);
    }
    if (status != PEER_OK) {
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

/* Gives back one random unit that it holds. */
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
        char text[ROOM];
        name_text(name, text);
        len = peer_compose(&c->peer, PEER_ACQUIRE, text, limit_of(name), limit_of(name), bytes);
    }
    if (!peer_send(&c->peer, bytes, is_whole ? len : 1 + below(c, (uint32_t)len - 1))) {
        complain(c);
    }
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
        bool has_said = false;
        if (!peer_half_close(&c->peer, &has_said)) {
            complain(c);
        } else if (has_said) {
            violation("after a half-close: an answer");
        }
        return;
    }
    if (how == END_PARTIAL || how == END_UNHEARD || how == END_RST_WAIT) {
        client_send_partial(c, how != END_PARTIAL);
    }
    if (how == END_RESET || how == END_RST_WAIT) {
        peer_reset(&c->peer);
    } else {
        peer_close(&c->peer);
    }
}

static void client_live(struct client *c)
{
    if (!peer_connect(&c->peer, &server, c->is_text, c->number)) {
        complain(c);
        return;
    }
    atomic_fetch_add(&totals.connections, 1);
    c->held_count = 0;
    unsigned rounds = 1 + below(c, 6);
    bool is_well = true;
    for (unsigned i = 0; i < rounds && is_well; i++) {
        if (c->held_count < HELD_MAX && (c->held_count == 0 || below(c, 2) == 0)) {
            is_well = client_acquire(c);
        } else {
            is_well = client_release_one(c);
        }
        if (below(c, 8) == 0) {
            peer_pause_ns(below(c, 3) * INT64_C(1000000));
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

static void print_totals(void)
{
    printf("connections %lu\n", atomic_load(&totals.connections));
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

int main(int argc, char **argv)
{
    uint64_t seconds = 0, seed = 0;
    if (argc != 6 || !peer_server_parse(&argv[1], &server) ||
        !peer_number(argv[4], 3600, &seconds) || !peer_number(argv[5], UINT32_MAX, &seed)) {
        fprintf(stderr, "usage: storm HOST TEXT_PORT BINARY_PORT SECONDS SEED\n");
        return 2;
    }
    printf("seed %" PRIu64 "\n", seed);
    fflush(stdout);

    static struct client clients[THREADS];
    static pthread_t threads[THREADS];
    unsigned started = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        struct client *c = &clients[i];
        c->number = i;
        c->is_text = i % 2 == 0;
        c->random = seed << 32 | i;
        if (pthread_create(&threads[i], NULL, client_thread, c) != 0) {
            violation("only %u threads could be started", i);
            break;
        }
        started++;
    }
    int64_t until = peer_now_ns() + (int64_t)seconds * 1000000000;
    while (peer_now_ns() < until && atomic_load(&violations) < 20) {
        peer_pause_ns(10000000);
    }
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }

    char why[PEER_LINE];
    if (!peer_await_free(&server, "storm", NAMES, peer_now_ns() + FREE_NS, why)) {
        violation("at the end: %s", why);
    }
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
