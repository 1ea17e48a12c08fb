/*
 * lookup.h - the addresses of a host, found without blocking: in the hosts file and by asking the
 * name servers. The only header that stands for c-ares.
 *
 * A numeric address is found at once. For a name c-ares reads the system's files in the thread that
 * begins the lookup, each time, so a change of theirs needs no restart. Then only sockets in the
 * loop are used. The process must ignore SIGPIPE (process.h): c-ares writes without MSG_NOSIGNAL.
 *
 * Threads: a lookup belongs to the thread that runs its loop.
 */
#ifndef NET_LOOKUP_H
#define NET_LOOKUP_H

#include "net/loop.h"

#include <stdint.h>
#include <sys/socket.h>

/* What is read for it, for the confinement (thread.h) of a thread that looks names up: these files,
 * NULL after the last. */
extern const char *const lookup_reads[];

/* So many addresses of one host are looked at, the most suitable first (RFC 6724). */
#define LOOKUP_ADDRESSES 16

struct lookup;

enum lookup_state { LOOKUP_PENDING, LOOKUP_FOUND, LOOKUP_FAILED };

/* Something has happened: look at lookup_state, and, while it is pending, at lookup_wait_ns. Never
 * called from within a function declared here; may free the lookup. */
typedef void lookup_progress_fn(void *arg);

/*
 * Begins to look for `host`, a name or a numeric address, whose addresses get `port`. Questions to
 * servers are repeated so that two answers that never come still end it within `limit_ns`
 * (monotonic nanoseconds; the caller's own limit is not replaced by that). `servers`: which to ask,
 * as ADDRESS:PORT with commas between, [ADDRESS]:PORT for IPv6; NULL: the system's. The strings are
 * needed for the call only. What is asked for is often known at once: look at the state. NULL: no
 * memory. The caller's to free.
 */
struct lookup *lookup_start(struct loop *loop, const char *host, uint16_t port, int64_t limit_ns,
                            const char *servers, lookup_progress_fn *progress, void *arg) MUST_USE;
enum lookup_state lookup_state(const struct lookup *lookup);
/* LOOKUP_FOUND: at least one address, at most LOOKUP_ADDRESSES, IPv4 or IPv6; the lookup's. */
const struct sockaddr_storage *lookup_addresses(const struct lookup *lookup, unsigned *count_r);
/* LOOKUP_FAILED: why, a text for people, not to be freed. */
const char *lookup_why(const struct lookup *lookup);

/* LOOKUP_PENDING: how long to wait before lookup_time_passed, in nanoseconds; INT64_MAX: for ever.
 * May change with each progress. */
int64_t lookup_wait_ns(const struct lookup *lookup);
/* That time has passed; the state may have changed. Too early is harmless. */
void lookup_time_passed(struct lookup *lookup);

/* Ends it, pending or not, without a word, and nulls it. NULL is harmless. */
void lookup_free(struct lookup **lookup);

#endif
