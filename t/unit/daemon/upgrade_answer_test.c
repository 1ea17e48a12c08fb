/* upgrade_answer_test.c - an answer reads back; anything else is none. */
#include "daemon/upgrade_answer.h"
#include "t/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static const struct upgrade_answer sample = {
    .version = "1.2.3-rc4",
    .counts = {.units = 1, .connections = 333},
    .sum = UINT64_MAX,
    .read_ns = INT64_MAX,
};

TEST(an_answer_reads_back)
{
    struct upgrade_answer answer;
    char *said = NULL;
    size_t size;
    FILE *to = open_memstream(&said, &size);
    ck_assert(to != NULL);
    fputs("counterd: the configuration is good\n", to);
    upgrade_answer_print(to, "rehearse", &sample);
    ck_assert(fclose(to) == 0);
    ck_assert(upgrade_answer_parse(said, "rehearse", &answer));
    ck_assert_str_eq(answer.version, sample.version);
    ck_assert(memcmp(&answer.counts, &sample.counts, sizeof(answer.counts)) == 0);
    ck_assert(answer.sum == sample.sum && answer.read_ns == sample.read_ns);
    ck_assert(!upgrade_answer_parse(said, "check", &answer));
    for (size_t len = strlen(said); len > 0; len--) { /* cut off */
        said[len - 1] = '\0';
        ck_assert(!upgrade_answer_parse(said, "rehearse", &answer));
    }
    free(said);
}

TEST(anything_else_is_no_answer)
{
    static const char *const wrong[] = {
        "",
        "\n",
        "check\n",
        "counterd-upgrade\n",
        "counterd-upgrade check\n",
        "counterd-upgrade check 1.0 1 2 3\n",
        "counterd-upgrade check 1.0 1 2 3 4 5\n",
        "counterd-upgrade check 1.0 1 2 3 -5\n",
        "counterd-upgrade check 1.0 1 2 3 9223372036854775808\n",
        "counterd-upgrade check  1 2 3 4\n",
        "counterd-upgrade check "
        "1234567890123456789012345678901234567890123456789012345678901234 1 2 3 4\n",
        " counterd-upgrade check 1.0 1 2 3 4\n",
    };
    struct upgrade_answer answer;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        ck_assert_msg(!upgrade_answer_parse(wrong[i], "check", &answer), "%s", wrong[i]);
    ck_assert(upgrade_answer_parse("counterd-upgrade check 1.0 1 2 3 4\n", "check", &answer));
}

UNIT_MAIN("daemon/upgrade_answer")
