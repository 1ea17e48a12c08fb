/* contended.c - the names that most is waited for, or that most are refused. */
#include "admin/private.h"
#include "engine/contention.h"
#include "net/query.h"

#include <stdlib.h>

#define LIMIT_DEFAULT 20
#define LIMIT_MAX     1000

static json_t *one(const struct contended *c)
{
    struct bytes name = bytes_at(c->name, c->name_kept);
    bool truncated = c->name_len > c->name_kept;
    return json_pack("{s:o, s:o, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "name",
                     json_name(name), "id", truncated ? json_null() : json_id(name), "truncated",
                     (int)truncated, "exists", (int)c->exists, "in_use", (json_int_t)c->consumption,
                     "peak", (json_int_t)c->peak, "limit", (json_int_t)c->limit, "waiting",
                     (json_int_t)c->waiting, "holders", (json_int_t)c->holders, "waiting_load",
                     json_known(c->waiting_load), "waiting_error", json_known(c->waiting_error),
                     "refused_per_second", json_known(c->refused_per_second), "refused_error",
                     json_known(c->refused_error));
}

void get_contended(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    static const char *const names[] = {"by", "limit", NULL};
    static const char *const words[] = {[CONTENDED_WAITING] = "waiting",
                                        [CONTENDED_REFUSED] = "refused",
                                        [CONTENDED_PEAK] = "peak",
                                        [CONTENDED_BY_COUNT] = NULL};
    struct query query;
    unsigned by = CONTENDED_WAITING, limit = LIMIT_DEFAULT;
    if (!query_read(&query, request, names) || !query_word(&query, 0, words, &by) ||
        !query_number(&query, 1, 1, LIMIT_MAX, &limit))
        return;
    struct table *table = admin->config.services->table;
    struct moment now = clock_now();
    struct contended *list = malloc(limit * sizeof(*list));
    size_t count = list ? table_contended(table, by, now, list, limit) : 0;
    json_t *array = list ? json_array() : NULL;
    for (size_t i = 0; i < count; i++)
        json_add(&array, one(&list[i]));
    free(list);
    answer_json(request, 200,
                json_pack("{s:s, s:i, s:o, s:o}", "by", words[by], "half_life_seconds",
                          CONTENDED_HALF_LIFE_S, "bound",
                          json_known(table_contended_bound(table, by, now)), "names", array));
}
