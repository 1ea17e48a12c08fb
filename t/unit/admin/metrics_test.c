/* metrics_test.c - the output for Prometheus: its form, and that the manual is complete. Its
 * numbers are in transcripts/api.ctl. */
#include "t/unit/admin/fixture.h"

#include "admin/metrics.h"
#include "admin/private.h"
#include "t/unit/manual.h"

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

/* Makes pools, so that each metric has samples. */
static void make_pools(void)
{
    allow_pools();
    int a = text_connect();
    text_say(a, "POOL ADD p", "OK");
    text_say(a, "MEMBER ADD p m", "OK");
    text_say(a, "TAKE p with=k=v", "TIMEOUT");
    text_say(a, "POOL ADD j kind=joined", "OK");
    text_say(a, "POOL ADD {\"\x01", "OK");
    close(a);
}

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
    make_pools();
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

UNIT_MAIN("metrics")
