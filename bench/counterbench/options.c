/* options.c - the table of options, and the command line (options.h). */
#include "bench/counterbench/options.h"

#include "base/number.h"
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/workload.h"
#include "cli/options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* How many bytes of a wrong argument a message shows. */
#define SHOWN_MAX 100

/* The highest number of a processor. */
#define CPU_MAX 4095

enum bench_option_type {
    BENCH_IS_FLAG,
    BENCH_IS_TEXT,
    BENCH_IS_TARGET,  /* may be given several times */
    BENCH_IS_NUMBER,  /* uint32_t from min to max */
    BENCH_IS_PID,     /* such a number; may be given several times */
    BENCH_IS_SECONDS, /* int64_t of nanoseconds */
    BENCH_IS_JSON     /* a file may follow */
};

struct bench_option_row {
    const char *name; /* without the dashes */
    char letter;      /* 0: no letter */
    enum bench_option_type type;
    const char *argument;
    size_t offset; /* of the value in struct bench_options */
    uint32_t min, max;
    const char *default_text; /* as on the command line; NULL: none, or the workload's */
    const char *help;
};

#define FIELD(name) offsetof(struct bench_options, name)

static const struct bench_option_row rows[BENCH_OPTION_COUNT] = {
    [BENCH_TARGET] = {"target", 't', BENCH_IS_TARGET, "ADDRESS", 0, 0, 0, NULL,
                      "the server: HOST[:PORT], [V6]:PORT, a path or unix:@NAME (default: "
                      "127.0.0.1 and the protocol's port); several: connections in turn"},
    [BENCH_PROTOCOL] = {"protocol", 'p', BENCH_IS_TEXT, "NAME", FIELD(protocol_name), 0, 0, NULL,
                        "its protocol (below)"},
    [BENCH_CONNECTIONS] = {"connections", 'c', BENCH_IS_NUMBER, "N", FIELD(connections), 1, 1000000,
                           NULL, "connections; churn: how many at once"},
    [BENCH_DEPTH] = {"depth", 'd', BENCH_IS_NUMBER, "N", FIELD(depth), 1, 65536, NULL,
                     "requests in flight on each connection"},
    [BENCH_THREADS] = {"threads", 'T', BENCH_IS_NUMBER, "N", FIELD(threads), 1, 256, "1",
                       "threads that share the connections"},
    [BENCH_SECONDS] = {"seconds", 's', BENCH_IS_SECONDS, "S", FIELD(seconds_ns), 0, 0, "5",
                       "how long to measure"},
    [BENCH_REQUESTS] = {"requests", 'n', BENCH_IS_NUMBER, "N", FIELD(requests), 1, UINT32_MAX, NULL,
                        "end after this many requests, unless the time ends first"},
    [BENCH_WARMUP] = {"warmup", 'w', BENCH_IS_SECONDS, "S", FIELD(warmup_ns), 0, 0, "1",
                      "seconds of the same work before; they do not count"},
    [BENCH_RATE] = {"rate", 'r', BENCH_IS_NUMBER, "R", FIELD(rate), 1, 100000000, NULL,
                    "open loop: this many requests a second in total, whatever the answers"},
    [BENCH_NAMES] = {"names", 'k', BENCH_IS_NUMBER, "N", FIELD(names), 1, UINT32_MAX, NULL,
                     "how many names there are"},
    [BENCH_NAME_LENGTH] = {"name-length", 'l', BENCH_IS_NUMBER, "N", FIELD(name_length), 1,
                           NAMES_LONGEST, "24", "bytes of a name"},
    [BENCH_WAITERS] = {"waiters", 0, BENCH_IS_NUMBER, "N", FIELD(waiters), 1, 1000000, NULL,
                       "connections that wait for one name, or for jobs"},
    [BENCH_LIMIT] = {"limit", 0, BENCH_IS_NUMBER, "N", FIELD(limit), 1, 1000000000, NULL,
                     "units of a name that may be in use"},
    [BENCH_MEMBERS] = {"members", 'm', BENCH_IS_NUMBER, "N", FIELD(members), 1, 1000000, NULL,
                       "members of the pool"},
    [BENCH_BODY] = {"body", 'b', BENCH_IS_NUMBER, "N", FIELD(body), STAMP_LENGTH, 60000, NULL,
                    "bytes of a job's body"},
    [BENCH_BATCH] = {"batch", 0, BENCH_IS_NUMBER, "N", FIELD(batch), 1, 1000, NULL,
                     "jobs that are put at once"},
    [BENCH_BESIDE] = {"beside", 0, BENCH_IS_NUMBER, "N", FIELD(beside), 0, 100000, NULL,
                      "other connections that work at the same time"},
    [BENCH_PID] = {"pid", 0, BENCH_IS_PID, "PID", 0, 1, 1 << 22, NULL,
                   "the server's process: also measure its CPU time and memory; several: each"},
    [BENCH_CPU] = {"cpu", 0, BENCH_IS_TEXT, "LIST", FIELD(cpu), 0, 0, NULL,
                   "run our threads on these processors, such as 0,2-3"},
    [BENCH_TLS] = {"tls", 0, BENCH_IS_FLAG, NULL, FIELD(tls), 0, 0, NULL, "speak TLS"},
    [BENCH_TLS_CA] = {"tls-ca", 0, BENCH_IS_TEXT, "FILE", FIELD(tls_ca), 0, 0, NULL,
                      "trusted certificates; without it, any certificate is accepted"},
    [BENCH_SEED] = {"seed", 0, BENCH_IS_NUMBER, "N", FIELD(seed), 0, UINT32_MAX, "1",
                    "start of the random sequence of names"},
    [BENCH_JSON] = {"json", 0, BENCH_IS_JSON, "FILE", FIELD(json_file), 0, 0, NULL,
                    "write JSON, to standard output without FILE or with -"},
    [BENCH_QUIET] = {"quiet", 'q', BENCH_IS_FLAG, NULL, FIELD(quiet), 0, 0, NULL,
                     "no progress bar, even on a terminal"},
    [BENCH_HELP] = {"help", 'h', BENCH_IS_FLAG, NULL, FIELD(help), 0, 0, NULL,
                    "print this help and exit"},
    [BENCH_VERSION] = {"version", 'V', BENCH_IS_FLAG, NULL, FIELD(version), 0, 0, NULL,
                       "print the version and exit"},
};

static const struct workload *const workloads[] = {
    &workload_pairs,
    &workload_churn,
    &workload_hot,
    &workload_herd,
    &workload_mixed,
    &workload_dump,
    &workload_idle,
    &workload_names,
    &workload_pools,
    &workload_jobs,
    &workload_put_jobs,
    &workload_take_jobs,
    NULL,
};

/* Prints an error as one line. Always returns false. */
static bool complain(FILE *err, const char *format, ...) PRINTF_LIKE(2, 3);

static bool complain(FILE *err, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("counterbench: ", err);
    vfprintf(err, format, values);
    fputc('\n', err);
    va_end(values);
    return false;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void *field(struct bench_options *options, const struct bench_option_row *row)
{
    return (char *)options + row->offset;
}

/* Parses a list of processors, such as 0,2-3. Returns false for anything else. */
static bool parse_cpus(const char *text, uint32_t cpus[BENCH_CPUS], size_t *count_r)
{
    struct bytes in = bytes_of(text);
    size_t count = 0;
    do {
        uint64_t from, to;
        if (!number_take(&in, CPU_MAX, &from))
            return false;
        to = from;
        if (bytes_take_text(&in, "-") && (!number_take(&in, CPU_MAX, &to) || to < from))
            return false;
        for (; from <= to; from++) {
            if (count == BENCH_CPUS)
                return false;
            cpus[count++] = (uint32_t)from;
        }
    } while (bytes_take_text(&in, ","));
    *count_r = count;
    return in.len == 0;
}

static bool set_number(const struct bench_option_row *row, const char *value, uint32_t *to,
                       FILE *err)
{
    return parse_number(bytes_of(value), row->min, row->max, to) ||
           complain(err, "--%s: \"%.*s\" is not a whole number from %" PRIu32 " to %" PRIu32,
                    row->name, SHOWN_MAX, value, row->min, row->max);
}

static bool set(struct bench_options *options, const struct bench_option_row *row,
                const char *value, FILE *err)
{
    switch (row->type) {
    case BENCH_IS_FLAG:
        *(bool *)field(options, row) = true;
        return true;
    case BENCH_IS_JSON:
        options->json = true;
        options->json_file = value ? value : "-";
        return true;
    case BENCH_IS_TEXT:
        *(const char **)field(options, row) = value;
        return true;
    case BENCH_IS_TARGET:
        if (options->target_count == BENCH_TARGETS)
            return complain(err, "--target is given more than %d times", BENCH_TARGETS);
        options->targets[options->target_count++] = value;
        return true;
    case BENCH_IS_NUMBER:
        return set_number(row, value, field(options, row), err);
    case BENCH_IS_PID:
        if (options->pid_count == BENCH_PIDS)
            return complain(err, "--pid is given more than %d times", BENCH_PIDS);
        return set_number(row, value, &options->pids[options->pid_count++], err);
    case BENCH_IS_SECONDS:
        return parse_seconds(value, field(options, row)) ||
               complain(err, "--%s: \"%.*s\" is not a number of seconds, such as 2 or 0.5",
                        row->name, SHOWN_MAX, value);
    }
    return false;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* The options in getopt_long's form; the value of each is its index plus BASE. */
#define BASE 256

struct getopt_tables {
    char letters[1 + 3 * BENCH_OPTION_COUNT + 1];
    struct option names[BENCH_OPTION_COUNT + 1];
};

static void make_tables(struct getopt_tables *tables)
{
    *tables = (struct getopt_tables){0};
    char *letter = tables->letters;
    *letter++ = ':'; /* getopt_long then reports a missing argument with ':' */
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++) {
        const struct bench_option_row *row = &rows[i];
        int has = row->type == BENCH_IS_JSON ? optional_argument
                  : row->argument            ? required_argument
                                             : no_argument;
        tables->names[i] = (struct option){.name = row->name, .has_arg = has, .val = BASE + (int)i};
        if (row->letter) {
            *letter++ = row->letter;
            if (row->argument)
                *letter++ = ':';
        }
    }
}

/* The row for a result of getopt_long; NULL: none. */
static const struct bench_option_row *row_of(int option)
{
    if (option >= BASE && option < BASE + BENCH_OPTION_COUNT)
        return &rows[option - BASE];
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++)
        if (rows[i].letter && rows[i].letter == option)
            return &rows[i];
    return NULL;
}

/* The workload or protocol of that name, which is the first field of both; NULL: there is none. */
static const void *named(const void *const *from, const char *name)
{
    while (*from && strcmp(*(const char *const *)*from, name) != 0)
        from++;
    return *from;
}

#define NAMED(from, name) named((const void *const *)(from), name)

/* Ends a message with all names. Always returns false. */
static bool complain_none_of(const void *const *from, FILE *err)
{
    for (; *from; from++)
        fprintf(err, " %s", *(const char *const *)*from);
    fputc('\n', err);
    return false;
}

/* Takes the file after --json if it is a separate word: not a workload, not an option. */
static const char *file_behind_json(char **argv)
{
    const char *next = argv[optind];
    if (!next || (next[0] == '-' && next[1]) || NAMED(workloads, next))
        return NULL;
    optind++;
    return next;
}

static bool complain_unknown(int option, int argc, char **argv, FILE *err)
{
    const struct bench_option_row *row = row_of(optopt);
    if (option == ':')
        return complain(err, "--%s needs a value: %s", row ? row->name : "?",
                        row ? row->argument : "?");
    if (row)
        return complain(err, "--%s takes no value", row->name);
    if (optopt)
        return complain(err, "no such option: -%c; counterbench -h lists them", optopt);
    return complain(err, "no such option: %.*s; counterbench -h lists them", SHOWN_MAX,
                    optind > 0 && optind <= argc ? argv[optind - 1] : "");
}

static bool read_options(int argc, char **argv, struct bench_options *options, FILE *err)
{
    struct getopt_tables tables;
    make_tables(&tables);
    opterr = 0;
    optind = 0;
    for (;;) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
        int option = getopt_long(argc, argv, tables.letters, tables.names, NULL);
        if (option == -1)
            return true;
        const struct bench_option_row *row = option == '?' || option == ':' ? NULL : row_of(option);
        if (!row)
            return complain_unknown(option, argc, argv, err);
        const char *value = optarg;
        if (row->type == BENCH_IS_JSON && !value)
            value = file_behind_json(argv);
        options->given |= BENCH_BIT(row - rows);
        if (!set(options, row, value, err))
            return false;
    }
}

static bool find_workload(int argc, char **argv, struct bench_options *options, FILE *err)
{
    const char *word = optind < argc ? argv[optind] : NULL;
    options->workload = word ? NAMED(workloads, word) : NULL;
    if (!options->workload) {
        fprintf(err, "counterbench: %s%.*s%s; it is one of",
                word ? "there is no workload \"" : "no workload is named", SHOWN_MAX,
                word ? word : "", word ? "\"" : "");
        return complain_none_of((const void *const *)workloads, err);
    }
    if (optind + 1 < argc)
        return complain(err, "unexpected word \"%.*s\": give one workload", SHOWN_MAX,
                        argv[optind + 1]);
    return true;
}

static bool find_protocol(struct bench_options *options, FILE *err)
{
    if (!options->protocol_name)
        return true;
    options->protocol = NAMED(protocols, options->protocol_name);
    if (options->protocol)
        return true;
    fprintf(err, "counterbench: --protocol: \"%.*s\" is none of", SHOWN_MAX,
            options->protocol_name);
    return complain_none_of((const void *const *)protocols, err);
}

/* Defaults of a workload. */
static const struct {
    size_t from; /* in struct workload */
    enum bench_option option;
    uint32_t least;
} defaults[] = {
    {offsetof(struct workload, connections), BENCH_CONNECTIONS, 0},
    {offsetof(struct workload, depth), BENCH_DEPTH, 1},
    {offsetof(struct workload, names), BENCH_NAMES, 1},
    {offsetof(struct workload, waiters), BENCH_WAITERS, 0},
    {offsetof(struct workload, limit), BENCH_LIMIT, 1},
    {offsetof(struct workload, members), BENCH_MEMBERS, 0},
    {offsetof(struct workload, body), BENCH_BODY, 0},
    {offsetof(struct workload, batch), BENCH_BATCH, 1},
    {offsetof(struct workload, beside), BENCH_BESIDE, 0},
};

static uint32_t default_at(const struct workload *workload, size_t index)
{
    const uint32_t *from = (const void *)((const char *)workload + defaults[index].from);
    return *from > 0 ? *from : defaults[index].least;
}

/* Sets missing options to the workload's defaults. */
static void take_defaults(struct bench_options *options)
{
    if (!options->protocol)
        options->protocol = options->workload->protocol;
    for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
        if (!(options->given & BENCH_BIT(defaults[i].option)))
            *(uint32_t *)field(options, &rows[defaults[i].option]) =
                default_at(options->workload, i);
}

/* True if the given options fit together. */
static bool check(struct bench_options *options, FILE *err)
{
    const struct workload *workload = options->workload;
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++)
        if (options->given & BENCH_BIT(i) & ~(workload->options | WORKLOAD_OPTIONS_OF_ALL))
            return complain(err, "%s takes no --%s", workload->name, rows[i].name);
    const char *why_not = workload->refuses ? workload->refuses(options) : NULL;
    if (why_not)
        return complain(err, "%s: %s", workload->name, why_not);
    if (options->protocol && (workload->asks & ~options->protocol->asks))
        return complain(err, "%s can't be done with %s", workload->name, options->protocol->name);
    if (options->target_count > 2 && !options->protocol)
        return complain(err, "mixed without --protocol takes two targets, one for each");
    if (names_most(options->name_length) < options->names)
        return complain(err,
                        "--name-length: names of %" PRIu32 " bytes are at most %" PRIu64
                        ", and %" PRIu32 " are wanted (--names)",
                        options->name_length, names_most(options->name_length), options->names);
    if (options->tls_ca && !options->tls)
        return complain(err, "--tls-ca needs --tls");
    if (options->cpu && !parse_cpus(options->cpu, options->cpus, &options->cpu_count))
        return complain(err, "--cpu: \"%.*s\" is not a list of processors such as 0,2-3", SHOWN_MAX,
                        options->cpu);
    if (options->seconds_ns == 0 && !options->requests)
        return complain(err, "--seconds 0 measures nothing; give more%s",
                        workload->options & BENCH_BIT(BENCH_REQUESTS) ? ", or --requests" : "");
    return true;
}

bool bench_options_parse(int argc, char **argv, struct bench_options *options_r, FILE *err)
{
    *options_r = (struct bench_options){0};
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++)
        if (rows[i].default_text)
            CHECK(set(options_r, &rows[i], rows[i].default_text, err));
    if (!read_options(argc, argv, options_r, err))
        return false;
    if (options_r->help || options_r->version)
        return true;
    if (!find_workload(argc, argv, options_r, err) || !find_protocol(options_r, err))
        return false;
    take_defaults(options_r);
    return check(options_r, err);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void print_option(const struct bench_option_row *row, FILE *to)
{
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s%s", row->letter ? '-' : ' ',
             row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
             row->argument ? (row->type == BENCH_IS_JSON ? "[=" : "=") : "",
             row->argument ? row->argument : "", row->type == BENCH_IS_JSON ? "]" : "");
    fprintf(to, "  %-26s  %s", left, row->help);
    if (row->default_text)
        fprintf(to, " (default: %s)", row->default_text);
    fputc('\n', to);
}

/* The options that a workload takes, with its defaults. */
static void print_options_of(const struct workload *workload, FILE *to)
{
    const char *before = "                  ";
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++) {
        if (!(workload->options & BENCH_BIT(i) & ~WORKLOAD_OPTIONS_OF_ALL))
            continue;
        fprintf(to, "%s--%s", before, rows[i].name);
        for (size_t j = 0; j < ARRAY_SIZE(defaults); j++)
            if (defaults[j].option == i)
                fprintf(to, " %" PRIu32, default_at(workload, j));
        before = ", ";
    }
    fputc('\n', to);
}

void bench_print_help(FILE *to)
{
    fputs("usage: counterbench [OPTION]... WORKLOAD\n\n"
          "Puts load on a server of counterd's protocols, or on one to compare with, and measures\n"
          "how it answers.\n\nWorkloads:\n",
          to);
    for (const struct workload *const *one = workloads; *one; one++) {
        fprintf(to, "  %-14s  %s\n", (*one)->name, (*one)->help);
        print_options_of(*one, to);
    }
    fputs("\nProtocols:\n", to);
    for (const struct protocol *const *one = protocols; *one; one++)
        fprintf(to, "  %-14s  %s (port %u)\n", (*one)->name, (*one)->help, (*one)->port);
    fputs("\nOptions:\n", to);
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++)
        print_option(&rows[i], to);
    fputs("\nExit status: 0; 1 where the target failed; 2 where the command line is wrong.\n"
          "counterbench(1) says what each workload does, and what is measured.\n",
          to);
}
