/*
 * simulate.c - runs of the simulation (world.h), one after the other or several in parallel.
 *
 *     simulate [--seeds N] [--seed N] [--jobs N]   N runs with consecutive seeds from --seed on;
 *                                                  --seed alone: only that one
 *
 * Each job is a process. When a job fails (a check, a sanitizer, a signal), the program prints its
 * current seed; the same seed fails again in the same way.
 */
#include "t/campaigns/simulate/world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 64

/* A job, in memory shared with its process. */
struct job {
    pid_t pid;
    uint64_t seed; /* of the current run */
    uint64_t runs;
    struct outcome sum;
};

static struct job *jobs;
static uint64_t job_count = 1, first_seed, seeds = 1000;

static void simulate(struct job *job, unsigned number)
{
    for (uint64_t i = number; i < seeds; i += job_count) {
        job->seed = first_seed + i;
        world_run(job->seed, &job->sum);
        job->runs++;
    }
}

static void start_job(unsigned number)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        simulate(&jobs[number], number);
        exit(0);
    }
    jobs[number].pid = pid; /* not before: both processes share the struct */
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
        printf("FAILED: --seed %" PRIu64 "\n", jobs[i].seed);
    }
    return good;
}

static void tell_counts(void)
{
    struct outcome all = {0};
    uint64_t runs = 0;
    for (unsigned j = 0; j < job_count; j++) {
        const uint64_t *from = (const uint64_t *)&jobs[j].sum;
        runs += jobs[j].runs;
        for (size_t i = 0; i < sizeof(all) / sizeof(uint64_t); i++)
            ((uint64_t *)&all)[i] += from[i];
    }
    printf("simulate: %" PRIu64 " runs from seed %" PRIu64 ", %" PRIu64 " clients, %" PRIu64
           " requests, %" PRIu64 " waits; %" PRIu64 " of %" PRIu64
           " pieces of memory refused, %" PRIu64 " answers said so\n",
           runs, first_seed, all.clients, all.requests, all.waits, all.refused, all.pieces,
           all.out_of_memory);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        uint64_t *number;
    } options[] = {{"--seed", &first_seed}, {"--seeds", &seeds}, {"--jobs", &job_count}};
    bool one = false, several = false;
    if (getrandom(&first_seed, 4, 0) != 4)
        return 2;
    for (int i = 1; i < argc; i++) {
        size_t at = 0;
        while (at < 3 && strcmp(argv[i], options[at].name) != 0)
            at++;
        if (at == 3 || !argv[i + 1]) {
            fprintf(stderr, "simulate: --seed, --seeds or --jobs, and a number\n");
            return 2;
        }
        one = one || at == 0;
        several = several || at == 1;
        *options[at].number = strtoull(argv[++i], NULL, 0);
    }
    if (one && !several)
        seeds = 1;
    if (job_count < 1 || job_count > JOBS_MAX)
        return 2;
    printf("simulate: seed %" PRIu64 "\n", first_seed);
    jobs = mmap(NULL, JOBS_MAX * sizeof(*jobs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    if (jobs == MAP_FAILED)
        return 2;
    for (unsigned i = 0; i < job_count; i++)
        start_job(i);
    bool good = await_jobs();
    tell_counts();
    return good ? 0 : 1;
}
