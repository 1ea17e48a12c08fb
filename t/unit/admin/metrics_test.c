/* metrics_test.c - the output for Prometheus: its form, its numbers, and that the manual is
 * complete. */
#include "t/unit/admin/fixture.h"

#include "admin/metrics.h"
#include "admin/private.h"
#include "t/unit/manual.h"

#include <math.h>

/* What a metric says of itself: the daemon's, a protocol's or a resource's. */
struct words {
    const char *name, *type, *help, *labels;
};

static bool seen_metric_at(const struct seen *seen, size_t *i, struct words *words_r)
{
    for (const struct metric_row *m = seen ? seen->metrics : NULL; m && m->name; m++) {
        *words_r = (struct words){m->name, m->type, m->help, m->labels};
        if ((*i)-- == 0)
            return true;
    }
    return false;
}

/* Metric number `i` of all; false if there are fewer. */
static bool metric_at(size_t i, struct words *words_r)
{
    if (i < metric_count) {
        const struct metric *m = &metrics[i];
        *words_r = (struct words){m->name, m->type, m->help, m->labels};
        return true;
    }
    i -= metric_count;
    for (size_t p = 0; registry.protocols[p]; p++) {
        if (seen_metric_at(registry.protocols[p]->seen, &i, words_r))
            return true;
    }
    for (size_t r = 0; registry.resources[r]; r++) {
        if (seen_metric_at(registry.resources[r]->seen, &i, words_r))
            return true;
    }
    return false;
}

/* The metrics as text; the caller frees it. */
static char *read_metrics(void)
{
    struct http_reply r = http_ask(where, "GET", "/metrics", "");
    char type[64];
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(reply_header(&r, "Content-Type", type, sizeof(type)), METRICS_TYPE);
    char *body = r.body;
    r.body = NULL;
    reply_free(&r);
    return body;
}

/* The value of a sample, given its name and labels; NAN if it is missing. */
static double sample_in(const char *text, const char *sample)
{
    size_t len = strlen(sample);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        if (strncmp(line, sample, len) == 0 && line[len] == ' ')
            return strtod(line + len, NULL);
    }
    return NAN;
}

/* Makes some of everything: locks, waits that end in every way, a killed client. */
static void make_traffic(void)
{
    allow_pools();
    int a = text_connect(), b = text_connect(), c = text_connect();
    text_say(a, "ACQ4ME k 1 9 0", "LOCKED");
    text_say(b, "ACQ4ME k 1 9 0.01", "TIMEOUT");
    text_say(b, "ACQ4ME k 1 9 100", NULL);
    text_say(c, "ACQ4ANY k 1 9 100", NULL);
    text_say(c, "RELEASE k", "RELEASED");
    text_say(a, "NONSENSE", "ERROR BAD_COMMAND");
    close(a);
    char bytes[8] = {0};
    ck_assert_uint_eq(receive_some(b, bytes, 7), 7); /* LOCKED, of a connection that has ended */
    close(b);
    text_say(c, "POOL ADD p", "OK");
    text_say(c, "MEMBER ADD p m", "OK");
    text_say(c, "MEMBER ADD p \"m\\\xff", "OK");
    text_say(c, "TAKE p member=none", "ERROR NO_MEMBER");
    text_say(c, "TAKE p with=k=v", "TIMEOUT");
    text_say(c, "POOL ADD j kind=joined", "OK");
    text_say(c, "POOL ADD \xff", "OK"); /* different names with the same look */
    text_say(c, "POOL ADD \\xff", "OK");
    text_say(c, "POOL ADD {\"\x01", "OK");
    close(c);
    const struct protocol *protocol = services_protocol(services, "poolcounter");
    COME_TRUE(atomic_load(&protocol->connections) == 0);
}

TEST(promtool_has_nothing_to_say)
{
    if (access("/usr/bin/promtool", X_OK) != 0) {
        printf("# promtool is not installed: not checked\n");
        return;
    }
    begin(2, NULL);
    make_traffic();
    char *text = read_metrics(), said[4096] = {0}, path[64];
    snprintf(path, sizeof(path), "/tmp/metrics_test.%d", getpid());
    FILE *promtool, *file = fopen(path, "w+");
    ck_assert(file && unlink(path) == 0 && fputs(text, file) >= 0 && fflush(file) == 0);
    rewind(file);
    int saved = dup(0);
    ck_assert(dup2(fileno(file), 0) == 0);
    promtool = popen("/usr/bin/promtool check metrics 2>&1", "r");
    ck_assert(dup2(saved, 0) == 0);
    size_t len = fread(said, 1, sizeof(said) - 1, promtool);
    ck_assert_msg(pclose(promtool) == 0 && len == 0, "%s", said);
    close(saved);
    fclose(file);
    free(text);
    finish();
}
END_TEST

TEST(numbers_are_those_of_what_happened)
{
    begin(2, NULL);
    make_traffic();
    char *text = read_metrics();
    static const struct {
        const char *sample;
        double value;
    } rows[] = {
        {"counterd_build_info{version=\"0.1.0\"}", 1},
        {"counterd_requests_total{protocol=\"poolcounter\",verb=\"ACQ4ME\",outcome=\"LOCKED\"}", 2},
        {"counterd_requests_total{protocol=\"poolcounter\",verb=\"ACQ4ME\",outcome=\"TIMEOUT\"}",
         1},
        {"counterd_requests_total{protocol=\"poolcounter\",verb=\"invalid\",outcome=\"error\"}", 1},
        {"counterd_names", 0},
        {"counterd_units", 0},
        {"counterd_holdings", 0},
        {"counterd_waiting{protocol=\"poolcounter\"}", 0},
        {"counterd_waiting{protocol=\"counter\"}", 0},
        {"counterd_wait_duration_seconds_count{protocol=\"poolcounter\",outcome=\"granted\"}", 1},
        {"counterd_wait_duration_seconds_count{protocol=\"poolcounter\",outcome=\"timed_out\"}", 1},
        {"counterd_wait_duration_seconds_count{protocol=\"poolcounter\",outcome=\"cancelled\"}", 1},
        {"counterd_wait_duration_seconds_count{protocol=\"poolcounter\",outcome=\"done\"}", 0},
        {"counterd_wait_duration_seconds_bucket{protocol=\"poolcounter\",outcome=\"timed_out\","
         "le=\"0.001\"}",
         0},
        {"counterd_wait_duration_seconds_bucket{protocol=\"poolcounter\",outcome=\"timed_out\","
         "le=\"+Inf\"}",
         1},
        {"counterd_hold_duration_seconds_count{protocol=\"poolcounter\"}", 2},
        {"counterd_connections{protocol=\"poolcounter\"}", 0},
        {"counterd_connections_opened_total{protocol=\"poolcounter\"}", 3},
        {"counterd_connections_closed_total{protocol=\"poolcounter\",reason=\"peer\"}", 3},
        {"counterd_connections_closed_total{protocol=\"counter\",reason=\"killed\"}", 0},
        {"counterd_accept_errors_total{protocol=\"counter\"}", 0},
        {"counterd_send_errors_total{protocol=\"poolcounter\"}", 0},
        {"counterd_output_full_total{protocol=\"poolcounter\"}", 0},
        {"counterd_received_bytes_total{protocol=\"counter\"}", 0},
        {"counterd_table_memory_limit_bytes", 1 << 30},
        {"counterd_table_names_made_total", 1},
        {"counterd_collections_total", 0},
        {"counterd_worker_connections{worker=\"0\"}", 0},
        {"counterd_worker_connections{worker=\"1\"}", 0},
        {"counterd_log_lines_total{level=\"error\"}", 0},
        {"counterd_pool_members{pool=\"p\",state=\"free\"}", 2},
        {"counterd_pool_members{pool=\"\\\\\\\\xff\",state=\"down\"}", 0},
        {"counterd_pool_members{pool=\"\\\\xff\",state=\"down\"}", 0},
        {"counterd_pool_members{pool=\"{\\\"\\\\x01\",state=\"down\"}", 0},
        {"counterd_pool_waiting{pool=\"p\"}", 0},
        {"counterd_pool_want{pool=\"j\"}", 0},
        {"counterd_pool_late{pool=\"p\"}", 0},
        {"counterd_pool_takes_total{pool=\"p\",for=\"use\",outcome=\"busy\"}", 1},
        {"counterd_pool_moves_total{pool=\"p\",why=\"add\"}", 2},
        {"counterd_pool_hold_duration_seconds_count{pool=\"p\"}", 0},
        {"counterd_log_lines_dropped_total{reason=\"rate\"}", 0},
        {"counterd_log_lines_dropped_total{reason=\"lost\"}", 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        ck_assert_msg(sample_in(text, rows[i].sample) == rows[i].value, "%s: %f", rows[i].sample,
                      sample_in(text, rows[i].sample));
    static const char *const above_zero[] = {
        "counterd_received_bytes_total{protocol=\"poolcounter\"}",
        "counterd_sent_bytes_total{protocol=\"poolcounter\"}",
        "counterd_wait_duration_seconds_sum{protocol=\"poolcounter\",outcome=\"timed_out\"}",
        "counterd_answer_duration_seconds_count{protocol=\"poolcounter\"}",
        "counterd_table_memory_bytes",
        "counterd_worker_cpu_seconds_total{worker=\"1\"}",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
    };
    for (size_t i = 0; i < ARRAY_SIZE(above_zero); i++)
        ck_assert_msg(sample_in(text, above_zero[i]) > 0, "%s", above_zero[i]);
    ck_assert_double_gt(sample_in(text, "counterd_worker_busy_seconds_total{worker=\"0\"}") +
                            sample_in(text, "counterd_worker_busy_seconds_total{worker=\"1\"}"),
                        0);
    double now = (double)time(NULL);
    ck_assert_double_eq_tol(sample_in(text, "process_start_time_seconds"), now, 300);
    ck_assert_double_eq_tol(sample_in(text, "counterd_start_time_seconds"), now, 300);
    ck_assert_double_ge(sample_in(text, "process_cpu_seconds_total"), 0);
    ck_assert_double_le(fabs(sample_in(text, "process_open_fds") - open_descriptors()), 2);
    free(text);
    finish();
}
END_TEST

/* Histograms have exactly the bounds of base/buckets.h, and counts that rise to the total. */
TEST(histograms_have_exact_bounds_and_rising_counts)
{
    static const char head[] =
        "\ncounterd_answer_duration_seconds_bucket{protocol=\"poolcounter\",le=\"";
    begin(1, NULL);
    make_traffic();
    char *text = read_metrics(), *end;
    const char *at = text;
    double before = 0;
    for (size_t i = 0; i <= BUCKET_BOUNDS; i++) {
        ck_assert_ptr_nonnull(at = strstr(at, head));
        at += strlen(head);
        size_t len = strspn(at, ".0123456789");
        double bound = strtod(at, &end) * 1e9, value = strtod(strchr(at, ' '), NULL);
        ck_assert_msg(i == BUCKET_BOUNDS ? strncmp(at, "+Inf\"", 5) == 0
                                         : end == at + len && at[len] == '"' &&
                                               fabs(bound - (double)bucket_bound_ns(i)) < 1e-3,
                      "%zu: %.20s", i, at);
        ck_assert_msg(value >= before, "%.20s: %f", at, value);
        before = value;
    }
    ck_assert_double_eq(before, sample_in(text, "counterd_answer_duration_seconds_count"
                                                "{protocol=\"poolcounter\"}"));
    free(text);
    finish();
}
END_TEST

TEST(sums_of_centuries_are_exact)
{
    begin(1, NULL);
    struct service *service = services_protocol(services, "poolcounter")->service;
    for (int i = 0; i < 4; i++)
        histogram_add(&service_counts_of(service, 0)->holds, INT64_MAX, 1);
    char *text = read_metrics();
    ck_assert_ptr_nonnull(strstr(text, "\ncounterd_hold_duration_seconds_sum"
                                       "{protocol=\"poolcounter\"} 36893488147.419103228\n"));
    free(text);
    finish();
}
END_TEST

/* Samples of a row have its name and exactly its labels. */
TEST(every_row_is_written_as_it_says)
{
    begin(1, NULL);
    make_traffic();
    char *text = read_metrics();
    struct words words;
    const struct words *m = &words;
    for (size_t i = 0; metric_at(i, &words); i++) {
        char line[600];
        unsigned samples = 0;
        snprintf(line, sizeof(line), "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name,
                 m->type);
        const char *p = strstr(text, line);
        ck_assert_msg(p != NULL, "%s", line);
        ck_assert_msg(strchr(m->help, '\n') == NULL && strchr(m->help, '\\') == NULL, "%s",
                      m->name);
        ck_assert_int_eq(strcmp(m->type, "counter") == 0, strstr(m->name, "_total") != NULL);
        for (p += strlen(line); *p && *p != '#'; p += strcspn(p, "\n") + 1, samples++) {
            char labels[200] = "", suffix[16] = "";
            ck_assert_msg(strncmp(p, m->name, strlen(m->name)) == 0, "%s: %.80s", m->name, p);
            size_t rest = strlen(m->name);
            size_t suffix_len = strcspn(p + rest, "{ ");
            snprintf(suffix, sizeof(suffix), "%.*s", (int)suffix_len, p + rest);
            ck_assert_msg(!*suffix == (strcmp(m->type, "histogram") != 0), "%.80s", p);
            /* Reads the labels' names: {name="value",... */
            const char *at_label = p + rest + suffix_len;
            while (*at_label == '{' || *at_label == ',') {
                size_t len = strcspn(++at_label, "=");
                if (strncmp(at_label, "le=", 3) != 0)
                    snprintf(labels + strlen(labels), sizeof(labels) - strlen(labels), "%s%.*s",
                             *labels ? " " : "", (int)len, at_label);
                for (at_label += len + 2; *at_label != '"'; at_label++)
                    at_label += *at_label == '\\';
                at_label++;
            }
            ck_assert_msg(strcmp(labels, m->labels) == 0, "%s: %s", m->name, labels);
        }
        /* There is neither a store nor a cluster here. */
        bool is_off = strncmp(m->name, "counterd_jobs_store_", 20) == 0 ||
                      strncmp(m->name, "counterd_cluster_", 17) == 0;
        ck_assert_msg((samples > 0) != is_off, "%s has %u samples", m->name, samples);
    }
    free(text);
    finish();
}
END_TEST

/* ---- the manual ------------------------------------------------------------------------------ */

TEST(manual_has_every_metric_with_its_type_and_labels)
{
    char *manual = read_source("man/counterd-admin.7");
    struct words words;
    const struct words *m = &words;
    for (size_t i = 0; metric_at(i, &words); i++) {
        char about[128];
        snprintf(about, sizeof(about), ".It Ic %s", m->name);
        char *passage = item_text(manual, about);
        snprintf(about, sizeof(about), "%c%s", toupper(m->type[0]), m->type + 1);
        ck_assert_msg(strstr(passage, about) != NULL, "%s: not said to be a %s", m->name, m->type);
        for (const char *label = m->labels; *label;) {
            size_t len = strcspn(label, " ");
            snprintf(about, sizeof(about), "\n.Cm %.*s", (int)len, label);
            ck_assert_msg(strstr(passage, about) != NULL, "%s: label %s", m->name, label);
            label += len + (label[len] == ' ');
        }
        free(passage);
    }
    free(manual);
}
END_TEST

/* True if the manual has an item of a route, whose '*' is "ID" there. */
static bool is_in_manual(const char *manual, const struct any_route *route)
{
    const char *star = strchr(route->path, '*');
    int before = star ? (int)(star - route->path) : (int)strlen(route->path);
    char item[200];
    int len = snprintf(item, sizeof(item), "\n.It %sPa %.*s%s%s",
                       route->method == HTTP_POST ? "Li POST " : "", before, route->path,
                       star ? "ID" : "", star ? star + 1 : "");
    for (const char *p = manual; (p = strstr(p, item)) != NULL; p += len)
        if (strchr("\n? ", p[len]))
            return true;
    return false;
}

TEST(manual_has_every_route_and_no_other_metrics)
{
    char *manual = read_source("man/counterd-admin.7");
    struct any_route route;
    begin(1, NULL);
    for (size_t i = 0; admin_route_at(services, i, &route); i++)
        ck_assert_msg(route.own == get_page || route.own == get_metrics ||
                          is_in_manual(manual, &route),
                      "%s is not in the manual", route.path);
    finish();
    for (const char *p = manual; (p = strstr(p, "\n.It Ic counterd_")) != NULL; p++) {
        char name[100];
        size_t i = 0;
        struct words words = {0};
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(p + 8, "\n"), p + 8);
        while (metric_at(i, &words) && strcmp(words.name, name) != 0)
            i++;
        ck_assert_msg(metric_at(i, &words), "the manual has %s, which there is not", name);
    }
    free(manual);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(promtool_has_nothing_to_say),
    UNIT(numbers_are_those_of_what_happened),
    UNIT(histograms_have_exact_bounds_and_rising_counts),
    UNIT(sums_of_centuries_are_exact),
    UNIT(every_row_is_written_as_it_says),
    UNIT(manual_has_every_metric_with_its_type_and_labels),
    UNIT(manual_has_every_route_and_no_other_metrics),
};

UNIT_MAIN("metrics", tests)
