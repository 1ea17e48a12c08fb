/* stream_test.c - streams over TCP: the results of reading, writing, finishing and closing. */
#include "net/stream.h"

#include "t/unit/net/toy.h"

static struct stream stream_new(int *client_r)
{
    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    return (struct stream){.fd = tcp_pair(client_r)};
}

/* Waits for data and reads. */
static ssize_t read_ready(struct stream *stream, void *to, size_t room)
{
    ck_assert(wait_ready(stream->fd, POLLIN, clock_mono_ns() + PATIENCE_NS));
    return stream_read(stream, to, room);
}

TEST(writing_after_a_reset_is_error)
{
    int client;
    char bytes[2] = "ab";
    struct stream stream = stream_new(&client);
    reset(client);
    ck_assert(wait_ready(stream.fd, POLLIN, clock_mono_ns() + PATIENCE_NS));
    struct iovec pieces[] = {{.iov_base = bytes, .iov_len = 1},
                             {.iov_base = bytes + 1, .iov_len = 1}};
    /* The first write reports the reset, the next ones a broken pipe; in one piece and in two. */
    ck_assert_int_eq(stream_write(&stream, pieces, 1), STREAM_RESET);
    ck_assert_int_eq(stream_write(&stream, pieces, 1), STREAM_RESET);
    ck_assert_int_eq(stream_write(&stream, pieces, 2), STREAM_RESET);
    stream_finish(&stream);
    stream_close(&stream);
}

TEST(several_pieces_leave_in_order_in_one_write)
{
    int client, fd = local_pair(SOCK_SEQPACKET, &client);
    struct stream stream = {.fd = fd};
    char one[] = "one ", two[] = "two ", three[] = "three";
    struct iovec pieces[] = {{.iov_base = one, .iov_len = 4},
                             {.iov_base = two, .iov_len = 4},
                             {.iov_base = NULL, .iov_len = 0},
                             {.iov_base = three, .iov_len = 5}};
    struct iovec before[ARRAY_SIZE(pieces)];
    memcpy(before, pieces, sizeof(pieces));
    ck_assert_int_eq(stream_write(&stream, pieces, ARRAY_SIZE(pieces)), 13);
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        ck_assert_ptr_eq(pieces[i].iov_base, before[i].iov_base);
        ck_assert_uint_eq(pieces[i].iov_len, before[i].iov_len);
    }
    char got[32];
    ck_assert_int_eq(receive(client, got, sizeof(got)), 13); /* one packet */
    ck_assert_mem_eq(got, "one two three", 13);
    stream_close(&stream);
    close(client);
}

TEST(finishing_ends_one_way_only)
{
    int client;
    char got[16] = "last";
    struct stream stream = stream_new(&client);
    struct iovec piece = {.iov_base = got, .iov_len = 4};
    ck_assert_int_eq(stream_write(&stream, &piece, 1), 4);
    stream_finish(&stream);
    expect(client, "last");
    expect_end(client);
    send_text(client, "still here");
    ck_assert_int_eq(read_ready(&stream, got, sizeof(got)), 10);
    stream_finish(&stream);
    ck_assert_int_eq(stream_write(&stream, &piece, 1), STREAM_RESET);
    stream_close(&stream);
    close(client);
}

TEST(closing_twice_closes_nobody_elses_descriptor)
{
    int client;
    struct stream stream = stream_new(&client);
    int fd = stream.fd;
    stream_close(&stream);
    ck_assert_int_eq(stream.fd, -1);
    expect_end(client);
    ck_assert_int_eq(dup2(client, fd), fd); /* reuses the number */
    stream_close(&stream);
    ck_assert(fcntl(fd, F_GETFD) >= 0);
    close(fd);
    close(client);
}

UNIT_MAIN("net/stream")
