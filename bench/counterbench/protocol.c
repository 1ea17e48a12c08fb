/* protocol.c - the rows of protocols, and the requests of a run (protocol.h). */
#include "bench/counterbench/protocol.h"

#include <stdlib.h>

/* The most bytes of a request without its name. */
#define REQUEST_ROOM 1024

const struct protocol *const protocols[] = {
    &protocol_text,
    &protocol_binary,
    &protocol_echo_text,
    &protocol_echo_binary,
    &protocol_redis_incr,
    &protocol_redis_lua,
    &protocol_redis_tokens,
    &protocol_redis_pool,
    &protocol_memcached,
    &protocol_beanstalk,
    &protocol_jobs,
    &protocol_redis_jobs,
    NULL,
};

void protocol_say(char *said, const void *data, size_t len)
{
    const uint8_t *from = data;
    size_t used = 0;
    for (; used < len && used < SAID_ROOM - 1; used++)
        said[used] = (char)(from[used] >= ' ' && from[used] < 0x7f ? from[used] : '.');
    said[used] = '\0';
}

void protocol_write_body(int64_t stamp_ns, uint8_t *to, size_t len)
{
    memset(to, 'x', len);
    for (size_t i = STAMP_LENGTH; i-- > 0; stamp_ns /= 10)
        to[i] = (uint8_t)('0' + stamp_ns % 10);
}

/* The end of the name in a request: after the last byte that differs between two names. */
static size_t find_name_end(const uint8_t *a, const uint8_t *b, size_t len)
{
    while (len > 0 && a[len - 1] == b[len - 1])
        len--;
    return len;
}

static bool make_form(struct form *form, const struct protocol *protocol, enum ask ask,
                      size_t name_length, const struct terms *terms)
{
    size_t room = name_length + REQUEST_ROOM;
    uint8_t *name = malloc(name_length), *other = malloc(room);
    form->bytes = malloc(room);
    if (name && other && form->bytes) {
        struct request request = {
            .ask = ask, .name = {.data = name, .len = name_length}, .terms = *terms};
        names_write(UINT32_MAX, name, name_length);
        size_t len = protocol->compose(&request, other, room);
        names_write(0, name, name_length);
        form->len = protocol->compose(&request, form->bytes, room);
        CHECK(form->len > 0 && form->len == len);
        form->name_end = find_name_end(form->bytes, other, len);
        form->hope = protocol->hopes[ask];
    }
    bool done = name && other && form->bytes;
    free(name);
    free(other);
    return done;
}

bool language_make(struct language *language, const struct protocol *protocol, size_t name_length,
                   const struct terms terms[ASK_COUNT])
{
    *language = (struct language){.protocol = protocol, .name_length = name_length};
    for (unsigned ask = 0; ask < ASK_COUNT; ask++)
        if ((protocol->asks & ~ASKS_COMPOSED & ASK_BIT(ask)) &&
            !make_form(&language->forms[ask], protocol, (enum ask)ask, name_length, &terms[ask]))
            return false;
    return true;
}

void language_free(struct language *language)
{
    for (size_t i = 0; i < ASK_COUNT; i++)
        free(language->forms[i].bytes);
    *language = (struct language){0};
}
