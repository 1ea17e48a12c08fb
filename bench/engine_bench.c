/*
 * engine_bench.c - measures the table without sockets: engine_bench NAMES THREADS prints the
 * nanoseconds of an acquire and release as JSON.
 *
 * A pair is an acquire and a release of one name, drawn at random. Requests come in batches of 32,
 * as over the network (16 pairs: acquire, release, acquire, ...); the table sees the whole batch
 * before it carries out the first request. Names are written before the clock starts, because a
 * socket would deliver them. They exist at 0 before and after.
 *
 * The figure is the elapsed time divided by the pairs of all threads, so two threads that work in
 * parallel halve it.
 */
#include "base/hash.h"
#include "bench/counterbench/names.h"
#include "engine/table.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LEN = 24, THREADS_MAX = 2, BATCH_PAIRS = 16, BLOCK = 1024 };

#define RUN_NS (400 * NS_PER_MS)

static struct table *t;

/* A one-to-one function. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* What to measure. */
struct run {
    unsigned threads;
    uint64_t names;
};

_Static_assert(2 * BATCH_PAIRS <= TABLE_PREFETCH_MAX, "a batch is looked at in one go");

struct runner {
    const struct run *run;
    unsigned number;
    struct holder holder;
    pthread_t thread;
    uint64_t random;
    uint64_t pairs;
    int64_t busy_ns; /* within the table */
    struct histogram holds;
    unsigned char names[BLOCK][NAME_LEN];
    uint64_t hashes[BLOCK]; /* 0: not known yet */
} __attribute__((aligned(64)));

static struct runner runners[THREADS_MAX];
static pthread_barrier_t start_line;
static _Atomic bool over;

static void pin(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    /* On fewer processors the printed figures show it. */
    (void)sched_setaffinity(0, sizeof(set), &set);
}

/* Draws the names of the next block of pairs. */
static void draw_names(struct runner *r)
{
    const struct run *run = r->run;
    for (unsigned i = 0; i < BLOCK; i++) {
        r->random += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t number = (uint64_t)((mix(r->random) >> 32) * run->names >> 32);
        number = number / run->threads * run->threads + r->number;
        names_write((uint32_t)number, r->names[i], NAME_LEN);
    }
}

static void acquire(struct runner *r, unsigned i, struct moment now)
{
    struct acquire a = {.name = {r->names[i], NAME_LEN},
                        .hash = r->hashes[i],
                        .units = 1,
                        .limit = 1000,
                        .keep = true};
    CHECK(table_acquire(t, &r->holder, &a, now, NULL, NULL) == TABLE_OK);
}

static void release(struct runner *r, unsigned i, struct moment now)
{
    results out;
    mail_list_init(&out);
    struct release rel = {.name = {r->names[i], NAME_LEN}, .hash = r->hashes[i], .units = 1};
    CHECK(table_release(t, &r->holder, &rel, now, &r->holds, &out) == TABLE_OK);
    CHECK(!out.first);
}

/* Prefetches for each request, so twice for each name. */
static void prefetch(struct runner *r, unsigned from, unsigned to)
{
    struct bytes names[TABLE_PREFETCH_MAX] = {{0}};
    uint64_t hashes[TABLE_PREFETCH_MAX];
    for (unsigned i = from, k = 0; i < to; i++, k += 2)
        names[k] = names[k + 1] = bytes_at(r->names[i], NAME_LEN);
    table_prefetch(t, names, (size_t)2 * (to - from), hashes);
    for (unsigned i = from, k = 0; i < to; i++, k += 2)
        r->hashes[i] = hashes[k];
}

/* Executes the pairs of one block, in batches. */
static void do_block(struct runner *r)
{
    for (unsigned from = 0; from < BLOCK; from += BATCH_PAIRS) {
        struct moment now = {.mono_ns = (int64_t)from, .unix_s = 1000000};
        prefetch(r, from, from + BATCH_PAIRS);
        for (unsigned i = from; i < from + BATCH_PAIRS; i++) {
            acquire(r, i, now);
            release(r, i, now);
        }
    }
    r->pairs += BLOCK;
}

static void *run_pairs(void *arg)
{
    struct runner *r = arg;
    pin(r->number);
    /* A tenth of the time is warm-up. */
    for (int64_t begun = clock_mono_ns(); clock_mono_ns() - begun < RUN_NS / 10;) {
        draw_names(r);
        do_block(r);
    }
    r->pairs = 0;
    (void)pthread_barrier_wait(&start_line);
    int64_t begun = clock_mono_ns();
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        draw_names(r);
        int64_t from = clock_mono_ns();
        do_block(r);
        int64_t to = clock_mono_ns();
        r->busy_ns += to - from;
        if (to - begun >= RUN_NS)
            break;
    }
    atomic_store(&over, true);
    return NULL;
}

/* Nanoseconds per pair. */
static double measure_pairs(const struct run *run)
{
    double pairs_per_ns = 0;
    over = false;
    CHECK(pthread_barrier_init(&start_line, NULL, run->threads) == 0);
    for (unsigned i = 0; i < run->threads; i++) {
        struct runner *r = &runners[i];
        *r = (struct runner){.run = run, .number = i, .random = i + 1};
        holder_init(&r->holder, i + 1, i);
        CHECK(pthread_create(&r->thread, NULL, run_pairs, r) == 0);
    }
    for (unsigned i = 0; i < run->threads; i++) {
        CHECK(pthread_join(runners[i].thread, NULL) == 0);
        pairs_per_ns += (double)runners[i].pairs / (double)runners[i].busy_ns;
        CHECK(runners[i].holder.holdings == 0);
    }
    CHECK(pthread_barrier_destroy(&start_line) == 0);
    return 1 / pairs_per_ns;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void make_names(uint64_t count)
{
    const struct moment now = {.unix_s = 1000000};
    struct runner *maker = &runners[0];
    holder_init(&maker->holder, 100, 0);
    for (uint64_t n = 0; n < count; n++) {
        names_write((uint32_t)n, maker->names[0], NAME_LEN);
        acquire(maker, 0, now);
        release(maker, 0, now);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct run run = {.names = strtoull(argv[1], NULL, 10),
                      .threads = (unsigned)strtoul(argv[2], NULL, 10)};
    CHECK(run.names > 0 && run.threads > 0 && run.threads <= THREADS_MAX);
    t = table_new(&(struct table_config){
        .buckets = 16384, /* the default of counter.buckets */
        .memory_limit = (size_t)4 << 30,
        .stats_interval_s = 86400,
        .hash_key = {.k0 = 0x0706050403020100, .k1 = 0x0f0e0d0c0b0a0908},
    });
    CHECK(t);
    make_names(run.names);
    printf("{\"names\":%" PRIu64 ",\"threads\":%u,\"ns_per_operation\":%.2f}\n", run.names,
           run.threads, measure_pairs(&run));
    table_free(&t);
    return EXIT_SUCCESS;
}
