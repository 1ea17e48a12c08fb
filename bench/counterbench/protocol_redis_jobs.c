/*
 * protocol_redis_jobs.c - a queue of jobs on Redis's lists, as people make it: LPUSH puts a job, a
 * worker moves the oldest to its own list (redis_lists.h), and LREM deletes it there when it is
 * done. The oldest of the worker's list is at its end, where LREM begins to look.
 *
 * LREM needs the whole job; we make it again from its stamp.
 */
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/redis_lists.h"
#include "bench/counterbench/resp.h"

#include "base/number.h"

/* The most bytes of a job. */
#define JOB_MAX 60000

static size_t compose_put(const struct request *request, uint8_t *to, size_t room)
{
    uint8_t job[JOB_MAX];
    if (request->terms.body > sizeof job)
        return 0;
    protocol_write_body(request->stamp_ns, job, request->terms.body);
    struct bytes words[] = {bytes_of("LPUSH"), request->name, bytes_at(job, request->terms.body)};
    return resp_compose(words, ARRAY_SIZE(words), to, room);
}

static size_t compose_delete(const struct request *request, uint8_t *to, size_t room)
{
    char list[REDIS_LIST_MAX];
    uint8_t job[JOB_MAX];
    uint64_t stamp;
    if (!redis_list_of_client(request, list) || request->terms.body > sizeof job ||
        !number_parse(request->member, INT64_MAX, &stamp))
        return 0;
    protocol_write_body((int64_t)stamp, job, request->terms.body);
    struct bytes words[] = {bytes_of("LREM"), bytes_of(list), bytes_of("-1"),
                            bytes_at(job, request->terms.body)};
    return resp_compose(words, ARRAY_SIZE(words), to, room);
}

static size_t jobs_compose(const struct request *request, uint8_t *to, size_t room)
{
    struct bytes ping[] = {bytes_of("PING")};
    switch (request->ask) {
    case ASK_PUT:
        return compose_put(request, to, room);
    case ASK_RESERVE:
        return redis_compose_move(request, to, room);
    case ASK_DELETE:
        return compose_delete(request, to, room);
    default: /* a list needs nothing before */
        return resp_compose(ping, ARRAY_SIZE(ping), to, room);
    }
}

/* `said` is the stamp at the start of the job, twice: DELETE needs nothing else. */
static enum heard hear_job(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    enum heard heard = redis_hear_move(data, len, used_r, said);
    if (heard != HEARD_YES)
        return heard;
    if (strlen(said) < STAMP_LENGTH)
        return HEARD_WRONG;
    said[STAMP_LENGTH] = ' ';
    memcpy(said + STAMP_LENGTH + 1, said, STAMP_LENGTH);
    said[2 * STAMP_LENGTH + 1] = '\0';
    return HEARD_YES;
}

static enum heard jobs_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                            char *said)
{
    if (ask == ASK_RESERVE)
        return hear_job(data, len, used_r, said);
    bool finds = ask == ASK_PUT || ask == ASK_DELETE;
    enum heard heard = resp_hear(finds ? 1 : 0, data, len, used_r, said);
    if (heard == HEARD_NO) {
        protocol_say(said, "LREM has found nothing", 22);
        return HEARD_WRONG;
    }
    return heard;
}

const struct protocol protocol_redis_jobs = {
    .name = "redis-jobs",
    .port = 6379,
    .asks = (ASKS_OF_JOBS & ~ASK_BIT(ASK_BATCH)) | ASK_BIT(ASK_HELLO),
    .help = "Redis: a queue on lists, by LPUSH, BLMOVE and LREM",
    .compose = jobs_compose,
    .hear = jobs_hear,
};
