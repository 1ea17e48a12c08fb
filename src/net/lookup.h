/*
 * lookup.h - looks up the addresses of a host without blocking, in the hosts file and with the name
 * servers. c-ares is hidden behind this header; no other code uses it.
 *
 * A numeric address is known at once. For a name, c-ares reads the system's files in the calling
 * thread at the start of each lookup, so changed files take effect without a restart. After that a
 * lookup uses only sockets in the loop. The process must ignore SIGPIPE (process.h), because c-ares
 * writes without MSG_NOSIGNAL.
 *
 * Threads: a lookup belongs to the thread that runs its loop.
 */
#ifndef NET_LOOKUP_H
#define NET_LOOKUP_H

#include "net/loop.h"

#include <stdint.h>
#include <sys/socket.h>

/* The files that a lookup reads, for the sandbox (thread.h) of a thread that looks up names;
 * NULL after the last. */
extern const char *const lookup_reads[];

/* Maximum number of addresses kept for one host, best first (RFC 6724). */
#define LOOKUP_ADDRESSES 16

struct lookup;

enum lookup_state { LOOKUP_PENDING, LOOKUP_FOUND, LOOKUP_FAILED };

struct lookup_result {
    enum lookup_state state;
    const char *why; /* LOOKUP_FAILED: the error, for people; it outlives the lookup */
    unsigned count;  /* LOOKUP_FOUND: at least 1 */
    struct sockaddr_storage addresses[LOOKUP_ADDRESSES]; /* IPv4 or IPv6 */
};

/* Called when a lookup makes progress. The owner then checks the result and, while it is pending,
 * lookup_wait_ns again. Never called from inside a function of this header. May free the lookup. */
typedef void lookup_progress_fn(void *arg);

/*
 * Starts to look up `host`, a name or a numeric address; its addresses get `port`. Queries are
 * repeated soon enough that the lookup ends within `limit_ns` nanoseconds (monotonic) even if two
 * answers never come; the caller still needs its own time limit. `servers` are the name servers as
 * ADDRESS:PORT or [IPv6]:PORT, separated by commas; NULL: those of the system. The strings are used
 * only during the call. The result is often known at once: check the result. The caller frees the
 * lookup. Returns NULL when there is no memory.
 */
struct lookup *lookup_start(struct loop *loop, const char *host, uint16_t port, int64_t limit_ns,
                            const char *servers, lookup_progress_fn *progress, void *arg) MUST_USE;
/* The present result, which the lookup owns. */
const struct lookup_result *lookup_result(const struct lookup *lookup);

/* For LOOKUP_PENDING: the nanoseconds to wait before calling lookup_time_passed; INT64_MAX: no
 * limit. May change with each progress. */
int64_t lookup_wait_ns(const struct lookup *lookup);
/*
 * Tells the lookup that this time has passed; its state may change. Harmless when called too early.
 */
void lookup_time_passed(struct lookup *lookup);

/* Cancels and frees *lookup in any state, sets it to NULL, and calls nothing. NULL is harmless. */
void lookup_free(struct lookup **lookup);

#endif
