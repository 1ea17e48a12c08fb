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

TEST(a_workload_alone_has_its_own_defaults)
{
    struct bench_options o = right(WORDS("pairs"));
    ck_assert_ptr_eq(o.workload, &workload_pairs);
    ck_assert_ptr_eq(o.protocol, &protocol_text);
    ck_assert_uint_eq(o.connections, 50);
    ck_assert_uint_eq(o.depth, 1);
    ck_assert_uint_eq(o.threads, 1);
    ck_assert_uint_eq(o.names, 10000);
    ck_assert_uint_eq(o.name_length, 24);
    ck_assert_int_eq(o.seconds_ns, 5 * NS_PER_S);
    ck_assert_int_eq(o.warmup_ns, NS_PER_S);
    ck_assert_uint_eq(o.rate, 0);
    ck_assert(!o.json && !o.quiet && !o.tls);
    ck_assert_ptr_null(right(WORDS("mixed")).protocol);
    ck_assert_uint_eq(right(WORDS("dump")).beside, 50);
    ck_assert_uint_eq(right(WORDS("dump", "--beside", "0")).beside, 0);
    ck_assert_uint_eq(right(WORDS("hot")).waiters, 100);
    ck_assert_ptr_eq(right(WORDS("jobs")).protocol, &protocol_beanstalk);
    ck_assert_uint_eq(right(WORDS("jobs")).body, 64);
    ck_assert_uint_eq(right(WORDS("put-jobs")).batch, 1);
}
END_TEST

TEST(options_stand_before_and_behind)
{
    struct bench_options o =
        right(WORDS("-c", "7", "-d4", "pairs", "--protocol=binary", "-T", "3", "-s", "0.25", "-w",
                    "0", "-n", "99", "-r", "1000", "-k", "12", "-l", "300", "-q"));
    ck_assert_uint_eq(o.connections, 7);
    ck_assert_uint_eq(o.depth, 4);
    ck_assert_ptr_eq(o.protocol, &protocol_binary);
    ck_assert_uint_eq(o.threads, 3);
    ck_assert_int_eq(o.seconds_ns, NS_PER_S / 4);
    ck_assert_int_eq(o.warmup_ns, 0);
    ck_assert_uint_eq(o.requests, 99);
    ck_assert_uint_eq(o.rate, 1000);
    ck_assert_uint_eq(o.names, 12);
    ck_assert_uint_eq(o.name_length, 300);
    ck_assert(o.quiet);
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

TEST(help_and_version_need_no_workload)
{
    ck_assert(right(WORDS("-h")).help);
    ck_assert(right(WORDS("--version")).version);
}
END_TEST

TEST(what_is_wrong_is_said)
{
    assert_wrong(WORDS("-q"), "no workload");
    assert_wrong(WORDS("put-jobs", "--batch", "2"), "only with -p jobs");
    assert_wrong(WORDS("put-jobs", "-p", "jobs", "--batch", "1000"), "too long");
    assert_wrong(WORDS("take-jobs", "--batch", "2"), "take-jobs takes no --batch");
    assert_wrong(WORDS("paris"), "\"paris\"");
    assert_wrong(WORDS("pairs", "churn"), "give one workload");
    assert_wrong(WORDS("pairs", "--no-such"), "--no-such");
    assert_wrong(WORDS("pairs", "-Z"), "-Z");
    assert_wrong(WORDS("pairs", "-c"), "needs a value");
    assert_wrong(WORDS("pairs", "--tls=1"), "takes no value");
    assert_wrong(WORDS("pairs", "-c", "0"), "whole number from 1");
    assert_wrong(WORDS("pairs", "-c", "-1"), "whole number");
    assert_wrong(WORDS("pairs", "-n", "4294967296"), "whole number");
    assert_wrong(WORDS("pairs", "-s", "x"), "number of seconds");
    assert_wrong(WORDS("pairs", "-s", "0"), "measures nothing; give more, or --requests\n");
    assert_wrong(WORDS("dump", "-s", "0"), "measures nothing; give more\n");
    assert_wrong(WORDS("pairs", "-p", "http"), "none of text binary");
    assert_wrong(WORDS("pairs", "-t", "a", "-t", "b", "-t", "c", "-t", "d", "-t", "e", "-t", "f",
                       "-t", "g", "-t", "h", "-t", "i"),
                 "more than 8");
    assert_wrong(WORDS("pairs", "--pid", "0"), "whole number from 1");
}
END_TEST

TEST(what_does_not_fit_together_is_said)
{
    assert_wrong(WORDS("churn", "--depth", "2"), "churn takes no --depth");
    assert_wrong(WORDS("idle", "-n", "2"), "idle takes no --requests");
    assert_wrong(WORDS("pairs", "--depth", "3"), "1 or even");
    assert_wrong(WORDS("pairs", "--depth", "2", "--limit", "1"), "--limit needs --depth 1");
    assert_wrong(WORDS("hot", "-p", "binary"), "can't be done with binary");
    assert_wrong(WORDS("herd", "-p", "echo-text"), "can't be done");
    assert_wrong(WORDS("dump", "-p", "text"), "can't be done with text");
    assert_wrong(WORDS("pairs", "-p", "memcached"), "can't be done");
    assert_wrong(WORDS("mixed", "-t", "a", "-t", "b", "-t", "c"), "two targets");
    assert_wrong(WORDS("pairs", "-p", "redis-tokens"), "at most 1,000,000");
    assert_wrong(WORDS("pairs", "-c", "2", "-d", "8", "--limit", "7"), "nothing is refused");
    assert_wrong(WORDS("pairs", "-l", "2", "-k", "257"), "at most 256");
    assert_wrong(WORDS("pairs", "--tls-ca", "x"), "needs --tls");
    assert_wrong(WORDS("hot", "-k", "3", "--waiters", "2"), "more names than");
    assert_wrong(WORDS("names", "-k", "3", "-c", "4"), "more than --names");
    assert_wrong(WORDS("jobs", "-p", "text"), "can't be done with text");
    assert_wrong(WORDS("pools", "-p", "beanstalk"), "can't be done with beanstalk");
    assert_wrong(WORDS("jobs", "--waiters", "2", "-d", "2"), "one job at a time");
    assert_wrong(WORDS("jobs", "--waiters", "9", "-c", "2", "-T", "3"), "fewer --connections");
    assert_wrong(WORDS("jobs", "-l", "101"), "at most 100");
    assert_wrong(WORDS("jobs", "-b", "19"), "whole number from 20");
    ck_assert_uint_eq(right(WORDS("mixed", "-t", "a", "-t", "b")).target_count, 2);
    ck_assert_uint_eq(right(WORDS("pairs", "-t", "a", "-t", "b", "-t", "c")).target_count, 3);
    ck_assert_uint_eq(right(WORDS("pairs", "-c", "2", "-d", "8", "--limit", "8")).limit, 8);
    struct bench_options pids = right(WORDS("pairs", "--pid", "7", "--pid", "9"));
    ck_assert_uint_eq(pids.pid_count, 2);
    ck_assert_uint_eq(pids.pids[0] + pids.pids[1], 16);
    ck_assert_uint_eq(right(WORDS("pairs", "-l", "2", "-k", "256")).names, 256);
    ck_assert_ptr_eq(right(WORDS("idle", "-p", "memcached")).protocol, &protocol_memcached);
}
END_TEST

TEST(help_lists_all)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    bench_print_help(to);
    fclose(to);
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, " --%s", bench_option_at(i)->name);
        ck_assert_msg(strstr(text, flag), "%s", flag);
    }
    for (size_t i = 0; workload_at(i); i++)
        ck_assert(strstr(text, workload_at(i)->help));
    for (size_t i = 0; protocol_at(i); i++)
        ck_assert(strstr(text, protocol_at(i)->help));
    free(text);
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

static const struct unit_test tests[] = {
    UNIT(a_workload_alone_has_its_own_defaults),
    UNIT(options_stand_before_and_behind),
    UNIT(json_may_name_a_file),
    UNIT(processors),
    UNIT(help_and_version_need_no_workload),
    UNIT(what_is_wrong_is_said),
    UNIT(what_does_not_fit_together_is_said),
    UNIT(help_lists_all),
    UNIT(letters_and_names_are_different),
};

UNIT_MAIN("bench/options", tests)
