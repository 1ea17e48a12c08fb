/*
 * pools_api_test.c - /api/v1/pools: what is listed and shown, page by page while pools change, and
 * what operators change.
 */
#include "t/unit/admin/fixture.h"

#define POOL(options)                                                                              \
    "{'name':'','id':'','kind':'','state':'','of_file':true,'group':['?',''],'members':1,"         \
    "'states':{'free':1,'taken':1,'cleaning':1,'checking':1,'dirty':1,'stopping':1,'down':1},"     \
    "'waiting':1,'want':['?',1],'suppliers':1,'oldest_wait_seconds':['?',0.5],"                    \
    "'longest_hold_seconds':['?',0.5],'late':1,'late_starts':1,'options':{'max':1,'order':'',"     \
    "'queue_max':1,'overtakes':1,'on_crash':'','hold_warn':1.5,'hold_max':1.5," options "}}"
#define STATIC_OPTIONS "'on_return':'','on_fail':'','on_start':'','clean_after':1.5,'clean_tries':1"
#define JOINED_OPTIONS                                                                             \
    "'min_free':1,'cull_after':1.5,'start_timeout':1.5,'stop_timeout':1.5,'max_lifetime':1.5,"     \
    "'lifetime_jitter':1.5"
#define SHOWN(options, attributes)                                                                 \
    "{'pool':" POOL(options) ",'members':[{'name':'','id':'','state':'','since':0.5,"              \
                             "'seconds':0.5,'fence':['?',1],'holder':['?',{'connection':'','"      \
                             "client':''}],'takes':1,"                                             \
                             "'fails':1,'then':['?',''],'by':['?',''],'note':['?',''],'"           \
                             "attributes':" attributes ","                                         \
                             "'joined_by':['?','']}],'cursor':['?',''],"                           \
                             "'waiters':[{'connection':'','client':'','since':0.5,'seconds':0.5,'" \
                             "timeout_seconds':0.5,"                                               \
                             "'count':1,'for':'','member':['?',''],'with':" attributes             \
                             ",'by':['?','']}],"                                                   \
                             "'waiters_cursor':['?',''],"                                          \
                             "'suppliers':[{'connection':'','client':'','init':1,'max':1,'"        \
                             "members':1,'want':1,"                                                \
                             "'late':true}]}"

static void begin_pools(void)
{
    begin(2, TOKEN);
    allow_pools();
}

/* Reads a line, which must begin with `expected`. */
static void text_read(int fd, const char *expected)
{
    char got[512] = {0};
    for (size_t len = 0; len == 0 || got[len - 1] != '\n'; len++) {
        ck_assert_uint_lt(len, sizeof(got) - 1);
        ck_assert_msg(receive_some(fd, got + len, 1) == 1, "closed before %s", expected);
    }
    ck_assert_msg(strncmp(got, expected, strlen(expected)) == 0, "%s: %s", expected, got);
}

static void say(int fd, const char *line, const char *expected)
{
    text_say(fd, line, NULL);
    text_read(fd, expected);
}

/* Changes something; the answer must have this status. */
static void post(const char *target, int status)
{
    json_t *json = ask_json("POST", target, BEARER, status);
    ck_assert((status == 200) == json_is_true(json_object_get(json, "done")));
    json_decref(json);
}

/* ---- what is shown ------------------------------------------------------------------------- */

TEST(pools_are_listed_and_shown)
{
    begin_pools();
    int a = text_connect(), b = text_connect();
    json_t *json = get_json("/api/v1/pools");
    ck_assert_uint_eq(json_array_size(at(json, "pools")), 0);
    ck_assert(json_is_null(at(json, "cursor")));
    json_decref(json);
    text_say(a, "POOL ADD db group=g clean_after=0.25 hold_warn=7", "OK");
    text_say(a, "MEMBER ADD db m1 host:1 k=v", "OK");
    text_say(a, "MEMBER ADD db m2 - k=w", "OK");
    text_say(a, "MEMBER SET db m2 state=down note=why", "OK");
    say(a, "TAKE db by=me", "TAKEN db m1 ");
    text_say(b, "TAKE db 0.5 with=k=x by=you count=2", NULL);
    text_say(a, "MEMBER SET db m1 state=dirty", "OK");
    json = get_shaped("/api/v1/pools", "{'pools':[" POOL(STATIC_OPTIONS) "],'cursor':['?','']}");
    ck_assert_str_eq(text_at(json, "pools.0.group"), "g");
    ck_assert_str_eq(text_at(json, "pools.0.kind"), "static");
    ck_assert(number_at(json, "pools.0.options.clean_after") == 0.25);
    ck_assert(number_at(json, "pools.0.options.hold_warn") == 7);
    ck_assert_str_eq(text_at(json, "pools.0.options.order"), "lifo");
    ck_assert(number_at(json, "pools.0.members") == 2);
    ck_assert(number_at(json, "pools.0.states.taken") == 1);
    ck_assert(number_at(json, "pools.0.states.down") == 1);
    ck_assert(json_is_null(at(json, "pools.0.want")));
    json_decref(json);
    json = get_shaped("/api/v1/pools/db", SHOWN(STATIC_OPTIONS, "{'k':''}"));
    ck_assert_str_eq(text_at(json, "pool.name"), "db");
    ck_assert_str_eq(text_at(json, "members.0.name"), "m1");
    ck_assert_str_eq(text_at(json, "members.0.state"), "taken");
    ck_assert_str_eq(text_at(json, "members.0.by"), "me");
    ck_assert_str_eq(text_at(json, "members.0.then"), "dirty");
    ck_assert_str_eq(text_at(json, "members.0.attributes.k"), "v");
    ck_assert(number_at(json, "members.0.takes") == 1);
    ck_assert(number_at(json, "members.0.fence") > 1e15);
    ck_assert_double_eq_tol(number_at(json, "members.0.since"), (double)time(NULL), 60);
    ck_assert_str_eq(text_at(json, "members.1.note"), "why");
    ck_assert(json_is_null(at(json, "members.1.holder")));
    ck_assert(strncmp(text_at(json, "members.0.holder.client"), "127.0.0.1:", 10) == 0);
    json_decref(json);
    text_read(b, "TIMEOUT");
    close(a);
    close(b);
    finish();
}
END_TEST

/* Who cleans and checks members waits for work: that is not a queue. */
TEST(idle_cleaners_and_checkers_do_not_wait)
{
    begin_pools();
    int a = text_connect(), b = text_connect(), c = text_connect();
    text_say(a, "POOL ADD db clean_after=0.25", "OK");
    text_say(b, "TAKE db 100 for=clean", NULL);
    text_say(c, "TAKE db 100 for=check", NULL);
    json_t *json = NULL;
    COME_TRUE((json_decref(json), json = get_json("/api/v1/pools/db"),
               json_array_size(at(json, "waiters")) == 2));
    ck_assert(number_at(json, "pool.waiting") == 0);
    ck_assert(json_is_null(at(json, "pool.oldest_wait_seconds")));
    json_decref(json);
    json = get_json("/api/v1/stats");
    ck_assert(number_at(json, "resources.pools.waiting") == 0 && number_at(json, "waiting") == 0);
    json_decref(json);
    text_say(a, "MEMBER ADD db m1 host:1", "OK");
    text_read(c, "TAKEN db m1 ");
    struct http_reply r = http_ask(where, "GET", "/metrics", "");
    ck_assert_ptr_nonnull(strstr(r.body, "\ncounterd_pool_waiting{pool=\"db\"} 0\n"));
    ck_assert_ptr_nonnull(
        strstr(r.body, "\ncounterd_pool_wait_duration_seconds_count{pool=\"db\"} 0\n"));
    reply_free(&r);
    close(a);
    close(b);
    close(c);
    finish();
}
END_TEST

TEST(waiters_and_suppliers_are_shown)
{
    begin_pools();
    int a = text_connect(), b = text_connect();
    text_say(a, "POOL ADD j kind=joined max=2", "OK");
    text_say(a, "SUPPLY j 1 2", "OK");
    text_read(a, "WANT j 1");
    text_say(a, "JOIN j m 10.0.0.1:9222 size=big", "JOINED");
    say(a, "TAKE j", "TAKEN j m ");
    text_say(b, "TAKE j 100 by=you for=use member=m with=size=big", NULL);
    json_t *json = NULL;
    for (int n = 0; n == 0; json_decref(json)) {
        json = get_shaped("/api/v1/pools/j", SHOWN(JOINED_OPTIONS, "{'size':''}"));
        n = (int)number_at(json, "pool.waiting");
        if (n == 0)
            continue;
        ck_assert_str_eq(text_at(json, "waiters.0.by"), "you");
        ck_assert_str_eq(text_at(json, "waiters.0.member"), "m");
        ck_assert_str_eq(text_at(json, "waiters.0.for"), "use");
        ck_assert_str_eq(text_at(json, "waiters.0.with.size"), "big");
        ck_assert(number_at(json, "waiters.0.timeout_seconds") == 100);
        ck_assert(number_at(json, "suppliers.0.init") == 1);
        ck_assert(number_at(json, "suppliers.0.max") == 2);
        ck_assert(number_at(json, "suppliers.0.members") == 1);
        ck_assert(number_at(json, "suppliers.0.want") == 2);
        ck_assert_str_eq(text_at(json, "suppliers.0.connection"),
                         text_at(json, "members.0.joined_by"));
        ck_assert(number_at(json, "pool.want") == 2);
        ck_assert(number_at(json, "pool.suppliers") == 1);
        ck_assert_double_ge(number_at(json, "pool.oldest_wait_seconds"), 0);
        ck_assert_double_ge(number_at(json, "pool.longest_hold_seconds"), 0);
    }
    close(a);
    close(b);
    finish();
}
END_TEST

/* Values are for holders alone. */
TEST(values_are_never_shown)
{
    static const char *const targets[] = {"/api/v1/pools", "/api/v1/pools/db", "/api/v1/stats",
                                          "/metrics", "/api/v1/names"};
    begin_pools();
    int a = text_connect();
    text_say(a, "POOL ADD db", "OK");
    text_say(a, "MEMBER ADD db m1 s3cret-value", "OK");
    text_say(a, "MEMBER ADD db m2 s3cret-value", "OK");
    say(a, "TAKE db", "TAKEN db m2 ");
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        struct http_reply r = http_ask(where, "GET", targets[i], "");
        ck_assert_int_eq(r.status, 200);
        ck_assert_msg(!strstr(r.body, "s3cret"), "%s: %s", targets[i], r.body);
        reply_free(&r);
    }
    close(a);
    finish();
}
END_TEST

TEST(names_of_any_bytes_are_shown_and_found)
{
    static const struct {
        const char *bytes, *name, *id;
    } rows[] = {
        {"\xff", "\\xff", "%FF"},
        {"\\xff", "\\\\xff", "%5Cxff"},
        {"\x01\x7f\"", "\\x01\\x7f\"", "%01%7F%22"},
        {"%2F/?#&", "%2F/?#&", "%252F%2F%3F%23%26"},
        {"<b>\xe2\x80\xae", "<b>\xe2\x80\xae", "%3Cb%3E%E2%80%AE"},
    };
    begin_pools();
    int a = text_connect();
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char line[512], taken[128], target[128];
        const char *b = rows[i].bytes;
        snprintf(line, sizeof(line), "POOL ADD %s group=%s", b, b);
        text_say(a, line, "OK");
        snprintf(line, sizeof(line), "MEMBER ADD %s %s - k=%s", b, b, b);
        text_say(a, line, "OK");
        snprintf(line, sizeof(line), "MEMBER SET %s %s note=%s", b, b, b);
        text_say(a, line, "OK");
        snprintf(line, sizeof(line), "TAKE %s by=%s", b, b);
        snprintf(taken, sizeof(taken), "TAKEN %s ", b);
        say(a, line, taken);
        snprintf(target, sizeof(target), "/api/v1/pools/%s", rows[i].id);
        json_t *json = get_json(target);
        ck_assert_str_eq(text_at(json, "pool.name"), rows[i].name);
        ck_assert_str_eq(text_at(json, "pool.id"), rows[i].id);
        ck_assert_str_eq(text_at(json, "pool.group"), rows[i].name);
        ck_assert_str_eq(text_at(json, "members.0.name"), rows[i].name);
        ck_assert_str_eq(text_at(json, "members.0.id"), rows[i].id);
        ck_assert_str_eq(text_at(json, "members.0.by"), rows[i].name);
        ck_assert_str_eq(text_at(json, "members.0.note"), rows[i].name);
        ck_assert_str_eq(text_at(json, "members.0.attributes.k"), rows[i].name);
        json_decref(json);
        snprintf(target, sizeof(target), "/api/v1/pools?prefix=%s", rows[i].id);
        json = get_json(target);
        ck_assert_uint_eq(json_array_size(at(json, "pools")), 1);
        json_decref(json);
        snprintf(target, sizeof(target), "/api/v1/pools/%s/members/drop?member=%s&now=true",
                 rows[i].id, rows[i].id);
        post(target, 200);
    }
    close(a);
    finish();
}
END_TEST

/* ---- pages --------------------------------------------------------------------------------- */

/* Walks through a list. `items` is its key, `prefix` how names begin that must be listed once; they
 * end with a number below `count`. Between pages `change` is called. */
static void walk(const char *target, const char *items, const char *cursor_key, const char *prefix,
                 unsigned count, void (*change)(unsigned page))
{
    unsigned seen[1000] = {0};
    char cursor[600] = "", page_target[1200];
    ck_assert_uint_le(count, ARRAY_SIZE(seen));
    for (unsigned page = 0;; page++) {
        snprintf(page_target, sizeof(page_target), "%s%s%s", target, *cursor ? "&cursor=" : "",
                 cursor);
        json_t *json = get_json(page_target), *item;
        size_t i;
        json_array_foreach(at(json, items), i, item)
        {
            const char *name = text_at(item, "name");
            if (strncmp(name, prefix, strlen(prefix)) == 0) {
                unsigned long number = strtoul(name + strlen(prefix), NULL, 10);
                ck_assert_uint_lt(number, count);
                seen[number]++;
            }
        }
        const json_t *next = at(json, cursor_key);
        snprintf(cursor, sizeof(cursor), "%s", json_is_null(next) ? "" : json_string_value(next));
        json_decref(json);
        if (!*cursor)
            break;
        change(page);
    }
    for (unsigned i = 0; i < count; i++)
        ck_assert_msg(seen[i] == 1, "%s%u was listed %u times", prefix, i, seen[i]);
}

static int changer; /* a client */

/* Pools before, at and behind the cursor come and go. */
static void change_pools(unsigned page)
{
    char line[100];
    snprintf(line, sizeof(line), "POOL ADD o%u", 997 * page % 1000);
    say(changer, line, "");
    snprintf(line, sizeof(line), "POOL ADD q%u", page);
    say(changer, line, "");
    snprintf(line, sizeof(line), "POOL DROP o%u", 997 * (page / 2) % 1000);
    say(changer, line, "");
    snprintf(line, sizeof(line), "POOL DROP pz%u", page);
    say(changer, line, "");
}

TEST(every_pool_is_listed_once_while_others_come_and_go)
{
    begin_pools();
    changer = text_connect();
    for (unsigned i = 0; i < 300; i++) {
        char line[100];
        snprintf(line, sizeof(line), "POOL ADD pa%u", i);
        text_say(changer, line, "OK");
        snprintf(line, sizeof(line), "POOL ADD pz%u", i);
        text_say(changer, line, "OK");
    }
    walk("/api/v1/pools?limit=7", "pools", "cursor", "pa", 300, change_pools);
    walk("/api/v1/pools?limit=33&prefix=p", "pools", "cursor", "pa", 300, change_pools);
    close(changer);
    finish();
}
END_TEST

static void change_members(unsigned page)
{
    char line[100];
    snprintf(line, sizeof(line), "MEMBER ADD db l%u", page);
    say(changer, line, "");
    snprintf(line, sizeof(line), "MEMBER DROP db mz%u", page);
    say(changer, line, "");
}

static void change_nothing(unsigned page)
{
    (void)page;
}

TEST(every_member_is_listed_once_while_others_come_and_go)
{
    begin_pools();
    changer = text_connect();
    text_say(changer, "POOL ADD db", "OK");
    for (unsigned i = 0; i < 300; i++) {
        char line[100];
        snprintf(line, sizeof(line), "MEMBER ADD db ma%u", i);
        text_say(changer, line, "OK");
        snprintf(line, sizeof(line), "MEMBER ADD db mz%u", i);
        text_say(changer, line, "OK");
    }
    walk("/api/v1/pools/db?limit=7&waiters_limit=0", "members", "cursor", "ma", 300,
         change_members);
    walk("/api/v1/pools/db?limit=1000", "members", "cursor", "ma", 300, change_nothing);
    static const char *const none[] = {"/api/v1/pools/db?limit=0&waiters_limit=0",
                                       "/api/v1/pools/db?limit=0&cursor=6d61&waiters_limit=0"};
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        json_t *json = get_json(none[i]);
        ck_assert_uint_eq(json_array_size(at(json, "members")), 0);
        ck_assert(json_is_null(at(json, "cursor")));
        ck_assert(json_is_null(at(json, "waiters_cursor")));
        json_decref(json);
    }
    close(changer);
    finish();
}
END_TEST

TEST(waiters_are_listed_page_by_page)
{
    enum { WAITERS = 40 };
    begin_pools();
    int fds[WAITERS];
    changer = text_connect();
    text_say(changer, "POOL ADD db", "OK");
    for (int i = 0; i < WAITERS; i++) {
        fds[i] = text_connect();
        text_say(fds[i], "TAKE db 100", NULL);
        text_say(fds[i], "NONSENSE", "ERROR BAD_COMMAND");
    }
    char target[128] = "/api/v1/pools/db?waiters_limit=7";
    size_t found = 0;
    double last = 1e9;
    while (*target) {
        json_t *json = get_json(target), *waiter;
        size_t i;
        json_array_foreach(at(json, "waiters"), i, waiter)
        {
            double since = number_at(waiter, "since");
            ck_assert(found == 0 || since >= last - 1e-3);
            last = since;
            found++;
        }
        const json_t *cursor = at(json, "waiters_cursor");
        *target = '\0';
        if (!json_is_null(cursor))
            snprintf(target, sizeof(target), "/api/v1/pools/db?waiters_limit=7&waiters_cursor=%s",
                     json_string_value(cursor));
        json_decref(json);
    }
    ck_assert_uint_eq(found, WAITERS);
    for (int i = 0; i < WAITERS; i++)
        close(fds[i]);
    close(changer);
    finish();
}
END_TEST

/* A page with long names and many attributes ends early, and the next one goes on. */
TEST(long_pages_end_early)
{
    begin_pools();
    changer = text_connect();
    char name[200], value[129], line[4096];
    memset(name, '\x01', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memset(value, '\x02', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    text_say(changer, "POOL ADD db", "OK");
    for (unsigned i = 0; i < 200; i++) {
        int len = snprintf(line, sizeof(line), "MEMBER ADD db m%u.%s -", i, name);
        for (int k = 0; k < 16; k++)
            len += snprintf(line + len, sizeof(line) - (size_t)len, " k%d=%s", k, value);
        text_say(changer, line, "OK");
    }
    json_t *json = get_json("/api/v1/pools/db?limit=1000");
    size_t count = json_array_size(at(json, "members"));
    ck_assert_uint_gt(count, 10);
    ck_assert_uint_lt(count, 100);
    ck_assert(!json_is_null(at(json, "cursor")));
    json_decref(json);
    walk("/api/v1/pools/db?limit=1000", "members", "cursor", "m", 200, change_nothing);
    close(changer);
    finish();
}
END_TEST

TEST(wrong_parameters_are_named_with_what_would_be_right)
{
    static const struct {
        const char *target;
        int status;
        const char *says;
    } rows[] = {
        {"/api/v1/pools?limit=0", 400, "1 to 1000"},
        {"/api/v1/pools?limit=1001", 400, "1 to 1000"},
        {"/api/v1/pools?prefix=%4", 400, "two hexadecimal"},
        {"/api/v1/pools?cursor=", 400, "previous page"},
        {"/api/v1/pools?cursor=4", 400, "previous page"},
        {"/api/v1/pools?cursor=4g", 400, "previous page"},
        {"/api/v1/pools?name=x", 400, "prefix, limit or cursor"},
        {"/api/v1/pools/", 400, "POOL"},
        {"/api/v1/pools/%4", 400, "two hexadecimal"},
        {"/api/v1/pools/none", 404, "no such pool"},
        {"/api/v1/pools/none/members", 404, "nothing here"},
        {"/api/v1/pools/db?limit=-1", 400, "0 to 1000"},
        {"/api/v1/pools/db?cursor=0", 400, "previous page"},
        {"/api/v1/pools/db?waiters_limit=x", 400, "0 to 1000"},
        {"/api/v1/pools/db?waiters_cursor=", 400, "waiters_cursor"},
        {"/api/v1/pools/db?waiters_cursor=x", 400, "waiters_cursor"},
        {"/api/v1/pools/db?waiters_cursor=fffffffffffffffff", 400, "waiters_cursor"},
    };
    begin_pools();
    changer = text_connect();
    text_say(changer, "POOL ADD db", "OK");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        expect_error("GET", rows[i].target, "", rows[i].status, rows[i].says);
    char target[700] = "/api/v1/pools?cursor=";
    memset(target + strlen(target), '4', 512); /* longer than a name */
    expect_error("GET", target, "", 400, "previous page");
    close(changer);
    finish();
}
END_TEST

/* ---- changes ------------------------------------------------------------------------------- */

TEST(members_are_changed)
{
    begin_pools();
    int a = text_connect(), b = text_connect();
    text_say(a, "POOL ADD db", "OK");
    text_say(a, "MEMBER ADD db m", "OK");
    post("/api/v1/pools/db/members/set?member=m&state=down&note=f%C3%A4n", 200);
    json_t *json = get_json("/api/v1/pools/db");
    ck_assert_str_eq(text_at(json, "members.0.state"), "down");
    ck_assert_str_eq(text_at(json, "members.0.note"), "f\xc3\xa4n");
    json_decref(json);
    post("/api/v1/pools/db/members/set?member=m&note=", 200);
    json = get_json("/api/v1/pools/db");
    ck_assert_str_eq(text_at(json, "members.0.state"), "down");
    ck_assert(json_is_null(at(json, "members.0.note")));
    json_decref(json);
    text_say(a, "TAKE db 100", NULL);
    text_say(a, "NONSENSE", "ERROR BAD_COMMAND");
    post("/api/v1/pools/db/members/set?member=m&state=free", 200);
    text_read(a, "TAKEN db m "); /* the waiting client is told */
    text_say(b, "TAKE db for=clean 100", "ERROR BAD_SYNTAX");
    text_say(b, "TAKE db 100 for=clean", NULL);
    text_say(b, "NONSENSE", "ERROR BAD_COMMAND");
    post("/api/v1/pools/db/members/set?member=m&state=dirty&now=false", 200);
    json = get_json("/api/v1/pools/db");
    ck_assert_str_eq(text_at(json, "members.0.then"), "dirty");
    json_decref(json);
    post("/api/v1/pools/db/members/set?member=m&state=dirty&now=true", 200);
    text_read(b, "TAKEN db m ");
    text_say(a, "RETURN", "GONE");
    post("/api/v1/pools/db/members/drop?member=m", 200);
    json = get_json("/api/v1/pools/db");
    ck_assert_str_eq(text_at(json, "members.0.then"), "drop");
    json_decref(json);
    post("/api/v1/pools/db/members/drop?member=m&now=true", 200);
    text_say(b, "RETURN", "GONE");
    json = get_json("/api/v1/pools/db");
    ck_assert_uint_eq(json_array_size(at(json, "members")), 0);
    json_decref(json);
    close(a);
    close(b);
    finish();
}
END_TEST

TEST(pools_are_dropped)
{
    begin_pools();
    int a = text_connect(), b = text_connect();
    text_say(a, "POOL ADD db", "OK");
    text_say(a, "MEMBER ADD db m", "OK");
    say(a, "TAKE db", "TAKEN db m ");
    text_say(b, "TAKE db 100", NULL);
    text_say(b, "NONSENSE", "ERROR BAD_COMMAND");
    post("/api/v1/pools/db/drop", 200);
    text_read(b, "ERROR NO_POOL");
    json_t *json = get_json("/api/v1/pools/db");
    ck_assert_str_eq(text_at(json, "pool.state"), "draining");
    json_decref(json);
    post("/api/v1/pools/db/drop?now=true", 200);
    expect_error("GET", "/api/v1/pools/db", "", 404, "no such pool");
    expect_error("POST", "/api/v1/pools/db/drop", BEARER, 404, "no such pool");
    text_say(a, "RETURN", "GONE");
    close(a);
    close(b);
    finish();
}
END_TEST

TEST(wrong_changes_are_refused)
{
    static const struct {
        const char *target;
        int status;
        const char *says;
    } rows[] = {
        {"db/members/set?member=m", 400, "state=free, dirty or down"},
        {"db/members/set?state=down", 400, "member=MEMBER"},
        {"db/members/set?member=&state=down", 400, "member=MEMBER"},
        {"db/members/set?member=%4&state=down", 400, "two hexadecimal"},
        {"db/members/set?member=m&state=taken", 400, "free, dirty or down"},
        {"db/members/set?member=m&state=down&now=1", 400, "false or true"},
        {"db/members/set?member=m&note=a%20b", 400, "without spaces"},
        {"db/members/set?member=m&note=a%00b", 400, "without spaces"},
        {"db/members/set?member=m&note=a%0ab", 400, "without spaces"},
        {"db/members/set?member=m&value=x", 400, "there is no parameter"},
        {"db/members/set?member=none&state=down", 404, "no such member"},
        {"none/members/set?member=m&state=down", 404, "no such pool"},
        {"j/members/set?member=jm&state=dirty", 409, "can't get this state"},
        {"db/members/drop", 400, "member=MEMBER"},
        {"db/members/drop?member=none", 404, "no such member"},
        {"db/members/drop?member=m&state=down", 400, "there is no parameter"},
        {"db/drop?member=m", 400, "there is no parameter"},
        {"/drop", 400, "the path has no pool"},
        {"none/drop", 404, "no such pool"},
    };
    begin_pools();
    int a = text_connect();
    text_say(a, "POOL ADD db", "OK");
    text_say(a, "MEMBER ADD db m", "OK");
    text_say(a, "POOL ADD j kind=joined", "OK");
    text_say(a, "JOIN j jm", "JOINED");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char target[256];
        snprintf(target, sizeof(target), "/api/v1/pools/%s", rows[i].target);
        expect_error("POST", target, BEARER, rows[i].status, rows[i].says);
        expect_error("POST", target, "", 401, "token");
        expect_error("POST", target, BEARER "Sec-Fetch-Site: cross-site\r\n", 403, "another site");
    }
    char target[300] = "/api/v1/pools/db/members/set?member=m&note=";
    memset(target + strlen(target), 'x', 129);
    expect_error("POST", target, BEARER, 400, "128 bytes");
    json_t *json = get_json("/api/v1/pools/db");
    ck_assert_str_eq(text_at(json, "members.0.state"), "free");
    json_decref(json);
    close(a);
    finish();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(pools_are_listed_and_shown),
    UNIT(idle_cleaners_and_checkers_do_not_wait),
    UNIT(waiters_and_suppliers_are_shown),
    UNIT(values_are_never_shown),
    UNIT(names_of_any_bytes_are_shown_and_found),
    UNIT(every_pool_is_listed_once_while_others_come_and_go),
    UNIT(every_member_is_listed_once_while_others_come_and_go),
    UNIT(waiters_are_listed_page_by_page),
    UNIT(long_pages_end_early),
    UNIT(wrong_parameters_are_named_with_what_would_be_right),
    UNIT(members_are_changed),
    UNIT(pools_are_dropped),
    UNIT(wrong_changes_are_refused),
};

UNIT_MAIN("pools_api", tests)
