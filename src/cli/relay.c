/*
 * relay.c - passes on what a command writes (relay.h).
 */
#include "cli/relay.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* A pipe's usual size: what can have arrived when we close. */
#define PIPE_SIZE 65536

static void remove_bytes(struct relay *relay, size_t at, size_t len)
{
    memmove(relay->data + at, relay->data + at + len, relay->len - at - len);
    relay->len -= len;
}

/* Offers a part of a line, unless it belongs to one that is passed on. Returns true if it is
   taken. */
static bool offer(struct relay *relay, struct bytes part, bool is_last)
{
    bool is_taken =
        relay->line != LINE_PASSES && relay->take && relay->take(relay->owner, part, is_last);
    if (relay->line == LINE_BEGINS)
        relay->line = is_taken ? LINE_IS_TAKEN : LINE_PASSES;
    is_taken = relay->line == LINE_IS_TAKEN;
    if (is_last)
        relay->line = LINE_BEGINS;
    return is_taken;
}

/* Offers the lines that are complete, the parts of those that are too long to wait for, and at the
   end the last line without an end. Marks the others as passed on. */
static void pass_lines(struct relay *relay)
{
    while (relay->len > relay->passed) {
        const uint8_t *part = relay->data + relay->passed;
        size_t left = relay->len - relay->passed;
        const uint8_t *end = memchr(part, '\n', left);
        bool is_full = relay->passed == 0 && relay->len == RELAY_SIZE;
        if (!end && !is_full && !relay->is_at_end)
            return;
        size_t len = end ? (size_t)(end - part) : left, with_end = end ? len + 1 : len;
        if (offer(relay, bytes_at(part, len), end || relay->is_at_end))
            remove_bytes(relay, relay->passed, with_end);
        else
            relay->passed += with_end;
    }
    if (relay->is_at_end && relay->line == LINE_IS_TAKEN)
        (void)offer(relay, (struct bytes){0}, true);
}

/* Writes what is passed on. Returns false when our output takes nothing now. Bytes that it can't
   take at all are dropped. */
static bool write_passed(struct relay *relay)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (relay->passed == 0)
        return true;
    if (poll(&out, 1, 0) != 1)
        return false;
    ssize_t n = write(STDOUT_FILENO, relay->data, relay->passed);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    size_t done = n < 0 ? relay->passed : (size_t)n;
    relay->passed -= done;
    remove_bytes(relay, 0, done);
    return relay->passed == 0;
}

/* Reads once. Returns false when there is nothing to read now. */
static bool read_some(struct relay *relay)
{
    ssize_t n = read(relay->fd, relay->data + relay->len, RELAY_SIZE - relay->len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0)
        relay->is_at_end = true;
    else
        relay->len += (size_t)n;
    pass_lines(relay);
    return true;
}

static void end(struct relay *relay)
{
    watch_clear(relay->loop, &relay->in);
    watch_clear(relay->loop, &relay->out);
    close(relay->fd);
    relay->loop = NULL;
}

/* Writes, and waits for what comes next: our output, the command's, or nothing more. */
static void go_on(struct relay *relay)
{
    bool is_done = write_passed(relay);
    watch_clear(relay->loop, is_done ? &relay->out : &relay->in);
    if (!is_done)
        watch_set(relay->loop, &relay->out, STDOUT_FILENO, POLLOUT);
    else if (relay->is_at_end)
        end(relay);
    else
        watch_set(relay->loop, &relay->in, relay->fd, POLLIN);
}

static void on_input(void *owner, short revents)
{
    struct relay *relay = owner;
    (void)revents;
    (void)read_some(relay);
    go_on(relay);
}

static void on_output(void *owner, short revents)
{
    (void)revents;
    go_on(owner);
}

void relay_open(struct relay *relay, struct loop *loop, int fd)
{
    CHECK(!relay->loop);
    *relay = (struct relay){.take = relay->take,
                            .owner = relay->owner,
                            .loop = loop,
                            .fd = fd,
                            .in = {.on_ready = on_input, .owner = relay},
                            .out = {.on_ready = on_output, .owner = relay}};
    watch_set(loop, &relay->in, fd, POLLIN);
}

void relay_close(struct relay *relay)
{
    if (!relay->loop)
        return;
    for (size_t i = 0; i < PIPE_SIZE / RELAY_SIZE && write_passed(relay) && read_some(relay); i++)
        ;
    relay->is_at_end = true;
    pass_lines(relay);
    (void)write_passed(relay);
    end(relay);
}
