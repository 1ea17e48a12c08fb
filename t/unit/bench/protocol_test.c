/*
 * protocol_test.c - the protocols: requests, and the judging of answers, whole and cut in two.
 */
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/resp.h"
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
    ck_assert_uint_eq(used, heard == HEARD_BROKEN ? 0 : len);
    return heard;
}

static enum heard hear(const struct language *language, enum ask ask, const char *answer)
{
    char said[SAID_ROOM];
    return hear_bytes(language, ask, answer, strlen(answer), said);
}

TEST(rows_are_found_by_name)
{
    for (size_t i = 0; protocol_at(i); i++) {
        ck_assert_ptr_eq(protocol_named(protocol_at(i)->name), protocol_at(i));
        ck_assert_uint_ne(protocol_at(i)->port, 0);
    }
    ck_assert_ptr_null(protocol_named("no such"));
}
END_TEST

/* For names of any length, a request has the bytes that the codec writes for that name. */
TEST(requests_are_the_codecs_with_another_name)
{
    static const size_t lengths[] = {1, 7, 8, 24, 300, NAMES_LONGEST};
    static uint8_t name[NAMES_LONGEST], expected[100000];
    for (size_t p = 0; protocol_at(p); p++) {
        const struct protocol *protocol = protocol_at(p);
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
                struct bytes got = asked(&language, (enum ask)ask, 0xdecade05);
                ck_assert_uint_eq(got.len, len);
                ck_assert_mem_eq(got.data, expected, len);
            }
            language_free(&language);
        }
    }
}
END_TEST

TEST(text)
{
    struct language language = make(&protocol_text, NAME_LENGTH);
    struct pc_request request;
    size_t used;
    struct bytes sent = asked(&language, ASK_WAIT, 3);
    ck_assert_int_eq(pc_parse_request(sent.data, sent.len, 8192, &request, &used), PC_OK);
    ck_assert_int_eq(request.verb, PC_ACQ4ME);
    ck_assert_uint_eq(request.workers, 5);
    ck_assert_uint_eq(request.maxqueue, 9);
    ck_assert_int_eq(request.timeout_ns, 1500000000);
    sent = asked(&language, ASK_SHARE, 3);
    ck_assert_mem_eq(sent.data, "ACQ4ANY ", 8);
    sent = asked(&language, ASK_RELEASE, 3);
    ck_assert_mem_eq(sent.data, "RELEASE ", 8);
    ck_assert_uint_eq(sent.len, 8 + NAME_LENGTH + 1);
    sent = asked(&language, ASK_WAITING, 3);
    ck_assert_mem_eq(sent.data, "STATS waiting_workers\n", 22);
    static const struct {
        enum ask ask;
        const char *answer;
        enum heard heard;
    } rows[] = {
        {ASK_ACQUIRE, "LOCKED\n", HEARD_YES},
        {ASK_ACQUIRE, "TIMEOUT\n", HEARD_NO},
        {ASK_ACQUIRE, "QUEUE_FULL\n", HEARD_NO},
        {ASK_ACQUIRE, "DONE\n", HEARD_WRONG},
        {ASK_ACQUIRE, "LOCK_HELD\n", HEARD_WRONG},
        {ASK_ACQUIRE, "RELEASED\n", HEARD_WRONG},
        {ASK_WAIT, "LOCKED\n", HEARD_YES},
        {ASK_WAIT, "TIMEOUT\n", HEARD_NO},
        {ASK_SHARE, "LOCKED\n", HEARD_YES},
        {ASK_SHARE, "DONE\n", HEARD_DONE},
        {ASK_SHARE, "ERROR BAD_SYNTAX\n", HEARD_WRONG},
        {ASK_RELEASE, "RELEASED\n", HEARD_YES},
        {ASK_RELEASE, "NOT_LOCKED\n", HEARD_WRONG},
        {ASK_RELEASE, "LOCKED\n", HEARD_WRONG},
        {ASK_WAITING, "waiting_workers: 17\n", HEARD_YES},
        {ASK_WAITING, "ERROR WRONG_STAT\n", HEARD_WRONG},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        ck_assert_msg(hear(&language, rows[i].ask, rows[i].answer) == rows[i].heard, "%s",
                      rows[i].answer);
    char said[SAID_ROOM];
    hear_bytes(&language, ASK_WAITING, "waiting_workers: 17\n", 20, said);
    ck_assert_str_eq(said, "17");
    hear_bytes(&language, ASK_RELEASE, "\x1b[31mred\n", 9, said);
    ck_assert_str_eq(said, ".[31mred");
    language_free(&language);
}
END_TEST

/* The text of a request of ASKS_COMPOSED; valid until the next call. */
static const char *composed(const struct protocol *protocol, enum ask ask, const char *member)
{
    static char line[1024];
    const struct request request = {.ask = ask,
                                    .name = bytes_of("db"),
                                    .member = bytes_of(member),
                                    .client = 7,
                                    .stamp_ns = 1234,
                                    .terms = {.timeout_ns = 15000000000, .body = 22, .jobs = 2}};
    size_t len = protocol->compose(&request, (uint8_t *)line, sizeof line - 1);
    line[len] = '\0';
    return line;
}

struct heard_row {
    enum ask ask;
    const char *answer;
    enum heard heard;
    const char *said;
};

static void check_heard(const struct protocol *protocol, const struct heard_row *rows, size_t count)
{
    struct language language = make(protocol, NAME_LENGTH);
    char said[SAID_ROOM];
    for (size_t i = 0; i < count; i++) {
        enum heard heard =
            hear_bytes(&language, rows[i].ask, rows[i].answer, strlen(rows[i].answer), said);
        ck_assert_msg(heard == rows[i].heard, "%s: %d", rows[i].answer, heard);
        if (rows[i].said)
            ck_assert_str_eq(said, rows[i].said);
    }
    language_free(&language);
}

TEST(a_pool)
{
    const struct protocol *pools = &protocol_text;
    ck_assert_str_eq(composed(pools, ASK_TAKE, ""), "TAKE db 15\n");
    ck_assert_str_eq(composed(pools, ASK_RETURN, "17"), "RETURN 17\n");
    ck_assert_str_eq(composed(pools, ASK_RETURN, ""), "RETURN\n");
    ck_assert_str_eq(composed(pools, ASK_RETURN, "x"), "");
    ck_assert_str_eq(composed(pools, ASK_UNMAKE, ""), "POOL DROP db now\n");
    ck_assert_str_eq(composed(pools, ASK_MAKE, ""), "POOL ADD db queue_max=4294967295\n");
    ck_assert_str_eq(composed(pools, ASK_MEMBER, "m"), "MEMBER ADD db m 10.0.0.7:5432\n");
    static const struct heard_row rows[] = {
        {ASK_TAKE, "TAKEN db m 1700000000000017 10.0.0.7:5432\n", HEARD_YES, "1700000000000017"},
        {ASK_TAKE, "TAKEN db m 17 - a=b\n", HEARD_YES, "17"},
        {ASK_TAKE, "TAKEN db m 17\n", HEARD_WRONG, "TAKEN db m 17"},
        {ASK_TAKE, "TAKEN db\n", HEARD_WRONG, NULL},
        {ASK_TAKE, "TIMEOUT\n", HEARD_NO, NULL},
        {ASK_TAKE, "QUEUE_FULL\n", HEARD_NO, NULL},
        {ASK_TAKE, "ERROR NO_POOL\n", HEARD_WRONG, "ERROR NO_POOL"},
        {ASK_RETURN, "RETURNED\n", HEARD_YES, NULL},
        {ASK_RETURN, "GONE\n", HEARD_WRONG, "GONE"},
        {ASK_UNMAKE, "OK\n", HEARD_YES, NULL},
        {ASK_UNMAKE, "ERROR NO_POOL\n", HEARD_YES, NULL},
        {ASK_UNMAKE, "ERROR DENIED\n", HEARD_WRONG, NULL},
        {ASK_MAKE, "OK\n", HEARD_YES, NULL},
        {ASK_MAKE, "ERROR EXISTS\n", HEARD_WRONG, NULL},
        {ASK_MEMBER, "OK\n", HEARD_YES, NULL},
        {ASK_MEMBER, "ERROR NO_POOL\n", HEARD_WRONG, NULL},
    };
    check_heard(pools, rows, ARRAY_SIZE(rows));
}
END_TEST

TEST(a_pool_on_lists_of_redis)
{
    const struct protocol *redis = &protocol_redis_pool;
    ck_assert_str_eq(composed(redis, ASK_TAKE, ""),
                     "*6\r\n$6\r\nBLMOVE\r\n$2\r\ndb\r\n$4\r\ndb:7\r\n$5\r\nRIGHT\r\n"
                     "$4\r\nLEFT\r\n$2\r\n15\r\n");
    ck_assert_str_eq(composed(redis, ASK_RETURN, "m"),
                     "*4\r\n$4\r\nLREM\r\n$4\r\ndb:7\r\n$1\r\n1\r\n$1\r\nm\r\n"
                     "*3\r\n$5\r\nLPUSH\r\n$2\r\ndb\r\n$1\r\nm\r\n");
    ck_assert_str_eq(composed(redis, ASK_UNMAKE, ""), "*2\r\n$3\r\nDEL\r\n$2\r\ndb\r\n");
    ck_assert_str_eq(composed(redis, ASK_MEMBER, "m"),
                     "*3\r\n$5\r\nRPUSH\r\n$2\r\ndb\r\n$1\r\nm\r\n");
    static const struct heard_row rows[] = {
        {ASK_TAKE, "$3\r\nabc\r\n", HEARD_YES, "abc"},
        {ASK_TAKE, "$-1\r\n", HEARD_NO, NULL},
        {ASK_TAKE, "*-1\r\n", HEARD_NO, NULL},
        {ASK_TAKE, "-ERR no\r\n", HEARD_WRONG, "ERR no"},
        {ASK_RETURN, ":1\r\n:12\r\n", HEARD_YES, NULL},
        {ASK_RETURN, ":0\r\n:12\r\n", HEARD_WRONG, "LREM has found nothing"},
        {ASK_RETURN, "-ERR no\r\n:12\r\n", HEARD_WRONG, "ERR no"},
        {ASK_RETURN, ":1\r\n-ERR no\r\n", HEARD_WRONG, "ERR no"},
        {ASK_UNMAKE, ":0\r\n", HEARD_YES, NULL},
        {ASK_MAKE, "+PONG\r\n", HEARD_YES, NULL},
        {ASK_MEMBER, ":3\r\n", HEARD_YES, NULL},
    };
    check_heard(redis, rows, ARRAY_SIZE(rows));
}
END_TEST

TEST(a_queue_of_jobs)
{
    const struct protocol *jobs = &protocol_beanstalk;
    ck_assert_str_eq(composed(jobs, ASK_TUBE, ""), "use db\r\nwatch db\r\nignore default\r\n");
    ck_assert_str_eq(composed(jobs, ASK_PUT, ""), "put 0 0 86400 22\r\n00000000000000001234xx\r\n");
    ck_assert_str_eq(composed(jobs, ASK_RESERVE, ""), "reserve\r\n");
    ck_assert_str_eq(composed(jobs, ASK_DELETE, "17"), "delete 17\r\n");
    ck_assert_str_eq(composed(jobs, ASK_DELETE, "x"), "");
    ck_assert_str_eq(composed(jobs, ASK_HELLO, ""), "list-tube-used\r\n");
    static const struct heard_row rows[] = {
        {ASK_HELLO, "USING default\r\n", HEARD_YES, NULL},
        {ASK_TUBE, "USING db\r\nWATCHING 2\r\nWATCHING 1\r\n", HEARD_YES, NULL},
        {ASK_TUBE, "USING db\r\nOUT_OF_MEMORY\r\nNOT_IGNORED\r\n", HEARD_WRONG, "OUT_OF_MEMORY"},
        {ASK_TUBE, "LOCKED\r\n", HEARD_BROKEN, NULL},
        {ASK_PUT, "INSERTED 17\r\n", HEARD_YES, NULL},
        {ASK_PUT, "JOB_TOO_BIG\r\n", HEARD_WRONG, "JOB_TOO_BIG"},
        {ASK_RESERVE, "RESERVED 17 22\r\n00000000000000001234xx\r\n", HEARD_YES,
         "00000000000000001234 17"},
        {ASK_RESERVE, "RESERVED 17 3\r\nabc\r\n", HEARD_WRONG, NULL},
        {ASK_RESERVE, "DEADLINE_SOON\r\n", HEARD_WRONG, "DEADLINE_SOON"},
        {ASK_DELETE, "DELETED\r\n", HEARD_YES, NULL},
        {ASK_DELETE, "NOT_FOUND\r\n", HEARD_WRONG, "NOT_FOUND"},
    };
    check_heard(jobs, rows, ARRAY_SIZE(rows));
}
END_TEST

TEST(a_job_needs_its_line_end)
{
    static const char answer[] = "RESERVED 17 22\r\n00000000000000001234xxLO";
    char said[SAID_ROOM];
    size_t used;
    ck_assert_int_eq(protocol_beanstalk.hear(ASK_RESERVE, (const uint8_t *)answer,
                                             sizeof answer - 1, &used, said),
                     HEARD_BROKEN);
    ck_assert_uint_eq(used, 0);
}
END_TEST

TEST(a_queue_of_jobs_by_our_own_verbs)
{
    const struct protocol *jobs = &protocol_jobs;
    ck_assert_uint_eq(jobs->asks & ASK_BIT(ASK_TUBE), 0);
    ck_assert_str_eq(composed(jobs, ASK_PUT, ""),
                     "put-into db 0 0 86400 22\r\n00000000000000001234xx\r\n");
    ck_assert_str_eq(composed(jobs, ASK_BATCH, ""),
                     "put-batch db 2 76\r\n0 0 86400 22\r\n00000000000000001234xx\r\n"
                     "0 0 86400 22\r\n00000000000000001234xx\r\n\r\n");
    ck_assert_str_eq(composed(jobs, ASK_RESERVE, ""), "claim 1 15 db\r\n");
    ck_assert_str_eq(composed(jobs, ASK_DELETE, "17 99"), "ack 17 99\r\n");
    ck_assert_str_eq(composed(jobs, ASK_DELETE, "17"), "");
    static const struct heard_row rows[] = {
        {ASK_HELLO, "USING default\r\n", HEARD_YES, NULL},
        {ASK_PUT, "INSERTED 17\r\n", HEARD_YES, NULL},
        {ASK_PUT, "TUBE_FULL\r\n", HEARD_WRONG, "TUBE_FULL"},
        {ASK_BATCH, "OK 30\r\n---\n- INSERTED 7\n- INSERTED 8\n\r\n", HEARD_YES, NULL},
        {ASK_BATCH, "DRAINING\r\n", HEARD_WRONG, "DRAINING"},
        {ASK_RESERVE, "CLAIMED 1\r\nRESERVED 17 22 99 db 1\r\n00000000000000001234xx\r\n",
         HEARD_YES, "00000000000000001234 17 99"},
        {ASK_RESERVE, "TIMED_OUT\r\n", HEARD_WRONG, "TIMED_OUT"},
        {ASK_DELETE, "DELETED\r\n", HEARD_YES, NULL},
        {ASK_DELETE, "NOT_FOUND\r\n", HEARD_WRONG, "NOT_FOUND"},
        {ASK_DELETE, "LOCKED\r\n", HEARD_BROKEN, NULL},
    };
    check_heard(jobs, rows, ARRAY_SIZE(rows));
}
END_TEST

TEST(jobs_on_lists_of_redis)
{
    const struct protocol *redis = &protocol_redis_jobs;
    ck_assert_str_eq(composed(redis, ASK_TUBE, ""), "*1\r\n$4\r\nPING\r\n");
    ck_assert_str_eq(composed(redis, ASK_PUT, ""),
                     "*3\r\n$5\r\nLPUSH\r\n$2\r\ndb\r\n$22\r\n00000000000000001234xx\r\n");
    ck_assert_str_eq(composed(redis, ASK_RESERVE, ""),
                     "*6\r\n$6\r\nBLMOVE\r\n$2\r\ndb\r\n$4\r\ndb:7\r\n$5\r\nRIGHT\r\n"
                     "$4\r\nLEFT\r\n$2\r\n15\r\n");
    ck_assert_str_eq(composed(redis, ASK_DELETE, "00000000000000001234"),
                     "*4\r\n$4\r\nLREM\r\n$4\r\ndb:7\r\n$2\r\n-1\r\n"
                     "$22\r\n00000000000000001234xx\r\n");
    ck_assert_str_eq(composed(redis, ASK_DELETE, "x"), "");
    static const struct heard_row rows[] = {
        {ASK_HELLO, "+PONG\r\n", HEARD_YES, NULL},
        {ASK_TUBE, "+PONG\r\n", HEARD_YES, NULL},
        {ASK_PUT, ":3\r\n", HEARD_YES, NULL},
        {ASK_PUT, "-OOM\r\n", HEARD_WRONG, "OOM"},
        {ASK_RESERVE, "$22\r\n00000000000000001234xx\r\n", HEARD_YES,
         "00000000000000001234 00000000000000001234"},
        {ASK_RESERVE, "$3\r\nabc\r\n", HEARD_WRONG, "abc"},
        {ASK_RESERVE, "*-1\r\n", HEARD_NO, NULL},
        {ASK_DELETE, ":1\r\n", HEARD_YES, NULL},
        {ASK_DELETE, ":0\r\n", HEARD_WRONG, "LREM has found nothing"},
    };
    check_heard(redis, rows, ARRAY_SIZE(rows));
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

TEST(an_echo_is_as_long_as_the_request)
{
    struct language language = make(&protocol_echo_binary, NAME_LENGTH);
    struct bytes sent = asked(&language, ASK_ACQUIRE, 3);
    char said[SAID_ROOM];
    ck_assert_int_eq(hear_bytes(&language, ASK_ACQUIRE, sent.data, sent.len, said), HEARD_YES);
    language_free(&language);
}
END_TEST

TEST(redis)
{
    struct language incr = make(&protocol_redis_incr, NAME_LENGTH);
    struct bytes sent = asked(&incr, ASK_ACQUIRE, 0x1f);
    ck_assert_uint_eq(sent.len, 14 + 5 + NAME_LENGTH + 2);
    ck_assert_mem_eq(sent.data, "*2\r\n$4\r\nINCR\r\n$24\r\n", 19);
    ck_assert_mem_eq(sent.data + sent.len - 10, "0000001f\r\n", 10);
    ck_assert_mem_eq(asked(&incr, ASK_RELEASE, 1).data + 8, "DECR", 4);
    ck_assert_mem_eq(asked(&incr, ASK_HELLO, 1).data, "*1\r\n$4\r\nPING\r\n", 14);
    ck_assert_int_eq(hear(&incr, ASK_ACQUIRE, ":1\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&incr, ASK_ACQUIRE, ":123\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&incr, ASK_ACQUIRE, ":9999999999999999999\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&incr, ASK_RELEASE, ":0\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&incr, ASK_HELLO, "+PONG\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&incr, ASK_ACQUIRE, "-ERR no\r\n"), HEARD_WRONG);
    language_free(&incr);
    struct language lua = make(&protocol_redis_lua, NAME_LENGTH);
    ck_assert_mem_eq(asked(&lua, ASK_ACQUIRE, 1).data, "*5\r\n$7\r\nEVALSHA\r\n$40\r\n", 22);
    ck_assert_mem_eq(asked(&lua, ASK_RELEASE, 1).data, "*4\r\n", 4);
    ck_assert_int_eq(hear(&lua, ASK_ACQUIRE, ":1\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&lua, ASK_ACQUIRE, ":0\r\n"), HEARD_NO);
    ck_assert_int_eq(hear(&lua, ASK_RELEASE, ":1\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&lua, ASK_RELEASE, ":0\r\n"), HEARD_WRONG);
    ck_assert_int_eq(hear(&lua, ASK_HELLO, "$3\r\nabc\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&lua, ASK_ACQUIRE, "-NOSCRIPT\r\n"), HEARD_WRONG);
    language_free(&lua);
}
END_TEST

TEST(a_semaphore_on_lists_of_redis)
{
    struct language tokens = make(&protocol_redis_tokens, NAME_LENGTH);
    ck_assert_mem_eq(asked(&tokens, ASK_ACQUIRE, 1).data, "*2\r\n$4\r\nLPOP\r\n", 14);
    ck_assert_mem_eq(asked(&tokens, ASK_WAIT, 1).data, "*3\r\n$5\r\nBLPOP\r\n", 15);
    ck_assert_mem_eq(asked(&tokens, ASK_RELEASE, 1).data, "*3\r\n$5\r\nRPUSH\r\n", 15);
    ck_assert_mem_eq(asked(&tokens, ASK_STOCK, 1).data, "*5\r\n$4\r\nEVAL\r\n", 14);
    ck_assert_int_eq(hear(&tokens, ASK_ACQUIRE, "$1\r\nu\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&tokens, ASK_ACQUIRE, "$-1\r\n"), HEARD_NO);
    ck_assert_int_eq(hear(&tokens, ASK_WAIT, "*2\r\n$1\r\nn\r\n$1\r\nu\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&tokens, ASK_WAIT, "*-1\r\n"), HEARD_NO);
    ck_assert_int_eq(hear(&tokens, ASK_WAIT, "-ERR no\r\n"), HEARD_WRONG);
    ck_assert_int_eq(hear(&tokens, ASK_RELEASE, ":5\r\n"), HEARD_YES);
    ck_assert_int_eq(hear(&tokens, ASK_STOCK, ":1\r\n"), HEARD_YES);
    static const char pair[] = "*2\r\n$1\r\nn\r\n$1\r\nu\r\n";
    char said[SAID_ROOM];
    for (size_t len = 1; len < sizeof pair - 1; len++) {
        size_t used = 77;
        ck_assert_int_eq(language_hear(&tokens, ASK_WAIT, (const uint8_t *)pair, len, &used, said),
                         HEARD_MORE);
        ck_assert_uint_eq(used, 0);
    }
    language_free(&tokens);
}
END_TEST

TEST(what_is_no_answer_of_redis)
{
    static const char *const broken[] = {"LOCKED\n", "\n", ":1\n", "hello\r\n", "$-1\r\n"};
    char said[SAID_ROOM], long_line[4096];
    size_t used = 77;
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
        const uint8_t *data = (const uint8_t *)broken[i];
        ck_assert_msg(resp_hear(1, data, strlen(broken[i]), &used, said) == HEARD_BROKEN, "%s",
                      broken[i]);
        ck_assert_uint_eq(used, 0);
    }
    memset(long_line, 'x', sizeof long_line);
    ck_assert_int_eq(resp_hear(1, (const uint8_t *)long_line, sizeof long_line, &used, said),
                     HEARD_BROKEN);
    ck_assert_int_eq(resp_hear(1, (const uint8_t *)long_line, 100, &used, said), HEARD_MORE);
    static const char *const begun[] = {"$3\r\n", "$3\r\nabc", "$3\r\nabc\r", "$0\r\n\r",
                                        "$9223372036854775807\r\nabc\r\n"};
    for (size_t i = 0; i < ARRAY_SIZE(begun); i++) {
        ck_assert_int_eq(resp_hear(1, (const uint8_t *)begun[i], strlen(begun[i]), &used, said),
                         HEARD_MORE);
        ck_assert_uint_eq(used, 0);
    }
    static const char too_large[] = "$9999999999999999999\r\n";
    ck_assert_int_eq(resp_hear(1, (const uint8_t *)too_large, sizeof too_large - 1, &used, said),
                     HEARD_MORE);
    uint8_t small[20];
    struct bytes word = {.data = (const uint8_t *)"0123456789", .len = 10};
    ck_assert_uint_eq(resp_compose(&word, 1, small, sizeof small), 0);
}
END_TEST

TEST(memcached)
{
    struct language language = make(&protocol_memcached, NAME_LENGTH);
    ck_assert_mem_eq(asked(&language, ASK_HELLO, 1).data, "version\r\n", 9);
    ck_assert_int_eq(hear(&language, ASK_HELLO, "VERSION 1.6.18\r\n"), HEARD_YES);
    char said[SAID_ROOM];
    size_t used;
    ck_assert_int_eq(
        language_hear(&language, ASK_HELLO, (const uint8_t *)"ERROR\r\n", 7, &used, said),
        HEARD_BROKEN);
    ck_assert_str_eq(said, "ERROR..");
    language_free(&language);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(rows_are_found_by_name),
    UNIT(requests_are_the_codecs_with_another_name),
    UNIT(text),
    UNIT(a_pool),
    UNIT(a_pool_on_lists_of_redis),
    UNIT(a_queue_of_jobs),
    UNIT(a_job_needs_its_line_end),
    UNIT(a_queue_of_jobs_by_our_own_verbs),
    UNIT(jobs_on_lists_of_redis),
    UNIT(binary),
    UNIT(an_echo_is_as_long_as_the_request),
    UNIT(redis),
    UNIT(a_semaphore_on_lists_of_redis),
    UNIT(what_is_no_answer_of_redis),
    UNIT(memcached),
};

UNIT_MAIN("bench/protocol", tests)
