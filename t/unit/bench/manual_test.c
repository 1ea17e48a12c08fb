/*
 * manual_test.c - compares the manual with the tables of workloads, protocols and options.
 */
#include "bench/counterbench/workload.h"
#include "t/unit/manual.h"

#include <inttypes.h>

static char *page_section(const char *name)
{
    char *page = read_source("man/counterbench.1"), *text = section(page, name);
    free(page);
    return text;
}

/* True if only some workloads take the option. */
static bool is_own(size_t option)
{
    return !(WORKLOAD_OPTIONS_OF_ALL & BENCH_BIT(option));
}

/* Writes a number with commas between thousands, as in the manual. */
static void write_number(char to[16], uint32_t number)
{
    if (number >= 1000000)
        snprintf(to, 16, "%" PRIu32 ",%03" PRIu32 ",%03" PRIu32, number / 1000000,
                 number / 1000 % 1000, number % 1000);
    else if (number >= 1000)
        snprintf(to, 16, "%" PRIu32 ",%03" PRIu32, number / 1000, number % 1000);
    else
        snprintf(to, 16, "%" PRIu32, number);
}

/* The manual gives the workload's default next to the option. */
static void assert_default(const struct workload *workload, const char *takes, size_t option)
{
    const struct {
        enum bench_option option;
        uint32_t value;
    } rows[] = {
        {BENCH_CONNECTIONS, workload->connections},
        {BENCH_DEPTH, workload->depth},
        {BENCH_NAMES, workload->names},
        {BENCH_WAITERS, workload->waiters},
        {BENCH_LIMIT, workload->limit},
        {BENCH_MEMBERS, workload->members},
        {BENCH_BESIDE, workload->beside},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char number[16], line[96];
        if (rows[i].option != option)
            continue;
        write_number(number, rows[i].value);
        snprintf(line, sizeof line, "Fl -%s\n(%s", bench_option_at(option)->name, number);
        const char *found = strstr(takes, line);
        ck_assert_msg(found && strchr(");:", found[strlen(line)]), "%s: no default: %s",
                      workload->name, line);
    }
}

TEST(every_workload_is_there_with_its_options_and_no_other)
{
    char *text = page_section(".Sh WORKLOADS");
    unsigned workloads = 0;
    for (const struct workload *workload; (workload = workload_at(workloads)); workloads++) {
        char head[64];
        snprintf(head, sizeof head, ".It Ic %s", workload->name);
        char *item = item_text(text, head);
        const char *takes = strstr(item, "\nTakes\n");
        ck_assert_ptr_nonnull(takes);
        for (size_t i = 0; i < BENCH_OPTION_COUNT; i++) {
            char flag[64];
            bool has = workload->options & BENCH_BIT(i);
            snprintf(flag, sizeof flag, "Fl -%s", bench_option_at(i)->name);
            if (!is_own(i))
                continue;
            ck_assert_msg(has_word(takes, flag) == has, "%s: %s%s", workload->name, flag,
                          has ? " is missing" : " is none of its options");
            if (has)
                assert_default(workload, takes, i);
        }
        free(item);
    }
    ck_assert_uint_eq(count(text, "\n.It Ic "), workloads);
    free(text);
}
END_TEST

TEST(every_protocol_is_there_with_its_port_and_no_other)
{
    char *text = page_section(".Sh PROTOCOLS");
    unsigned protocols = 0;
    for (const struct protocol *protocol; (protocol = protocol_at(protocols)); protocols++) {
        char head[64], port[32];
        snprintf(head, sizeof head, ".It Cm %s", protocol->name);
        snprintf(port, sizeof port, "port %u", protocol->port);
        char *item = item_text(text, head);
        ck_assert_msg(has_word(item, port), "%s: not there: %s", protocol->name, port);
        free(item);
    }
    ck_assert_uint_eq(count(text, "\n.It "), protocols);
    free(text);
}
END_TEST

TEST(every_option_is_there_with_its_default_and_no_other)
{
    char *text = page_section(".Sh OPTIONS");
    for (size_t i = 0; i < BENCH_OPTION_COUNT; i++) {
        const struct bench_option_row *row = bench_option_at(i);
        char head[128], line[128], argument[64];
        if (row->argument)
            snprintf(argument, sizeof argument, "%sAr %s", row->type == BENCH_IS_JSON ? "Op " : "",
                     row->argument);
        write_option_head(head, row->letter, row->name, row->argument ? argument : NULL);
        char *item = item_text(text, head);
        if (row->default_text) {
            snprintf(line, sizeof line, "\nDefault: %s.\n", row->default_text);
            ck_assert_msg(count(item, line) == 1, "%s: not there once:%s", row->name, line);
        }
        free(item);
    }
    ck_assert_uint_eq(count(text, "\n.It Fl "), BENCH_OPTION_COUNT);
    free(text);
}
END_TEST

TEST(every_exit_status_is_there)
{
    char *text = page_section(".Sh EXIT STATUS");
    for (int status = BENCH_OK; status <= BENCH_USAGE; status++) {
        char head[16];
        snprintf(head, sizeof head, ".It %d", status);
        free(item_text(text, head));
    }
    ck_assert_uint_eq(count(text, "\n.It "), BENCH_USAGE + 1);
    free(text);
}
END_TEST

UNIT_MAIN("bench/manual")
