/* contended.c - the names that most is waited for, or that most are refused. */
#include "admin/admin_internal.h"
#include "engine/contention.h"
#include "net/query.h"

#include <stdlib.h>

#define LIMIT_DEFAULT 20
#define LIMIT_MAX     1000

static void add_name(struct json_text *to, const struct contended *c)
{
    struct bytes name = bytes_at(c->name, c->name_kept);
    bool truncated = c->name_len > c->name_kept;
    json_text_open(to, NULL, '{');
    json_text_readable(to, "name", name);
    if (truncated)
        json_text_null(to, "id");
    else
        json_text_percent(to, "id", name);
    json_text_bool(to, "truncated", truncated);
    json_text_bool(to, "exists", c->exists);
    json_text_number(to, "in_use", c->consumption);
    json_text_number(to, "peak", c->peak);
    json_text_number(to, "limit", c->limit);
    json_text_number(to, "waiting", c->waiting);
    json_text_number(to, "holders", c->holders);
    json_decimal(to, "waiting_load", c->waiting_load);
    json_decimal(to, "waiting_error", c->waiting_error);
    json_decimal(to, "refused_per_second", c->refused_per_second);
    json_decimal(to, "refused_error", c->refused_error);
    json_text_close(to, '}');
}

void get_contended(const struct route_request *r)
{
    static const char *const names[] = {"by", "limit", NULL};
    static const char *const words[] = {[CONTENDED_WAITING] = "waiting",
                                        [CONTENDED_REFUSED] = "refused",
                                        [CONTENDED_PEAK] = "peak",
                                        [CONTENDED_BY_COUNT] = NULL};
    struct query query;
    unsigned by = CONTENDED_WAITING, limit = LIMIT_DEFAULT;
    if (!query_read(&query, r->http, names) || !query_word(&query, 0, words, &by) ||
        !query_number(&query, 1, 1, LIMIT_MAX, &limit))
        return;
    struct table *table = r->services->table;
    struct moment now = clock_now();
    struct contended *list = malloc(limit * sizeof(*list));
    size_t count = list ? table_contended(table, by, now, list, limit) : 0;
    struct json_text json = {.text.failed = !list};
    json_text_open(&json, NULL, '{');
    json_words(&json, "by", words[by]);
    json_text_number(&json, "half_life_seconds", CONTENDED_HALF_LIFE_S);
    json_decimal(&json, "bound", table_contended_bound(table, by, now));
    json_text_open(&json, "names", '[');
    for (size_t i = 0; i < count; i++)
        add_name(&json, &list[i]);
    json_text_close(&json, ']');
    free(list);
    http_answer_json(r->http, 200, &json);
}
