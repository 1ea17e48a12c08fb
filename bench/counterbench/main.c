/*
 * main.c - counterbench: parses the command line, runs a workload, and prints the result.
 */
#include "config.h"

#include "base/file.h"
#include "bench/counterbench/run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

/* Writes the JSON to the named file. Returns false after printing why it failed. */
static bool write_json(const char *name, const json_t *report)
{
    FILE *to = strcmp(name, "-") == 0 ? stdout : fopen(name, "we");
    bool good = to && json_dumpf(report, to, JSON_COMPACT | JSON_REAL_PRECISION(12)) == 0 &&
                fputc('\n', to) != EOF && fflush(to) == 0;
    if (!good)
        fprintf(stderr, "counterbench: %s: %s\n", name, strerrordesc_np(errno));
    if (to && to != stdout && fclose(to) != 0)
        good = false;
    return good;
}

/* Prints the result. */
static enum bench_status tell(const struct run *run)
{
    const struct bench_options *options = run->options;
    json_t *report = report_make(run);
    CHECK(report);
    bool good = !options->json || write_json(options->json_file, report);
    if (!options->json || strcmp(options->json_file, "-") != 0)
        report_print(run, report, stdout);
    json_decref(report);
    if (run->counts.errors > 0) {
        fprintf(stderr, "counterbench: %" PRIu64 " errors; the first: %s\n", run->counts.errors,
                run_complaint(run));
        good = false;
    }
    if (run->was_interrupted) {
        fputs("counterbench: ended early by a signal\n", stderr);
        good = false;
    }
    return good ? BENCH_OK : BENCH_FAILED;
}

static enum bench_status execute(const struct bench_options *options)
{
    static struct run run; /* its histogram is large */
    char reason[RUN_REASON_MAX] = "";
    enum bench_status status = BENCH_FAILED;
    if (run_make(&run, options, reason) && run_execute(&run, reason))
        status = tell(&run);
    else
        fprintf(stderr, "counterbench: %s\n", reason);
    run_free(&run);
    return status;
}

int main(int argc, char **argv)
{
    struct bench_options options;
    signal(SIGPIPE, SIG_IGN);
    if (!file_open_standard(true)) {
        fprintf(stderr,
                "counterbench: standard input, output or error is closed, and /dev/null can't be "
                "opened in its place: %s\n",
                strerrordesc_np(errno));
        return BENCH_FAILED;
    }
    if (!bench_options_parse(argc, argv, &options, stderr))
        return BENCH_USAGE;
    if (options.version) {
        printf("counterbench " PACKAGE_VERSION "\n");
        return BENCH_OK;
    }
    if (options.help) {
        bench_print_help(stdout);
        return BENCH_OK;
    }
    return (int)execute(&options);
}
