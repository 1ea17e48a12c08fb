/*
 * query.h - the parameters of a request: known by name, given once, percent-decoded, in range. What
 * is wrong is answered with 400, and what would be right.
 */
#ifndef NET_QUERY_H
#define NET_QUERY_H

#include "base/bytes.h"
#include "net/http.h"

#include <stdint.h>

#define QUERY_MAX 4

struct query {
    struct http_request *request;
    const char *const *names;       /* of the parameters known, ended by NULL */
    struct bytes values[QUERY_MAX]; /* as sent; data NULL: not given */
};

/*
 * Reads the query of `request`, which may have the parameters `names` (at most QUERY_MAX, ended by
 * NULL) and no others. False: the request has been answered.
 */
bool query_read(struct query *query_r, struct http_request *request,
                const char *const *names) MUST_USE;

/* Whether `request` has no parameters, and is to have none. False: it has been answered. */
bool query_none(struct http_request *request) MUST_USE;

/* The functions below take the number of a parameter in `names`; false: answered, as above. */

/* A number in decimal; *value_r stays as it is where none is given. */
bool query_number(const struct query *query, unsigned i, unsigned min, unsigned max,
                  unsigned *value_r) MUST_USE;
/* One of `words` (ended by NULL), by its number; *value_r stays as it is where none is given. */
bool query_word(const struct query *query, unsigned i, const char *const *words,
                unsigned *value_r) MUST_USE;
/* Bytes, decoded to `to`, which has room for as many as the query has; 0 where none are given. */
bool query_bytes(const struct query *query, unsigned i, uint8_t *to, size_t *len_r) MUST_USE;
/* A cursor, of which the caller has found if it is valid. */
bool query_cursor(const struct query *query, unsigned i, bool valid) MUST_USE;

#endif
