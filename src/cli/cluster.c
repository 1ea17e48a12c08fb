/*
 * cluster.c - `counterctl cluster`: the nodes that share limits, as one of them sees them, where
 * units of a name are held, and what the engine (Redis) must allow.
 *
 * The admin interface answers all but `acl`, which asks nobody: the line, a command of redis-cli,
 * is needed before the first node starts.
 */
#include "cli/command.h"
#include "cli/http.h"
#include "cli/print.h"

#include <string.h>

#define PAGE "/api/v1/cluster"

/* Digits of each half of a term that are shown; it has 40 and 40. */
#define TERM_SHOWN 8

#define PREFIX_MAX 32

/* ---- the access list ------------------------------------------------------------------------- */

/* The commands that nodes and their scripts use. */
#define ENGINE_COMMANDS                                                                            \
    "+info +evalsha +script|load +subscribe +publish +hget +hmget +hset +hdel +hincrby +hgetall "  \
    "+hlen +hscan +exists +unlink +sadd +srem +sismember +srandmember +zadd +zrem +zrange "        \
    "+zpopmin +zcard +zscore"

/* True for a value that cluster.prefix may have. */
static bool is_prefix(const char *prefix)
{
    size_t len = strlen(prefix);
    return len >= 1 && len <= PREFIX_MAX &&
           strspn(prefix, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

static enum status print_access(const struct options *options)
{
    const char *prefix = options->prefix ? options->prefix : "counterd";
    struct text line = {0};
    if (!is_prefix(prefix))
        return complain_as(
            STATUS_USAGE,
            "cluster: --prefix is what cluster.prefix may be: 1 to %d of a-z, 0-9, _ and -",
            PREFIX_MAX);
    text_addf(&line,
              "ACL SETUSER USER on >PASSWORD resetkeys ~{%s}:* resetchannels &{%s}:* -@all %s%s",
              prefix, prefix, ENGINE_COMMANDS, options->db > 0 ? " +select" : "");
    if (options->json)
        json_print({"acl", json_string(text_str(&line))});
    else
        puts(text_str(&line));
    text_free(&line);
    return STATUS_OK;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/*
 * Requests the page, or what it says of a name (NULL: none). STATUS_OK: the server shares limits,
 * and the caller owns *answer_r; with --json it has been printed. Else it printed why not.
 */
static enum status ask_cluster(struct invocation *invocation, const struct text *name,
                               json_t **answer_r)
{
    struct http *http = http_of(invocation);
    struct http_call call = {0};
    struct text path = {0};
    if (!http)
        return STATUS_USAGE;
    text_addf(&path, PAGE "%s", name ? "?name=" : "");
    if (name)
        text_add_percent(&path, text_bytes(name));
    http_run(http, &call, text_str(&path), false);
    text_free(&path);
    bool is_old = call.code == 404; /* it has no such page at all, or not the name */
    if (is_old && name) {
        struct http_call other = {0};
        http_run(http, &other, PAGE, false);
        is_old = other.code == 404;
        http_call_free(&other);
    }
    enum status status = http_status(&call, !is_old);
    if (is_old)
        complain("cluster: the server at %s shares no limits: it is older than this counterctl",
                 http_where(http));
    if (status == STATUS_OK && !json_is_true_at(call.answer, "enabled"))
        status = complain_as(STATUS_NO,
                             "cluster: the server at %s shares no limits: it has no cluster.engine",
                             http_where(http));
    if (call.answer && invocation->options.json)
        json_line(json_incref(call.answer));
    *answer_r = status == STATUS_OK ? json_incref(call.answer) : NULL;
    http_call_free(&call);
    return status;
}

/* ---- this node ------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key)
{
    return json_number_at(object, key, 0);
}

/* The first digits of both halves: enough to see that it is another one. */
static void add_term(struct text *to, const char *term)
{
    size_t half = strcspn(term, ":");
    text_addf(to, "%.*s", half < TERM_SHOWN ? (int)half : TERM_SHOWN, term);
    if (term[half] == ':')
        text_addf(to, ":%.*s", TERM_SHOWN, term + half + 1);
}

static void print_engine(const json_t *answer)
{
    struct text term = {0};
    const char *engine = json_text_at(answer, "engine", "");
    add_term(&term, json_text_at(answer, "term", ""));
    print_line(stdout, "  engine      %s%s%s", *engine ? engine : "none is connected",
               term.len > 0 ? ", term " : "", text_str(&term));
    text_free(&term);
}

static void print_traffic(const json_t *answer)
{
    char texts[2][NUMBER_TEXT];
    struct text line = {0};
    double calls = number(answer, "calls");
    print_form("  requests    {requests} now, {waits} of them waits", answer);
    text_add_form(&line, "  calls       {calls}, ", answer);
    text_addf(&line, "%s ops a call, %s round trip; ",
              count_text(calls > 0 ? number(answer, "ops") / calls : -1, texts[0]),
              seconds_text(calls > 0 ? json_number_at(answer, "round_trip", -1) : -1, texts[1]));
    text_add_form(&line, "{beats} beats", answer);
    puts(text_str(&line));
    text_free(&line);
    print_form("  asserted    {asserted}; reaped {reaped}\n"
               "  leases lost {leases_lost}, with {connections_closed} connections closed",
               answer);
}

/* "3: closed 2, slow 1" */
static void print_reconnects(const json_t *answer)
{
    struct text text = {0};
    double sum = 0;
    const char *reason;
    json_t *value;
    json_object_foreach(json_at(answer, "reconnects"), reason, value)
    {
        double times = json_number_value(value);
        if (times <= 0)
            continue;
        text_addf(&text, "%s%s %.0f", sum > 0 ? ", " : ": ", reason, times);
        sum += times;
    }
    print_line(stdout, "  reconnects  %.0f%s", sum, text_str(&text));
    text_free(&text);
}

/* Why the node is not live; empty if it is. `label_r`: what this is called. */
static const char *reason_of(const json_t *answer, const char **label_r)
{
    const char *refused = json_text_at(answer, "refused", "");
    *label_r = *refused ? "refused" : "reason";
    return *refused ? refused : json_text_at(answer, "reason", "");
}

/* How often a reason came, and since when. */
static void print_times(const json_t *reason)
{
    if (number(reason, "reason_times") > 0) /* an older server does not count them */
        print_form("  times       {reason_times}, the first {s reason_age} ago", reason);
}

static void print_reasons(const json_t *answer)
{
    const char *label, *reason = reason_of(answer, &label);
    const json_t *before;
    size_t i;
    if (*reason)
        print_line(stdout, "  %-11s %s", label, reason);
    print_times(answer);
    json_array_foreach(json_at(answer, "reasons_before"), i, before)
    {
        print_form("  before      {reason}", before);
        print_times(before);
    }
}

static void print_this_node(const json_t *answer)
{
    print_form("{node}: {state}[session?, session {session}]", answer);
    print_reasons(answer);
    print_engine(answer);
    print_form(
        "  lease       [!+lease_left?over, of {s lease}: nothing strict is granted]"
        "[+lease_left?{s lease_left} left of {s lease}[grace?; grace: nothing strict is granted]]\n"
        "  patience    {s patience}\n"
        "  prefix      {prefix}\n"
        "  strict      {strict|none}\n"
        "  loose       {loose|none}",
        answer);
    print_traffic(answer);
    print_reconnects(answer);
}

/* ---- all nodes ------------------------------------------------------------------------------- */

/* True for a session that lives and has other patterns than this node. */
static bool has_other_patterns(const json_t *node)
{
    return json_is_false(json_at(node, "same_patterns")) &&
           strcmp(json_text_at(node, "state", ""), "ended") != 0;
}

static void print_nodes(const json_t *answer)
{
    static const struct column columns[] = {
        {"STATE", 'l', "{state}"},
        {"LAST BEAT", 'r', "{s beat_age}"},
        {"NAMES", 'r', "{names}"},
        {"UNITS", 'r', "{units}"},
        {"WAITS", 'r', "{waits}"},
        {"NODE", 'l', "{node}[this?  (this node)][differs?  (other patterns)]"},
        {NULL}};
    json_t *node;
    size_t i;
    json_array_foreach(json_at(answer, "nodes"), i, node)
    {
        if (i == 0)
            putchar('\n');
        if (has_other_patterns(node))
            json_object_set_new(node, "differs", json_true());
    }
    print_array(columns, json_at(answer, "nodes"), "");
}

static void print_advice(const json_t *answer)
{
    const json_t *line;
    size_t i;
    json_array_foreach(json_at(answer, "advice"), i, line)
    {
        const char *text = json_string_value(line);
        if (i == 0)
            putchar('\n');
        print_line(stdout, "advice: %s", text ? text : "-");
    }
}

static enum status show_all(struct invocation *invocation)
{
    json_t *answer = NULL;
    enum status status = ask_cluster(invocation, NULL, &answer);
    if (status == STATUS_OK && !invocation->options.json) {
        print_this_node(answer);
        print_nodes(answer);
        print_advice(answer);
    }
    json_decref(answer);
    return status;
}

/* ---- one name -------------------------------------------------------------------------------- */

static void print_name(const json_t *answer, const struct text *name)
{
    static const struct column columns[] = {
        {"UNITS", 'r', "{units}"}, {"WAITS", 'r', "{waits}"}, {"NODE", 'l', "{node}"}, {NULL}};
    struct text head = {0};
    text_add_name(&head, text_bytes(name));
    text_add_form(&head, ": {name.class}, {name.units} in use and {name.waits} waiting", answer);
    printf("%s on all nodes\n", text_str(&head));
    print_array(columns, json_at(answer, "name.nodes"), "");
    text_free(&head);
}

static enum status show_name(struct invocation *invocation, const struct text *name)
{
    json_t *answer = NULL;
    enum status status = ask_cluster(invocation, name, &answer);
    if (status == STATUS_OK && strcmp(json_text_at(answer, "name.class", ""), "own") == 0)
        status = complain_as(
            STATUS_NO, "cluster: the name is this node's own: no pattern of cluster.strict or "
                       "cluster.loose has it (pool:* is only for patterns that begin with pool:)");
    if (status == STATUS_OK && !invocation->options.json)
        print_name(answer, name);
    json_decref(answer);
    return status;
}

/* ---- check ----------------------------------------------------------------------------------- */

/* Notes a finding. */
static void find(struct text *findings, const char *about, const char *what)
{
    text_add_shown(findings, about);
    text_add_shown(findings, what);
    text_add(findings, "\n", 1);
}

/* Notes nodes with other patterns, unless the server's advice is about that. */
static void find_patterns(const json_t *answer, const char *advice, struct text *findings)
{
    const json_t *node;
    size_t i;
    json_array_foreach(json_at(answer, "nodes"), i, node)
    {
        const char *name = json_text_at(node, "node", "-");
        if (has_other_patterns(node) && !strstr(advice, "other patterns"))
            find(findings, name,
                 ": has other patterns; set cluster.strict and cluster.loose to the same on all "
                 "nodes");
    }
}

static void find_all(const json_t *answer, struct text *findings)
{
    const char *label, *reason = reason_of(answer, &label),
                       *state = json_text_at(answer, "state", "-");
    struct text advice = {0};
    const json_t *line;
    size_t i;
    if (strcmp(state, "live") != 0) {
        text_addf(findings, "not live: ");
        find(findings, state, *reason ? "" : "; the server's log says why");
    }
    if (*reason) {
        text_addf(findings, "%s: ", label);
        find(findings, "", reason);
    }
    json_array_foreach(json_at(answer, "advice"), i, line)
    {
        const char *text = json_string_value(line);
        find(&advice, "advice: ", text ? text : "-");
    }
    find_patterns(answer, text_str(&advice), findings);
    text_add(findings, advice.data, advice.len);
    text_free(&advice);
}

static enum status check(struct invocation *invocation)
{
    json_t *answer = NULL;
    struct text findings = {0};
    enum status status = ask_cluster(invocation, NULL, &answer);
    if (status == STATUS_OK) {
        find_all(answer, &findings);
        status = findings.len > 0 ? STATUS_NO : STATUS_OK;
        if (!invocation->options.json)
            fputs(findings.len > 0 ? text_str(&findings) : "live, and nothing to set\n", stdout);
    }
    text_free(&findings);
    json_decref(answer);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

int do_cluster(struct invocation *invocation)
{
    const char *word = invocation->count > 0 ? invocation->arguments[0] : NULL;
    if (word && strcmp(word, "acl") == 0)
        return (int)print_access(&invocation->options);
    if (!word)
        return (int)show_all(invocation);
    if (strcmp(word, "check") == 0)
        return (int)check(invocation);
    struct text name = {0};
    enum status status =
        read_name(invocation, word, &name) ? show_name(invocation, &name) : STATUS_USAGE;
    text_free(&name);
    return (int)status;
}
