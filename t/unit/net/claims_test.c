/* claims_test.c - which connection has to go when the memory for unfinished requests is used up, or
 * when there are too many TLS handshakes. */
#include "t/unit/net/stage.h"

#include <arpa/inet.h>

#define LIMIT 4096u

static bool no_memory;

void *__real_calloc(size_t count, size_t size) __attribute__((weak));
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory ? NULL : __real_calloc(count, size);
}

static enum served serve(struct conn *conn, const void *request)
{
    const struct stage_line *line = request;
    conn_reply(conn, line->text, line->len);
    return SERVED;
}

static void begin(uint64_t unfinished, uint32_t handshakes)
{
    struct server_limits limits = stage_limits();
    limits.unfinished = unfinished;
    limits.handshakes = handshakes;
    stage_make(&(struct protocol_row){.serve = serve}, 0, limits);
}

/* Counts a connection from 192.0.2.`number`. */
static uint32_t source(unsigned number)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000200 + number)};
    uint32_t source = source_enter(&stage.server.sources, (struct sockaddr *)&in, UINT32_MAX);
    ck_assert(source != 0 && source != SOURCE_NO_MEMORY);
    return source;
}

/* A client from that address, which sends the first `len` bytes of a request. */
static struct stage_client *begin_request(unsigned number, size_t len)
{
    char bytes[STAGE_LINE_MAX];
    struct stage_client *c = stage_connect();
    c->conn->source = source(number);
    memset(bytes, 'x', sizeof(bytes));
    stage_send_bytes(c, bytes, len);
    return c;
}

static uint64_t claimed(void)
{
    return atomic_load(&stage.server.unfinished);
}

/* Claims memory. Returns false if the connection has to go for others. */
static bool claim(struct conn *conn, uint64_t bytes)
{
    enum close_reason why;
    if (claim_memory(conn, bytes, &why))
        return true;
    ck_assert_uint_eq(why, CLOSE_UNFINISHED);
    return false;
}

TEST(claim_without_memory_is_no_lack_of_room)
{
    begin(LIMIT, 0);
    struct stage_client *c = begin_request(1, 200);
    char bytes[200];
    memset(bytes, 'x', sizeof(bytes));
    no_memory = true;
    stage_send_bytes(c, bytes, sizeof(bytes));
    no_memory = false;
    ck_assert(c->peer.closed);
    ck_assert_uint_eq(stage_closed(CLOSE_MEMORY), 1);
    ck_assert_uint_eq(claimed(), 0);
    stage_end();
}
END_TEST

TEST(first_bytes_of_a_request_claim_nothing)
{
    begin(1, 0);
    struct stage_client *most = begin_request(1, CLAIM_FREE - 1), *few = begin_request(1, 1);
    struct stage_client *more = begin_request(1, CLAIM_FREE + 1);
    ck_assert(!most->peer.closed && !few->peer.closed && more->peer.closed);
    ck_assert_uint_eq(stage_closed(CLOSE_UNFINISHED), 1);
    stage_send(few, "\n");
    stage_expect(few, "x");
    ck_assert_uint_eq(claimed(), 0);
    stage_end();
}
END_TEST

TEST(largest_request_of_the_source_with_most_goes)
{
    begin(LIMIT, 0);
    struct stage_client *alone = begin_request(2, 1000); /* the largest, but its source has less */
    struct stage_client *small = begin_request(1, 300), *large = begin_request(1, 400);
    struct stage_client *middle = begin_request(1, 350), *few = begin_request(1, 200);
    uint64_t before = claimed();
    ck_assert_uint_le(before, LIMIT);
    unsigned others = 0;
    while (!large->peer.closed) /* each comes from elsewhere */
        (void)begin_request(10 + others++, 300);
    ck_assert_uint_le(others, 6);
    ck_assert(!alone->peer.closed && !small->peer.closed && !middle->peer.closed);
    ck_assert_uint_eq(stage_closed(CLOSE_UNFINISHED), 1);
    stage_send(few, "\n");
    ck_assert_uint_eq(few->got_len, 200);
    stage_send(small, "\n"); /* whose request was served has no claim */
    while (!middle->peer.closed && !alone->peer.closed)
        (void)begin_request(10 + others++, 300);
    ck_assert(alone->peer.closed && !small->peer.closed);
    ck_assert_uint_eq(stage_closed(CLOSE_UNFINISHED), 2);
    stage_end();
}
END_TEST

TEST(whoever_has_most_goes_itself)
{
    begin(LIMIT, 0);
    struct stage_client *c[4];
    for (unsigned i = 0; i < ARRAY_SIZE(c); i++)
        c[i] = begin_request(i < 2 ? 1 : i, i == 1 ? 1000 : 500);
    ck_assert(!c[1]->peer.closed);
    ck_assert(!claim(c[1]->conn, LIMIT + 1 - claimed()));
    ck_assert(claim(c[1]->conn, LIMIT - claimed())); /* a refusal has changed nothing */
    stage_run();
    ck_assert_uint_eq(claimed(), LIMIT);
    ck_assert_uint_eq(stage_closed(CLOSE_UNFINISHED), 0);
    ck_assert(claim(c[2]->conn, 1));     /* then it has to go for another one */
    ck_assert_uint_lt(claimed(), LIMIT); /* at once, before it is closed */
    ck_assert(!claim(c[1]->conn, 1));
    claim_less(c[1]->conn, 1);
    stage_run();
    ck_assert(c[1]->peer.closed);
    ck_assert_uint_eq(stage_closed(CLOSE_UNFINISHED), 1);
    stage_end();
}
END_TEST

TEST(one_claim_has_as_many_go_as_it_needs)
{
    begin(LIMIT, 0);
    for (unsigned i = 0; i < 10; i++) /* all of one source */
        ck_assert(!begin_request(1, 300)->peer.closed);
    struct stage_client *other = begin_request(2, 1);
    uint64_t each = claimed() / 10, room = LIMIT - claimed();
    ck_assert(claim(other->conn, room + 3 * each)); /* 7 have more together */
    stage_run();
    ck_assert_uint_eq(stage_closed(CLOSE_UNFINISHED), 3);
    ck_assert_uint_eq(claimed(), LIMIT);
    stage_end();
}
END_TEST

/* ---- handshakes ---------------------------------------------------------------------------- */

/* A handshake of a connection that nobody opens. */
struct shake {
    uint32_t source;
    struct claim *claim;
};

static struct shake shake(unsigned number)
{
    static uint32_t slot = 1000;
    struct shake s = {.source = source(number)};
    s.claim = claim_handshake(stage_worker(), conn_tag_of(stage_worker(), slot++, 1), s.source);
    return s;
}

static void leave(struct shake *s)
{
    claim_end(stage_worker(), &s->claim);
    source_leave(&stage.server.sources, s->source);
}

/* The client sends its first byte. */
static void speak(struct shake *s)
{
    struct conn conn = {.worker = stage_worker(), .claim = s->claim};
    claim_heard(&conn);
}

static void expect_handshakes(uint32_t count)
{
    ck_assert_uint_eq(atomic_load(&stage.server.handshakes), count);
}

TEST(source_has_a_quarter_of_the_handshakes)
{
    begin(0, 8);
    struct shake first = shake(1), second = shake(1), third = shake(1), other = shake(2);
    ck_assert(third.claim && other.claim);
    expect_handshakes(3); /* the first one went */
    first.claim = NULL;
    stage_run(); /* its letter */
    speak(&third);
    speak(&second);
    struct shake fourth = shake(1);
    ck_assert(!fourth.claim); /* none of the source is silent */
    leave(&second);
    struct shake fifth = shake(1);
    ck_assert(fifth.claim);
    expect_handshakes(3);
    struct shake *all[] = {&first, &third, &fourth, &fifth, &other};
    for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
        leave(all[i]);
    expect_handshakes(0);
    stage_end();
}
END_TEST

TEST(oldest_silent_handshake_of_all_goes_when_there_are_too_many)
{
    enum { LIMIT_ALL = 12 };
    struct shake all[LIMIT_ALL], newer, newest;
    begin(0, LIMIT_ALL);
    for (unsigned i = 0; i < LIMIT_ALL; i++) {
        all[i] = shake(i / 3);
        ck_assert(all[i].claim != NULL);
    }
    expect_handshakes(LIMIT_ALL);
    speak(&all[0]);
    newer = shake(100);
    ck_assert(newer.claim != NULL);
    expect_handshakes(LIMIT_ALL);
    stage_run();
    all[1].claim = NULL; /* it was the oldest that was silent */
    for (unsigned i = 2; i < LIMIT_ALL; i++)
        speak(&all[i]);
    speak(&newer);
    newest = shake(101);
    ck_assert(!newest.claim);
    expect_handshakes(LIMIT_ALL);
    for (unsigned i = 0; i < LIMIT_ALL; i++)
        leave(&all[i]);
    leave(&newer);
    leave(&newest);
    expect_handshakes(0);
    stage_end();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(claim_without_memory_is_no_lack_of_room),
    UNIT(first_bytes_of_a_request_claim_nothing),
    UNIT(largest_request_of_the_source_with_most_goes),
    UNIT(whoever_has_most_goes_itself),
    UNIT(one_claim_has_as_many_go_as_it_needs),
    UNIT(source_has_a_quarter_of_the_handshakes),
    UNIT(oldest_silent_handshake_of_all_goes_when_there_are_too_many),
};

UNIT_MAIN("claims", tests)
