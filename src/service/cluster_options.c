/*
 * cluster_options.c - the options cluster.*: their rows, what -t checks of them, and reloads.
 */
#include "service/cluster.h"

#include "base/option_value.h"

#include <string.h>

enum {
    ROW_ENGINE,
    ROW_USER,
    ROW_PASSWORD,
    ROW_CA,
    ROW_CERT,
    ROW_KEY,
    ROW_STRICT,
    ROW_LOOSE,
    ROW_NODE,
    ROW_LEASE,
    ROW_PATIENCE,
    ROW_PREFIX
};

#define NODE_NAME_MAX 64u
#define PREFIX_MAX    32u

/* ---- checks ---------------------------------------------------------------------------------- */

static bool check_engine(struct option_check *check)
{
    const struct cluster_settings *s = check->is;
    struct url url;
    check->row = ROW_ENGINE;
    return url_parse(s->engine, &url, check->reason);
}

static bool check_patterns(struct option_check *check)
{
    const struct cluster_settings *s = check->is;
    bool strict_wrong = false;
    struct patterns *patterns = patterns_new(s->strict, s->loose, &strict_wrong, check->reason);
    bool good = patterns != NULL;
    check->row = strict_wrong ? ROW_STRICT : ROW_LOOSE;
    patterns_free(&patterns);
    return good;
}

static bool check_node(struct option_check *check)
{
    const struct cluster_settings *s = check->is;
    const char *node = cluster_text(s->node);
    size_t visible = 0;
    while (node[visible] > ' ' && node[visible] <= '~')
        visible++;
    check->row = ROW_NODE;
    return (node[visible] == '\0' && visible <= NODE_NAME_MAX) ||
           option_say(check->reason, "not 1 to %u visible ASCII characters without spaces",
                      NODE_NAME_MAX);
}

static bool check_prefix(struct option_check *check)
{
    const struct cluster_settings *s = check->is;
    const char *prefix = cluster_text(s->prefix);
    size_t len = strspn(prefix, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    check->row = ROW_PREFIX;
    return (prefix[len] == '\0' && len >= 1 && len <= PREFIX_MAX) ||
           option_say(check->reason, "not 1 to %u characters of a-z 0-9 _ -", PREFIX_MAX);
}

static void forget(void *settings)
{
    struct cluster_settings *s = settings;
    tls_free(&s->tls);
}

static bool check_files(struct option_check *check)
{
    static const size_t row_of[] = {
        [TLS_FILE_CA] = ROW_CA, [TLS_FILE_CERT] = ROW_CERT, [TLS_FILE_KEY] = ROW_KEY};
    struct cluster_settings *s = check->is;
    const struct tls_client_config config = {.ca = s->ca, .cert = s->cert, .key = s->key};
    struct url url;
    enum tls_file wrong;
    forget(s);
    if (!url_parse(s->engine, &url, check->reason) || url.kind == URL_NONE)
        return true;
    check->row = s->key && !s->cert ? ROW_KEY : s->ca ? ROW_CA : ROW_CERT;
    if (check->row == ROW_KEY)
        return option_say(check->reason, "cluster.cert is empty, and a key is for a certificate");
    /* A person who names files expects that nobody reads the connection on its way. */
    if (url.kind != URL_TLS)
        return (!s->ca && !s->cert) ||
               option_say(check->reason,
                          "cluster.engine has no TLS: begin it with rediss://, or empty this");
    s->tls = tls_client_new(&config, &wrong, check->reason);
    if (!s->tls)
        check->row = row_of[wrong];
    return s->tls != NULL;
}

static bool check_settings(struct option_check *check)
{
    return check_engine(check) && check_patterns(check) && check_node(check) &&
           check_prefix(check) && check_files(check);
}

/* ---- reloads --------------------------------------------------------------------------------- */

static void settings_changed(void *services, const char *name, const void *was, const void *is)
{
    (void)name;
    if (is)
        cluster_change(services, was, is);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* clang-format off */
static const struct option_row rows[] = {
    [ROW_ENGINE] = { .key = "engine", OPTION_IS_STRING(struct cluster_settings, engine),
      .default_text = "", .unit = "",
      .help = "Redis of shared limits: redis://HOST:PORT, rediss://, unix:PATH, sentinel://; none: off" },
    [ROW_USER] = { .key = "user", OPTION_IS_STRING(struct cluster_settings, user),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "user of the engine; none: its default user" },
    [ROW_PASSWORD] = { .key = "password", OPTION_IS_STRING(struct cluster_settings, password),
      .default_text = "", .unit = "", .reloadable = true, .secret = true,
      .help = "password of that user; none: it needs none" },
    [ROW_CA] = { .key = "ca", OPTION_IS_STRING(struct cluster_settings, ca),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "file of the CAs of a rediss:// engine's certificate (PEM); none: those of the system" },
    [ROW_CERT] = { .key = "cert", OPTION_IS_STRING(struct cluster_settings, cert),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "file of the certificate that is shown to a rediss:// engine (PEM); empty: it gets none" },
    [ROW_KEY] = { .key = "key", OPTION_IS_STRING(struct cluster_settings, key),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "file of its private key (PEM, no passphrase); none: it is in the file of cluster.cert" },
    [ROW_STRICT] = { .key = "strict", OPTION_IS_STRING(struct cluster_settings, strict),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "shared names, as patterns with * and ?, commas between: never more than the limit" },
    [ROW_LOOSE] = { .key = "loose", OPTION_IS_STRING(struct cluster_settings, loose),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "shared names, as patterns: without the engine each node admits by itself" },
    [ROW_NODE] = { .key = "node", OPTION_IS_STRING(struct cluster_settings, node),
      .default_text = "", .unit = "",
      .help = "name of this node, which no other node has; none: host name and first port" },
    [ROW_LEASE] = { .key = "lease", OPTION_IS_SECONDS(struct cluster_settings, lease_ns), .min = 2,
      .max = 300, .default_text = "10", .unit = "seconds",
      .help = "a node that is silent for so long loses its units; the same on all nodes" },
    [ROW_PATIENCE] = { .key = "patience", OPTION_IS_SECONDS(struct cluster_settings, patience_ns),
      .max = 60, .default_text = "1", .unit = "seconds", .reloadable = true,
      .help = "how long requests wait for an engine that was lost" },
    [ROW_PREFIX] = { .key = "prefix", OPTION_IS_STRING(struct cluster_settings, prefix),
      .default_text = "counterd", .unit = "",
      .help = "what all keys in the engine begin with; one for each set of nodes that share" },
};
/* clang-format on */

const struct option_group cluster_options = {
    .owner = "cluster",
    .prefix = "cluster",
    .rows = rows,
    .count = ARRAY_SIZE(rows),
    .size = sizeof(struct cluster_settings),
    .check = check_settings,
    .forget = forget,
    .always = true, /* the files may have changed */
    .changed = settings_changed,
};
