/*
 * script_test.c - plays conn.script: workers and connections on a fake network, with a moving clock
 * and a protocol for tests.
 *
 * Each test of the script is played in each mode: as it says; in bytes (`split`); with reads and
 * writes of a byte (`short`); with an upgrade before each command, to one worker (`upgrade`) or to
 * two and back (`spread`). The head of conn.script lists its commands; with a part of the names of
 * tests as its argument the program plays those alone. One thread.
 */
#include "t/unit/net/script.h"

/* ---- the workers ----------------------------------------------------------------------------- */

static struct loop *loop_of(unsigned worker)
{
    return worker_reactor(server.workers[worker])->loop;
}

static void make_workers(unsigned count)
{
    server = (struct server){.count = count};
    struct snapshot *snapshot = snapshot_new(&config);
    CHECK(snapshot);
    server_set_snapshot(&server, snapshot);
    for (unsigned i = 0; i < count; i++)
        CHECK((server.workers[i] = worker_new(&server, i)) != NULL);
}

/* What is true of each connection between events. */
static void check_all(void)
{
    for (unsigned i = 0; i < client_count; i++) {
        const struct conn *conn = clients[i].conn;
        if (!conn)
            continue;
        size_t limit = conn_output_limit(conn);
        CHECK(conn_space(conn) == (conn->out_bytes < limit ? limit - conn->out_bytes : 0));
        CHECK(conn_pending(conn) >= clients[i].pending);
        CHECK(conn->out.first || conn->out_bytes == 0 || conn->extended);
        CHECK(!conn->in == (conn->in_room == 0));
    }
}

/* One iteration of each worker. False: there was nothing to do. */
static bool iterate(void)
{
    bool any = false;
    for (unsigned i = 0; i < server.count; i++)
        any = fake_turn(loop_of(i)) || any;
    check_all();
    return any;
}

/* Goes on until the loops would sleep: a client that waits must not be woken again and again. */
static void run(void)
{
    for (unsigned i = 0; iterate(); i++)
        EXPECT(i < 1000000, "the loop never sleeps");
}

static int64_t next_timer_ns(void)
{
    int64_t at_ns = INT64_MAX;
    for (unsigned i = 0; i < server.count; i++)
        at_ns = loop_of(i)->timer_at_ns < at_ns ? loop_of(i)->timer_at_ns : at_ns;
    return at_ns;
}

static void advance(int64_t ns)
{
    int64_t end_ns = fake_now.mono_ns + ns;
    run();
    while (next_timer_ns() <= end_ns) {
        fake_pass_time(next_timer_ns() - fake_now.mono_ns);
        run();
    }
    fake_pass_time(end_ns - fake_now.mono_ns);
    run();
}

static void for_each_conn(void (*fn)(struct conn *conn))
{
    for (unsigned i = 0; i < server.count; i++) {
        for (uint32_t slot = 0; slot < worker_slots(server.workers[i]); slot++) {
            struct conn *conn = worker_conn_at(server.workers[i], slot);
            if (conn)
                fn(conn);
        }
    }
}

static void abandon(struct conn *conn)
{
    loop_io_remove(worker_reactor(conn_worker(conn))->loop, &conn->io);
    struct client *c = client_of(conn);
    c->conn = c->found = NULL;
    conn->stream.fd = -1;
    conn_close(conn, CLOSE_KILLED);
    atomic_fetch_sub(&protocol.closed[CLOSE_KILLED], 1);
}

/* Closes all connections by `fn`, and frees the workers. */
static void free_workers(void (*fn)(struct conn *conn))
{
    for_each_conn(fn);
    for (unsigned i = 0; i < server.count; i++)
        worker_drain(server.workers[i]);
    EXPECT(atomic_load(&server.unfinished) == 0, "claims are left");
    EXPECT(server.sources.count == 0, "sources are left");
    for (unsigned i = 0; i < server.count; i++)
        worker_free(&server.workers[i]);
    server_free_snapshot(&server);
}

static struct protocol *protocol_named(void *arg, const char *name)
{
    (void)arg;
    return strcmp(name, row.name) == 0 ? &protocol : NULL;
}

static const char *read_record(struct carry *carry, struct record_reader *r)
{
    struct record_reader section;
    uint32_t kind;
    while (record_enter(r, &kind, &section)) {
        if (!carry_restore(carry, kind, &section))
            record_unknown(&section, kind);
    }
    if (!record_ok(r))
        return r->why;
    carry_done(carry);
    return NULL;
}

static int save_record(void)
{
    static struct record_writer w;
    int fd = memfd_create("script", MFD_CLOEXEC);
    while (server_flush_paused(&server))
        continue;
    record_writer_init(&w, fd);
    server_save(&server, &w);
    CHECK(record_finish(&w));
    return fd;
}

static void find(struct conn *conn)
{
    client_of(conn)->found = conn;
}

/* Other workers take over. */
static void upgrade(unsigned count)
{
    struct record_reader r;
    int fd = save_record();
    abandons = true;
    free_workers(abandon);
    abandons = false;
    make_workers(count);
    CHECK(record_map(&r, fd));
    (void)close(fd);
    struct carry carry = {.server = &server, .protocol = protocol_named};
    const char *why = read_record(&carry, &r);
    EXPECT(!why, "upgrade: %s", why);
    record_unmap(&r);
    for_each_conn(find);
    run();
}

/* ---- clients --------------------------------------------------------------------------------- */

static void on_received(struct fake_peer *peer, const uint8_t *data, size_t len, bool first,
                        bool last)
{
    struct client *c = (struct client *)(void *)peer;
    (void)last;
    c->writes += first;
    if (c->got_len + len + 1 > c->got_room) {
        c->got_room = (c->got_len + len + 1) * 2;
        c->got = realloc(c->got, c->got_room);
        CHECK(c->got);
    }
    memcpy(c->got + c->got_len, data, len);
    c->got_len += len;
    c->got[c->got_len] = '\0';
}

static void on_peer_closed(struct fake_peer *peer)
{
    ((struct client *)(void *)peer)->found = NULL;
}

static ssize_t one_byte(struct fake_peer *peer, bool writes, size_t len)
{
    static unsigned turn;
    (void)peer;
    (void)writes;
    return ++turn % 3 == 0 ? STREAM_AGAIN : len > 1 && turn % 2 ? 1 : (ssize_t)(len < 7 ? len : 7);
}

static void join(const char *name, unsigned from)
{
    CHECK(client_count < CLIENTS);
    struct client *c = &clients[client_count++];
    *c = (struct client){.peer.window = SIZE_MAX, .peer.address = 0xc0000200 + from};
    snprintf(c->name, sizeof(c->name), "%s", name);
    fake_peer_join(&c->peer);
    struct worker *worker = server.workers[(unsigned)c->peer.fd % server.count];
    worker_begin_iteration(worker);
    atomic_fetch_add(&protocol.connections, 1);
    uint32_t source = source_enter_peer(&server.sources, c->peer.fd);
    CHECK(worker_open(worker, &protocol, (struct stream){.fd = c->peer.fd}, source));
    c->found = c->conn;
    EXPECT(c->conn, "%s is not served", name);
    (void)worker_end_iteration(worker);
}

/* Sends text; in `split` each byte for itself, if it is not too long for that. */
static void send_text(struct client *c, const char *text, size_t len, bool holds)
{
    size_t at = 0;
    for (; mode == SPLIT && !holds && len < 4096 && at + 1 < len; at++) {
        fake_peer_send(&c->peer, text + at, 1);
        run();
    }
    fake_peer_send(&c->peer, text + at, len - at);
    if (!holds)
        run();
}

/* ---- the script ------------------------------------------------------------------------------ */

struct text {
    char *data;
    size_t len, room;
};

static void add(struct text *to, const char *data, size_t len)
{
    if (to->len + len >= to->room) {
        to->room = 2 * (to->len + len + 1);
        CHECK((to->data = realloc(to->data, to->room)) != NULL);
    }
    memcpy(to->data + to->len, data, len);
    to->len += len;
    to->data[to->len] = '\0';
}

/* Reads a text up to `end` (or the null byte): \n \0 \s, and {TEXT*N}, in which # is the number. */
static const char *read_text(const char *at, char end, struct text *to)
{
    while (*at && *at != end) {
        if (*at == '\\' && at[1]) {
            add(to, at[1] == 'n' ? "\n" : at[1] == '0' ? "\0" : at[1] == 's' ? " " : at + 1, 1);
            at += 2;
        } else if (*at == '{') {
            struct text inner = {0};
            add(&inner, "", 0);
            at = read_text(at + 1, '*', &inner);
            const uint8_t *number_at = (const uint8_t *)at + 1;
            uint64_t count = 0;
            (void)number_scan(&number_at, NULL, 10, UINT32_MAX, &count);
            at = (const char *)number_at;
            char *mark = strchr(inner.data, '#');
            for (unsigned i = 0; i < count; i++) {
                char number[16];
                int len = snprintf(number, sizeof(number), "%u", i);
                size_t before = mark ? (size_t)(mark - inner.data) : inner.len;
                add(to, inner.data, before);
                if (mark) {
                    add(to, number, (size_t)len);
                    add(to, mark + 1, inner.len - before - 1);
                }
            }
            free(inner.data);
            at++;
        } else {
            add(to, at++, 1);
        }
    }
    return at;
}

struct named {
    const char *key;
    uint64_t value;
};

static bool look_up(const struct named *values, size_t count, const char *key, uint64_t *value_r)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(values[i].key, key) == 0) {
            *value_r = values[i].value;
            return true;
        }
    }
    return false;
}

static uint64_t server_value(const char *key)
{
    struct buckets_sum sum = {0};
    uint64_t value = 0;
    buckets_sum_up(&sum, &traffic[0].answers.buckets);
    buckets_sum_up(&sum, &traffic[1].answers.buckets);
    const struct named values[] = {
        {"unfinished", atomic_load(&server.unfinished)},
        {"shares", shares},
        {"send_errors", atomic_load(&protocol.send_errors)},
        {"outputs_full", atomic_load(&protocol.outputs_full)},
        {"requests", tally_get(&traffic[0].requests) + tally_get(&traffic[1].requests)},
        {"received", tally_get(&traffic[0].received) + tally_get(&traffic[1].received)},
        {"sent", tally_get(&traffic[0].sent) + tally_get(&traffic[1].sent)},
        {"measured", buckets_sum_count(&sum)},
    };
    if (!look_up(values, ARRAY_SIZE(values), key, &value))
        wrong("no such value: %s", key);
    return value;
}

static uint64_t value_of(struct client *c, const char *key)
{
    uint64_t value;
    const struct named values[] = {
        {"writes", c->writes},
        {"served", c->served},
        {"resumes", c->resumes},
        {"rooms", c->rooms},
        {"ends", c->ends},
        {"expired", c->expired},
        {"lines", c->lines},
        {"lost", c->lost},
        {"closes", c->closes},
        {"close_end", c->close_end},
        {"pending", c->pending},
        {"got", c->got_len},
        {"close_written", c->close_written},
        {"closed", c->peer.closed},
    };
    if (look_up(values, ARRAY_SIZE(values), key, &value))
        return value;
    struct conn *conn = c->found;
    EXPECT(conn, "%s has no connection", c->name);
    if (strcmp(key, "unsent") == 0)
        return conn->out_bytes;
    if (strcmp(key, "room") == 0)
        return conn->in_room;
    if (strcmp(key, "chunks") == 0)
        return conn->out.first != NULL;
    if (strcmp(key, "timed") == 0)
        return deadline_is_set(&conn->read_deadline);
    if (strcmp(key, "unmarked") == 0) /* bytes behind the last answer */
        return conn_output_end(conn) - c->mark;
    if (strcmp(key, "waits") == 0) /* unsent bytes of all that is queued, by position */
        return (uint64_t)conn_position_save(conn, conn_output_end(conn));
    if (strcmp(key, "written") == 0) { /* true of the mark's byte */
        int64_t saved = conn_position_save(conn, c->mark);
        for (uint64_t at = c->mark > 9 ? c->mark - 9 : 0; at < c->mark + 9; at++) {
            int64_t from_mark = (int64_t)(at - c->mark);
            CHECK(conn_position_restore(conn, saved + from_mark) == at);
            CHECK(conn_was_written(conn, at) == (saved + from_mark < 0));
        }
        return saved <= 0;
    }
    wrong("no such value: %s", key);
    return 0;
}

/* key=NUMBER, key<=NUMBER or key>=NUMBER */
static void see(struct client *c, char *word)
{
    size_t len = strcspn(word, "<>=");
    char how = word[len];
    char *number = word + len + (how == '=' ? 1 : 2);
    word[len] = '\0';
    uint64_t expected = strtoull(number, NULL, 10),
             value = c ? value_of(c, word) : server_value(word);
    EXPECT(how == '='   ? value == expected
           : how == '<' ? value <= expected
                        : value >= expected,
           "%s%c%s, but it is %lu", word, how, number, (unsigned long)value);
}

static void expect_got(struct client *c, const char *text)
{
    struct text expected = {0};
    add(&expected, "", 0);
    (void)read_text(text, '\0', &expected);
    size_t same = 0;
    while (same < expected.len && same < c->got_len && expected.data[same] == c->got[same])
        same++;
    EXPECT(c->got_len == expected.len && same == expected.len,
           "%s got %zu bytes, not %zu; from %zu on \"%.40s\", not \"%.40s\"", c->name, c->got_len,
           expected.len, same, c->got ? c->got + same : "", expected.data + same);
    free(expected.data);
    c->got_len = c->writes = 0;
}

static void expect_closed(struct client *c, const char *word)
{
    EXPECT(c->peer.closed, "%s is open", c->name);
    unsigned reason = 0;
    while (protocol_close_word(&row, reason) &&
           strcmp(protocol_close_word(&row, reason), word) != 0)
        reason++;
    EXPECT(protocol_close_word(&row, reason), "no such reason: %s", word);
    EXPECT(atomic_load(&protocol.closed[reason]) > consumed[reason], "it was not %s", word);
    consumed[reason]++;
}

/* Acts in the thread of the connection's worker. */
static void act(struct client *c, const char *verb, char *args)
{
    char *more = args ? strchr(args, ' ') : NULL;
    uint64_t number = args ? strtoull(args, NULL, 10) : 0;
    struct worker *worker = c->found ? conn_worker(c->found) : NULL;
    bool goes_on = args && strcmp(verb, "lines|") == 0; /* nobody runs meanwhile */
    EXPECT(worker, "%s has no connection", c->name);
    worker_begin_iteration(worker);
    if (strcmp(verb, "answer") == 0) {
        struct text text = {0};
        add(&text, "", 0);
        (void)read_text(more ? more + 1 : "", '\0', &text);
        answer(c, (unsigned)number, text.data);
        free(text.data);
    } else if (strncmp(verb, "lines", 5) == 0) {
        unsent_max = strtoul(more, NULL, 10);
        for (; number > 0; number--)
            interject(c->conn);
    } else if (strcmp(verb, "extend") == 0) {
        if (conn_extend(c->conn) == no_memory)
            wrong("extend");
        if (!no_memory)
            c->mark = conn_output_end(c->conn);
    } else if (strcmp(verb, "near-the-end") == 0) { /* of the numbers of requests */
        struct conn_extension *extension = conn_extension(c->conn);
        extension->oldest = extension->next = UINT32_MAX - 2;
    } else if (strcmp(verb, "mark") == 0) {
        conn_check_output(c->conn);
    } else if (strcmp(verb, "holds") == 0) {
        EXPECT(conn_hold(c->conn, number), "no room to hold");
    } else if (strcmp(verb, "cannot-hold") == 0) {
        EXPECT(!conn_hold(c->conn, number), "there is room to hold");
    } else if (strcmp(verb, "unhold") == 0) {
        conn_unhold(c->conn, number);
    } else if (strcmp(verb, "kill") == 0) {
        conn_close(c->found, CLOSE_KILLED);
    } else if (strcmp(verb, "finish") == 0) {
        conn_finish(c->found, CLOSE_OWN + 1);
    } else {
        wrong("no such command: %s", verb);
    }
    (void)worker_end_iteration(worker);
    if (!goes_on)
        run();
}

static void command_of(struct client *c, char *verb, char *args)
{
    bool raw = verb[0] && verb[0] == verb[1];
    if (strcmp(verb, "refuse") == 0) {
        c->refuses = true;
    } else if (strcmp(verb, "again") == 0) {
        c->expires_again = true;
    } else if (strcmp(verb, "swallow") == 0) {
        c->got_len = c->writes = 0;
    } else if (strcmp(verb, "checks") == 0) {
        EXPECT((c->asked > 0) == !args, "may_write was called %u times", c->asked);
        c->asked = 0;
    } else if (strcmp(verb, "stubborn") == 0) {
        c->peer.stubborn = true;
    } else if (strcmp(verb, "is") == 0) {
        char *save_at = NULL, *list = strdup(args);
        for (char *word = strtok_r(list, " ", &save_at); word; word = strtok_r(NULL, " ", &save_at))
            see(c, word);
        free(list);
    } else if (strcmp(verb, "<") == 0) {
        expect_got(c, args ? args : "");
    } else if (verb[0] == '>' || verb[0] == '|') {
        struct text text = {0};
        (void)read_text(args ? args : "", '\0', &text);
        add(&text, "\n", !raw && (text.len == 0 || text.data[text.len - 1] != '\n'));
        send_text(c, text.data, text.len, verb[0] == '|');
        free(text.data);
    } else if (strcmp(verb, "closed") == 0) {
        expect_closed(c, args);
    } else if (strcmp(verb, "window") == 0 || strcmp(verb, "eof") == 0 ||
               strcmp(verb, "broken") == 0) {
        if (verb[0] == 'w')
            c->peer.window = args[0] == 'a' ? SIZE_MAX : strtoul(args, NULL, 10);
        c->peer.ended = c->peer.ended || verb[0] == 'e';
        c->peer.broken = c->peer.broken || verb[0] == 'b';
        c->peer.news = true;
        run();
    } else {
        act(c, verb, args);
    }
}

/* Calls `fn` for each of "a", "a,b" or "a1..9". */
static void for_names(char *names, void (*fn)(const char *name, void *arg), void *arg)
{
    char *dots = strstr(names, ".."), *save_at = NULL;
    if (dots) {
        unsigned first, last = (unsigned)strtoul(dots + 2, NULL, 10);
        size_t len = strcspn(names, "0123456789");
        first = (unsigned)strtoul(names + len, NULL, 10);
        for (unsigned i = first; i <= last; i++) {
            char name[32];
            snprintf(name, sizeof(name), "%.*s%u", (int)len, names, i);
            fn(name, arg);
        }
        return;
    }
    for (char *name = strtok_r(names, ",", &save_at); name; name = strtok_r(NULL, ",", &save_at))
        fn(name, arg);
}

static void connect_one(const char *name, void *arg)
{
    join(name, *(unsigned *)arg);
}

static void do_one(const char *name, void *arg)
{
    char **verb_args = arg;
    struct client *c = client_named(name);
    EXPECT(c, "no client is called %s", name);
    command_of(c, verb_args[0], verb_args[1]);
}

static void set_server(char *words)
{
    char *save_at = NULL;
    for (char *word = strtok_r(words, " ", &save_at); word; word = strtok_r(NULL, " ", &save_at)) {
        char *equals = strchr(word, '=');
        uint64_t value = equals ? strtoull(equals + 1, NULL, 10) : 1;
        if (equals)
            *equals = '\0';
        if (strcmp(word, "pending") == 0)
            row.pending_max = (unsigned)value;
        else if (strcmp(word, "tracks") == 0)
            row.tracks_output = true;
        else if (strcmp(word, "extends") == 0)
            row.extends_later = true;
        else if (strcmp(word, "deadlines") == 0)
            row.deadlines = (unsigned)value;
        else if (strcmp(word, "parts") == 0)
            row.part_step = (uint32_t)value;
        else if (strcmp(word, "serves_ends") == 0)
            row.input_end = INPUT_END_SERVED;
        else if (strcmp(word, "output") == 0)
            config.limits.output_buffer = (uint32_t)value;
        else if (strcmp(word, "unfinished") == 0)
            config.limits.unfinished = value;
        else
            wrong("no such key: %s", word);
    }
}

static void command(char *line)
{
    char *words[3] = {line};
    for (unsigned i = 1; i < 3; i++) {
        words[i] = words[i - 1] ? strchr(words[i - 1], ' ') : NULL;
        if (words[i])
            *words[i]++ = '\0';
    }
    if (mode >= UPGRADE && server.count > 0)
        upgrade(mode == SPREAD ? server.count % 2 + 1 : 1);
    if (strcmp(line, "server") == 0 && strcmp(words[1], "is") == 0) {
        char *save_at = NULL;
        for (char *w = strtok_r(words[2], " ", &save_at); w; w = strtok_r(NULL, " ", &save_at))
            see(NULL, w);
    } else if (strcmp(line, "server") == 0) {
        if (words[2])
            words[2][-1] = ' ';
        set_server(words[1]);
    } else if (strcmp(line, "connect") == 0) {
        unsigned from = words[2] ? (unsigned)strtoul(words[2] + strlen("from "), NULL, 10) : 1;
        if (server.count == 0)
            make_workers(1);
        for_names(words[1], connect_one, &from);
    } else if (strcmp(line, "run") == 0) {
        run();
    } else if (strcmp(line, "step") == 0) {
        for (unsigned long i = strtoul(words[1], NULL, 10); i > 0; i--)
            (void)iterate();
    } else if (strcmp(line, "advance") == 0) {
        const uint8_t *at = (const uint8_t *)words[1];
        advance(number_scan_seconds(&at, 1000000));
    } else if (strcmp(line, "memory") == 0) {
        no_memory = strcmp(words[1], "none") == 0;
    } else if (strcmp(line, "upgrade") == 0) {
        upgrade((unsigned)strtoul(words[1], NULL, 10));
    } else {
        EXPECT(words[1], "no such command: %s", line);
        for_names(line, do_one, words + 1);
    }
}

static void shut(struct conn *conn)
{
    conn_close(conn, CLOSE_SHUTDOWN);
}

/* At the end nothing is left, and each close was expected. */
static void end(void)
{
    no_memory = false;
    for (unsigned i = 0; i < client_count; i++)
        EXPECT(clients[i].got_len == 0, "%s got more: \"%.40s\"", clients[i].name, clients[i].got);
    for (unsigned i = 0; protocol_close_word(&row, i); i++)
        EXPECT(atomic_load(&protocol.closed[i]) == consumed[i], "closed, too: %s",
               protocol_close_word(&row, i));
    free_workers(shut);
    EXPECT(atomic_load(&protocol.connections) == 0, "connections are counted");
    EXPECT(shares == 0, "shared bytes are left");
    fake_peers_leave();
    for (unsigned i = 0; i < client_count; i++)
        free(clients[i].got);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static char *lines[2000];
static unsigned line_count, tests[200], test_count;

/* Tests whose names have `part`. */
static void read_script(const char *part)
{
    char path[4096], *line = NULL;
    size_t size = 0;
    const char *top = getenv("TOP_SRCDIR");
    snprintf(path, sizeof(path), "%s/t/unit/net/conn.script", top ? top : ".");
    FILE *file = fopen(path, "r");
    CHECK(file);
    for (ssize_t len; (len = getline(&line, &size, file)) > 0; line_count++) {
        CHECK(line_count < ARRAY_SIZE(lines) - 1 && test_count < ARRAY_SIZE(tests));
        line[len - 1] = '\0';
        lines[line_count] = strdup(line);
        if (strncmp(line, "test ", 5) == 0 && strstr(line, part))
            tests[test_count++] = line_count;
    }
    free(line);
    fclose(file);
}

static bool is_borne(unsigned at)
{
    for (at++; lines[at] && strncmp(lines[at], "test ", 5) != 0; at++) {
        if (strncmp(lines[at], "cannot:", 7) == 0 && strstr(lines[at], mode_words[mode]))
            return false;
    }
    return true;
}

TEST(script)
{
    unsigned at = tests[_i / MODES];
    mode = (enum mode)(_i % MODES);
    if (!is_borne(at))
        return;
    row = whole_row;
    protocol = (struct protocol){
        .row = &row, .session_size = 13, .request_max = LINE_MAX_LEN, .traffic = traffic};
    config.limits = (struct server_limits){.output_buffer = 256u * 1024,
                                           .request_timeout_ns = 30 * NS_PER_S,
                                           .write_timeout_ns = 30 * NS_PER_S,
                                           .handshake_timeout_ns = 30 * NS_PER_S};
    fake_hooks = (struct fake_hooks){
        .received = on_received, .closed = on_peer_closed, .call = mode == SHORT ? one_byte : NULL};
    for (at++; lines[at] && strncmp(lines[at], "test ", 5) != 0; at++) {
        line_number = at + 1;
        if (lines[at][0] && lines[at][0] != '#' && strncmp(lines[at], "cannot:", 7) != 0)
            command(lines[at]);
    }
    end();
}

int main(int argc, char **argv)
{
    read_script(argc > 1 ? argv[1] : "");
    Suite *suite = suite_create("net/script");
    TCase *all = tcase_create("script");
    tcase_set_timeout(all, UNIT_TIMEOUT_S);
    tcase_add_loop_test(all, script, 0, (int)(test_count * MODES));
    suite_add_tcase(suite, all);
    return unit_run_suite(suite);
}
