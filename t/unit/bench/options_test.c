/*
 * options_test.c - the command line, the defaults of workloads, and error messages.
 */
#include "base/clock.h"
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/workload.h"
#include "t/unit/words.h"

#include <string.h>

/* Parses words. *said_r gets the output, which the caller frees. */
static bool parse(struct bench_options *options, char **said_r, const char *const *words)
{
    struct command_line *line = command_line_of("counterbench", words);
    size_t size;
    FILE *err = open_memstream(said_r, &size);
    ck_assert_ptr_nonnull(err);
    bool good = bench_options_parse(line->argc, line->argv, options, err);
    fclose(err);
    return good;
}

static struct bench_options right(const char *const *words)
{
    struct bench_options options;
    char *said;
    ck_assert_msg(parse(&options, &said, words), "%s", said);
    ck_assert_str_eq(said, "");
    free(said);
    return options;
}

/* Checks that a command line is refused with a message that contains `why`. */
static void assert_wrong(const char *const *words, const char *why)
{
    struct bench_options options;
    char *said;
    ck_assert_msg(!parse(&options, &said, words), "taken: %s %s", words[0], why);
    ck_assert_msg(strstr(said, why), "%s", said);
    ck_assert_msg(strncmp(said, "counterbench: ", 14) == 0 && said[strlen(said) - 1] == '\n', "%s",
                  said);
    free(said);
}

TEST(options_have_values_and_defaults)
{
    struct bench_options o = right(WORDS("pairs"));
    ck_assert_ptr_eq(o.workload, &workload_pairs);
    ck_assert_ptr_eq(o.protocol, &protocol_text);
    ck_assert(o.connections == 50 && o.depth == 1 && o.threads == 1 && o.names == 10000);
    ck_assert(o.name_length == 24 && o.seconds_ns == 5 * NS_PER_S && o.warmup_ns == NS_PER_S);
    ck_assert(o.rate == 0 && !o.json && !o.quiet && !o.tls);
    ck_assert_ptr_null(right(WORDS("mixed")).protocol);
    ck_assert_uint_eq(right(WORDS("dump")).beside, 50);
    ck_assert_uint_eq(right(WORDS("dump", "--beside", "0")).beside, 0);
    ck_assert_uint_eq(right(WORDS("put-jobs")).batch, 1);
    o = right(WORDS("-c", "7", "-d4", "pairs", "--protocol=binary", "-T", "3", "-s", "0.25", "-w",
                    "0", "-n", "99", "-r", "1000", "-k", "12", "-l", "300", "-q"));
    ck_assert_ptr_eq(o.protocol, &protocol_binary);
    ck_assert(o.connections == 7 && o.depth == 4 && o.threads == 3 && o.names == 12);
    ck_assert(o.name_length == 300 && o.seconds_ns == NS_PER_S / 4 && o.warmup_ns == 0);
    ck_assert(o.requests == 99 && o.rate == 1000 && o.quiet);
    ck_assert(right(WORDS("-h")).help && right(WORDS("--version")).version);
}
END_TEST

TEST(json_may_name_a_file)
{
    ck_assert_str_eq(right(WORDS("pairs", "--json")).json_file, "-");
    ck_assert_str_eq(right(WORDS("--json", "pairs")).json_file, "-");
    ck_assert_str_eq(right(WORDS("pairs", "--json", "-")).json_file, "-");
    ck_assert_str_eq(right(WORDS("pairs", "--json", "-q")).json_file, "-");
    ck_assert_str_eq(right(WORDS("--json", "a.json", "pairs")).json_file, "a.json");
    ck_assert_str_eq(right(WORDS("pairs", "--json=b.json")).json_file, "b.json");
    ck_assert(right(WORDS("pairs", "--json")).json);
}
END_TEST

TEST(processors)
{
    struct bench_options o = right(WORDS("pairs", "--cpu", "3,0-2,7"));
    static const uint32_t expected[] = {3, 0, 1, 2, 7};
    ck_assert_uint_eq(o.cpu_count, 5);
    ck_assert_mem_eq(o.cpus, expected, sizeof expected);
    static const char *const wrong[] = {"",    ",",    "1,", ",1",    "1-",  "-1",
                                        "2-1", "1,,2", "x",  "1-2-3", "0-99"};
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        assert_wrong(WORDS("pairs", "--cpu", wrong[i]), "processors");
}
END_TEST

/* Command lines, and a part of what is said of each. */
static const struct {
    const char *words[8];
    const char *why;
} wrong[] = {
    {{"-q"}, "no workload"},
    {{"put-jobs", "--batch", "2"}, "only with -p jobs"},
    {{"put-jobs", "-p", "jobs", "--batch", "1000"}, "too long"},
    {{"take-jobs", "--batch", "2"}, "take-jobs takes no --batch"},
    {{"paris"}, "\"paris\""},
    {{"pairs", "churn"}, "give one workload"},
    {{"pairs", "--no-such"}, "--no-such"},
    {{"pairs", "-Z"}, "-Z"},
    {{"pairs", "-c"}, "needs a value"},
    {{"pairs", "--tls=1"}, "takes no value"},
    {{"pairs", "-c", "0"}, "whole number from 1"},
    {{"pairs", "-n", "4294967296"}, "whole number"},
    {{"pairs", "-s", "x"}, "number of seconds"},
    {{"pairs", "-s", "0"}, "measures nothing; give more, or --requests\n"},
    {{"dump", "-s", "0"}, "measures nothing; give more\n"},
    {{"pairs", "-p", "http"}, "none of text binary"},
    {{"pairs", "--pid", "0"}, "whole number from 1"},
    {{"churn", "--depth", "2"}, "churn takes no --depth"},
    {{"pairs", "--depth", "3"}, "1 or even"},
    {{"pairs", "--depth", "2", "--limit", "1"}, "--limit needs --depth 1"},
    {{"hot", "-p", "binary"}, "can't be done with binary"},
    {{"mixed", "-t", "a", "-t", "b", "-t", "c"}, "two targets"},
    {{"pairs", "-p", "redis-tokens"}, "at most 1,000,000"},
    {{"pairs", "-c", "2", "-d", "8", "--limit", "7"}, "nothing is refused"},
    {{"pairs", "-l", "2", "-k", "257"}, "at most 256"},
    {{"pairs", "--tls-ca", "x"}, "needs --tls"},
    {{"hot", "-k", "3", "--waiters", "2"}, "more names than"},
    {{"names", "-k", "3", "-c", "4"}, "more than --names"},
    {{"jobs", "--waiters", "2", "-d", "2"}, "one job at a time"},
    {{"jobs", "--waiters", "9", "-c", "2", "-T", "3"}, "fewer --connections"},
    {{"jobs", "-l", "101"}, "at most 100"},
    {{"jobs", "-b", "19"}, "whole number from 20"},
};

TEST(what_is_wrong_is_said)
{
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        assert_wrong(wrong[i].words, wrong[i].why);
    assert_wrong(WORDS("pairs", "-t", "a", "-t", "b", "-t", "c", "-t", "d", "-t", "e", "-t", "f",
                       "-t", "g", "-t", "h", "-t", "i"),
                 "more than 8");
    ck_assert_uint_eq(right(WORDS("pairs", "-c", "2", "-d", "8", "--limit", "8")).limit, 8);
    ck_assert_uint_eq(right(WORDS("pairs", "-l", "2", "-k", "256")).names, 256);
    struct bench_options pids = right(WORDS("pairs", "--pid", "7", "--pid", "9"));
    ck_assert(pids.pid_count == 2 && pids.pids[0] + pids.pids[1] == 16);
}
END_TEST

TEST(letters_and_names_are_different)
{
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++)
        for (size_t j = 0; j < i; j++) {
            const struct bench_option_row *a = bench_option_at(i), *b = bench_option_at(j);
            ck_assert_str_ne(a->name, b->name);
            ck_assert(a->letter == 0 || a->letter != b->letter);
        }
}
END_TEST

UNIT_MAIN("bench/options")
