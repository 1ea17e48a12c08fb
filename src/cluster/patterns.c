/*
 * patterns.c - see patterns.h.
 *
 * A pattern is kept in normal form, and as three parts: the bytes before its first `*` or `?`, the
 * bytes behind the last, and the middle between them. Before and behind are compared; the middle
 * runs as an automaton with one state for each of its bytes, all states in a set of bits. State i
 * means that the first i items (bytes or `?`) have matched; a `*` is a state that lasts. So a name
 * is read once, whatever it is.
 */
#include "cluster/patterns.h"

#include "base/hash.h"
#include "base/option_value.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Words of the set of states: 0 to PATTERNS_LEN_MAX. */
#define WORDS_MAX ((PATTERNS_LEN_MAX + 64) / 64)

/* The automaton of a middle. */
struct machine {
    unsigned words, last;      /* of the sets; the state that accepts */
    uint64_t lasts[WORDS_MAX]; /* states of a `*` */
    uint64_t moves[];          /* for each byte a set: from these states it goes to the next */
};

enum shape { EXACT, PREFIX, GENERAL };

/* Names that begin so need a pattern that begins so. */
#define POOLS     "pool:"
#define POOLS_LEN (sizeof(POOLS) - 1)

struct pattern {
    enum shape shape;
    enum patterns_class class;
    bool of_pools;           /* it begins with POOLS */
    unsigned least;          /* bytes that a name has at least */
    unsigned before, behind; /* bytes of these parts */
    struct machine *middle;  /* GENERAL: NULL if it is only a `*` */
    size_t len;
    uint8_t bytes[PATTERNS_LEN_MAX]; /* in normal form */
};

struct patterns {
    atomic_uint shares;
    char *lists[PATTERNS_LOOSE + 1]; /* by class: as they were written */
    char digest[PATTERNS_DIGEST_SIZE];
    size_t count;
    struct pattern at[]; /* strict ones first; each part in order, without equals */
};

/* ---- automata -------------------------------------------------------------------------------- */

static void add_state(uint64_t *set, unsigned state)
{
    set[state / 64] |= UINT64_C(1) << (state % 64);
}

static bool has_state(const uint64_t *set, unsigned state)
{
    return set[state / 64] >> (state % 64) & 1;
}

/* Makes the automaton of these bytes. Returns NULL when there is no memory. */
static struct machine *machine_new(struct bytes middle)
{
    unsigned items = 0;
    for (size_t i = 0; i < middle.len; i++)
        items += middle.data[i] != '*';
    unsigned words = items / 64 + 1;
    struct machine *m = calloc(1, sizeof(*m) + sizeof(uint64_t) * 256 * words);
    if (!m)
        return NULL;
    m->words = words;
    m->last = items;
    unsigned state = 0;
    for (size_t i = 0; i < middle.len; i++) {
        if (middle.data[i] == '*') {
            add_state(m->lasts, state);
            continue;
        }
        for (unsigned byte = 0; byte < 256; byte++)
            if (middle.data[i] == '?' || middle.data[i] == byte)
                add_state(m->moves + (size_t)byte * words, state);
        state++;
    }
    return m;
}

static bool machine_matches(const struct machine *m, struct bytes name)
{
    uint64_t set[WORDS_MAX] = {1};
    bool stays = has_state(m->lasts, m->last);
    for (size_t i = 0; i < name.len; i++) {
        const uint64_t *moves = m->moves + (size_t)name.data[i] * m->words;
        uint64_t carried = 0, any = 0;
        for (unsigned w = 0; w < m->words; w++) {
            uint64_t moving = set[w] & moves[w];
            set[w] = moving << 1 | carried | (set[w] & m->lasts[w]);
            carried = moving >> 63;
            any |= set[w];
        }
        if (!any)
            return false;
        if (stays && has_state(set, m->last))
            return true;
    }
    return has_state(set, m->last);
}

/* ---- one pattern ----------------------------------------------------------------------------- */

static bool begins_with_pools(struct bytes b)
{
    return b.len >= POOLS_LEN && memcmp(b.data, POOLS, POOLS_LEN) == 0;
}

static bool is_wild(uint8_t byte)
{
    return byte == '*' || byte == '?';
}

/* Copies in normal form: of a run of `*` and `?` first each `?`, then one `*` if it has any. */
static void copy_normal(struct pattern *p, struct bytes in)
{
    for (size_t i = 0; i < in.len;) {
        bool star = false;
        for (; i < in.len && is_wild(in.data[i]); i++) {
            if (in.data[i] == '?')
                p->bytes[p->len++] = '?';
            else
                star = true;
        }
        if (star)
            p->bytes[p->len++] = '*';
        for (; i < in.len && !is_wild(in.data[i]); i++)
            p->bytes[p->len++] = in.data[i];
    }
}

/* Makes a pattern of 1 to PATTERNS_LEN_MAX bytes, but for its automaton. */
static void pattern_make(struct pattern *p, enum patterns_class class, struct bytes in)
{
    *p = (struct pattern){.class = class};
    copy_normal(p, in);
    p->of_pools = begins_with_pools(bytes_at(p->bytes, p->len));
    for (size_t i = 0; i < p->len; i++)
        p->least += p->bytes[i] != '*';
    while (p->before < p->len && !is_wild(p->bytes[p->before]))
        p->before++;
    while (p->behind < p->len - p->before && !is_wild(p->bytes[p->len - 1 - p->behind]))
        p->behind++;
    bool star = p->before + p->behind + 1 == p->len && p->bytes[p->before] == '*';
    p->shape = p->before == p->len ? EXACT : star && p->behind == 0 ? PREFIX : GENERAL;
}

/* The middle of a pattern: from the first `*` or `?` to the last. */
static struct bytes middle_of(const struct pattern *p)
{
    return bytes_at(p->bytes + p->before, p->len - p->before - p->behind);
}

/* Makes the automaton if the pattern needs one. Returns false when there is no memory. */
static bool pattern_finish(struct pattern *p)
{
    struct bytes middle = middle_of(p);
    if (p->shape != GENERAL || bytes_equal(middle, bytes_of("*")))
        return true;
    p->middle = machine_new(middle);
    return p->middle != NULL;
}

static bool matches_general(const struct pattern *p, struct bytes name)
{
    size_t ends = (size_t)p->before + p->behind;
    const uint8_t *behind = p->bytes + p->len - p->behind;
    if (memcmp(name.data, p->bytes, p->before) != 0 ||
        memcmp(name.data + name.len - p->behind, behind, p->behind) != 0)
        return false;
    return !p->middle ||
           machine_matches(p->middle, bytes_at(name.data + p->before, name.len - ends));
}

static inline bool pattern_matches(const struct pattern *p, struct bytes name)
{
    if (name.len < p->least)
        return false;
    if (likely(p->shape != GENERAL))
        return (p->shape == PREFIX || name.len == p->len) &&
               memcmp(name.data, p->bytes, p->before) == 0;
    return matches_general(p, name);
}

/* The order of patterns in the object: strict ones first, then by their bytes. */
static int compare(const void *left, const void *right)
{
    const struct pattern *a = left, *b = right;
    if (a->class != b->class)
        return a->class == PATTERNS_STRICT ? -1 : 1;
    return bytes_compare(bytes_at(a->bytes, a->len), bytes_at(b->bytes, b->len));
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

static struct bytes trimmed(struct bytes b)
{
    while (b.len && is_blank(b.data[0]))
        b = bytes_at(b.data + 1, b.len - 1);
    while (b.len && is_blank(b.data[b.len - 1]))
        b.len--;
    return b;
}

/* Adds the patterns of a list. */
static bool add_list(struct patterns *p, enum patterns_class class, const char *list,
                     char *reason_r)
{
    struct bytes in = trimmed(bytes_of(list));
    if (in.len == 0)
        return true;
    for (bool more = true; more;) {
        const uint8_t *comma = in.len ? memchr(in.data, ',', in.len) : NULL;
        size_t len = comma ? (size_t)(comma - in.data) : in.len;
        struct bytes text = trimmed(bytes_at(in.data, len));
        more = comma != NULL;
        if (text.len == 0)
            return option_say(reason_r, "a pattern is missing beside a comma");
        if (text.len > PATTERNS_LEN_MAX)
            return option_say(reason_r,
                              "the pattern that begins with \"%.60s\" has more than %u bytes",
                              (const char *)text.data, PATTERNS_LEN_MAX);
        if (p->count == PATTERNS_COUNT_MAX)
            return option_say(reason_r, "there are more than %u patterns in both lists",
                              PATTERNS_COUNT_MAX);
        pattern_make(&p->at[p->count++], class, text);
        in = bytes_at(in.data + len + more, in.len - len - more);
    }
    return true;
}

/* Sorts, and drops each pattern that another equal one makes useless. */
static void sort(struct patterns *p)
{
    size_t kept = 0;
    if (p->count == 0)
        return;
    qsort(p->at, p->count, sizeof(*p->at), compare);
    for (size_t i = 1; i < p->count; i++)
        if (compare(&p->at[kept], &p->at[i]) != 0)
            p->at[++kept] = p->at[i];
    p->count = kept + 1;
}

/* Hashes the class, length and bytes of each pattern. */
static bool make_digest(struct patterns *p)
{
    static const struct hash_key key;
    size_t len = 0;
    uint8_t *text = malloc(p->count * (2 + PATTERNS_LEN_MAX) + 1);
    if (!text)
        return false;
    for (size_t i = 0; i < p->count; i++) {
        const struct pattern *one = &p->at[i];
        text[len++] = one->class == PATTERNS_STRICT ? 's' : 'l';
        text[len++] = (uint8_t)one->len;
        memcpy(text + len, one->bytes, one->len);
        len += one->len;
    }
    snprintf(p->digest, sizeof(p->digest), "%016llx",
             (unsigned long long)hash_bytes_reference(&key, text, len));
    free(text);
    return true;
}

static bool finish(struct patterns *p, const char *strict, const char *loose)
{
    p->lists[PATTERNS_STRICT] = strdup(strict);
    p->lists[PATTERNS_LOOSE] = strdup(loose);
    if (!p->lists[PATTERNS_STRICT] || !p->lists[PATTERNS_LOOSE])
        return false;
    sort(p);
    for (size_t i = 0; i < p->count; i++)
        if (!pattern_finish(&p->at[i]))
            return false;
    return make_digest(p);
}

/* ---- public ---------------------------------------------------------------------------------- */

struct patterns *patterns_new(const char *strict, const char *loose, bool *strict_wrong_r,
                              char *reason_r)
{
    strict = strict ? strict : "";
    loose = loose ? loose : "";
    struct patterns *p = calloc(1, sizeof(*p) + PATTERNS_COUNT_MAX * sizeof(*p->at));
    if (strict_wrong_r)
        *strict_wrong_r = false;
    if (!p) {
        option_say(reason_r, "out of memory");
        return NULL;
    }
    atomic_init(&p->shares, 1);
    bool good = add_list(p, PATTERNS_STRICT, strict, reason_r);
    if (strict_wrong_r)
        *strict_wrong_r = !good;
    good = good && add_list(p, PATTERNS_LOOSE, loose, reason_r) &&
           (finish(p, strict, loose) || option_say(reason_r, "out of memory"));
    if (!good)
        patterns_free(&p);
    return p;
}

struct patterns *patterns_share(struct patterns *p)
{
    atomic_fetch_add_explicit(&p->shares, 1, memory_order_relaxed);
    return p;
}

void patterns_free(struct patterns **p)
{
    struct patterns *all = *p;
    *p = NULL;
    if (!all || atomic_fetch_sub_explicit(&all->shares, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < all->count; i++)
        free(all->at[i].middle);
    free(all->lists[PATTERNS_STRICT]);
    free(all->lists[PATTERNS_LOOSE]);
    free(all);
}

enum patterns_class patterns_class(const struct patterns *p, struct bytes name)
{
    bool of_pools = begins_with_pools(name);
    for (size_t i = 0; i < p->count; i++)
        if (of_pools == p->at[i].of_pools && pattern_matches(&p->at[i], name))
            return p->at[i].class;
    return PATTERNS_OWN;
}

/* True if the bytes of the pattern, whatever it begins with, match names that begin with POOLS. */
static bool reaches_pools(const struct pattern *p)
{
    for (size_t i = 0; i < POOLS_LEN; i++) {
        if (i == p->len)
            return false;
        if (p->bytes[i] == '*')
            return true;
        if (p->bytes[i] != '?' && p->bytes[i] != (uint8_t)POOLS[i])
            return false;
    }
    return true;
}

bool patterns_leave_pools(const struct patterns *p)
{
    bool reaches = false;
    for (size_t i = 0; i < p->count; i++) {
        if (p->at[i].of_pools)
            return false;
        reaches = reaches || reaches_pools(&p->at[i]);
    }
    return reaches;
}

const char *patterns_list(const struct patterns *p, enum patterns_class class)
{
    return p->lists[class];
}

const char *patterns_digest(const struct patterns *p)
{
    return p->digest;
}
