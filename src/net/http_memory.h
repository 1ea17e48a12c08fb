/*
 * http_memory.h - memory for libevent: from malloc, or from a reserve when malloc fails.
 *
 * In some places libevent uses a null pointer after a failed allocation (for example: the
 * watermarks of a new connection). That crashed the process, and all held locks were lost. The
 * number of HTTP connections and the size of a request are limited, so the HTTP server's need is
 * limited too, and this reserve covers it. The HTTP server accepts no new connections while much of
 * the reserve is in use.
 *
 * Threads: any. The reserve has its own lock, and nothing is called under it.
 */
#ifndef NET_HTTP_MEMORY_H
#define NET_HTTP_MEMORY_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

/* True when more than a quarter of the reserve is in use. */
bool http_memory_is_short(void);

/* The malloc, realloc and free for libevent. */
void *http_memory_take(size_t size) MUST_USE;
void *http_memory_resize(void *at, size_t size) MUST_USE;
void http_memory_give(void *at);

#endif
