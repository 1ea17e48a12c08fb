/* monitor_test.c - what rows of metrics make of the members of a struct. */
#include "service/monitor.h"

#include "t/unit/unit.h"

#include <math.h>
#include <string.h>

/* The members that rows name. Each has neighbours of other values, so that a wrong size shows. */
struct reading {
    bool first, off, on;
    uint32_t small;
    uint64_t large;
    duration longest, longer;
    double real, none;
    uint64_t by[3], pairs[2][3];
    struct buckets_sum waits[2];
};

static const struct reading reading = {
    .off = false,
    .on = true,
    .small = UINT32_MAX,
    .large = UINT64_MAX,
    .longest = (duration)UINT64_MAX * NS_PER_S + 5,
    .longer = 1500000000,
    .real = 2.5,
    .none = NAN,
    .by = {7, 0, 9},
    .pairs = {{1, 2, 3}, {4, 0, 6}},
    .waits = {{.counts = {[BUCKET_BOUNDS] = 1}, .sum_ns = 1},
              {.counts = {[0] = 2, [BUCKET_BOUNDS] = 3}, .sum_ns = 4}},
};

static const char *message(unsigned i)
{
    static const char *const messages[] = {"a", "b", "c"};
    return messages[i];
}

static const char *figure(unsigned i)
{
    static const char *const figures[] = {"one", "two", "three"};
    return figures[i];
}

/* The samples of a row, with `of` as their first label. */
static struct text samples_text(const struct metric_row *row, const char *of)
{
    struct text text = {0};
    struct samples to = {.text = &text, .name = "m", .labels = row->labels, .room = 100};
    samples_of(&to, row, of, &reading);
    ck_assert(!text.failed);
    return text;
}

static void check(struct metric_row row, const char *of, const char *expected)
{
    struct text text = samples_text(&row, of);
    ck_assert_str_eq(text_str(&text), expected);
    text_free(&text);
}

#define OF(member)       METRIC_OF(struct reading, member)
#define BY(member, word) METRIC_BY(struct reading, member, word)
#define ROW(...)         ((struct metric_row){.labels = "", __VA_ARGS__})
#define LABELS(list)     .labels = (list)

TEST(counts_have_the_size_of_their_member)
{
    check(ROW(OF(off)), NULL, "m 0\n");
    check(ROW(OF(on)), NULL, "m 1\n");
    check(ROW(OF(small)), NULL, "m 4294967295\n");
    check(ROW(OF(large)), NULL, "m 18446744073709551615\n");
    check(ROW(OF(longer)), NULL, "m 1500000000\n");
    check((struct metric_row){LABELS("of"), OF(small)}, "x", "m{of=\"x\"} 4294967295\n");
}
END_TEST

TEST(durations_of_128_bits_are_exact_seconds)
{
    check(ROW(OF(longest), .kind = METRIC_IS_NS), NULL, "m 18446744073709551615.000000005\n");
    check(ROW(OF(longer), .kind = METRIC_IS_NS), NULL, "m 1.5\n");
    check(ROW(OF(small), .kind = METRIC_IS_NS), NULL, "m 4.294967295\n");
    check(ROW(OF(off), .kind = METRIC_IS_NS), NULL, "m 0\n");
}
END_TEST

TEST(reals_that_are_not_known_have_no_sample)
{
    check(ROW(OF(real), .kind = METRIC_IS_REAL), NULL, "m 2.500000\n");
    check(ROW(OF(none), .kind = METRIC_IS_REAL), NULL, "");
}
END_TEST

TEST(elements_of_an_array_have_the_words_of_their_indexes)
{
    check((struct metric_row){LABELS("l"), BY(by, message)}, NULL,
          "m{l=\"a\"} 7\nm{l=\"b\"} 0\nm{l=\"c\"} 9\n");
    check((struct metric_row){LABELS("of l"), BY(by, message), .sparse = true}, "x",
          "m{of=\"x\",l=\"a\"} 7\nm{of=\"x\",l=\"c\"} 9\n");
    check((struct metric_row){LABELS("l"), BY(by, message), .from = 1}, NULL,
          "m{l=\"b\"} 0\nm{l=\"c\"} 9\n");
}
END_TEST

TEST(arrays_of_arrays_have_two_words)
{
    check((struct metric_row){LABELS("of l f"), .at = offsetof(struct reading, pairs),
                              .size = sizeof(uint64_t), .words = {message, figure}, .to = {2, 3},
                              .sparse = true},
          "x",
          "m{of=\"x\",l=\"a\",f=\"one\"} 1\nm{of=\"x\",l=\"a\",f=\"two\"} 2\n"
          "m{of=\"x\",l=\"a\",f=\"three\"} 3\nm{of=\"x\",l=\"b\",f=\"one\"} 4\n"
          "m{of=\"x\",l=\"b\",f=\"three\"} 6\n");
}
END_TEST

TEST(samples_depend_on_a_bool_where_a_row_says_so)
{
    check(ROW(OF(small), .when = offsetof(struct reading, on)), NULL, "m 4294967295\n");
    check(ROW(OF(small), .when = offsetof(struct reading, off)), NULL, "");
}
END_TEST

TEST(histograms_of_an_array_are_each_whole)
{
    struct metric_row row = {LABELS("l"), BY(waits, message), .kind = METRIC_IS_BUCKETS};
    struct text text = samples_text(&row, NULL);
    const char *all = text_str(&text);
    ck_assert(strstr(all, "m_bucket{l=\"a\",le=\"+Inf\"} 1\n"));
    ck_assert(strstr(all, "m_sum{l=\"a\"} 0.000000001\nm_count{l=\"a\"} 1\n"));
    ck_assert(strstr(all, "m_bucket{l=\"b\",le=\"+Inf\"} 5\n"));
    ck_assert(strstr(all, "m_sum{l=\"b\"} 0.000000004\nm_count{l=\"b\"} 5\n"));
    text_free(&text);
}
END_TEST

TEST(samples_beyond_the_room_are_counted)
{
    struct text text = {0};
    struct metric_row row = {LABELS("l"), BY(by, message)};
    struct samples to = {.text = &text, .name = "m", .labels = row.labels, .room = 1};
    samples_of(&to, &row, NULL, &reading);
    ck_assert_str_eq(text_str(&text), "m{l=\"a\"} 7\n");
    ck_assert_uint_eq(to.left_out, 2);
    text_free(&text);
}
END_TEST

UNIT_MAIN("seen")
