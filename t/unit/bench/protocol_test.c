/*
 * protocol_test.c - the protocols: requests, and how answers are judged, whole and cut in two. That
 * servers understand the requests, and their usual answers are right, is shown by
 * system/test_counterbench.py.
 */
#include "bench/counterbench/protocol.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "t/unit/unit.h"

#define NAME_LENGTH 24

/* A language with the same terms for every kind of request. */
static struct language make(const struct protocol *protocol, size_t name_length)
{
    struct language language;
    struct terms terms[ASK_COUNT];
    for (size_t i = 0; i < ASK_COUNT; i++)
        terms[i] = (struct terms){.units = 1, .limit = 5, .queue = 9, .timeout_ns = 1500000000};
    ck_assert(language_make(&language, protocol, name_length, terms));
    return language;
}

/* The bytes of a request; valid until the next call. */
static struct bytes asked(const struct language *language, enum ask ask, uint32_t number)
{
    static uint8_t sent[100000];
    size_t len = language_ask(language, ask, number, sent);
    ck_assert_uint_eq(len, language->forms[ask].len);
    return (struct bytes){.data = sent, .len = len};
}

/* Judges an answer, after checking that no prefix of it passes for a whole answer. */
static enum heard hear_bytes(const struct language *language, enum ask ask, const void *answer,
                             size_t len, char *said)
{
    size_t used = 0;
    for (size_t part = 0; part < len; part++) {
        used = 77;
        enum heard heard = language_hear(language, ask, answer, part, &used, said);
        ck_assert_msg(heard == HEARD_MORE, "%zu of %zu bytes: %d", part, len, heard);
    }
    said[0] = '\0';
    enum heard heard = language_hear(language, ask, answer, len, &used, said);
    ck_assert_uint_eq(used, heard == HEARD_BROKEN || heard == HEARD_MORE ? 0 : len);
    return heard;
}

/* For names of any length, a request has the bytes that the codec writes for that name. */
TEST(requests_are_the_codecs_with_another_name)
{
    static const size_t lengths[] = {1, 7, 8, 24, 300, NAMES_LONGEST};
    static uint8_t name[NAMES_LONGEST], expected[100000];
    for (size_t p = 0; protocols[p]; p++) {
        const struct protocol *protocol = protocols[p];
        for (size_t l = 0; l < ARRAY_SIZE(lengths); l++) {
            struct language language = make(protocol, lengths[l]);
            for (unsigned ask = 0; ask < ASK_COUNT; ask++) {
                if (!(protocol->asks & ~ASKS_COMPOSED & ASK_BIT(ask)))
                    continue;
                names_write(0xdecade05, name, lengths[l]);
                struct request request = {.ask = (enum ask)ask,
                                          .name = {.data = name, .len = lengths[l]},
                                          .terms = {1, 5, 9, 1500000000, 0}};
                size_t len = protocol->compose(&request, expected, sizeof expected);
                ck_assert_uint_eq(protocol->compose(&request, expected, len - 1), 0);
                ck_assert_uint_eq(protocol->compose(&request, expected, len), len);
                struct bytes got = asked(&language, (enum ask)ask, 0xdecade05);
                ck_assert_uint_eq(got.len, len);
                ck_assert_mem_eq(got.data, expected, len);
            }
            language_free(&language);
        }
    }
}
END_TEST

static const struct {
    const struct protocol *protocol;
    enum ask ask;
    const char *answer;
    enum heard heard;
    const char *said; /* NULL: anything */
} answers[] = {
    {&protocol_text, ASK_ACQUIRE, "TIMEOUT\n", HEARD_NO, NULL},
    {&protocol_text, ASK_ACQUIRE, "QUEUE_FULL\n", HEARD_NO, NULL},
    {&protocol_text, ASK_ACQUIRE, "DONE\n", HEARD_WRONG, NULL},
    {&protocol_text, ASK_SHARE, "ERROR BAD_SYNTAX\n", HEARD_WRONG, NULL},
    {&protocol_text, ASK_RELEASE, "NOT_LOCKED\n", HEARD_WRONG, NULL},
    {&protocol_text, ASK_WAITING, "ERROR WRONG_STAT\n", HEARD_WRONG, NULL},
    {&protocol_text, ASK_TAKE, "TAKEN db m 1700000000000017 10.0.0.7:5432\n", HEARD_YES,
     "1700000000000017"},
    {&protocol_text, ASK_TAKE, "TAKEN db m 17 - a=b\n", HEARD_YES, "17"},
    {&protocol_text, ASK_TAKE, "TAKEN db m 17\n", HEARD_WRONG, "TAKEN db m 17"},
    {&protocol_text, ASK_TAKE, "TAKEN db\n", HEARD_WRONG, NULL},
    {&protocol_text, ASK_TAKE, "TIMEOUT\n", HEARD_NO, NULL},
    {&protocol_text, ASK_TAKE, "QUEUE_FULL\n", HEARD_NO, NULL},
    {&protocol_text, ASK_TAKE, "ERROR NO_POOL\n", HEARD_WRONG, "ERROR NO_POOL"},
    {&protocol_text, ASK_RETURN, "GONE\n", HEARD_WRONG, "GONE"},
    {&protocol_redis_pool, ASK_TAKE, "$3\r\nabc\r\n", HEARD_YES, "abc"},
    {&protocol_redis_pool, ASK_TAKE, "$-1\r\n", HEARD_NO, NULL},
    {&protocol_redis_pool, ASK_TAKE, "*-1\r\n", HEARD_NO, NULL},
    {&protocol_redis_pool, ASK_TAKE, "-ERR no\r\n", HEARD_WRONG, "ERR no"},
    {&protocol_redis_pool, ASK_RETURN, ":1\r\n:12\r\n", HEARD_YES, NULL},
    {&protocol_redis_pool, ASK_RETURN, ":0\r\n:12\r\n", HEARD_WRONG, "nothing was found"},
    {&protocol_redis_pool, ASK_RETURN, "-ERR no\r\n:12\r\n", HEARD_WRONG, "ERR no"},
    {&protocol_redis_pool, ASK_RETURN, ":1\r\n-ERR no\r\n", HEARD_WRONG, "ERR no"},
    {&protocol_beanstalk, ASK_TUBE, "USING db\r\nWATCHING 2\r\nWATCHING 1\r\n", HEARD_YES, NULL},
    {&protocol_beanstalk, ASK_TUBE, "USING db\r\nOUT_OF_MEMORY\r\nNOT_IGNORED\r\n", HEARD_WRONG,
     "OUT_OF_MEMORY"},
    {&protocol_beanstalk, ASK_TUBE, "LOCKED\r\n", HEARD_BROKEN, NULL},
    {&protocol_beanstalk, ASK_RESERVE, "RESERVED 17 22\r\n00000000000000001234xx\r\n", HEARD_YES,
     "00000000000000001234 17"},
    {&protocol_beanstalk, ASK_RESERVE, "RESERVED 17 3\r\nabc\r\n", HEARD_WRONG, NULL},
    {&protocol_beanstalk, ASK_RESERVE, "RESERVED 17 22\r\n00000000000000001234xxLO", HEARD_BROKEN,
     NULL},
    {&protocol_beanstalk, ASK_RESERVE, "DEADLINE_SOON\r\n", HEARD_WRONG, "DEADLINE_SOON"},
    {&protocol_beanstalk, ASK_DELETE, "NOT_FOUND\r\n", HEARD_WRONG, "NOT_FOUND"},
    {&protocol_jobs, ASK_PUT, "TUBE_FULL\r\n", HEARD_WRONG, "TUBE_FULL"},
    {&protocol_jobs, ASK_BATCH, "OK 30\r\n---\n- INSERTED 7\n- INSERTED 8\n\r\n", HEARD_YES, NULL},
    {&protocol_jobs, ASK_BATCH, "DRAINING\r\n", HEARD_WRONG, "DRAINING"},
    {&protocol_jobs, ASK_RESERVE,
     "CLAIMED 1\r\nRESERVED 17 22 99 db 1\r\n00000000000000001234xx\r\n", HEARD_YES,
     "00000000000000001234 17 99"},
    {&protocol_jobs, ASK_RESERVE, "TIMED_OUT\r\n", HEARD_WRONG, "TIMED_OUT"},
    {&protocol_redis_jobs, ASK_PUT, "-OOM\r\n", HEARD_WRONG, "OOM"},
    {&protocol_redis_jobs, ASK_RESERVE, "$22\r\n00000000000000001234xx\r\n", HEARD_YES,
     "00000000000000001234 00000000000000001234"},
    {&protocol_redis_jobs, ASK_RESERVE, "$3\r\nabc\r\n", HEARD_WRONG, "abc"},
    {&protocol_redis_jobs, ASK_DELETE, ":0\r\n", HEARD_WRONG, "nothing was found"},
    {&protocol_text, ASK_WAITING, "waiting_workers: 17\n", HEARD_YES, "17"},
    {&protocol_text, ASK_RELEASE, "\x1b[31mred\n", HEARD_WRONG, ".[31mred"},
    {&protocol_redis_incr, ASK_ACQUIRE, ":9999999999999999999\r\n", HEARD_YES, NULL},
    {&protocol_redis_lua, ASK_RELEASE, ":0\r\n", HEARD_WRONG, NULL},
    {&protocol_redis_tokens, ASK_WAIT, "*2\r\n$1\r\nn\r\n$1\r\nu\r\n", HEARD_YES, NULL},
    {&protocol_redis_incr, ASK_ACQUIRE, "LOCKED\n", HEARD_BROKEN, NULL},
    {&protocol_redis_incr, ASK_ACQUIRE, ":1\n", HEARD_BROKEN, NULL},
    {&protocol_redis_incr, ASK_ACQUIRE, "hello\r\n", HEARD_BROKEN, NULL},
    {&protocol_redis_incr, ASK_ACQUIRE, "$-1\r\n", HEARD_BROKEN, NULL},
    {&protocol_redis_incr, ASK_ACQUIRE, "$0\r\n\r\n", HEARD_YES, NULL},
    {&protocol_redis_incr, ASK_ACQUIRE, "$9223372036854775807\r\nabc\r\n", HEARD_MORE, NULL},
    {&protocol_redis_incr, ASK_ACQUIRE, "$9999999999999999999\r\n", HEARD_MORE, NULL},
};

TEST(answers_are_judged)
{
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        struct language language = make(answers[i].protocol, NAME_LENGTH);
        char said[SAID_ROOM];
        enum heard heard = hear_bytes(&language, answers[i].ask, answers[i].answer,
                                      strlen(answers[i].answer), said);
        ck_assert_msg(heard == answers[i].heard, "%s: %d", answers[i].answer, heard);
        if (answers[i].said)
            ck_assert_str_eq(said, answers[i].said);
        language_free(&language);
    }
}
END_TEST

TEST(binary)
{
    static const uint8_t opaque[4];
    struct language language = make(&protocol_binary, NAME_LENGTH);
    uint8_t reply[CTR_DUMP_LEN(3) + CTR_REPLY_ROOM];
    char said[SAID_ROOM];
    static const struct {
        enum ask ask;
        uint8_t opcode;
        enum ctr_status status;
        enum heard heard;
    } rows[] = {
        {ASK_RELEASE, CTR_RELEASE, CTR_STATUS_SUCCESS, HEARD_YES},
        {ASK_RELEASE, CTR_RELEASE, CTR_STATUS_NOT_ACQUIRED, HEARD_WRONG},
        {ASK_RELEASE, CTR_ACQUIRE, CTR_STATUS_SUCCESS, HEARD_WRONG},
        {ASK_ACQUIRE, CTR_ACQUIRE, CTR_STATUS_NOT_AVAILABLE, HEARD_NO},
        {ASK_ACQUIRE, CTR_ACQUIRE, CTR_STATUS_INVALID, HEARD_WRONG},
        {ASK_GET, CTR_GET, CTR_STATUS_NOT_FOUND, HEARD_NO},
        {ASK_DUMP, CTR_DUMP, CTR_STATUS_SUCCESS, HEARD_YES},
        {ASK_DUMP, CTR_DUMP, CTR_STATUS_UNKNOWN_COMMAND, HEARD_WRONG},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        size_t len = ctr_compose_status(rows[i].opcode, opaque, rows[i].status, reply);
        ck_assert_msg(hear_bytes(&language, rows[i].ask, reply, len, said) == rows[i].heard,
                      "row %zu", i);
        ck_assert((rows[i].heard == HEARD_WRONG) == (said[0] != '\0'));
    }
    size_t len = ctr_compose_number(CTR_ACQUIRE, opaque, 1, reply);
    ck_assert(bytes_equal(language.forms[ASK_ACQUIRE].hope, bytes_at(reply, len)));
    ck_assert_int_eq(hear_bytes(&language, ASK_ACQUIRE, reply, len, said), HEARD_YES);
    len = ctr_compose_number(CTR_GET, opaque, 12, reply);
    ck_assert_int_eq(hear_bytes(&language, ASK_GET, reply, len, said), HEARD_YES);
    struct bytes name = {.data = (const uint8_t *)"abc", .len = 3};
    len = ctr_compose_dump(opaque, 1, 2, name, reply);
    ck_assert_int_eq(hear_bytes(&language, ASK_DUMP, reply, len, said), HEARD_PART);
    size_t used;
    ck_assert_int_eq(
        language_hear(&language, ASK_ACQUIRE, (const uint8_t *)"LOCKED\n", 7, &used, said),
        HEARD_BROKEN);
    language_free(&language);
}
END_TEST

TEST(lines_of_redis_have_an_end)
{
    struct language language = make(&protocol_redis_incr, NAME_LENGTH);
    char said[SAID_ROOM], line[1024];
    memset(line, 'x', sizeof line);
    ck_assert_int_eq(hear_bytes(&language, ASK_ACQUIRE, line, sizeof line, said), HEARD_BROKEN);
    language_free(&language);
}
END_TEST

UNIT_MAIN("bench/protocol")
