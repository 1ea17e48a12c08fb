/*
 * Tests the checker of histories with histories made by hand: good ones, and a bad one for each
 * rule.
 */
#include "t/campaigns/history/check.h"

#include "t/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static struct check_result result;

static FILE *file_of(const char *lines)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fputs(lines, file);
    rewind(file);
    return file;
}

/* columns: conn name verb result units limit queue timeout call seen left ret */
static enum check_verdict verdict_of(const char *lines)
{
    struct history history = {0};
    unsigned line = 0;
    FILE *from = file_of(lines);
    ck_assert_msg(history_read(&history, from, &line), "line %u", line);
    fclose(from);
    check_history(&history, &result);
    history_free(&history);
    return result.verdict;
}

static void is(enum check_verdict verdict, const char *lines)
{
    enum check_verdict got = verdict_of(lines);
    ck_assert_msg(got == verdict, "\"%s\", not \"%s\", of\n%s%s", check_verdict_word(got),
                  check_verdict_word(verdict), lines, result.report);
}

static void good(const char *lines)
{
    is(CHECK_GOOD, lines);
}

static void bad(const char *lines)
{
    is(CHECK_BAD, lines);
    ck_assert_str_ne(result.report, "");
}

/* ---- good ---------------------------------------------------------------------------------- */

TEST(an_order_is_found_for_requests_under_way_at_once)
{
    good("# a remark\n");
    good("1 0 acquire ok 1 1 0 0 10 - - 20\n"
         "1 0 give ok 1 0 0 0 30 - - 40\n");
    good("1 0 acquire unavailable 1 1 0 0 10 - - 20\n"
         "2 0 acquire ok 1 1 0 0 11 - - 21\n");
    /* The refused request is served between the release and the second acquire. */
    good("1 0 acquire ok 1 1 0 0 10 - - 20\n"
         "1 0 give ok 1 0 0 0 30 - - 60\n"
         "2 0 acquire ok 1 1 0 0 31 - - 61\n"
         "3 0 get ok 0 0 0 0 32 - - 62\n"
         "4 0 acq4me timeout 1 1 9 0 33 - - 63\n");
}
END_TEST

TEST(a_wait_is_granted_by_a_release)
{
    good("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
         "2 0 acq4me locked 1 1 9 900 30 35 - 70\n"
         "1 0 release ok 0 0 0 0 50 - - 60\n"
         "3 0 get ok 1 0 0 0 80 - - 90\n");
}
END_TEST

TEST(a_notice_may_come_long_after_the_grant)
{
    good("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
         "2 0 acq4me locked 1 1 9 900 30 35 - 200\n"
         "1 0 release ok 0 0 0 0 50 - - 60\n"
         "1 0 acq4me timeout 1 1 9 0 70 - - 80\n"
         "3 0 get ok 1 0 0 0 90 - - 95\n");
    /* Once, waiters that came later took the place of the last one notified. */
    good("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
         "2 0 acq4any done 1 1 9 900 30 35 - 200\n"
         "1 0 release ok 0 0 0 0 50 - - 60\n"
         "3 0 acq4me locked 1 1 9 0 70 - - 80\n"
         "4 0 acq4me timeout 1 1 9 200 90 95 290 300\n");
}
END_TEST

TEST(a_release_says_done_to_all_and_then_grants)
{
    good("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
         "2 0 acq4any done 1 1 9 900 30 35 - 70\n"
         "3 0 acq4any done 1 1 9 900 31 36 - 71\n"
         "4 0 acq4me locked 1 1 9 900 32 37 - 72\n"
         "1 0 release ok 0 0 0 0 50 - - 60\n");
}
END_TEST

TEST(a_close_grants_to_those_who_wait_for_themselves_and_then_to_the_others)
{
    good("1 0 acquire ok 2 2 0 0 10 - - 20\n"
         "2 0 acq4any locked 1 2 9 900 30 35 - 70\n"
         "3 0 acq4any timeout 1 2 9 100 40 45 140 150\n"
         "4 0 acq4me locked 1 2 9 900 41 46 - 71\n"
         "1 0 close ok 0 0 0 0 50 - - 60\n");
}
END_TEST

TEST(a_close_that_nobody_saw_takes_effect_late)
{
    good("1 0 acquire ok 1 1 0 0 10 - - 20\n"
         "1 0 close ok 0 0 0 0 30 - - -\n"
         "2 0 get ok 1 0 0 0 40 - - 50\n"
         "2 0 get ok 0 0 0 0 60 - - 70\n");
}
END_TEST

TEST(a_wait_without_an_answer_may_have_been_granted_or_not)
{
    const char *before = "1 0 acq4me locked 1 1 9 0 10 - - 20\n"
                         "2 0 acq4me unknown 1 1 9 900 30 - - -\n"
                         "1 0 release ok 0 0 0 0 50 - - 60\n"
                         "2 0 close ok 0 0 0 0 70 - - 80\n";
    char text[512];
    snprintf(text, sizeof(text), "%s3 0 get ok 1 0 0 0 62 - - 65\n", before);
    good(text);
    snprintf(text, sizeof(text), "%s3 0 get not_found 0 0 0 0 62 - - 65\n", before);
    good(text);
    snprintf(text, sizeof(text), "%s3 0 get ok 1 0 0 0 82 - - 85\n", before);
    bad(text);
}
END_TEST

TEST(who_waits_and_holds_leaves_the_line_before_giving_back)
{
    good("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
         "1 0 acq4me unknown 1 1 9 900 30 35 - -\n"
         "2 0 acq4me full 1 1 2 0 40 - - 45\n"
         "1 0 close ok 0 0 0 0 50 - - 100\n"
         "2 0 acq4me timeout 1 1 2 0 60 - - 65\n"
         "2 0 acq4me locked 1 1 2 0 70 - - 75\n");
}
END_TEST

TEST(waiters_with_other_limits_pass)
{
    good("1 0 acquire ok 2 2 0 0 10 - - 20\n"
         "2 0 acq4me locked 1 1 9 900 30 35 - 120\n"
         "3 0 acq4me locked 1 2 9 900 40 45 - 70\n"
         "1 0 give ok 1 0 0 0 50 - - 60\n"
         "1 0 give ok 1 0 0 0 80 - - 90\n"
         "3 0 release ok 0 0 0 0 100 - - 110\n");
}
END_TEST

TEST(a_wait_that_is_cancelled_leaves_the_line)
{
    good("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
         "2 0 acq4me cancelled 1 1 9 900 30 - 40 50\n"
         "3 0 acq4me timeout 1 1 2 0 60 - - 70\n");
}
END_TEST

TEST(a_name_of_the_binary_protocol_stays_at_0)
{
    good("1 0 get not_found 0 0 0 0 1 - - 2\n"
         "1 0 give not_found 1 0 0 0 3 - - 4\n"
         "1 0 acquire ok 1 1 0 0 10 - - 20\n"
         "1 0 give not_acquired 2 0 0 0 21 - - 22\n"
         "1 0 give ok 1 0 0 0 30 - - 40\n"
         "1 0 get ok 0 0 0 0 50 - - 60\n"
         "1 0 give not_acquired 1 0 0 0 70 - - 80\n");
}
END_TEST

/* ---- bad ----------------------------------------------------------------------------------- */

TEST(over_the_limit_is_found)
{
    bad("1 0 acq4me locked 1 1 9 0 10 - - 40\n"
        "2 0 acq4me locked 1 1 9 0 20 - - 30\n");
    bad("1 0 acquire ok 2 2 0 0 10 - - 20\n"
        "2 0 acq4me locked 1 2 9 900 30 - - 40\n");
}
END_TEST

TEST(a_refusal_of_what_fits_is_found)
{
    bad("1 0 acquire unavailable 1 1 0 0 10 - - 20\n");
    bad("1 0 acq4me timeout 1 1 9 0 10 - - 20\n");
    bad("1 0 acq4me timeout 1 1 9 100 10 - 110 120\n");
}
END_TEST

TEST(a_wrong_number_is_found)
{
    bad("1 0 acquire ok 1 1 0 0 10 - - 20\n"
        "2 0 get ok 2 0 0 0 30 - - 40\n");
    bad("1 0 acquire ok 1 1 0 0 10 - - 20\n"
        "2 0 get not_found 0 0 0 0 30 - - 40\n");
}
END_TEST

TEST(a_number_that_was_right_before_is_found)
{
    bad("1 0 acquire ok 1 1 0 0 10 - - 20\n"
        "1 0 give ok 1 0 0 0 30 - - 40\n"
        "2 0 get ok 1 0 0 0 50 - - 60\n");
    /* Each answer alone is possible during the release, but not in this order. */
    bad("1 0 acquire ok 1 1 0 0 10 - - 20\n"
        "1 0 give ok 1 0 0 0 30 - - 90\n"
        "2 0 get ok 0 0 0 0 40 - - 50\n"
        "2 0 get ok 1 0 0 0 60 - - 70\n");
}
END_TEST

TEST(a_waiter_who_is_forgotten_is_found)
{
    bad("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
        "2 0 acq4me timeout 1 1 9 100 30 35 130 140\n"
        "1 0 release ok 0 0 0 0 50 - - 60\n");
    bad("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
        "2 0 acq4me timeout 1 1 9 100 30 35 130 140\n"
        "1 0 close ok 0 0 0 0 50 - - 60\n");
}
END_TEST

TEST(one_who_passes_the_line_is_found)
{
    bad("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
        "2 0 acq4me locked 1 1 9 900 30 35 - 200\n"
        "1 0 release ok 0 0 0 0 50 - - 60\n"
        "3 0 acq4me locked 1 1 9 0 70 - - 80\n"
        "3 0 release ok 0 0 0 0 90 - - 100\n");
}
END_TEST

TEST(the_younger_before_the_older_is_found)
{
    bad("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
        "2 0 acq4me locked 1 1 9 900 30 35 - 200\n"
        "3 0 acq4me locked 1 1 9 900 40 45 - 70\n"
        "1 0 release ok 0 0 0 0 50 - - 60\n"
        "3 0 release ok 0 0 0 0 180 - - 190\n");
}
END_TEST

TEST(done_without_a_release_is_found)
{
    bad("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
        "2 0 acq4any done 1 1 9 900 30 35 - 70\n");
    bad("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
        "2 0 acq4any done 1 1 9 900 30 35 - 70\n"
        "1 0 close ok 0 0 0 0 50 - - 60\n");
}
END_TEST

TEST(one_who_is_not_told_done_is_found)
{
    bad("1 0 acq4me locked 1 1 9 0 10 - - 20\n"
        "2 0 acq4any done 1 1 9 900 30 35 - 70\n"
        "3 0 acq4any locked 1 1 9 900 31 36 - 71\n"
        "1 0 release ok 0 0 0 0 50 - - 60\n");
}
END_TEST

TEST(units_that_stay_after_a_close_are_found)
{
    bad("1 0 acquire ok 1 1 0 0 10 - - 20\n"
        "1 0 close ok 0 0 0 0 30 - - 40\n"
        "2 0 get ok 1 0 0 0 50 - - 60\n");
    /* Nobody saw the close, but the first Get shows that it is over. */
    bad("1 0 acquire ok 1 1 0 0 10 - - 20\n"
        "1 0 close ok 0 0 0 0 30 - - -\n"
        "2 0 get ok 0 0 0 0 50 - - 60\n"
        "2 0 get ok 1 0 0 0 70 - - 80\n");
}
END_TEST

TEST(a_queue_of_the_wrong_length_is_found)
{
    const char *before = "1 0 acq4me locked 1 1 9 0 10 - - 20\n"
                         "2 0 acq4me timeout 1 1 9 900 30 35 930 940\n";
    char text[512];
    snprintf(text, sizeof(text), "%s3 0 acq4me full 1 1 3 0 50 - - 60\n", before);
    bad(text);
    snprintf(text, sizeof(text), "%s3 0 acq4me timeout 1 1 2 0 50 - - 60\n", before);
    bad(text);
    snprintf(text, sizeof(text), "%s3 0 acq4me full 1 1 2 0 50 - - 60\n", before);
    good(text);
}
END_TEST

TEST(more_given_back_than_was_is_found)
{
    bad("1 0 acquire ok 3 3 0 0 10 - - 20\n"
        "1 0 give ok 1 0 0 0 30 - - 40\n"
        "2 0 acquire ok 2 3 0 0 50 - - 60\n");
    bad("1 0 acquire ok 1 3 0 0 10 - - 20\n"
        "1 0 give ok 2 0 0 0 30 - - 40\n");
    bad("1 0 release ok 0 0 0 0 30 - - 40\n");
}
END_TEST

TEST(an_early_timeout_is_found)
{
    is(CHECK_BAD_TIME, "1 0 acq4me locked 1 1 9 0 10 - - 20\n"
                       "2 0 acq4me timeout 1 1 9 100 30 35 130 129\n");
    is(CHECK_BAD_TIME, "1 0 acq4me locked 1 1 9 0 10 - - -\n");
}
END_TEST

TEST(each_name_is_judged_by_itself)
{
    is(CHECK_GOOD, "1 0 acquire ok 1 1 0 0 10 - - 20\n"
                   "1 1 acquire ok 1 1 0 0 30 - - 40\n");
    bad("1 0 acquire ok 1 1 0 0 10 - - 20\n"
        "1 1 acquire ok 1 1 0 0 30 - - 40\n"
        "2 1 acquire ok 1 1 0 0 50 - - 60\n");
}
END_TEST

TEST(what_is_too_much_is_not_called_good)
{
    char *lines = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&lines, &len);
    ck_assert_ptr_nonnull(to);
    for (unsigned i = 0; i < 100; i++)
        fprintf(to, "%u 0 acquire ok 1 200 0 0 10 - - 20\n", i);
    fclose(to);
    is(CHECK_TOO_HARD, lines);
    free(lines);
}
END_TEST

TEST(any_number_of_closes_may_be_unseen)
{
    char *lines = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&lines, &len);
    ck_assert_ptr_nonnull(to);
    for (unsigned i = 0; i < 100; i++)
        fprintf(to, "%u 0 acquire ok 1 200 0 0 %u - - %u\n%u 0 close ok 0 0 0 0 %u - - -\n", i,
                10 * i, 10 * i + 1, i, 10 * i + 2);
    fprintf(to, "100 0 get ok 57 0 0 0 2000 - - 2010\n");
    fprintf(to, "100 0 get ok 56 0 0 0 2020 - - 2030\n");
    fflush(to);
    is(CHECK_GOOD, lines);
    fprintf(to, "100 0 get ok 57 0 0 0 2040 - - 2050\n");
    fclose(to);
    is(CHECK_BAD, lines);
    free(lines);
}
END_TEST

TEST(a_file_reads_as_it_was_written)
{
    const char *line = "7 2 acq4any cancelled 1 4294967295 3 5000 6 - 8 9\n";
    struct history history = {0};
    char written[128] = "";
    unsigned number;
    FILE *file = file_of(line);
    ck_assert(history_read(&history, file, &number));
    ck_assert_uint_eq(history.count, 1);
    rewind(file);
    history_write_line(file, &history.operations[0]);
    rewind(file);
    ck_assert_ptr_nonnull(fgets(written, sizeof(written), file));
    ck_assert_str_eq(written, line);
    ck_assert_int_eq(fgetc(file), EOF);
    fclose(file);
    history_free(&history);
}
END_TEST

TEST(a_line_that_is_none_is_named)
{
    static const char *const lines[] = {
        "1 0 get ok 0 0 0 0 10 - -\n",        "1 0 get ok 0 0 0 0 10 - - 20 30\n",
        "1 0 take ok 0 0 0 0 10 - - 20\n",    "1 0 get never 0 0 0 0 10 - - 20\n",
        "1 0 get ok -1 0 0 0 10 - - 20\n",    "1 0 get ok 0 0 0 0 - - - 20\n",
        "1 0 get ok 0 0 0 0 10 - - twenty\n", "\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct history history = {0};
        unsigned line = 0;
        FILE *from = file_of(lines[i]);
        ck_assert_msg(!history_read(&history, from, &line), "%s", lines[i]);
        ck_assert_uint_eq(line, 1);
        fclose(from);
        history_free(&history);
    }
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(an_order_is_found_for_requests_under_way_at_once),
    UNIT(a_wait_is_granted_by_a_release),
    UNIT(a_notice_may_come_long_after_the_grant),
    UNIT(a_release_says_done_to_all_and_then_grants),
    UNIT(a_close_grants_to_those_who_wait_for_themselves_and_then_to_the_others),
    UNIT(a_close_that_nobody_saw_takes_effect_late),
    UNIT(a_wait_without_an_answer_may_have_been_granted_or_not),
    UNIT(who_waits_and_holds_leaves_the_line_before_giving_back),
    UNIT(waiters_with_other_limits_pass),
    UNIT(a_wait_that_is_cancelled_leaves_the_line),
    UNIT(a_name_of_the_binary_protocol_stays_at_0),
    UNIT(over_the_limit_is_found),
    UNIT(a_refusal_of_what_fits_is_found),
    UNIT(a_wrong_number_is_found),
    UNIT(a_number_that_was_right_before_is_found),
    UNIT(a_waiter_who_is_forgotten_is_found),
    UNIT(one_who_passes_the_line_is_found),
    UNIT(the_younger_before_the_older_is_found),
    UNIT(done_without_a_release_is_found),
    UNIT(one_who_is_not_told_done_is_found),
    UNIT(units_that_stay_after_a_close_are_found),
    UNIT(a_queue_of_the_wrong_length_is_found),
    UNIT(more_given_back_than_was_is_found),
    UNIT(an_early_timeout_is_found),
    UNIT(each_name_is_judged_by_itself),
    UNIT(what_is_too_much_is_not_called_good),
    UNIT(any_number_of_closes_may_be_unseen),
    UNIT(a_file_reads_as_it_was_written),
    UNIT(a_line_that_is_none_is_named),
};

UNIT_MAIN("history", tests)
