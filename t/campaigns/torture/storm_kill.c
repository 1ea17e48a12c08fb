/*
 * storm_kill.c - client processes that get killed, and an observer in shared memory.
 *
 * usage: storm_kill HOST TEXT_PORT BINARY_PORT OPERATIONS SECONDS SEED FREE_MS
 *
 * PROCESSES clients of both protocols acquire and release units of a few names, many requests at a
 * time. Twenty times a second the program picks one, at any point of its work, and kills it with
 * SIGKILL, or tells it to reset its connection or to shut down its sending side. The program ends
 * after OPERATIONS operations or SECONDS seconds, whichever comes first (0: no limit). Then, at
 * most FREE_MS milliseconds after the last client has ended, all units must be free and nobody may
 * wait.
 *
 * The observer is one count for each name. A client raises it after it has read that it holds
 * units, and lowers it before it sends a release or ends its connection. So the count is never
 * above the number of units that the server has given out, and a count above the name's limit is a
 * fault of the server, whatever the order of events. A killed client can't lower anything. So the
 * killer first takes its slot, which keeps the client from changing the count, lowers what the
 * client had raised, and then kills it.
 *
 * Exits 0 without a violation, 1 with one, 2 for wrong usage. The seed determines the plan; the
 * processes race.
 */
#include "t/campaigns/history/peer.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES    24
#define NAMES        16
#define BATCH        8
#define LOCKS_MAX    4
#define EVENT_NS     INT64_C(50000000)
#define END_NS       (INT64_C(90) * 1000000000)
#define NAME_ROOM    32
#define REPORTED_MAX 20

enum event { EVENT_NONE, EVENT_KILL, EVENT_RESET, EVENT_HALF_CLOSE, EVENT_COUNT };

/* A client and, after its death, its successor. */
struct slot {
    atomic_uint taken; /* held while `raised` and the counts change */
    atomic_uint event; /* what the client must do with its connection */
    atomic_ulong operations;
    uint32_t raised[NAMES];
} __attribute__((aligned(128)));

/* Memory shared by all processes. */
struct shared {
    atomic_long count[NAMES], highest[NAMES];
    atomic_ulong violations;
    atomic_bool over;
    atomic_ulong done[EVENT_COUNT];
    atomic_ulong granted, refused, waited;
    struct slot slots[PROCESSES];
};

struct client {
    struct slot *slot;
    unsigned number;
    bool text;
    uint64_t random;
    struct peer peer;
};

static struct shared *shared;
static struct peer_server server;

static void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void violation(const char *format, ...)
{
    if (atomic_fetch_add(&shared->violations, 1) >= REPORTED_MAX)
        return; /* print only the first few */
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    printf("violation: %s\n", text);
    fflush(stdout);
}

static uint32_t limit_of(uint32_t name)
{
    return 1 + name % 5;
}

static void name_text(uint32_t name, char *to)
{
    snprintf(to, NAME_ROOM, "kill-%u", name);
}

/* ---- the observer -------------------------------------------------------------------------- */

static void take(struct slot *slot)
{
    for (unsigned free_ = 0; !atomic_compare_exchange_weak(&slot->taken, &free_, 1); free_ = 0)
        sched_yield();
}

static void give(struct slot *slot)
{
    atomic_store(&slot->taken, 0);
}

static void raise_count(struct client *c, uint32_t name, uint32_t units)
{
    take(c->slot);
    c->slot->raised[name] += units;
    long count = atomic_fetch_add(&shared->count[name], (long)units) + (long)units;
    give(c->slot);
    long highest = atomic_load(&shared->highest[name]);
    while (count > highest &&
           !atomic_compare_exchange_weak(&shared->highest[name], &highest, count)) {
    }
    if (count > (long)limit_of(name))
        violation("%ld units of kill-%u are held, whose limit is %u", count, name, limit_of(name));
}

static void lower_count(struct client *c, uint32_t name, uint32_t units)
{
    take(c->slot);
    c->slot->raised[name] -= units;
    atomic_fetch_sub(&shared->count[name], (long)units);
    give(c->slot);
}

/* Lowers the counts by all that the client of a taken slot has raised. */
static void lower_all(struct slot *slot)
{
    for (uint32_t name = 0; name < NAMES; name++) {
        atomic_fetch_sub(&shared->count[name], (long)slot->raised[name]);
        slot->raised[name] = 0;
    }
}

/* ---- a client ------------------------------------------------------------------------------ */

static uint32_t below(struct client *c, uint32_t limit)
{
    return peer_below(&c->random, limit);
}

static bool complain(struct client *c)
{
    violation("client %u: %s", c->number, c->peer.error);
    return false;
}

static void operations(struct client *c, unsigned count)
{
    atomic_fetch_add(&c->slot->operations, count);
}

/* Units held from one batch of requests. */
struct batch {
    unsigned count;
    uint32_t names[BATCH], units[BATCH];
};

/*
 * Call while units are held: ends the connection if an event asks for it, and makes a new one.
 * Returns false when the batch has ended; *well_r is then false if the client can't continue.
 */
static bool hold(struct client *c, bool *well_r)
{
    *well_r = true;
    bool over = atomic_load(&shared->over);
    unsigned event = atomic_exchange(&c->slot->event, EVENT_NONE);
    if (event == EVENT_NONE && !over)
        return true;
    take(c->slot);
    lower_all(c->slot);
    give(c->slot);
    if (event == EVENT_HALF_CLOSE) {
        if (!peer_half_close(&c->peer, NULL))
            *well_r = complain(c);
    } else if (event == EVENT_RESET) {
        peer_reset(&c->peer);
    } else {
        peer_close(&c->peer);
    }
    if (event != EVENT_NONE)
        atomic_fetch_add(&shared->done[event], 1);
    if (*well_r && !over && !peer_connect(&c->peer, &server, c->text, c->number))
        *well_r = complain(c);
    return false;
}

static void keep(struct client *c, struct batch *held, uint32_t name, uint32_t units)
{
    raise_count(c, name, units);
    held->names[held->count] = name;
    held->units[held->count++] = units;
    atomic_fetch_add_explicit(&shared->granted, 1, memory_order_relaxed);
}

/* Reads the answer to an ACQ4*. */
static bool text_granted(struct client *c, struct batch *held, uint32_t name)
{
    char line[PEER_LINE];
    if (!peer_line(&c->peer, line))
        return complain(c);
    if (strcmp(line, "LOCKED") == 0) {
        keep(c, held, name, 1);
        return true;
    }
    atomic_fetch_add_explicit(&shared->refused, 1, memory_order_relaxed);
    if (strcmp(line, "TIMEOUT") == 0 || strcmp(line, "DONE") == 0 ||
        strcmp(line, "QUEUE_FULL") == 0)
        return true;
    violation("acquiring was answered with \"%s\"", line);
    return false;
}

/* Sends several ACQ4* that do not wait, or one that does. */
static bool text_acquire(struct client *c, struct batch *held)
{
    char request[PEER_LINE], name[NAME_ROOM];
    uint32_t names[LOCKS_MAX], count = below(c, 4) == 0 ? 1 : LOCKS_MAX;
    uint32_t wait_ms = count == 1 ? 1 + below(c, 50) : 0;
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++) {
        names[i] = below(c, NAMES);
        name_text(names[i], name);
        len += (size_t)snprintf(request + len, sizeof(request) - len, "%s %s %u %u 0.%03u\n",
                                below(c, 2) == 0 ? "ACQ4ME" : "ACQ4ANY", name, limit_of(names[i]),
                                below(c, 4) == 0 ? 1 + below(c, 8) : 1000, wait_ms);
    }
    if (!peer_send(&c->peer, request, len))
        return complain(c);
    if (wait_ms > 0)
        atomic_fetch_add_explicit(&shared->waited, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        if (!text_granted(c, held, names[i]))
            return false;
    }
    operations(c, count);
    return true;
}

static bool text_release(struct client *c, const struct batch *held)
{
    char request[PEER_LINE], name[NAME_ROOM];
    size_t len = 0;
    for (unsigned i = 0; i < held->count; i++) {
        name_text(held->names[i], name);
        len += (size_t)snprintf(request + len, sizeof(request) - len, "RELEASE %s\n", name);
        lower_count(c, held->names[i], 1);
    }
    if (!peer_send(&c->peer, request, len))
        return complain(c);
    for (unsigned i = 0; i < held->count; i++) {
        if (!peer_line(&c->peer, name))
            return complain(c);
        if (strcmp(name, "RELEASED") != 0) {
            violation("releasing was answered with \"%s\"", name);
            return false;
        }
    }
    operations(c, held->count);
    return true;
}

static bool binary_acquire(struct client *c, struct batch *held)
{
    unsigned char request[BATCH * PEER_LINE];
    char name[NAME_ROOM];
    uint32_t names[BATCH], units[BATCH];
    size_t len = 0;
    for (unsigned i = 0; i < BATCH; i++) {
        names[i] = below(c, NAMES);
        units[i] = 1 + below(c, limit_of(names[i]));
        name_text(names[i], name);
        len +=
            peer_compose(&c->peer, PEER_ACQUIRE, name, units[i], limit_of(names[i]), request + len);
    }
    if (!peer_send(&c->peer, request, len))
        return complain(c);
    for (unsigned i = 0; i < BATCH; i++) {
        unsigned status;
        uint32_t number;
        if (!peer_answer(&c->peer, PEER_ACQUIRE, &status, &number))
            return complain(c);
        if (status == PEER_OK && number == units[i]) {
            keep(c, held, names[i], units[i]);
        } else if (status == PEER_NOT_AVAILABLE) {
            atomic_fetch_add_explicit(&shared->refused, 1, memory_order_relaxed);
        } else {
            violation("acquiring %u was answered with status %#x, %u", units[i], status, number);
            return false;
        }
    }
    operations(c, BATCH);
    return true;
}

static bool binary_release(struct client *c, const struct batch *held)
{
    unsigned char request[BATCH * PEER_LINE];
    char name[NAME_ROOM];
    size_t len = 0;
    for (unsigned i = 0; i < held->count; i++) {
        name_text(held->names[i], name);
        lower_count(c, held->names[i], held->units[i]);
        len += peer_compose(&c->peer, PEER_RELEASE, name, held->units[i], 0, request + len);
    }
    if (!peer_send(&c->peer, request, len))
        return complain(c);
    for (unsigned i = 0; i < held->count; i++) {
        unsigned status;
        uint32_t number;
        if (!peer_answer(&c->peer, PEER_RELEASE, &status, &number))
            return complain(c);
        if (status != PEER_OK) {
            violation("releasing %u was answered with status %#x", held->units[i], status);
            return false;
        }
    }
    operations(c, held->count);
    return true;
}

static void client_run(struct client *c)
{
    bool well = peer_connect(&c->peer, &server, c->text, c->number) || complain(c);
    while (well && !atomic_load(&shared->over)) {
        struct batch held = {0};
        well = c->text ? text_acquire(c, &held) : binary_acquire(c, &held);
        if (!well || !hold(c, &well))
            continue;
        if (held.count > 0)
            well = c->text ? text_release(c, &held) : binary_release(c, &held);
    }
    take(c->slot);
    lower_all(c->slot);
    give(c->slot);
}

static pid_t client_start(unsigned number, uint64_t random)
{
    struct client c = {
        .slot = &shared->slots[number],
        .number = number,
        .text = number % 2 == 0,
        .random = random,
    };
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    client_run(&c);
    _exit(0);
}

/* ---- the storm ----------------------------------------------------------------------------- */

static unsigned long operations_made(void)
{
    unsigned long sum = 0;
    for (unsigned i = 0; i < PROCESSES; i++)
        sum += atomic_load(&shared->slots[i].operations);
    return sum;
}

/* Lowers what a client had raised, and kills the client. */
static void client_kill(pid_t pid, struct slot *slot)
{
    int status;
    take(slot);
    lower_all(slot);
    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
        violation("a client had ended by itself");
    give(slot);
    atomic_fetch_add(&shared->done[EVENT_KILL], 1);
}

/* Kills a random client, or gives it an event. */
static bool strike(pid_t *pids, uint64_t *random)
{
    unsigned number = peer_below(random, PROCESSES);
    enum event event = EVENT_KILL + (enum event)peer_below(random, EVENT_COUNT - EVENT_KILL);
    if (event != EVENT_KILL) {
        atomic_store(&shared->slots[number].event, event);
        return true;
    }
    client_kill(pids[number], &shared->slots[number]);
    pids[number] = client_start(number, (uint64_t)peer_below(random, UINT32_MAX) << 16);
    return pids[number] > 0;
}

static void end_all(const pid_t *pids)
{
    int64_t until = peer_now_ns() + END_NS;
    atomic_store(&shared->over, true);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status = 0;
        pid_t got;
        if (pids[i] <= 0)
            continue;
        while ((got = waitpid(pids[i], &status, WNOHANG)) == 0 && peer_now_ns() < until)
            peer_pause_ns(200000);
        if (got == 0) {
            violation("client %u does not end", i);
            kill(pids[i], SIGKILL);
            waitpid(pids[i], &status, 0);
        } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            violation("client %u ended with status %#x", i, (unsigned)status);
        }
    }
}

int main(int argc, char **argv)
{
    static pid_t pids[PROCESSES];
    uint64_t wanted, seconds, seed, free_ms;
    if (argc != 8 || !peer_server_parse(&argv[1], &server) ||
        !peer_number(argv[4], UINT64_MAX, &wanted) || !peer_number(argv[5], 1000000, &seconds) ||
        !peer_number(argv[6], UINT64_MAX, &seed) || !peer_number(argv[7], 1000000, &free_ms)) {
        fprintf(stderr, "usage: storm_kill HOST TEXT_PORT BINARY_PORT OPERATIONS SECONDS SEED "
                        "FREE_MS\n");
        return 2;
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    printf("seed %" PRIu64 " (of the plan; the processes race)\n", seed);
    fflush(stdout); /* else children would print it again */
    int64_t begun = peer_now_ns(), next = begun, until = begun + (int64_t)seconds * 1000000000;
    uint64_t random = seed;
    bool well = true;
    for (unsigned i = 0; i < PROCESSES; i++) {
        pids[i] = client_start(i, seed + ((uint64_t)i << 40));
        well = well && pids[i] > 0;
    }
    while (well && atomic_load(&shared->violations) == 0 &&
           (wanted == 0 || operations_made() < wanted) && (seconds == 0 || peer_now_ns() < until)) {
        next += EVENT_NS;
        int64_t left = next - peer_now_ns();
        if (left > 0)
            peer_pause_ns(left);
        else
            next -= left; /* late: continue at the usual rate */
        well = strike(pids, &random);
    }
    if (!well)
        violation("a client could not be started: %s", strerrordesc_np(errno));
    end_all(pids);
    char why[PEER_LINE];
    int64_t gone = peer_now_ns();
    if (!peer_await_free(&server, "kill", NAMES, gone + (int64_t)free_ms * 1000000, why))
        violation("%" PRIu64 " ms after the end: %s", free_ms, why);
    int64_t free_after = (peer_now_ns() - gone) / 1000000;
    printf("granted %lu, refused %lu, waited for %lu; at most, of the limit:",
           atomic_load(&shared->granted), atomic_load(&shared->refused),
           atomic_load(&shared->waited));
    for (uint32_t name = 0; name < NAMES; name++) {
        if (atomic_load(&shared->count[name]) != 0)
            violation("the count of kill-%u ends at %ld", name, atomic_load(&shared->count[name]));
        printf(" %ld/%u", atomic_load(&shared->highest[name]), limit_of(name));
    }
    if (atomic_load(&shared->granted) == 0)
        violation("nobody was ever given anything");
    printf("\n%lu operations in %" PRId64 " s; killed %lu, reset %lu, half-closed %lu; all is free "
           "after %" PRId64 " ms; violations %lu\n",
           operations_made(), (gone - begun) / 1000000000, atomic_load(&shared->done[EVENT_KILL]),
           atomic_load(&shared->done[EVENT_RESET]), atomic_load(&shared->done[EVENT_HALF_CLOSE]),
           free_after, atomic_load(&shared->violations));
    return atomic_load(&shared->violations) == 0 ? 0 : 1;
}
