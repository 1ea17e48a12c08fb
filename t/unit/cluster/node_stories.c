/*
 * node_stories.c - plays node/NAME.story: a node, its owner and an engine, word by word.
 *
 * A story begins with `story TITLE`; `each A ~ B | C ~ D` below it has it played for each row,
 * whose columns are $1 and $2. Steps follow, with `; ` between those of a line. Times are
 * milliseconds, or a mark, or `lease` (its end), with +MS behind it; a last `-` or `+` is a
 * nanosecond less or more.
 *
 *     live, connect, accepts, readies, reported, ...   see `engine_step` and below
 *     > give r l 1               the node sends that: a script's name and arguments, or a command.
 *                                * is any word, ... any rest, @a the id of ask a, %m the session of
 * mark m < [1 "2" nil !"ERR no"]    the engine answers; 1*128 is 128 times 1, =+OK is +OK. >m, <m:
 * the wire of messages, >s0 that of a Sentinel a: me l 1/2/9 since=5      a request, which is ask a
 * from now on: no, any, me (how it waits), waits-any, waits-me with a place, release, end, get,
 * holders = a granted                what became of it; = KEY VALUE: what else is looked at
 * (`checks`) repeat N ... again         $i counts from 1
 *
 * Each story is played whole, with answers byte by byte, and with a wrong answer in the place of
 * each: then the node must begin again, come to life with an engine in memory, and keep nothing.
 */
#include "t/unit/cluster/node_words.h"

#include <glob.h>

enum { LINES = 4000, STORIES = 300, WRONG = 33 };
#ifdef __SANITIZE_ADDRESS__
#define WRONG_STEP 7
#else
#define WRONG_STEP 1
#endif

static struct line {
    char *text, *file;
    unsigned number;
} lines[LINES];
static struct story {
    unsigned first, count;
    char *rows;
} stories[STORIES];
static unsigned lines_used, stories_used;

/* ---- what both say --------------------------------------------------------------------------- */

static void engine_says(const char *wire)
{
    answer_value(unconst(p.rest));
    RIG_WANT(r.open[wire_of(wire)], "wire %s is not open", wire);
    rig_arrives(wire_of(wire), p.answer, p.answer_len);
}

static bool is_word(struct bytes want, const char *got, size_t len)
{
    const char *text = (const char *)want.data;
    char id[24];
    if (strcmp(text, "*") == 0)
        return true;
    if (*text == '@') {
        snprintf(id, sizeof(id), "%" PRIu64, find_ask(text + 1)->is.ask.id);
        want = bytes_of(id);
    } else if (*text == '%') {
        want = bytes_of(mark_of(text + 1, strlen(text + 1), false)->session);
    }
    return want.len == len && memcmp(want.data, got, len) == 0;
}

static void node_says(const char *wire)
{
    if (is(1, "-")) {
        rig_quiet(wire_of(wire));
        return;
    }
    const redisReply *command = rig_take(wire_of(wire));
    RIG_WANT(command, "the node says nothing");
    bool script = strcmp(rig_word(command, 0), "EVALSHA") == 0;
    if (script)
        rig_check_script(command);
    size_t at = script ? 1 : 0;
    unsigned i = 1;
    for (; at < command->elements && i < p.count && !is(i, "..."); i++) {
        const redisReply *got = command->element[at];
        RIG_WANT(is_word(p.words[i], got->str, got->len), "%s, not %s (word %u)", got->str, word(i),
                 i);
        at = script && at == 1 ? 5 : at + 1;
    }
    RIG_WANT(is(i, "...") || (at >= command->elements && i == p.count),
             "a command of %zu words, with %s", command->elements, rig_word(command, at));
}

/* ---- requests -------------------------------------------------------------------------------- */

static const char *const hows[] = {"no",      "any", "me",  "waits-any", "waits-me",
                                   "release", "end", "get", "holders"};

static void set_option(struct node_request *ask, const char *text)
{
    const char *value = strchr(text, '=');
    int64_t n = value ? strtoll(value + 1, NULL, 10) : 0;
    if (*text == 's')
        ask->since_ns = n;
    else if (*text == 'r')
        ask->report += (uint32_t)n; /* report=-1: the one before */
    else if (*text == 'i')
        ask->id = strtoull(value + 1, NULL, 10);
    else if (*text == 'p')
        ask->seq = (uint64_t)n; /* place= */
    else
        RIG_WANT(is(p.count - 1, "queued"), "no option: %s", text);
}

static void submit(const char *name)
{
    struct play_ask *a = find_ask(name);
    size_t how = 0;
    if (!a)
        a = find_ask("");
    while (how < ARRAY_SIZE(hows) && !is(1, hows[how]))
        how++;
    RIG_WANT(a && how < ARRAY_SIZE(hows) && p.words[2].len < sizeof(a->key), "what for an ask?");
    snprintf(a->name, sizeof(a->name), "%s", name);
    memcpy(a->key, p.words[2].data, p.words[2].len);
    struct node_request *ask = &a->is.ask;
    bool waits = how == 3 || how == 4;
    a->is = (struct rig_ask){.ask = {.op = how < 5   ? NODE_ACQUIRE
                                           : how < 7 ? NODE_RELEASE
                                           : how < 8 ? NODE_GET
                                                     : NODE_HOLDERS,
                                     .wait = (enum node_wait)(how < 3 ? how
                                                              : waits ? how - 2
                                                                      : 0),
                                     .by_end = how == 6,
                                     .units = 1,
                                     .limit = 1,
                                     .report = r.report,
                                     .id = r.next_id++,
                                     .name = bytes_at(a->key, p.words[2].len)}};
    for (unsigned i = 3; i < p.count && !waits; i++)
        if (!isdigit((unsigned char)*word(i)))
            set_option(ask, word(i));
        else
            sscanf(word(i), "%u/%u/%u", &ask->units, &ask->limit, &ask->queue_max);
    a->is.queued = ask->queued = is(p.count - 1, "queued");
    node_submit(r.node, ask, r.now);
    node_flush(r.node, r.now);
    if (waits) {
        rig_script("call");
        rig_answers("*1\r\n:%s\r\n", word(3));
        RIG_WANT(a->is.queued && !a->is.answered && ask->seq == (uint64_t)number(3), "no place");
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The message that grants a wait. */
static void grant(const struct node_request *ask)
{
    char text[200];
    int len = snprintf(text, sizeof(text), "G %" PRIu64 " %u ", ask->id, ask->units);
    memcpy(text + len, ask->name.data, ask->name.len);
    rig_message(bytes_at(text, (size_t)len + ask->name.len));
}

/* A beat is answered, and heard: `beats [grace] OTHERS`, which are sessions and their beats. */
static void beats(void)
{
    char text[32];
    bool grace = is(1, "grace");
    unsigned beat = ++p.beat;
    rig_script("beat");
    answer_value(unconst(grace ? strchr(p.rest, 'e') + 1 : p.rest));
    rig_answers("*3\r\n:%d\r\n*0\r\n*%u\r\n$16\r\n%s\r\n:%u\r\n%s", grace, 1 + p.count - grace,
                r.session, beat, p.answer);
    snprintf(text, sizeof(text), "B %u", beat);
    if (r.open[NODE_MESSAGES])
        rig_message(bytes_of(text));
}

/* All Sentinels name this engine; `none`. */
static void votes(void)
{
    for (unsigned i = NODE_SENTINEL; i < NODE_SENTINEL + 3; i++)
        if (r.open[i] && is(1, "none"))
            rig_say(i, "*-1\r\n");
        else if (r.open[i])
            rig_say(i, "*2\r\n$2\r\n%s\r\n$4\r\n6379\r\n", word(1));
}

static void set_info(void)
{
    char *field = strstr(r.info, word(1)), rest[512];
    RIG_WANT(field, "no field %s", word(1));
    snprintf(rest, sizeof(rest), "%s:%s%s", word(1), word(2), strstr(field, "\r\n"));
    strcpy(field, rest);
}

static bool engine_step(void)
{
    if (is(0, "sentinels")) { /* instead of an engine's address */
        rig_end();
        rig_begin("sentinel://a:1,b:2,c:3/main");
    } else if (is(0, "opens")) { /* these wires */
        for (unsigned i = 1; i < p.count; i++)
            rig_opens(wire_of(word(i)));
    } else if (is(0, "connect")) { /* and all up to the subscription */
        rig_connect();
    } else if (is(0, "accepts")) { /* the session; `grace` */
        rig_accepts(is(1, "grace"));
    } else if (is(0, "readies")) {
        rig_readies();
    } else if (is(0, "live")) { /* all of these */
        rig_live(is(1, "grace"));
        r.reported++;
    } else if (is(0, "message")) {
        rig_message(p.words[1]);
    } else if (is(0, "grants")) {
        grant(&ask_of(1)->ask);
    } else if (is(0, "beats")) {
        beats();
    } else if (is(0, "votes")) {
        votes();
    } else if (is(0, "look")) { /* what is answered to `look` from now on */
        answer_value(unconst(p.rest));
        free(r.look);
        r.look = copied(p.answer, p.answer_len);
    } else if (is(0, "info")) { /* a field of INFO */
        set_info();
    } else if (is(0, "cut")) { /* a wire, and why */
        rig_cut(wire_of(word(1)), p.count > 2 ? word(2) : "a test");
    } else {
        return false;
    }
    return true;
}

static bool time_step(void)
{
    if (is(0, "later"))
        rig_at(r.now + time_of(1));
    else if (is(0, "at"))
        rig_at(time_of(1));
    else if (is(0, "clock")) /* nobody is told that time has passed */
        r.now = isdigit((unsigned char)*word(1)) ? r.now + time_of(1) : time_of(1);
    else if (is(0, "retry")) /* until the node wants a connection */
        while (!r.asked[NODE_COMMANDS])
            rig_at(node_due_ns(r.node));
    else if (is(0, "mark")) { /* the time and the session */
        struct mark *m = mark_of(word(1), p.words[1].len, true);
        m->ns = r.now;
        memcpy(m->session, r.session, sizeof(m->session));
    } else
        return false;
    return true;
}

static void set_patterns(void)
{
    char reason[PATTERNS_REASON_SIZE];
    struct patterns *patterns = patterns_new(word(1), word(2), NULL, reason);
    node_set_patterns(r.node, patterns, r.now);
    patterns_free(&r.patterns);
    r.patterns = patterns;
}

/* An ask comes again as a wait, as after an upgrade and from the table. */
static void come_again(struct rig_ask *a)
{
    a->answered = false;
    a->queued = a->ask.queued = true;
    node_submit(r.node, &a->ask, r.now);
}

/* Another process goes on with the node's state. */
static void succeed(void)
{
    static struct record_writer writer;
    struct record_reader reader;
    node_pause(r.node, r.now);
    while (node_forget_request(r.node))
        continue;
    int fd = memfd_create("upgrade", MFD_CLOEXEC);
    record_writer_init(&writer, fd);
    record_put_head(&writer);
    node_save(r.node, &writer);
    CHECK(record_finish(&writer) && record_map(&reader, fd));
    node_free(&r.node);
    r.lease_end = 0;
    r.reported = r.reports;
    p.closed = r.closings;
    r.node = rig_node();
    record_get_head(&reader);
    CHECK(node_restore(r.node, &reader));
    record_unmap(&reader);
    close(fd);
}

static bool owner_step(void)
{
    if (is(0, "start")) {
        rig_start();
    } else if (is(0, "report")) { /* a name and its units */
        node_report(r.node, p.words[1], (uint32_t)number(2));
    } else if (is(0, "reports")) { /* many names: lm1, lm2, ... */
        char name[32];
        for (int64_t i = 1; i <= number(1); i++) {
            snprintf(name, sizeof(name), "lm%" PRId64, i);
            node_report(r.node, bytes_of(name), 1);
        }
    } else if (is(0, "reported")) {
        r.reported++;
        node_reported(r.node, r.now);
    } else if (is(0, "cancel")) {
        node_cancel(r.node, ask_of(1)->ask.id, r.now);
    } else if (is(0, "wait")) {
        come_again(ask_of(1));
    } else if (is(0, "gone")) { /* other processes are */
        r.gone = true;
    } else if (is(0, "patience")) {
        node_set_patience(r.node, time_of(1), r.now);
    } else if (is(0, "patterns")) {
        set_patterns();
    } else if (is(0, "access")) {
        CHECK(node_set_access(r.node, word(1), word(2), r.now));
    } else if (is(0, "anew")) {
        node_open_anew(r.node, "a test", r.now);
    } else if (is(0, "leave")) {
        node_leave(r.node, r.now);
    } else if (is(0, "pause")) {
        node_pause(r.node, r.now);
        return true;
    } else if (is(0, "closed")) { /* strict holders are */
        p.closed++;
        node_strict_closed(r.node, r.now);
    } else if (is(0, "succeed")) {
        succeed();
        return true;
    } else if (!is(0, "flush")) {
        return false;
    }
    node_flush(r.node, r.now);
    return true;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void check_ask(const struct rig_ask *a)
{
    static const char *const results[] = {
        [NODE_GRANTED] = "granted",       [NODE_DONE] = "done",         [NODE_BUSY] = "busy",
        [NODE_QUEUE_FULL] = "queue-full", [NODE_RELEASED] = "released", [NODE_COUNTED] = "counted",
        [NODE_CANCELLED] = "cancelled",   [NODE_ALONE] = "alone",       [NODE_ENGINE_AWAY] = "away",
        [NODE_ENGINE_FULL] = "full",      [NODE_NO_MEMORY] = "memory"};
    const char *got = a->answered ? results[a->ask.result] : a->queued ? "waits" : "asks";
    if (is(2, "place")) {
        RIG_WANT(a->ask.seq == (uint64_t)number(3), "place %" PRIu64, a->ask.seq);
        return;
    }
    RIG_WANT(is(2, got), "%s %s, not %s", word(1), got, word(2));
    if (p.count > 3)
        RIG_WANT(a->ask.count_units == (uint64_t)number(3) &&
                     a->ask.count_waits == (uint64_t)number(4),
                 "it counts %" PRIu64 " and %" PRIu64, a->ask.count_units, a->ask.count_waits);
}

static int64_t loss_count(const struct node_stats *seen)
{
    for (unsigned i = 0; i < NODE_LOSS_COUNT; i++)
        if (is(2, node_loss_word((enum node_loss)i)))
            return (int64_t)seen->losses[i];
    return -1;
}

static int64_t times_in_log(void)
{
    int64_t times = 0;
    for (const char *at = r.log; (at = strstr(at, word(2))); at++)
        times++;
    return times;
}

/* What a number is called, and what it is. A check has it in its last word. */
static bool look_at(const struct node_stats *seen, int64_t *value_r)
{
    size_t peers;
    (void)node_peers(r.node, &peers);
    const struct node_reason *reason = &seen->reasons[is(1, "times") ? number(2) : 0];
    const struct {
        const char *word;
        int64_t value;
    } values[] = {
        {"closings", r.closings},
        {"alone", r.alone},
        {"report", r.report},
        {"names", (int64_t)r.node->names.count},
        {"calls", (int64_t)seen->calls},
        {"asks", (int64_t)seen->requests},
        {"leases-lost", (int64_t)seen->leases_lost},
        {"wrong-names", (int64_t)seen->wrong_names},
        {"reasons", seen->reasons_count},
        {"times", (int64_t)reason->times},
        {"peers", (int64_t)peers},
        {"left", node_has_left(r.node)},
        {"wires", r.asked[NODE_COMMANDS] + r.asked[NODE_MESSAGES]},
        {"asked", is(1, "asked") && r.asked[wire_of(word(2))]},
        {"loss", loss_count(seen)},
        {"log", times_in_log()},
    };
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        if (is(1, values[i].word)) {
            *value_r = values[i].value;
            return true;
        }
    return false;
}

/* Times: = lease T, = due T, = due later T, = since N T; `never` is no time, `later` at least T. */
static bool check_time(const struct node_stats *seen)
{
    int64_t got = is(1, "lease")   ? r.lease_end
                  : is(1, "due")   ? node_due_ns(r.node)
                  : is(1, "since") ? seen->reasons[number(2)].since_ns
                                   : -1;
    int64_t want = is(p.count - 1, "never") ? INT64_MAX : time_of(p.count - 1);
    RIG_WANT(got == -1 || (is(2, "later")    ? got >= want
                           : is(2, "before") ? got < want
                                             : got == want),
             "%s: %" PRId64 ", not %" PRId64 " ns", word(1), got - r.now, want - r.now);
    return got != -1;
}

static void check(void)
{
    struct node_stats seen = rig_seen();
    const struct play_ask *a = find_ask(word(1));
    int64_t value;
    if (a) {
        check_ask(&a->is);
    } else if (is(1, "state")) {
        RIG_WANT(is(2, node_state_word(seen.state)), "it is %s", node_state_word(seen.state));
    } else if (is(1, "reason")) {
        const char *reason = seen.reasons[number(2)].text;
        RIG_WANT(strstr(reason, word(3)) && *reason, "the reason: %s", reason);
    } else if (is(1, "gone")) {
        RIG_WANT(is(2, r.is_gone_asked), "%s", r.is_gone_asked);
    } else if (look_at(&seen, &value)) {
        RIG_WANT(value == number(p.count - 1), "%s is %" PRId64 "; the log:\n%s", word(1), value,
                 r.log);
    } else {
        RIG_WANT(strchr("lds", *word(1)) && check_time(&seen), "what is %s?", word(1));
    }
}

/* ---- stories --------------------------------------------------------------------------------- */

static void step(const struct line *line)
{
    snprintf(rig_where, sizeof(rig_where), "%s:%u%s", line->file, line->number,
             r.splits     ? ", byte by byte"
             : r.wrong_at ? ", with a wrong answer"
                          : "");
    replace(line->text);
    char first[40];
    if (sscanf(p.text, "%39s", first) != 1)
        return; /* an empty column of a row */
    size_t len = strlen(first);
    p.rest = p.text + strcspn(p.text, " ");
    if (first[0] == '<') {
        engine_says(first + 1);
        return;
    }
    static char text[sizeof(p.text)];
    memcpy(text, p.text, sizeof(text));
    split(text);
    if (first[0] == '>') {
        node_says(first + 1);
    } else if (first[0] == '=') {
        check();
    } else if (first[len - 1] == ':') {
        first[len - 1] = 0;
        submit(first);
    } else {
        RIG_WANT(engine_step() || time_step() || owner_step(), "what is %s?", first);
    }
}

static void steps_of(const struct story *s)
{
    unsigned begin = 0, most = 0;
    for (unsigned i = s->first; i < s->first + s->count; i++) {
        const char *text = lines[i].text;
        if (strncmp(text, "repeat ", 7) == 0) {
            begin = i;
            most = (unsigned)strtoul(text + 7, NULL, 10);
            p.times = 1;
        } else if (strcmp(text, "again") == 0) {
            if (p.times++ < most)
                i = begin;
        } else {
            step(&lines[i]);
        }
    }
}

/* ---- a wrong answer -------------------------------------------------------------------------- */

/* As in a story. */
static const char wrong_values[] = "=+OK 1 -5 nil none [] \"\" abc [[]] [nil] [1 abc] [!\"ERR x\"] "
                                   "[[]*3] [1 [1] []] [0 [\"\"] [a 1]] [9 9] "
                                   "[0123456789abcdef \"99999999999999999999\"] [REAPED] [NODE "
                                   "0123456789abcdef [] 1 1] [LEASE] [LEASE 1 a] "
                                   "[VERSION] [ACL] [OPEN \" \" 1] [OPEN a] !\"OOM\" !\"\" "
                                   "!\"NOAUTH x\" !\"NOPERM x\" !\"HOLDS x\" !\"SESSION\" "
                                   "!\"TERM x\" [[1*8]]";
static char *wrong[WRONG];

static void make_wrong(void)
{
    char *values = copied(wrong_values, sizeof(wrong_values) - 1), *at = values;
    for (unsigned i = 0, count; i < WRONG; i++) {
        p.answer_len = 0;
        at = put_value(at + strspn(at, " "), &count);
        wrong[i] = copied(p.answer, p.answer_len);
    }
    CHECK(*at == 0);
    free(values);
}

/* All that is under way arrives, from an engine in memory; the Sentinels name it. */
static void arrive(struct fake_engine *engine)
{
    for (unsigned i = NODE_SENTINEL; i < NODE_WIRES; i++) {
        if (r.asked[i] && !r.open[i])
            rig_opens(i);
        while (r.open[i] && rig_take(i))
            rig_say(i, "*2\r\n$2\r\ne0\r\n$4\r\n6379\r\n");
    }
    for (unsigned i = 0; i < NODE_SENTINEL; i++) {
        size_t len;
        if (r.asked[i] && !r.open[i]) {
            r.open[i] = true;
            r.links[i] = fake_engine_connect(engine);
            node_opened(r.node, i, r.now);
        }
        const char *bytes = r.links[i] ? fake_engine_take(r.links[i], &len) : NULL;
        if (!bytes || len == 0)
            continue;
        char *copy = copied(bytes, len); /* the node may close the wire */
        node_received(r.node, i, copy, len, r.now);
        free(copy);
    }
    if (r.reported != r.reports) {
        r.reported = r.reports;
        node_reported(r.node, r.now);
    }
    if (p.closed != r.closings) {
        p.closed = r.closings;
        node_strict_closed(r.node, r.now);
    }
    node_flush(r.node, r.now);
}

/* The node was told nonsense. With an engine in its senses it lives again, and keeps nothing. */
static void recovers(void)
{
    struct fake_engine *engine = fake_engine_new("p", 1, NULL);
    r.wrong_at = 0;
    for (unsigned i = 0; i < NODE_WIRES; i++)
        if (r.asked[i])
            rig_cut(i, "a test");
    bool lives = false;
    for (unsigned n = 0, after = 0; n < 200 && after < 14; n++) {
        for (unsigned i = 0; i < 8; i++)
            arrive(engine);
        lives = rig_seen().state == NODE_LIVE;
        for (unsigned i = 0; i < ASKS && lives && after == 0; i++)
            if (p.asks[i].name[0] && !p.asks[i].is.answered)
                node_cancel(r.node, p.asks[i].is.ask.id, r.now);
        after = lives ? after + 1 : 0;
        rig_at(r.now + 500 * MS);
    }
    RIG_WANT(lives, "the node is %s: %s", node_state_word(rig_seen().state), r.log);
    RIG_WANT(r.node->names.count == 0 && r.node->calls_used == 0 && rig_seen().requests == 0,
             "%zu names, %u calls, %" PRIu64 " asks are left", (size_t)r.node->names.count,
             (unsigned)r.node->calls_used, rig_seen().requests);
    for (unsigned i = 0; i < NODE_WIRES; i++)
        if (r.links[i])
            rig_cut(i, "the end");
    fake_engine_free(engine);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Plays a story; with a wrong answer number `wrong_at`, or 0. How many answers came. */
static unsigned play(const struct story *s, bool splits, unsigned wrong_at, const char *instead)
{
    for (unsigned i = 0; i < ASKS; i++)
        p.asks[i].name[0] = 0;
    memset(p.marks, 0, sizeof(p.marks));
    p.beat = 1;
    p.closed = 0;
    rig_begin("redis://e:1");
    r.splits = splits;
    r.wrong_at = wrong_at;
    r.wrong = instead;
    if (setjmp(rig_stop) == 0)
        steps_of(s);
    else if (!r.node->leaving)
        recovers();
    unsigned answers = r.answers;
    rig_end();
    free(r.look);
    for (unsigned i = 0; i < ASKS; i++)
        if (p.asks[i].name[0])
            free(p.asks[i].is.ask.shares);
    return answers;
}

static void play_row(const struct story *s)
{
    unsigned answers = play(s, false, 0, NULL);
    play(s, true, 0, NULL);
    for (unsigned i = 1; i <= answers; i += WRONG_STEP)
        play(s, false, i, wrong[(i * 5 + s->first) % WRONG]);
}

START_TEST(story)
{
    const struct story *s = &stories[_i];
    char *rows = copied(s->rows, strlen(s->rows)), *rest = rows;
    for (char *row; (row = strsep(&rest, "|"));) {
        for (unsigned i = 0; i < COLUMNS; i++) {
            char *column = row ? strsep(&row, "~") : unconst("");
            p.columns[i] = column + strspn(column, " ");
            size_t len = strlen(p.columns[i]);
            if (len && p.columns[i][len - 1] == ' ')
                p.columns[i][len - 1] = 0;
        }
        play_row(s);
    }
    free(rows);
}
END_TEST

/* Up to the next `; ` that is not in quotes. */
static size_t step_length(const char *text)
{
    size_t len = 0;
    for (bool quoted = false; text[len]; len++)
        if (text[len] == '"' && (len == 0 || text[len - 1] != '\\'))
            quoted = !quoted;
        else if (!quoted && text[len] == ';' && text[len + 1] == ' ')
            break;
    return len;
}

static void load(char *path)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    unsigned count = 0;
    char *name = copied(basename(path), strlen(basename(path)));
    CHECK(f);
    while (getline(&text, &size, f) > 0) {
        struct story *s = &stories[stories_used - (stories_used > 0)];
        text[strcspn(text, "\n")] = 0;
        count++;
        if (*text == 0 || *text == '#')
            continue;
        if (strncmp(text, "story ", 6) == 0) {
            CHECK(stories_used < STORIES);
            stories[stories_used++] = (struct story){.first = lines_used, .rows = unconst("")};
        } else if (strncmp(text, "each ", 5) == 0) {
            s->rows = copied(text + 5, strlen(text + 5));
        } else {
            for (char *at = text; *at; s->count++) {
                size_t len = step_length(at);
                CHECK(lines_used < LINES);
                lines[lines_used++] = (struct line){copied(at, len), name, count};
                at += len + strspn(at + len, "; ");
            }
        }
    }
    free(text);
    fclose(f);
}

int main(void)
{
    const char *top = getenv("TOP_SRCDIR");
    char pattern[500];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s/t/unit/cluster/node/*.story", top ? top : ".");
    if (glob(pattern, 0, NULL, &found) != 0)
        return 1;
    for (size_t i = 0; i < found.gl_pathc; i++)
        load(found.gl_pathv[i]);
    globfree(&found);
    make_wrong();
    Suite *suite = suite_create("node stories");
    TCase *all = tcase_create("stories");
    tcase_set_timeout(all, UNIT_TIMEOUT_S);
    tcase_add_loop_test(all, story, 0, (int)stories_used);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed || stories_used == 0;
}
