/* report.c - the result of a run (run.h). */
#include "bench/counterbench/run.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>

static const struct {
    const char *name;
    double share;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};

/* A number rounded to a thousandth; more digits mean nothing. */
static json_t *real(double value)
{
    return json_real(round(value * 1000) / 1000);
}

static json_t *in_us(double ns)
{
    return real(ns / 1000);
}

static void set(json_t *object, const char *name, json_t *value)
{
    CHECK(json_object_set_new(object, name, value) == 0);
}

static void set_count(json_t *object, const char *name, uint64_t count)
{
    set(object, name, json_integer((json_int_t)count));
}

void report_set_us(json_t *object, const char *name, double ns)
{
    set(object, name, in_us(ns));
}

/* The latencies of a histogram as an object: mean, percentiles, worst, in microseconds. */
static json_t *summary(const struct latency *latency)
{
    json_t *object = json_object();
    set(object, "mean", in_us(latency_mean_ns(latency)));
    for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++)
        set(object, quantiles[i].name,
            in_us((double)latency_quantile_ns(latency, quantiles[i].share)));
    set(object, "max", in_us((double)latency->max_ns));
    return object;
}

static json_t *histogram(const struct latency *latency)
{
    json_t *array = json_array();
    for (size_t i = 0; i < LATENCY_CLASSES; i++) {
        if (latency->counts[i] == 0)
            continue;
        json_array_append_new(array, json_pack("[oI]", in_us((double)latency_upper_ns(i)),
                                               (json_int_t)latency->counts[i]));
    }
    return array;
}

/* Adds the states of all processes. */
static struct server_state sum_of(const struct run *run,
                                  const struct server_state states[BENCH_PIDS])
{
    struct server_state sum = {0};
    for (size_t i = 0; i < run->options->pid_count; i++) {
        sum.cpu_ns += states[i].cpu_ns;
        sum.user_us += states[i].user_us;
        sum.system_us += states[i].system_us;
        sum.rss += states[i].rss;
    }
    return sum;
}

/* What a process, or all of them, used between two moments. */
static json_t *server(const struct run *run, struct server_state at_rest,
                      struct server_state before, struct server_state after)
{
    double used_us = (double)(after.cpu_ns - before.cpu_ns) / 1000;
    json_t *object = json_object();
    if (run->counts.operations > 0)
        set(object, "cpu_us_per_operation", real(used_us / (double)run->counts.operations));
    if (run->counts.requests > 0)
        set(object, "cpu_us_per_request", real(used_us / (double)run->counts.requests));
    set(object, "cpu_us", real(used_us));
    set(object, "user_us", json_integer(after.user_us - before.user_us));
    set(object, "system_us", json_integer(after.system_us - before.system_us));
    set(object, "rss_before", json_integer(at_rest.rss));
    set(object, "rss_after", json_integer(after.rss));
    if (run->plan.things > 0)
        set(object, "bytes_each",
            real((double)(after.rss - at_rest.rss) / (double)run->plan.things));
    return object;
}

/* All processes together and, if there are several, each. */
static void set_servers(json_t *object, const struct run *run)
{
    const struct bench_options *options = run->options;
    set(object, "server",
        server(run, sum_of(run, run->at_rest), sum_of(run, run->before), sum_of(run, run->after)));
    if (options->pid_count == 1)
        return;
    json_t *array = json_array();
    for (size_t i = 0; i < options->pid_count; i++) {
        json_t *each = server(run, run->at_rest[i], run->before[i], run->after[i]);
        set_count(each, "pid", options->pids[i]);
        CHECK(json_array_append_new(array, each) == 0);
    }
    set(object, "servers", array);
}

json_t *report_make(const struct run *run)
{
    const struct bench_options *options = run->options;
    double seconds = (double)run->elapsed_ns / (double)NS_PER_S;
    json_t *object = json_pack(
        "{ss ss sI sI sI sI so sf sI sI sI sI}", "workload", run->workload->name, "protocol",
        options->protocol ? options->protocol->name : "both", "connections",
        (json_int_t)run->plan.links, "depth", (json_int_t)options->depth, "threads",
        (json_int_t)options->threads, "seed", (json_int_t)options->seed, "connecting",
        real((double)run->connecting_ns / (double)NS_PER_S), "seconds", seconds, "operations",
        (json_int_t)run->counts.operations, "requests", (json_int_t)run->counts.requests, "refused",
        (json_int_t)run->counts.refused, "errors", (json_int_t)run->counts.errors);
    if (!object)
        return NULL;
    if (options->rate) {
        set_count(object, "rate", options->rate);
        set_count(object, "missed", run->counts.missed);
    }
    if (seconds > 0)
        set(object, "per_second", real((double)run->counts.operations / seconds));
    if (run->latency.count > 0) {
        set(object, "latency_us", summary(&run->latency));
        set(object, "histogram", histogram(&run->latency));
    }
    if (run->quiet.count > 0)
        set(object, "before_us", summary(&run->quiet));
    if (options->pid_count > 0)
        set_servers(object, run);
    if (run->workload->describe)
        run->workload->describe(run, object);
    return object;
}

/* A member of the report, or of its member `within`; NULL: there is none. */
static const json_t *find(const json_t *report, const char *within, const char *name)
{
    return json_object_get(within ? json_object_get(report, within) : report, name);
}

/* Prints a number with the text around it, if the report has it. */
static void print(FILE *to, const json_t *number, const char *before, int digits, const char *after)
{
    if (number)
        fprintf(to, "%s%.*f%s", before, digits, json_number_value(number), after);
}

static void print_latency(const json_t *latency, const char *title, FILE *to)
{
    if (!latency)
        return;
    fputs(title, to);
    print(to, find(latency, NULL, "mean"), " mean ", 1, "");
    for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++) {
        fprintf(to, ", %g %%", quantiles[i].share * 100);
        print(to, find(latency, NULL, quantiles[i].name), " ", 1, "");
    }
    print(to, find(latency, NULL, "max"), ", worst ", 1, " us\n");
}

void report_print(const struct run *run, const json_t *report, FILE *to)
{
    fprintf(to, "%s, %s", run->workload->name, json_string_value(find(report, NULL, "protocol")));
    print(to, find(report, NULL, "operations"), ": ", 0, " operations");
    print(to, find(report, NULL, "seconds"), " in ", 3, " s");
    print(to, find(report, NULL, "per_second"), ", ", 0, " a second");
    print(to, find(report, NULL, "requests"), "\nanswers: ", 0, "");
    print(to, find(report, NULL, "refused"), ", refusals among them: ", 0, "");
    print(to, find(report, NULL, "errors"), ", errors: ", 0, "\n");
    if (run->counts.missed > 0)
        print(to, find(report, NULL, "missed"), "never begun, for lack of time: ", 0,
              " operations\n");
    print_latency(find(report, NULL, "latency_us"), "latency:", to);
    print_latency(find(report, NULL, "before_us"), "before: ", to);
    print(to, find(report, NULL, "time_to_last_us"), "until the last is notified: ", 1, " us\n");
    print(to, find(report, "dump", "seconds"), "a dump: ", 3, " s");
    print(to, find(report, "dump", "names"), ", ", 0, " names\n");
    if (!find(report, NULL, "server"))
        return;
    print(to, find(report, "server", "cpu_us"), "server: ", 0, " us of CPU");
    print(to, find(report, "server", "cpu_us_per_operation"), ", ", 3, " us for an operation");
    print(to, find(report, "server", "cpu_us_per_request"), ", ", 3, " us for an answer");
    print(to, find(report, "server", "rss_after"), "; ", 0, " bytes resident");
    print(to, find(report, "server", "bytes_each"), ", ", 1, " for each that was made");
    fputc('\n', to);
    size_t index;
    const json_t *each;
    json_array_foreach(json_object_get(report, "servers"), index, each)
    {
        print(to, find(each, NULL, "pid"), "  process ", 0, ": ");
        print(to, find(each, NULL, "cpu_us"), "", 0, " us of CPU");
        print(to, find(each, NULL, "cpu_us_per_request"), ", ", 3, " us for an answer");
        fputc('\n', to);
    }
}
