/* redis_lists.c - BLMOVE to a list of the client (redis_lists.h). */
#include "bench/counterbench/redis_lists.h"

#include "base/clock.h"
#include "bench/counterbench/resp.h"

#include <inttypes.h>
#include <stdio.h>

bool redis_list_of_client(const struct request *request, char list[REDIS_LIST_MAX])
{
    int len = snprintf(list, REDIS_LIST_MAX, "%.*s:%" PRIu32, (int)request->name.len,
                       (const char *)request->name.data, request->client);
    return len > 0 && len < REDIS_LIST_MAX;
}

size_t redis_compose_move(const struct request *request, uint8_t *to, size_t room)
{
    char list[REDIS_LIST_MAX], timeout[32];
    if (!redis_list_of_client(request, list))
        return 0;
    snprintf(timeout, sizeof timeout, "%" PRId64, request->terms.timeout_ns / NS_PER_S);
    struct bytes words[] = {bytes_of("BLMOVE"), request->name,    bytes_of(list),
                            bytes_of("RIGHT"),  bytes_of("LEFT"), bytes_of(timeout)};
    return resp_compose(words, ARRAY_SIZE(words), to, room);
}

/* True if there is nothing: the time is over. */
static bool is_nil(const uint8_t *data, size_t len, size_t *used_r)
{
    *used_r = 5;
    return len >= 5 && (memcmp(data, "$-1\r\n", 5) == 0 || memcmp(data, "*-1\r\n", 5) == 0);
}

/* The entry is the text behind the first line. */
enum heard redis_hear_move(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    if (is_nil(data, len, used_r))
        return HEARD_NO;
    if (len < 5 && len > 0 && (data[0] == '$' || data[0] == '*')) {
        *used_r = 0;
        return HEARD_MORE;
    }
    enum heard heard = resp_hear(0, data, len, used_r, said);
    if (heard == HEARD_YES && data[0] == '$') {
        const uint8_t *text = (const uint8_t *)memchr(data, '\n', *used_r) + 1;
        protocol_say(said, text, *used_r - (size_t)(text - data) - 2);
    }
    return heard;
}
