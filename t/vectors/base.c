/* base.c - what options and addresses are made of: numbers, seconds, characters, networks. */
#include "base/number.h"
#include "base/option_value.h"
#include "base/utf8.h"
#include "net/access.h"
#include "t/vectors/vectors.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

/* A text that is copied with a null byte, for functions that want one. False: it is too long. */
static bool copy_text(const uint8_t *data, size_t len, char *to, size_t room)
{
    if (len >= room || (len > 0 && memchr(data, '\0', len)))
        return false;
    memcpy(to, len > 0 ? data : (const uint8_t *)"", len);
    to[len] = '\0';
    return true;
}

static size_t put_text(const char *text, uint8_t *to, size_t room)
{
    size_t len = strlen(text);
    if (len > room)
        return 0;
    memcpy(to, text, len);
    return len;
}

/* All texts are whole. */
static void begin(struct stream *stream, size_t len, struct message *message, size_t *used_r)
{
    (void)stream;
    memset(message, 0, sizeof(*message));
    *used_r = len;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

struct value {
    uint64_t value;
};
static const struct field value_fields[] = {FIELD(NUMBER, struct value, value), {0}};

static const char *parse_number(struct stream *stream, const uint8_t *data, size_t len,
                                struct message *message, size_t *used_r)
{
    struct value *value = (void *)message->body;
    uint64_t any;
    begin(stream, len, message, used_r);
    bool plain = number_parse_plain(bytes_at(data, len), UINT64_MAX, &value->value);
    bool good = number_parse(bytes_at(data, len), UINT64_MAX, &any);
    if (plain && (!good || any != value->value))
        fail("a plain number is another one");
    return plain ? PARSED : good ? "ZEROS" : "NONE";
}

static size_t compose_number(const struct message *message, uint8_t *to, size_t room)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64,
             ((const struct value *)(const void *)message->body)->value);
    return put_text(text, to, room);
}

const struct codec base_number = {.name = "base.number",
                                  .kinds = (const char *const[]){"NUMBER"},
                                  .kind_count = 1,
                                  .fields = value_fields,
                                  .parse = parse_number,
                                  .compose = compose_number,
                                  .is_whole = true,
                                  .takes_any_parts = true};

/* Digits of a base at the front: "16:ff" up to 255. */
struct digits {
    uint64_t value, used;
};

static const char *parse_digits(struct stream *stream, const uint8_t *data, size_t len,
                                struct message *message, size_t *used_r)
{
    struct digits *digits = (void *)message->body;
    struct bytes in = bytes_at(data, len);
    uint64_t base;
    begin(stream, len, message, used_r);
    if (!number_take(&in, 16, &base) || base < 2 || !bytes_take_text(&in, ":"))
        return "NO_BASE";
    size_t before = in.len;
    bool good = number_take_base(&in, (unsigned)base, 255, &digits->value);
    digits->used = before - in.len;
    return good ? PARSED : digits->used > 0 ? "TOO_LARGE" : "NONE";
}

const struct codec base_digits = {
    .name = "base.digits",
    .kinds = (const char *const[]){"DIGITS"},
    .kind_count = 1,
    .fields = (const struct field[]){FIELD(NUMBER, struct digits, value),
                                     FIELD(NUMBER, struct digits, used),
                                     {0}},
    .parse = parse_digits,
    .is_whole = true,
};

/* ---- Seconds --------------------------------------------------------------------------------- */

struct seconds {
    int64_t ns;
};
static const struct option_row seconds_row = {.key = "seconds",
                                              OPTION_IS_SECONDS(struct seconds, ns),
                                              .max = OPTION_SECONDS_MAX,
                                              .unit = "seconds"};

static const char *parse_seconds(struct stream *stream, const uint8_t *data, size_t len,
                                 struct message *message, size_t *used_r)
{
    char text[128], reason[OPTIONS_REASON_SIZE];
    struct seconds *seconds = (void *)message->body;
    begin(stream, len, message, used_r);
    return copy_text(data, len, text, sizeof(text)) &&
                   option_value_assign(&seconds->ns, &seconds_row, text, reason)
               ? PARSED
               : "NONE";
}

static size_t compose_seconds(const struct message *message, uint8_t *to, size_t room)
{
    char text[64];
    struct option_text out = {.to = text, .size = sizeof(text)};
    option_seconds.add(&out, message->body, &seconds_row);
    return put_text(text, to, room);
}

const struct codec base_seconds = {
    .name = "base.seconds",
    .kinds = (const char *const[]){"SECONDS"},
    .kind_count = 1,
    .fields = (const struct field[]){FIELD(NUMBER, struct seconds, ns), {0}},
    .parse = parse_seconds,
    .compose = compose_seconds,
    .is_whole = true,
    .takes_any_parts = true};

/* ---- Characters ------------------------------------------------------------------------------ */

struct character {
    uint32_t code;
};

static const char *parse_character(struct stream *stream, const uint8_t *data, size_t len,
                                   struct message *message, size_t *used_r)
{
    struct character *character = (void *)message->body;
    begin(stream, len, message, used_r);
    if (len == 0 || utf8_decode(data, len, &character->code) != len)
        return "NONE";
    message->kind = utf8_is_showable(character->code);
    return PARSED;
}

static size_t compose_character(const struct message *message, uint8_t *to, size_t room)
{
    char text[UTF8_MAX];
    uint32_t code = ((const struct character *)(const void *)message->body)->code;
    size_t len = code > 0x10ffff ? 0 : utf8_encode(code, text);
    if (len > room)
        return 0;
    memcpy(to, text, len);
    return len;
}

const struct codec base_character = {
    .name = "base.character",
    .kinds = (const char *const[]){"HIDDEN", "SHOWN"},
    .kind_count = 2,
    .fields = (const struct field[]){FIELD(NUMBER, struct character, code), {0}},
    .parse = parse_character,
    .compose = compose_character,
    .is_whole = true,
    .takes_any_parts = true,
};

/* ---- Networks -------------------------------------------------------------------------------- */

struct network {
    struct access_network of;
    uint64_t bits;
};

static const char *parse_network(struct stream *stream, const uint8_t *data, size_t len,
                                 struct message *message, size_t *used_r)
{
    struct network *network = (void *)message->body;
    begin(stream, len, message, used_r);
    if (!access_parse(len > 0 ? (const char *)data : "", len, &network->of))
        return "NONE";
    message->kind = network->of.family == AF_INET6;
    network->bits = network->of.bits;
    return PARSED;
}

const struct codec base_network = {
    .name = "base.network",
    .kinds = (const char *const[]){"V4", "V6"},
    .kind_count = 2,
    .fields = (const struct field[]){FIELD(NUMBER, struct network, bits), {0}},
    .parse = parse_network,
    .is_whole = true,
};

/* "NETWORK NETWORK from ADDRESS": whether a client from there is allowed. */
static const char *parse_allowed(struct stream *stream, const uint8_t *data, size_t len,
                                 struct message *message, size_t *used_r)
{
    char text[256], *save = NULL, *from = NULL;
    struct access_network list[8];
    struct sockaddr_storage sa = {.ss_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    size_t count = 0;
    begin(stream, len, message, used_r);
    if (!copy_text(data, len, text, sizeof(text)))
        return "NONE";
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (strcmp(word, "from") == 0) {
            from = strtok_r(NULL, " ", &save);
            break;
        }
        if (count == COUNT_OF(list) || !access_parse(word, strlen(word), &list[count++]))
            return "NONE";
    }
    if (from && inet_pton(AF_INET, from, &in.sin_addr) == 1)
        memcpy(&sa, &in, sizeof(in));
    else if (from && inet_pton(AF_INET6, from, &in6.sin6_addr) == 1)
        memcpy(&sa, &in6, sizeof(in6));
    else if (!from || strcmp(from, "unix") != 0)
        return "NONE";
    message->kind = access_allows(list, count, (struct sockaddr *)&sa);
    return PARSED;
}

const struct codec base_allowed = {.name = "base.allowed",
                                   .kinds = (const char *const[]){"DENIED", "ALLOWED"},
                                   .kind_count = 2,
                                   .parse = parse_allowed,
                                   .is_whole = true};
