/*
 * http_memory.h - libevent's memory: the C library's, and where that has none, a reserve.
 *
 * libevent goes on with a null pointer in places where it was refused memory (watermarks of a new
 * connection, for one), which ended the process and with it every lock that is held. What the HTTP
 * server can want of it at once is bounded, by the number of its connections and what one may send;
 * so a reserve is kept for that, and while much of it is in use nobody new is accepted.
 *
 * Threads: any; the reserve has a lock of its own, under which nothing is called.
 */
#ifndef NET_HTTP_MEMORY_H
#define NET_HTTP_MEMORY_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether more than a quarter of the reserve is in use. */
bool http_memory_is_short(void);

/* What libevent is to call, as malloc, realloc and free. */
void *http_memory_take(size_t size) MUST_USE;
void *http_memory_resize(void *at, size_t size) MUST_USE;
void http_memory_give(void *at);

#endif
