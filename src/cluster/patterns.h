/*
 * patterns.h - which names are shared: the two lists cluster.strict and cluster.loose.
 *
 * A list has patterns with commas between; spaces around a pattern are ignored. `*` stands for any
 * bytes, also none, `?` for one byte, any other byte for itself. A pattern matches whole names. A
 * name that both lists match is strict. Names that begin with `pool:` are units of the node's own
 * pools: only a pattern that begins so matches them. Finding the class of a name takes time linear
 * in its length for each pattern, whatever the pattern.
 *
 * The object never changes. Workers keep a share of it while a reload makes another.
 *
 * Threads: any; the share count is atomic.
 */
#ifndef CLUSTER_PATTERNS_H
#define CLUSTER_PATTERNS_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/option.h"

/* Bytes of one pattern, and patterns of both lists. */
#define PATTERNS_LEN_MAX   255u
#define PATTERNS_COUNT_MAX 256u
/* Size of reason_r, and of the digest with its null byte. */
#define PATTERNS_REASON_SIZE OPTIONS_REASON_SIZE
#define PATTERNS_DIGEST_SIZE 17u

enum patterns_class {
    PATTERNS_OWN, /* the name is this node's own */
    PATTERNS_STRICT,
    PATTERNS_LOOSE,
};

struct patterns;

/*
 * Parses both lists; NULL is the empty list. The caller has the only share. Returns NULL when a
 * list is wrong or memory is short; reason_r (PATTERNS_REASON_SIZE bytes) then says what is wrong,
 * in half a sentence, and *strict_wrong_r (may be NULL) is true when the strict list is.
 */
struct patterns *patterns_new(const char *strict, const char *loose, bool *strict_wrong_r,
                              char *reason_r) MUST_USE;
/* Takes one more share, which the caller must free; returns `p`. */
struct patterns *patterns_share(struct patterns *p);
/* Gives back a share and sets *p to NULL; NULL is harmless. The last one frees the object. */
void patterns_free(struct patterns **p);

enum patterns_class patterns_class(const struct patterns *p, struct bytes name);

/*
 * True if a pattern would match names that begin with `pool:`, were they like others, and no
 * pattern begins with `pool:`: whoever wrote the lists may expect that these names are shared.
 */
bool patterns_leave_pools(const struct patterns *p);

/* The list of a class as it was written. Valid as long as the object. */
const char *patterns_list(const struct patterns *p, enum patterns_class class);
/*
 * The digest of both lists: 16 hexadecimal digits, equal on all nodes that share the same names,
 * whatever the order, spaces and repetitions in their lists. Valid as long as the object.
 */
const char *patterns_digest(const struct patterns *p);

#endif
