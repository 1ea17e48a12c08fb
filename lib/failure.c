/*
 * failure.c - what the library says of an error (failure.h).
 */
#include "lib/failure.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

const char *counter_status_name(int status)
{
    switch (status) {
#define NAME(status, name)                                                                         \
    case COUNTER_##status:                                                                         \
        return name
        NAME(OK, "OK");
        NAME(AGAIN, "Again");
        NAME(USAGE, "Usage");
        NAME(LOST, "Lost");
        NAME(BUSY, "Busy");
        NAME(QUEUE_FULL, "QueueFull");
        NAME(NOT_FOUND, "NotFound");
        NAME(WRONG, "Wrong");
        NAME(DENIED, "Denied");
        NAME(READ_ONLY, "ReadOnly");
        NAME(DRAINING, "Draining");
        NAME(TOO_BIG, "TooBig");
        NAME(TOO_MANY, "TooMany");
        NAME(NO_MEMORY, "NoMemory");
        NAME(ENGINE_AWAY, "EngineAway");
        NAME(UNREACHABLE, "Unreachable");
        NAME(UNANSWERED, "Unanswered");
        NAME(MALFORMED, "Malformed");
        NAME(UNSUPPORTED, "Unsupported");
#undef NAME
    default:
        return "unknown";
    }
}

/* Writes text with controls and what is no UTF-8 as \xNN; what does not fit in `room` is left. */
static size_t escape(char *to, size_t room, struct bytes from)
{
    size_t len = 0;
    while (from.len > 0) {
        uint32_t code = 0;
        size_t size = utf8_decode(from.data, from.len, &code);
        bool stays = size > 0 && utf8_is_showable(code);
        size = size > 0 ? size : 1;
        size_t shown = stays ? size : 4 * size;
        if (len + shown >= room)
            break;
        if (stays)
            memcpy(to + len, from.data, size);
        for (size_t i = 0; !stays && i < size; i++)
            snprintf(to + len + 4 * i, 5, "\\x%02x", from.data[i]);
        len += shown;
        (void)bytes_take(&from, size);
    }
    to[len] = '\0';
    return len;
}

size_t failure_quote(char *to, size_t room, struct bytes from)
{
    return escape(to, room <= FAILURE_QUOTED_MAX ? room : FAILURE_QUOTED_MAX + 1, from);
}

int failure_set(struct counter_error *error, int status, const char *format, ...)
{
    if (!error)
        return status;
    char reason[sizeof error->reason];
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    escape(error->reason, sizeof error->reason, bytes_of(reason));
    error->status = status;
    error->sent = false;
    error->answer[0] = '\0';
    return status;
}

int failure_no_memory(struct counter_error *error)
{
    if (error)
        error->server[0] = '\0';
    return failure_set(error, COUNTER_NO_MEMORY, "this program has no memory left");
}

void failure_place(struct counter_error *error, const char *server, struct bytes target)
{
    bool is_ours = error->status == COUNTER_NO_MEMORY && !error->answer[0];
    if (server && !error->server[0] && !is_ours)
        escape(error->server, sizeof error->server, bytes_of(server));
    if (!error->target[0])
        failure_quote(error->target, sizeof error->target, target);
}

void failure_answer(struct counter_error *error, struct bytes answer)
{
    const uint8_t *end = answer.len > 0 ? memchr(answer.data, '\n', answer.len) : NULL;
    if (end)
        answer.len = (size_t)(end - answer.data);
    failure_quote(error->answer, sizeof error->answer, answer);
}

void failure_give(struct counter_error *to, const struct counter_error *from)
{
    if (!to)
        return;
    size_t size = to->size < sizeof *from ? to->size : sizeof *from;
    if (size > sizeof size)
        memcpy((char *)to + sizeof size, (const char *)from + sizeof size, size - sizeof size);
}

bool failure_is_ours(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}
