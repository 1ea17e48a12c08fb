/*
 * patterns.c - tests the options of the cluster: the address of the engine, and the patterns of
 * shared names.
 *
 * An input has lines: an address, the strict list, the loose list, and names. Promises: there is a
 * complaint or an object; an accepted address has hosts, ports and paths that fit, and its
 * hosts as text give the same address again; a name has the class that the simplest matcher finds;
 * the digest does not depend on the order of a list.
 */
#include "cluster/patterns.h"

#include "cluster/url.h"
#include "fuzz/fuzz.h"

#include <stdio.h>

/* The next line, as a string of its own. The caller frees it. */
static char *next_line(struct input *in)
{
    const uint8_t *end = in->left > 0 ? memchr(in->at, '\n', in->left) : NULL;
    size_t len;
    const uint8_t *bytes = input_bytes(in, end ? (size_t)(end - in->at) : in->left, &len);
    char *line = malloc(len + 1);
    CHECK(line);
    if (len > 0)
        memcpy(line, bytes, len);
    line[len] = '\0';
    (void)input_byte(in);
    return line;
}

static void check_reason(const char *reason)
{
    CHECK(reason[0] && strlen(reason) < OPTIONS_REASON_SIZE);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Writes an address again, from its parts. */
static void write_again(const struct url *url, char *to, size_t size)
{
    static const char *const begins[] = {[URL_NONE] = "",
                                         [URL_TCP] = "redis://",
                                         [URL_TLS] = "rediss://",
                                         [URL_UNIX] = "unix:",
                                         [URL_SENTINEL] = "sentinel://"};
    size_t len = (size_t)snprintf(to, size, "%s%s", begins[url->kind], url->path);
    for (unsigned i = 0; i < url->count; i++) {
        char host[URL_HOST_SIZE + 16];
        url_host_text(&url->hosts[i], host, sizeof(host));
        len += (size_t)snprintf(to + len, size - len, "%s%s", i ? "," : "", host);
    }
    if (url->kind == URL_TCP || url->kind == URL_TLS)
        len += (size_t)snprintf(to + len, size - len, "/%u", url->db);
    if (url->kind == URL_SENTINEL)
        len += (size_t)snprintf(to + len, size - len, "/%s", url->service);
    CHECK(len < size);
}

static void check_same(const struct url *a, const struct url *b)
{
    CHECK(a->kind == b->kind && a->count == b->count && a->db == b->db);
    CHECK(strcmp(a->path, b->path) == 0 && strcmp(a->service, b->service) == 0);
    for (unsigned i = 0; i < a->count; i++)
        CHECK(a->hosts[i].port == b->hosts[i].port &&
              strcmp(a->hosts[i].host, b->hosts[i].host) == 0);
}

static void try_url(const char *text)
{
    static char again[URL_HOSTS_MAX * (URL_HOST_SIZE + 16) + URL_SERVICE_SIZE + 64];
    struct url url, other;
    char reason[URL_REASON_SIZE];
    memset(&url, 'x', sizeof(url));
    if (!url_parse(text, &url, reason)) {
        check_reason(reason);
        return;
    }
    CHECK((url.kind == URL_NONE) == (text[0] == '\0'));
    CHECK(url.count <= URL_HOSTS_MAX);
    CHECK((url.count > 0) == (url.kind != URL_NONE && url.kind != URL_UNIX));
    for (unsigned i = 0; i < url.count; i++)
        CHECK(url.hosts[i].port > 0 && url.hosts[i].host[0] &&
              strlen(url.hosts[i].host) < URL_HOST_SIZE);
    CHECK((url.kind == URL_UNIX) == (url.path[0] == '/'));
    CHECK((url.kind == URL_SENTINEL) == (url.service[0] != '\0'));
    if (url.kind != URL_NONE && url.kind != URL_TLS)
        (void)url_target(&url, 0, NULL);
    write_again(&url, again, sizeof(again));
    CHECK(url_parse(again, &other, reason));
    check_same(&url, &other);
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* The simplest matcher: row by row, which names the pattern's beginnings match. */
static bool matches(const char *pattern, size_t pattern_len, const char *name, size_t name_len)
{
    bool *row = calloc(pattern_len + 1, sizeof(*row)), result;
    CHECK(row);
    row[0] = true;
    for (size_t p = 0; p < pattern_len && pattern[p] == '*'; p++)
        row[p + 1] = true;
    for (size_t n = 0; n < name_len; n++) {
        bool before = row[0];
        row[0] = false;
        for (size_t p = 0; p < pattern_len; p++) {
            bool above = row[p + 1];
            if (pattern[p] == '*')
                row[p + 1] = row[p] || above;
            else
                row[p + 1] = before && (pattern[p] == '?' || pattern[p] == name[n]);
            before = above;
        }
    }
    result = row[pattern_len];
    free(row);
    return result;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool list_matches(const char *list, const char *name)
{
    for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, ',');
        const char *to = end;
        while (at < to && is_blank(*at))
            at++;
        while (to > at && is_blank(to[-1]))
            to--;
        bool of_pools = strncmp(name, "pool:", 5) == 0, is_for_pools = strncmp(at, "pool:", 5) == 0;
        if (to > at && of_pools == is_for_pools &&
            matches(at, (size_t)(to - at), name, strlen(name)))
            return true;
    }
    return false;
}

/* The list with its patterns in the other order; the caller frees it. */
static char *reversed(const char *list)
{
    size_t len = strlen(list), at = 0;
    char *to = malloc(len + 1);
    CHECK(to);
    for (const char *end = list + len; end > list || (end == list && at == 0);) {
        const char *begin = end;
        while (begin > list && begin[-1] != ',')
            begin--;
        if (at > 0)
            to[at++] = ',';
        memcpy(to + at, begin, (size_t)(end - begin));
        at += (size_t)(end - begin);
        if (begin == list)
            break;
        end = begin - 1;
    }
    to[at] = '\0';
    return to;
}

static void check_digest(const struct patterns *p, const char *strict, const char *loose)
{
    char reason[PATTERNS_REASON_SIZE];
    char *other_strict = reversed(strict), *other_loose = reversed(loose);
    struct patterns *other = patterns_new(other_strict, other_loose, NULL, reason);
    CHECK(other && patterns_equal(p, other) &&
          strcmp(patterns_digest(p), patterns_digest(other)) == 0);
    CHECK(strlen(patterns_digest(p)) == PATTERNS_DIGEST_SIZE - 1);
    patterns_free(&other);
    free(other_strict);
    free(other_loose);
}

static void try_patterns(struct input *in)
{
    char reason[PATTERNS_REASON_SIZE];
    bool strict_wrong;
    char *strict = next_line(in), *loose = next_line(in);
    struct patterns *p = patterns_new(strict, loose, &strict_wrong, reason);
    if (!p)
        check_reason(reason);
    else
        check_digest(p, strict, loose);
    while (p && in->left > 0) {
        char *name = next_line(in);
        enum patterns_class class = patterns_class(p, bytes_of(name));
        enum patterns_class expected = list_matches(strict, name)  ? PATTERNS_STRICT
                                       : list_matches(loose, name) ? PATTERNS_LOOSE
                                                                   : PATTERNS_OWN;
        CHECK(class == expected);
        free(name);
    }
    patterns_free(&p);
    free(strict);
    free(loose);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    char *url = next_line(&in);
    try_url(url);
    free(url);
    try_patterns(&in);
    return 0;
}
