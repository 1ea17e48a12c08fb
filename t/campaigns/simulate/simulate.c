/*
 * simulate.c - runs of the simulation (world.h), one after the other or several in parallel.
 *
 *     simulate [--seeds N] [--seed N] [--jobs N]   N runs with consecutive seeds from --seed on;
 *                                                  --seed alone: only that one
 *     simulate --memory [--seed N]                 runs with failing memory: see torture_memory
 *     simulate --seed N --pools                    pools are used, whatever the seed
 *
 * Each job is a process. When a job fails (a check, a sanitizer, a signal), the program prints its
 * current seed; the same seed fails again in the same way.
 */
#include "t/campaigns/simulate/world.h"

#include "engine/pool.h"
#include "service/poolcounter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 64

/* A job, in memory shared with its process. */
struct job {
    pid_t pid;
    struct plan plan; /* of the current run */
    uint64_t runs;
    struct outcome sum;
};

static struct job *jobs;
static unsigned job_count = 1;
static uint64_t first_seed, seeds = 1000;

/* ---- the work of a job -------------------------------------------------------------------- */

static void run(struct job *job, struct plan plan)
{
    job->plan = plan;
    world_run(&plan, &job->sum);
    job->runs++;
}

static void simulate(struct job *job, unsigned number)
{
    for (uint64_t i = number; i < seeds; i += job_count)
        run(job, (struct plan){.seed = first_seed + i});
}

/* Length of the script in which each allocation fails once. */
#define SCRIPT_REQUESTS 200

/*
 * Runs the script of the first seed once for each allocation of the server, which then fails, from
 * the server's start on. Then makes runs in which one allocation in a hundred fails at random.
 */
static void torture_memory(struct job *job, unsigned number)
{
    struct plan plan = {
        .seed = first_seed, .requests = SCRIPT_REQUESTS, .no_failures = true, .pools = true};
    struct outcome whole = {0};
    job->plan = plan;
    world_run(&plan, &whole); /* counts the allocations */
    for (uint64_t k = 1 + number; k <= whole.pieces; k += job_count) {
        plan.fail_at = k;
        run(job, plan);
    }
    for (uint64_t i = number; i < seeds; i += job_count)
        run(job, (struct plan){.seed = first_seed + i, .fail_one_in = 100});
}

/* ---- jobs --------------------------------------------------------------------------------- */

static void start_job(unsigned number, void (*work)(struct job *job, unsigned number))
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        work(&jobs[number], number);
        exit(0);
    }
    jobs[number].pid = pid; /* not before: both processes share the struct */
}

static void tell_failure(const struct job *job)
{
    printf("FAILED: --seed %" PRIu64, job->plan.seed);
    if (job->plan.fail_at)
        printf(" --fail-at %" PRIu64, job->plan.fail_at);
    if (job->plan.requests)
        printf(" --requests %" PRIu64, job->plan.requests);
    if (job->plan.no_failures)
        printf(" --no-failures");
    if (job->plan.pools)
        printf(" --pools");
    if (job->plan.fail_one_in)
        printf(" --fail-one-in %" PRIu32, job->plan.fail_one_in);
    printf("\n");
}

/* Waits for all jobs. Returns false if one failed. */
static bool await_jobs(void)
{
    bool good = true;
    for (unsigned i = 0; i < job_count; i++) {
        int status = 0;
        while (waitpid(jobs[i].pid, &status, 0) < 0 && errno == EINTR)
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        good = false;
        tell_failure(&jobs[i]);
    }
    return good;
}

static void tell_counts(const char *what, double took_s)
{
    struct outcome all = {0};
    uint64_t runs = 0;
    for (unsigned j = 0; j < job_count; j++) {
        const uint64_t *from = (const uint64_t *)&jobs[j].sum;
        runs += jobs[j].runs;
        for (size_t i = 0; i < sizeof(all) / sizeof(uint64_t); i++)
            ((uint64_t *)&all)[i] += from[i];
    }
    printf("%s: closed:", what);
    for (unsigned r = 0; r < CLOSE_OWN; r++) {
        if (all.closed[r])
            printf(" %s %" PRIu64, protocol_close_word(&poolcounter_row.protocol, r),
                   all.closed[r]);
    }
    printf("\n%s: pools: %" PRIu64 " requests, %" PRIu64 " lists; %" PRIu64
           " members taken, %" PRIu64 " of them after a wait (%" PRIu64 " behind a list), %" PRIu64
           " waits refused; %" PRIu64 " WANT, %" PRIu64 " STOP, %" PRIu64 " EVENT, %" PRIu64
           " LOST; moves:",
           what, all.pool_requests, all.lists, all.taken, all.taken_late, all.taken_behind,
           all.wait_refusals, all.wants, all.stops, all.events, all.lost);
    for (unsigned why = 0; why < POOL_WHY_COUNT; why++)
        printf(" %s %" PRIu64, pool_why_word((enum pool_why)why), all.moves[why]);
    printf("\n%s: %" PRIu64 " runs from seed %" PRIu64 ", %" PRIu64 " clients, %" PRIu64
           " requests, %" PRIu64 " waits, %" PRIu64 " steps; %" PRIu64 " of %" PRIu64
           " pieces of memory refused, %" PRIu64 " answers said so; %.1f s\n",
           what, runs, first_seed, all.clients, all.requests, all.waits, all.steps, all.refused,
           all.pieces, all.out_of_memory, took_s);
}

/* ---- command line ------------------------------------------------------------------------- */

static uint64_t number_of(const char *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    uint64_t number = text ? strtoull(text, &end, 0) : 0;
    if (!text || end == text || *end || errno || *text == '-') {
        fprintf(stderr, "simulate: %s wants a number\n", option);
        exit(2);
    }
    return number;
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    bool memory = false, one = false, several = false;
    struct plan plan = {0};
    if (getrandom(&first_seed, 4, 0) != 4)
        return 2;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--memory") == 0) {
            memory = true;
            continue;
        }
        if (strcmp(option, "--no-failures") == 0) {
            plan.no_failures = true;
            continue;
        }
        if (strcmp(option, "--pools") == 0) {
            plan.pools = true;
            continue;
        }
        uint64_t number = number_of(option, argv[i + 1]);
        i++;
        if (strcmp(option, "--seed") == 0) {
            first_seed = number;
            one = true;
        } else if (strcmp(option, "--seeds") == 0) {
            seeds = number;
            several = true;
        } else if (strcmp(option, "--jobs") == 0 && number > 0 && number <= JOBS_MAX) {
            job_count = (unsigned)number;
        } else if (strcmp(option, "--requests") == 0) {
            plan.requests = number;
        } else if (strcmp(option, "--fail-at") == 0) {
            plan.fail_at = number;
        } else if (strcmp(option, "--fail-one-in") == 0) {
            plan.fail_one_in = (uint32_t)number;
        } else {
            fprintf(stderr, "simulate: no such option: %s\n", option);
            return 2;
        }
    }
    plan.seed = first_seed;
    const char *what = memory ? "memory" : "simulate";
    printf("%s: seed %" PRIu64 "\n", what, first_seed);
    jobs = mmap(NULL, JOBS_MAX * sizeof(*jobs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    if (jobs == MAP_FAILED)
        return 2;
    double began_s = now_s();
    if (one && !several && !memory) {
        run(&jobs[0], plan);
        tell_counts(what, now_s() - began_s);
        return 0;
    }
    for (unsigned i = 0; i < job_count; i++)
        start_job(i, memory ? torture_memory : simulate);
    bool good = await_jobs();
    tell_counts(what, now_s() - began_s);
    return good ? 0 : 1;
}
