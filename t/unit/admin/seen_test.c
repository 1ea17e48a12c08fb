/*
 * seen_test.c - what a protocol and a resource show of themselves: a made-up resource in a registry
 * of this test, of which no file of the admin interface knows.
 */
#include "t/unit/admin/fixture.h"

#include "service/seen.h"

extern const struct service_row counter_row;

/* ---- a resource ---------------------------------------------------------------------------- */

struct made_up {
    struct resource resource; /* first */
    uint64_t ended;           /* the admin's thread's */
};

struct made_up_reading {
    unsigned readings;
    uint64_t ended;
};

static struct made_up *of(struct services *all)
{
    return (struct made_up *)services_resource(all, "made_up");
}

static bool made_up_start(struct resource *r, const void *settings, struct moment now);

static void made_up_read(struct services *all, struct moment now, void *reading)
{
    struct made_up_reading *r = reading;
    ck_assert_int_gt(now.mono_ns, 0);
    r->readings++;
    r->ended = of(all)->ended;
}

static void write_members(struct samples *to, const void *reading)
{
    const struct made_up_reading *r = reading;
    ck_assert_uint_eq(r->readings, 1);
    sample_count(to, (struct labels){{"a", "idle"}}, 3);
    sample_count(to, (struct labels){{"q\"\\\n\xff", "busy"}}, 4);
}

static void write_ended(struct samples *to, const void *reading)
{
    sample_count(to, (struct labels){{0}}, ((const struct made_up_reading *)reading)->ended);
}

/* More samples than the metric may have. */
static void write_many(struct samples *to, const void *reading)
{
    (void)reading;
    for (unsigned i = 0; i < 1000; i++) {
        char number[12];
        snprintf(number, sizeof(number), "%u", i);
        sample_seconds(to, (struct labels){{number}}, (duration)i * 1500000000);
    }
}

static void write_times(struct samples *to, const void *reading)
{
    (void)reading;
    struct buckets_sum sum = {.counts = {[0] = 2}, .sum_ns = 5};
    sample_histogram(to, (struct labels){{"x"}}, &sum);
    sample_histogram(to, (struct labels){{"y"}},
                     &sum); /* beyond its bound: all of it is left out */
}

static const struct metric_row made_up_metrics[] = {
    {"made_up_members", METRIC_GAUGE, "Members.", "pool state", 16, write_members},
    {"made_up_ended_total", METRIC_COUNTER, "Members that were ended.", "", 1, write_ended},
    {"made_up_seconds", METRIC_GAUGE, "Many.", "number", 2, write_many},
    {"made_up_times_seconds", METRIC_HISTOGRAM, "Times.", "what", 1, write_times},
    {0},
};

static void get_member(struct services *all, struct http_request *request, struct slug slug)
{
    (void)all;
    struct json_text json = {0};
    json_text_open(&json, NULL, '{');
    json_text_string(&json, "member", bytes_at(slug.text, slug.len));
    json_text_close(&json, '}');
    http_answer_json(request, 200, &json);
}

static void end_member(struct services *all, struct http_request *request, struct slug slug)
{
    (void)slug;
    of(all)->ended++;
    http_answer_static(request, 200, "text/plain", "ended\n", 6);
}

static const struct route_row made_up_routes[] = {
    {HTTP_GET, "/api/v1/made-up/*", get_member, false},
    {HTTP_POST, "/api/v1/made-up/*/end", end_member, true},
    {0},
};

static void made_up_statistics(struct services *all, struct moment now, struct json_text *to)
{
    (void)now;
    json_text_number(to, "ended", of(all)->ended);
    json_text_open(to, "members", '[');
    json_text_string(to, NULL, bytes_of("\xff \" \\"));
    json_text_real(to, NULL, 0.5);
    json_text_close(to, ']');
}

static const struct seen made_up_seen = {
    .read = made_up_read,
    .reading_size = sizeof(struct made_up_reading),
    .metrics = made_up_metrics,
    .routes = made_up_routes,
    .statistics = made_up_statistics,
};

static const struct resource_row made_up_row = {
    .name = "made_up",
    .size = sizeof(struct made_up),
    .start = made_up_start,
    .seen = &made_up_seen,
};

static bool made_up_start(struct resource *r, const void *settings, struct moment now)
{
    (void)r;
    (void)settings;
    (void)now;
    return true;
}

/* A protocol that shows statistics, and no more: that of the text protocol under its own name. */
static void own_statistics(struct services *all, struct moment now, struct json_text *to)
{
    (void)all;
    (void)now;
    json_text_bool(to, "made_up", true);
}
static const struct seen own_seen = {.statistics = own_statistics};
static struct service_row text_row; /* filled in before each test */

static const struct service_row *const protocols[] = {&text_row, &counter_row, NULL};
static const struct resource_row *const resources[] = {&table_resource_row, &made_up_row, NULL};
const struct registry registry = {.protocols = protocols, .resources = resources};

static void begin_seen(void)
{
    text_row = poolcounter_row;
    text_row.seen = &own_seen;
    begin(1, TOKEN);
}

/* ---- tests --------------------------------------------------------------------------------- */

TEST(metrics_have_their_labels_and_no_more_samples_than_they_may)
{
    static const char *const parts[] = {
        "# HELP made_up_members Members.\n# TYPE made_up_members gauge\n"
        "made_up_members{pool=\"a\",state=\"idle\"} 3\n"
        "made_up_members{pool=\"q\\\"\\\\\\n\\\\xff\",state=\"busy\"} 4\n",
        "# TYPE made_up_ended_total counter\nmade_up_ended_total 0\n",
        "made_up_seconds{number=\"0\"} 0\nmade_up_seconds{number=\"1\"} 1.5\n"
        "# made_up_seconds: 998 samples are left out\n",
        "made_up_times_seconds_count{what=\"x\"} 2\n"
        "# made_up_times_seconds: 1 samples are left out\n",
        "counterd_names 0\n",
    };
    begin_seen();
    struct http_reply r = http_ask(where, "GET", "/metrics", "");
    ck_assert_int_eq(r.status, 200);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        ck_assert_msg(strstr(r.body, parts[i]) != NULL, "%s in %s", parts[i], r.body);
    ck_assert(strstr(r.body, "what=\"y\"") == NULL);
    reply_free(&r);
    finish();
}
END_TEST

TEST(routes_are_served_as_the_admin_s_own)
{
    begin_seen();
    json_t *json = get_json("/api/v1/made-up/a%20b");
    ck_assert_str_eq(text_at(json, "member"), "a%20b");
    json_decref(json);
    struct http_reply r = http_ask(where, "POST", "/api/v1/made-up/x", BEARER);
    char allow[32];
    ck_assert_int_eq(r.status, 405);
    ck_assert_str_eq(reply_header(&r, "Allow", allow, sizeof(allow)), "GET, HEAD");
    reply_free(&r);
    expect_error("POST", "/api/v1/made-up/x/end", "", 401, "token");
    expect_error("GET", "/api/v1/made-up/x", "Sec-Fetch-Site: cross-site\r\n", 403, "another site");
    expect_error("GET", "/api/v1/made-up/x/y", "", 404, "nothing here");
    r = http_ask(where, "POST", "/api/v1/made-up/x/end", BEARER);
    ck_assert_str_eq(r.body, "ended\n");
    reply_free(&r);
    json = get_json("/api/v1/stats");
    ck_assert(number_at(json, "resources.made_up.ended") == 1);
    json_decref(json);
    finish();
}
END_TEST

TEST(statistics_are_under_their_name)
{
    begin_seen();
    json_t *json = get_json("/api/v1/stats");
    ck_assert_uint_eq(json_object_size(at(json, "resources")), 1); /* the table has its own place */
    ck_assert(number_at(json, "resources.made_up.ended") == 0);
    ck_assert_str_eq(text_at(json, "resources.made_up.members.0"), "\\xff \" \\\\");
    ck_assert(number_at(json, "resources.made_up.members.1") == 0.5);
    ck_assert(json_is_true(at(json, "protocols.0.own.made_up")));
    ck_assert(json_object_get(at(json, "protocols.1"), "own") == NULL);
    json_decref(json);
    finish();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(metrics_have_their_labels_and_no_more_samples_than_they_may),
    UNIT(routes_are_served_as_the_admin_s_own),
    UNIT(statistics_are_under_their_name),
};

UNIT_MAIN("seen", tests)
