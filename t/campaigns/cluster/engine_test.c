/*
 * engine_test.c - the engine in memory: its commands, its faults, and what it calls wrong.
 *
 * compare.py shows that its scripts do what the real ones do.
 */
#include "t/campaigns/cluster/engine.h"
#include "t/unit/random.h"

#include <stdarg.h>
#include <string.h>

static struct fake_engine *engine;
static struct fake_link *link_, *ear;
static char sha[FAKE_SCRIPTS][41];

/* Sends a command whose words stand between spaces; returns what the engine then has to say. */
static const char *ask(struct fake_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *said(struct fake_link *link)
{
    static char text[4][16384];
    static int turn;
    turn = (turn + 1) % 4;
    size_t len;
    const char *bytes = fake_engine_output(link, &len);
    ck_assert_uint_lt(len, sizeof(text[0]));
    if (len > 0)
        memcpy(text[turn], bytes, len);
    text[turn][len] = 0;
    fake_engine_took(link, len);
    return text[turn];
}

static size_t command(char *bytes, size_t room, char *words)
{
    size_t count = 1, len = 0;
    for (const char *c = words; *c; c++)
        count += *c == ' ';
    len += (size_t)snprintf(bytes, room, "*%zu\r\n", count);
    char *rest = words;
    for (char *word; (word = strsep(&rest, " "));)
        len += (size_t)snprintf(bytes + len, room - len, "$%zu\r\n%s\r\n", strlen(word), word);
    return len;
}

static const char *ask(struct fake_link *link, const char *format, ...)
{
    char words[4096], bytes[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    fake_engine_feed(link, bytes, command(bytes, sizeof(bytes), words));
    return said(link);
}

static const char *run(enum fake_script script, const char *args)
{
    return ask(link_, "EVALSHA %s 1 {x}: %s", sha[script], args);
}

static void load_scripts(void)
{
    for (int n = 0; n < FAKE_SCRIPTS; n++) {
        const char *answer =
            ask(link_, "SCRIPT LOAD by-order:%s", fake_script_name((enum fake_script)n));
        ck_assert_int_eq(sscanf(answer, "$40\r\n%40s", sha[n]), 1);
    }
}

static void start(void)
{
    engine = fake_engine_new("x", 7);
    link_ = fake_engine_connect(engine);
    ear = fake_engine_connect(engine);
    load_scripts();
}

static void end(void)
{
    ck_assert_ptr_null(fake_engine_check(engine));
    fake_engine_hang_up(link_);
    fake_engine_hang_up(ear);
    fake_engine_free(engine);
}

/* A connection that closed is replaced. */
static void connect_again(struct fake_engine *to)
{
    fake_engine_hang_up(link_);
    fake_engine_hang_up(ear);
    link_ = fake_engine_connect(to);
    ear = fake_engine_connect(to);
    load_scripts();
}

#define S1 "00000000000000a1"
#define S2 "00000000000000a2"

static void go_live(const char *session, const char *node, const char *last)
{
    char args[256];
    ask(ear, "SUBSCRIBE {x}:to:%s", session);
    snprintf(args, sizeof(args), "%s %s boot/1/%s/9 d 10000 0 %s", session, node, node, last);
    ck_assert_ptr_nonnull(strstr(run(FAKE_OPEN, args), "OPEN"));
    ck_assert_str_eq(run(FAKE_READY, session), "*0\r\n");
}

static void end_grace(const char *session)
{
    char args[256];
    snprintf(args, sizeof(args), "%s %s", session, fake_engine_term(engine));
    ck_assert_str_eq(run(FAKE_GRACE, args), ":1\r\n");
}

TEST(commands)
{
    start();
    ck_assert_str_eq(ask(link_, "PING"), "+PONG\r\n");
    ck_assert_str_eq(ask(link_, "ping up"), "$2\r\nup\r\n");
    ck_assert_str_eq(ask(link_, "AUTH me secret"), "+OK\r\n");
    ck_assert_str_eq(ask(link_, "SELECT 3"), "+OK\r\n");
    ck_assert_str_eq(ask(link_, "CLIENT SETNAME counterd"), "+OK\r\n");
    ck_assert_int_eq(strncmp(ask(link_, "HELLO 3"), "-NOPROTO", 8), 0);
    ck_assert_int_eq(strncmp(ask(link_, "HELLO 2"), "*14\r\n", 5), 0);
    ck_assert_int_eq(strncmp(ask(link_, "ROLE"), "*3\r\n$6\r\nmaster\r\n", 16), 0);
    ck_assert_str_eq(ask(link_, "CONFIG GET maxmemory-policy"),
                     "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n");
    const char *info = ask(link_, "INFO");
    const char *const has[] = {"redis_version:7.0.15\r\n", "role:master\r\n", "loading:0\r\n",
                               "cluster_enabled:0\r\n", "maxmemory_policy:noeviction\r\n"};
    for (size_t n = 0; n < sizeof(has) / sizeof(has[0]); n++)
        ck_assert_msg(strstr(info, has[n]) != NULL, "%s", has[n]);
    fake_engine_info(engine, "maxmemory_policy", "allkeys-lru");
    ck_assert_ptr_nonnull(strstr(ask(link_, "INFO"), "maxmemory_policy:allkeys-lru\r\n"));
    ck_assert_ptr_null(fake_engine_misuse(engine));
    ck_assert_int_eq(strncmp(ask(link_, "GET a"), "-ERR unknown", 12), 0);
    ck_assert_ptr_nonnull(fake_engine_misuse(engine));
    end();
}

TEST(subscription)
{
    start();
    ck_assert_str_eq(ask(ear, "SUBSCRIBE {x}:to:" S1),
                     "*3\r\n$9\r\nsubscribe\r\n$23\r\n{x}:to:" S1 "\r\n:1\r\n");
    ck_assert_str_eq(ask(ear, "PING a"), "*2\r\n$4\r\npong\r\n$1\r\na\r\n");
    ck_assert_int_eq(strncmp(ask(ear, "INFO"), "-ERR Can't execute", 18), 0);
    go_live(S1, "n", "-");
    said(ear);
    ck_assert_int_eq(strncmp(run(FAKE_BEAT, S1), "*3\r\n:1\r\n*0\r\n*2\r\n", 16), 0);
    ck_assert_str_eq(said(ear), "*3\r\n$7\r\nmessage\r\n$23\r\n{x}:to:" S1 "\r\n$3\r\nB 3\r\n");
    fake_engine_hang_up(ear);
    ear = fake_engine_connect(engine);
    ck_assert_int_eq(strncmp(run(FAKE_BEAT, S1), "-DEAF ", 6), 0);
    end();
}

TEST(bytes_arrive_one_by_one)
{
    start();
    char words[] = "PING again", bytes[64];
    size_t len = command(bytes, sizeof(bytes), words);
    for (size_t n = 0; n < len; n++) {
        ck_assert_str_eq(said(link_), "");
        fake_engine_feed(link_, bytes + n, 1);
    }
    ck_assert_str_eq(said(link_), "$5\r\nagain\r\n");
    fake_engine_feed(link_, "PING\r\n", 6);
    ck_assert(fake_engine_closed(link_));
    end();
}

TEST(restart)
{
    start();
    go_live(S1, "n", "-");
    end_grace(S1);
    ck_assert_str_eq(run(FAKE_CALL, S1 " a name ns1/1/0 1"), "*1\r\n:1\r\n");
    char term[128];
    snprintf(term, sizeof(term), "%s", fake_engine_term(engine));
    fake_engine_restart(engine, true);
    ck_assert(fake_engine_closed(link_) && fake_engine_closed(ear));
    ck_assert_str_ne(term, fake_engine_term(engine));
    fake_engine_hang_up(link_);
    link_ = fake_engine_connect(engine);
    ck_assert_int_eq(strncmp(run(FAKE_BEAT, S1), "-NOSCRIPT ", 10), 0);
    connect_again(engine);
    ck_assert_int_eq(strncmp(run(FAKE_BEAT, S1), "-TERM ", 6), 0);
    ck_assert(!fake_engine_grace(engine));
    ck_assert_uint_eq(fake_engine_units(engine, S1, "name", 4), 1);
    go_live(S2, "other", "-");
    ck_assert(fake_engine_grace(engine));
    fake_engine_restart(engine, false);
    ck_assert(fake_engine_is_empty(engine));
    end();
}

TEST(flush_keeps_the_term)
{
    start();
    go_live(S1, "n", "-");
    char term[128];
    snprintf(term, sizeof(term), "%s", fake_engine_term(engine));
    fake_engine_flush(engine);
    ck_assert_str_eq(fake_engine_term(engine), term);
    ck_assert_int_eq(strncmp(run(FAKE_BEAT, S1), "-SESSION ", 9), 0);
    ck_assert(!fake_engine_closed(link_));
    go_live(S2, "n", S1); /* unknown, but in grace */
    ck_assert(fake_engine_grace(engine));
    end();
}

TEST(promotion_lacks_writes)
{
    start();
    fake_engine_keep(engine, 10);
    go_live(S1, "n", "-");
    end_grace(S1);
    for (int n = 0; n < 3; n++)
        ck_assert_str_eq(run(FAKE_CALL, S1 " a name ns1/5/0 1"), "*1\r\n:1\r\n");
    run(FAKE_CALL, S1 " g name"); /* no write */
    struct fake_engine *copy = fake_engine_replica(engine, 2, 99), *old = engine;
    ck_assert_uint_eq(fake_engine_units(copy, NULL, "name", 4), 1);
    connect_again(copy);
    ck_assert_int_eq(strncmp(run(FAKE_BEAT, S1), "-READONLY ", 10), 0);
    ck_assert_int_eq(strncmp(ask(link_, "ROLE"), "*5\r\n$5\r\nslave\r\n", 15), 0);
    fake_engine_promote(copy);
    ck_assert(!fake_engine_closed(link_));
    ck_assert_int_eq(strncmp(run(FAKE_BEAT, S1), "-TERM ", 6), 0);
    ck_assert_str_ne(fake_engine_term(copy), fake_engine_term(old));
    ck_assert_uint_eq(fake_engine_units(old, NULL, "name", 4), 3);
    fake_engine_follow(old, copy, 0);
    ck_assert_uint_eq(fake_engine_units(old, NULL, "name", 4), 1);
    fake_engine_free(old);
    engine = copy;
    end();
}

TEST(troubles)
{
    static const struct {
        enum fake_trouble trouble;
        const char *call, *beat, *info, *load;
    } rows[] = {
        {FAKE_FULL, "-OOM ", "*3", "$", "$40"},
        {FAKE_MISCONF, "-MISCONF ", "-MISCONF ", "$", "$40"},
        {FAKE_NOREPLICAS, "-NOREPLICAS ", "-NOREPLICAS ", "$", "$40"},
        {FAKE_READONLY, "-READONLY ", "-READONLY ", "$", "$40"},
        {FAKE_LOADING, "-LOADING ", "-LOADING ", "$", "-LOADING "},
        {FAKE_BUSY, "-BUSY ", "-BUSY ", "-BUSY ", "-BUSY "},
    };
    start();
    go_live(S1, "n", "-");
    for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
        fake_engine_trouble(engine, rows[n].trouble);
        const char *call = run(FAKE_CALL, S1 " a name nl1/1/0 1"), *beat = run(FAKE_BEAT, S1);
        ck_assert_int_eq(strncmp(call, rows[n].call, strlen(rows[n].call)), 0);
        ck_assert_int_eq(strncmp(beat, rows[n].beat, strlen(rows[n].beat)), 0);
        ck_assert_int_eq(strncmp(ask(link_, "INFO"), rows[n].info, strlen(rows[n].info)), 0);
        ck_assert_int_eq(
            strncmp(ask(link_, "SCRIPT LOAD by-order:x"), rows[n].load, strlen(rows[n].load)), 0);
    }
    fake_engine_trouble(engine, FAKE_NO_TROUBLE);
    ck_assert_uint_eq(fake_engine_units(engine, NULL, "name", 4), 0);
    ck_assert_ptr_null(fake_engine_misuse(engine));
    end();
}

TEST(open_is_refused)
{
    start();
    fake_engine_forbid(engine, "unlink");
    ck_assert_str_eq(run(FAKE_OPEN, S1 " n w d 10000 0 -"), "*2\r\n$3\r\nACL\r\n$6\r\nunlink\r\n");
    ck_assert(!fake_engine_grace(engine));
    fake_engine_forbid(engine, NULL);
    fake_engine_version(engine, 2);
    ck_assert_str_eq(run(FAKE_OPEN, S1 " n w d 10000 0 -"), "*2\r\n$7\r\nVERSION\r\n$1\r\n2\r\n");
    fake_engine_version(engine, 1);
    go_live(S1, "n", "-");
    end();
}

TEST(sentinel)
{
    start();
    ck_assert_int_eq(strncmp(ask(link_, "SENTINEL get-master-addr-by-name s"), "-ERR ", 5), 0);
    fake_engine_sentinel(engine, "s", "10.0.0.1", 6379);
    ck_assert_str_eq(ask(link_, "SENTINEL get-master-addr-by-name s"),
                     "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n");
    ck_assert_str_eq(ask(link_, "SENTINEL get-master-addr-by-name t"), "*-1\r\n");
    fake_engine_sentinel(engine, "s", NULL, 0);
    ck_assert_str_eq(ask(link_, "SENTINEL get-master-addr-by-name s"), "*-1\r\n");
    ck_assert_int_eq(strncmp(ask(link_, "SUBSCRIBE a"), "-ERR ", 5), 0);
    end();
}

TEST(what_no_node_may_send)
{
    static const char *const wrong[] = {
        S1 " s name 1",     S1 " a name nl0/1/0 1", S1 " a name xl1/1/0 1", S1 " a name nl1/1 1",
        S1 " c name ms1 1", S1 " z name",           S1 " r name -1",        S1 " g",
    };
    for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
        start();
        go_live(S1, "n", "-");
        ck_assert_int_eq(strncmp(run(FAKE_CALL, wrong[n]), "-ERR ", 5), 0);
        ck_assert_ptr_nonnull(fake_engine_misuse(engine));
        end();
    }
}

static const struct unit_test tests[] = {
    UNIT(commands),
    UNIT(subscription),
    UNIT(bytes_arrive_one_by_one),
    UNIT(restart),
    UNIT(flush_keeps_the_term),
    UNIT(promotion_lacks_writes),
    UNIT(troubles),
    UNIT(open_is_refused),
    UNIT(sentinel),
    UNIT(what_no_node_may_send),
};
UNIT_MAIN("engine in memory", tests)
