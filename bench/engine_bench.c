/*
 * engine_bench.c - measures the table without sockets: nanoseconds per acquire and release, the
 * worst single acquire while the table grows, resident bytes per name.
 *
 * A pair is an acquire and a release of one name, drawn at random. Requests come in batches, as
 * over the network: of one, or of 32 (16 pairs: acquire, release, acquire, ...); the table sees the
 * whole batch before it carries out the first request. Names are written before the clock starts,
 * because a socket would deliver them. A name is either kept (it exists at 0 before and after, as
 * in the binary protocol), or fresh (the acquire makes it and the release removes it, as in the
 * text protocol) among the given number of other names.
 *
 * A figure is the elapsed time divided by the pairs of all threads, so two threads that work in
 * parallel halve it.
 */
#include "base/hash.h"
#include "engine/shard.h" /* for the layout of memory */
#include "engine/table.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { NAME_LEN = 24, THREADS_MAX = 2, BATCH_MAX = 32, BLOCK = 1024 };

/* Size of the table: the default of counter.buckets. */
enum { BUCKETS = 16384 };

static struct {
    bool json;
    int64_t run_ns; /* time for one figure */
    uint64_t names_max;
    uint64_t pairs; /* a fixed number of pairs instead of a time */
    /* Restrict the measurements to these: */
    uint64_t names;
    unsigned threads, depth;
    const char *kind;
} options;

static struct table *t;

static struct moment moment_now(void)
{
    return (struct moment){.mono_ns = clock_mono_ns(), .unix_s = 1000000};
}

static void fail(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE); /* NOLINT(concurrency-mt-unsafe): whatever the threads do */
}

/* ---- names ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Converts 16 bits to four letters, one letter in each byte. */
static uint32_t letters(uint64_t bits)
{
    uint32_t x = (uint32_t)bits & 0xffff;
    x = (x | x << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f;
    return x + 0x61616161;
}

/* Name number `number`: 24 letters; all names share the first 8. */
static void write_name(uint64_t number, unsigned char *to)
{
    uint64_t bits = mix(number); /* a one-to-one function */
    static const char first[8] = {'e', 'n', 'w', 'i', 'k', 'i', ':', 'a'};
    memcpy(to, first, sizeof(first));
    for (size_t i = 0; i < 4; i++)
        memcpy(to + 8 + 4 * i, &(uint32_t){letters(bits >> 16 * i)}, 4);
}

/* ---- threads ----------------------------------------------------------------------------- */

enum kind { KEPT, FRESH, HOT, KINDS };

static const char *const kind_words[KINDS] = {"kept", "fresh", "hot"};

/* What to measure. */
struct run {
    unsigned threads, depth;
    uint64_t names;
    enum kind kind;
};

_Static_assert(BATCH_MAX <= TABLE_PREFETCH_MAX, "a batch is looked at in one go");

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
    uint64_t hashes[BLOCK]; /* 0: not prefetched */
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
        number = run->kind == HOT ? 0 : number / run->threads * run->threads + r->number;
        write_name(run->kind == FRESH ? number + ((uint64_t)1 << 40) : number, r->names[i]);
    }
}

static void acquire(struct runner *r, unsigned i, struct moment now)
{
    struct acquire a = {.name = {r->names[i], NAME_LEN},
                        .hash = r->hashes[i],
                        .units = 1,
                        .limit = 1000,
                        .keep = r->run->kind != FRESH};
    CHECK(table_acquire(t, &r->holder, &a, now, NULL, NULL) == TABLE_OK);
}

static void release(struct runner *r, unsigned i, struct moment now)
{
    verdicts out;
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
    unsigned pairs = r->run->depth > 1 ? r->run->depth / 2 : 1;
    for (unsigned from = 0; from < BLOCK; from += pairs) {
        struct moment now = {.mono_ns = (int64_t)from, .unix_s = 1000000};
        if (pairs > 1)
            prefetch(r, from, from + pairs);
        for (unsigned i = from; i < from + pairs; i++) {
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
    for (int64_t warm_ns = options.run_ns / 10, begun = clock_mono_ns();
         options.pairs == 0 && clock_mono_ns() - begun < warm_ns;) {
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
        if (options.pairs ? r->pairs >= options.pairs : to - begun >= options.run_ns)
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
    if (pthread_barrier_init(&start_line, NULL, run->threads) != 0)
        fail("pthread_barrier_init");
    for (unsigned i = 0; i < run->threads; i++) {
        struct runner *r = &runners[i];
        *r = (struct runner){.run = run, .number = i, .random = i + 1};
        holder_init(&r->holder, i + 1, i);
        if (pthread_create(&r->thread, NULL, run_pairs, r) != 0)
            fail("pthread_create");
    }
    for (unsigned i = 0; i < run->threads; i++) {
        CHECK(pthread_join(runners[i].thread, NULL) == 0);
        pairs_per_ns += (double)runners[i].pairs / (double)runners[i].busy_ns;
        CHECK(runners[i].holder.holdings == 0);
    }
    CHECK(pthread_barrier_destroy(&start_line) == 0);
    return 1 / pairs_per_ns;
}

/* ---- tables ------------------------------------------------------------------------------ */

static void new_table(void)
{
    t = table_new(&(struct table_config){
        .buckets = BUCKETS,
        .memory_limit = 4096 * MIB,
        .stats_interval_s = 86400,
        .hash_key = {.k0 = 0x0706050403020100, .k1 = 0x0f0e0d0c0b0a0908},
    });
    if (!t)
        fail("table_new");
}

/* Creates the names `from` to `to`. */
static void make_names(struct holder *holder, uint64_t from, uint64_t to, bool kept)
{
    struct moment now = moment_now();
    verdicts out;
    mail_list_init(&out);
    for (uint64_t n = from; n < to; n++) {
        unsigned char name[NAME_LEN];
        write_name(n, name);
        struct acquire a = {.name = {name, NAME_LEN}, .units = 1, .limit = 1000, .keep = kept};
        CHECK(table_acquire(t, holder, &a, now, NULL, NULL) == TABLE_OK);
        struct release r = {.name = a.name, .units = 1};
        if (kept)
            CHECK(table_release(t, holder, &r, now, NULL, &out) == TABLE_OK);
    }
}

static void show_pair(const struct run *run, double ns)
{
    const char *yes = "true", *no = "false";
    if (options.json)
        printf("{\"what\":\"pair\",\"names\":%" PRIu64 ",\"threads\":%u,\"depth\":%u,\"hot\":%s,"
               "\"kept\":%s,\"ns_per_operation\":%.2f}\n",
               run->names, run->threads, run->depth, run->kind == HOT ? yes : no,
               run->kind == FRESH ? no : yes, ns);
    else
        printf("%10" PRIu64 " %-5s  %u thread%s depth %2u %10.1f ns a pair\n", run->names,
               kind_words[run->kind], run->threads, run->threads > 1 ? "s" : " ", run->depth, ns);
    (void)fflush(stdout);
}

static bool is_wanted(const struct run *run)
{
    return (!options.threads || run->threads == options.threads) &&
           (!options.depth || run->depth == options.depth) &&
           (!options.kind || strcmp(options.kind, kind_words[run->kind]) == 0) &&
           /* The hot name does not depend on the others. */
           (run->kind != HOT || run->names == 1000 || options.names);
}

static void bench_pairs(void)
{
    struct holder maker;
    for (uint64_t names = 1000; names <= options.names_max; names *= 10) {
        if (options.names && names != options.names)
            continue;
        new_table();
        holder_init(&maker, 100, 0);
        make_names(&maker, 0, names, true);
        struct run run = {.names = names};
        for (run.kind = KEPT; run.kind < KINDS; run.kind++) {
            for (run.threads = 1; run.threads <= THREADS_MAX; run.threads++) {
                for (run.depth = 1; run.depth <= BATCH_MAX; run.depth *= BATCH_MAX) {
                    if (is_wanted(&run))
                        show_pair(&run, measure_pairs(&run));
                }
            }
        }
        table_free(&t);
    }
}

/* ---- growth ------------------------------------------------------------------------------ */

/* How often the kernel has taken the processor from this thread. */
static long times_interrupted(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nivcsw;
}

/*
 * Adds one name after the other, each timed by itself. If the kernel took the processor away during
 * one, its time says nothing about the table: the worst of those is printed apart.
 */
static void bench_growth(void)
{
    enum { FROM = 100000 };
    static uint64_t counts[HISTOGRAM_CLASSES];
    struct holder maker;
    uint64_t to = options.names_max, worst_ns = 0, interrupted_ns = 0, sum_ns = 0;
    pin(0);
    new_table();
    holder_init(&maker, 1, 0);
    make_names(&maker, 0, FROM, false);
    struct moment now = moment_now();
    for (uint64_t n = FROM; n < to; n++) {
        unsigned char name[NAME_LEN];
        write_name(n, name);
        struct acquire a = {.name = {name, NAME_LEN}, .units = 1, .limit = 1000};
        long interrupted = times_interrupted();
        int64_t from_ns = clock_mono_ns();
        CHECK(table_acquire(t, &maker, &a, now, NULL, NULL) == TABLE_OK);
        uint64_t ns = (uint64_t)(clock_mono_ns() - from_ns);
        counts[log_linear_class(ns, HISTOGRAM_BITS)]++;
        sum_ns += ns;
        uint64_t *worst = times_interrupted() == interrupted ? &worst_ns : &interrupted_ns;
        *worst = ns > *worst ? ns : *worst;
    }
    double mean_ns = (double)sum_ns / (double)(to - FROM);
    uint64_t wanted = (uint64_t)((double)(to - FROM) * 0.99999), seen = 0;
    size_t class_no = 0;
    while ((seen += counts[class_no]) < wanted)
        class_no++;
    uint64_t p99999_ns = log_linear_least(class_no + 1, HISTOGRAM_BITS);
    if (options.json)
        printf("{\"what\":\"growth\",\"from\":%d,\"to\":%" PRIu64 ",\"mean_ns\":%.1f,"
               "\"p99999_ns\":%" PRIu64 ",\"worst_ns\":%" PRIu64 ",\"interrupted_ns\":%" PRIu64
               "}\n",
               FROM, to, mean_ns, p99999_ns, worst_ns, interrupted_ns);
    else
        printf("growth from %d to %" PRIu64 " names: mean %.0f ns, 99.999th percentile %.1f us, "
               "worst %.1f us (%.1f us where others had the processor meanwhile)\n",
               FROM, to, mean_ns, (double)p99999_ns / 1e3, (double)worst_ns / 1e3,
               (double)interrupted_ns / 1e3);
    int64_t begun = clock_mono_ns();
    verdicts out;
    mail_list_init(&out);
    table_close(t, &maker, now, NULL, &out);
    double close_ns = (double)(clock_mono_ns() - begun) / (double)to;
    if (options.json)
        printf("{\"what\":\"close\",\"names\":%" PRIu64 ",\"ns_each\":%.1f}\n", to, close_ns);
    else
        printf("closing their holder: %.0f ns a name\n", close_ns);
    table_free(&t);
}

/* ---- memory ------------------------------------------------------------------------------ */

static size_t resident(void)
{
    unsigned long size, pages;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu", &size, &pages) != 2) // NOLINT(cert-err34-c): the kernel's
        fail("/proc/self/statm");
    (void)fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes of the arena that the index of names takes, without further buckets. */
static size_t index_bytes(void)
{
    size_t buckets = 0;
    for (unsigned i = 0; i < TABLE_SHARDS; i++)
        buckets += t->shards[i].names.buckets;
    return buckets * sizeof(struct index_bucket);
}

static void bench_memory(void)
{
    struct holder maker;
    for (uint64_t names = 1000000; names <= options.names_max; names *= 10) {
        size_t before = resident();
        new_table();
        holder_init(&maker, 1, 0);
        make_names(&maker, 0, names, false);
        struct table_stats s;
        table_get_stats(t, moment_now(), &s);
        double each = (double)(resident() - before) / (double)names;
        double arena = (double)s.memory / (double)names;
        double index = (double)index_bytes() / (double)names;
        if (options.json)
            printf("{\"what\":\"memory\",\"names\":%" PRIu64 ",\"resident\":%.2f,\"arena\":%.2f,"
                   "\"index\":%.2f}\n",
                   names, each, arena, index);
        else
            printf("%10" PRIu64 " names of %d bytes held by one: %.1f bytes resident each; of the "
                   "arena %.1f, of which index %.1f\n",
                   names, NAME_LEN, each, arena, index);
        verdicts out;
        mail_list_init(&out);
        table_close(t, &maker, moment_now(), NULL, &out);
        table_free(&t);
    }
}

/* ---- command line ------------------------------------------------------------------------ */

static void usage(FILE *to)
{
    (void)fputs("engine_bench [OPTION]... [pairs | growth | memory]...\n"
                "  -q, --quick      less of everything: up to 10^6 names\n"
                "  -j, --json       a JSON object to a line\n"
                "  -n, --pairs N    pairs: so many in each thread, instead of for a time\n"
                "Of pairs only those\n"
                "  -k, --names N    among so many names, a power of ten from 1,000\n"
                "  -t, --threads N  in so many threads, 1 or 2\n"
                "  -d, --depth N    in batches of so many requests, 1 or 32\n"
                "  -w, --what KIND  kept, fresh or hot\n"
                "  -h, --help       this\n",
                to);
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"quick", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},
        {"names", required_argument, NULL, 'k'},
        {"pairs", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"depth", required_argument, NULL, 'd'},
        {"what", required_argument, NULL, 'w'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    static const struct {
        const char *word;
        void (*run)(void);
    } benches[] = {{"memory", bench_memory}, {"growth", bench_growth}, {"pairs", bench_pairs}};
    options.run_ns = 400 * NS_PER_MS;
    options.names_max = 10000000;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet */
    for (int c; (c = getopt_long(argc, argv, "qjn:k:t:d:w:h", longs, NULL)) != -1;) {
        switch (c) {
        case 'q':
            options.run_ns = 50 * NS_PER_MS;
            options.names_max = 1000000;
            break;
        case 'j':
            options.json = true;
            break;
        case 'k':
            options.names = strtoull(optarg, NULL, 10);
            break;
        case 't':
            options.threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'd':
            options.depth = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'w':
            options.kind = optarg;
            break;
        case 'n':
            options.pairs = strtoull(optarg, NULL, 10);
            break;
        case 'h':
            usage(stdout);
            return EXIT_SUCCESS;
        default:
            usage(stderr);
            return 2;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(benches); i++) {
        bool wanted = optind == argc;
        for (int k = optind; k < argc; k++)
            wanted |= strcmp(argv[k], benches[i].word) == 0;
        if (wanted)
            benches[i].run();
    }
    return EXIT_SUCCESS;
}
