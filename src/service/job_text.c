/* job_text.c - the dictionaries of the job queues (protocol page, section 4). */
#include "config.h"

#include "service/beanstalk.h"
#include "service/job_session.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

uint8_t *job_text_room(struct job_text *text, size_t size)
{
    size_t have = text->body ? text->body->len : 0;
    if (text->failed || size > UINT32_MAX / 2 - text->len) {
        text->failed = true;
        return NULL;
    }
    if (text->len + size > have) {
        uint32_t wanted = (uint32_t)(text->len + size) * 2;
        if (!text->body)
            text->body = job_body_new(text->jobs, JOBS_REST, wanted);
        else if (!job_body_resize(text->jobs, JOBS_REST, &text->body, wanted))
            text->failed = true;
        text->failed = text->failed || !text->body;
    }
    return text->failed ? NULL : text->body->bytes + text->len;
}

void job_text_begin(struct job_text *text, const struct conn *conn)
{
    *text = (struct job_text){.jobs = conn_jobs(conn)};
    uint8_t *to = job_text_room(text, 1024);
    if (!to)
        return;
    memcpy(to, BS_TEXT_START, sizeof(BS_TEXT_START) - 1);
    text->len = sizeof(BS_TEXT_START) - 1;
}

static void add_number(struct job_text *text, const char *key, uint64_t value)
{
    uint8_t *to = job_text_room(text, BS_ENTRY_ROOM);
    if (to)
        text->len += bs_compose_number(key, value, to, BS_ENTRY_ROOM);
}

/* Adds a text by a function of the codec. */
typedef size_t composed(const char *key, struct bytes value, uint8_t *to, size_t room);
static void add_text(struct job_text *text, composed *compose, const char *key, const char *value)
{
    size_t size = BS_ENTRY_ROOM + strlen(value);
    uint8_t *to = job_text_room(text, size);
    if (to)
        text->len += compose(key, bytes_of(value), to, size);
}

static void add_micros(struct job_text *text, const char *key, struct timeval time)
{
    uint8_t *to = job_text_room(text, BS_ENTRY_ROOM);
    if (to)
        text->len += bs_compose_micros(
            key, (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec, to, BS_ENTRY_ROOM);
}

void job_answer_text(struct conn *conn, unsigned verb, const void *text, size_t len)
{
    uint8_t *to = conn_reply_room(conn, BS_REPLY_ROOM);
    const struct bs_reply head = {.answer = BS_ANSWER_OK, .body_len = (uint32_t)len};
    conn_replied(conn, bs_compose_reply(&head, to, BS_REPLY_ROOM));
    conn_reply(conn, text, len);
    conn_reply(conn, "\r\n", 2);
    service_count(conn, verb, JOB_OUTCOME_OK);
}

void job_text_answer(struct conn *conn, unsigned verb, struct job_text *text)
{
    if (text->failed)
        job_answer(conn, verb, BS_ANSWER_OUT_OF_MEMORY);
    else
        job_answer_text(conn, verb, text->body->bytes, text->len);
    job_body_drop(text->jobs, &text->body);
}

/* What a tube, and `stats`, say of the states of jobs. */
static void add_states(struct job_text *text, uint64_t urgent, const uint64_t *states)
{
    add_number(text, "current-jobs-urgent", urgent);
    add_number(text, "current-jobs-ready", states[JOB_READY]);
    add_number(text, "current-jobs-reserved", states[JOB_RESERVED]);
    add_number(text, "current-jobs-delayed", states[JOB_DELAYED]);
    add_number(text, "current-jobs-buried", states[JOB_BURIED] + states[JOB_ABANDONED]);
}

/* ---- statistics ------------------------------------------------------------------------------ */

enum served job_stats_job(struct conn *conn, const struct bs_request *r)
{
    struct job_stats stats;
    struct job_text text;
    if (jobs_stats_job(conn_jobs(conn), r->id, service_now(conn), &stats) != JOBS_OK) {
        job_answer(conn, r->verb, BS_ANSWER_NOT_FOUND);
        return SERVED;
    }
    job_text_begin(&text, conn);
    add_number(&text, "id", stats.id);
    add_text(&text, bs_compose_string, "tube", stats.tube);
    add_text(&text, bs_compose_word, "state",
             job_state_word(stats.state == JOB_ABANDONED ? JOB_BURIED : stats.state));
    add_number(&text, "pri", stats.pri);
    add_number(&text, "age", stats.age_s);
    add_number(&text, "delay", stats.delay_s);
    add_number(&text, "ttr", stats.ttr_s);
    add_number(&text, "time-left", stats.time_left_s);
    add_number(&text, "file", 0);
    add_number(&text, "reserves", stats.counts.of[JOB_RESERVES]);
    add_number(&text, "timeouts", stats.counts.of[JOB_TIMEOUTS]);
    add_number(&text, "releases", stats.counts.of[JOB_RELEASES]);
    add_number(&text, "buries", stats.counts.of[JOB_BURIES]);
    add_number(&text, "kicks", stats.counts.of[JOB_KICKS]);
    job_text_answer(conn, r->verb, &text);
    return SERVED;
}

enum served job_stats_tube(struct conn *conn, const struct bs_request *r)
{
    struct tube_stats stats;
    struct job_text text;
    if (jobs_stats_tube(conn_jobs(conn), r->tube, service_now(conn), &stats) != JOBS_OK) {
        job_answer(conn, r->verb, BS_ANSWER_NOT_FOUND);
        return SERVED;
    }
    job_text_begin(&text, conn);
    add_text(&text, bs_compose_string, "name", stats.name);
    add_states(&text, stats.urgent, stats.states);
    add_number(&text, "total-jobs", stats.total_jobs);
    add_number(&text, "current-using", stats.using);
    add_number(&text, "current-watching", stats.watching);
    add_number(&text, "current-waiting", stats.waiting);
    add_number(&text, "cmd-delete", stats.cmd_delete);
    add_number(&text, "cmd-pause-tube", stats.cmd_pause);
    add_number(&text, "pause", stats.pause_s);
    add_number(&text, "pause-time-left", stats.pause_left_s);
    job_text_answer(conn, r->verb, &text);
    return SERVED;
}

void job_describe_tube(struct conn *conn, struct bytes tube, bool was_set)
{
    struct tube_stats stats;
    struct job_text text;
    if (jobs_stats_tube(conn_jobs(conn), tube, service_now(conn), &stats) != JOBS_OK) {
        if (!was_set) {
            job_answer(conn, BS_VERB_TUBE, BS_ANSWER_NOT_FOUND);
            return;
        }
        /* It is as the default, so it is gone. */
        memset(&stats, 0, sizeof(stats));
        jobs_get_defaults(conn_jobs(conn), &stats.settings);
        memcpy(stats.name, tube.data, tube.len);
    }
    job_text_begin(&text, conn);
    add_text(&text, bs_compose_quoted, "name", stats.name);
    for (unsigned n = 0; n < JOB_SETTING_READ_ONLY; n++) {
        const struct job_setting_row *row = &job_setting_rows[n];
        if (row->words)
            add_text(&text, bs_compose_word, row->key, row->words[stats.settings.is[n]]);
        else
            add_number(&text, row->key, stats.settings.is[n]);
    }
    add_text(&text, bs_compose_quoted, "read-only", stats.settings.read_only);
    add_number(&text, "current-jobs-ready", stats.states[JOB_READY]);
    add_number(&text, "current-jobs-delayed", stats.states[JOB_DELAYED]);
    add_number(&text, "current-jobs-reserved", stats.states[JOB_RESERVED]);
    add_number(&text, "current-jobs-buried",
               stats.states[JOB_BURIED] + stats.states[JOB_ABANDONED]);
    add_number(&text, "current-jobs-abandoned", stats.states[JOB_ABANDONED]);
    add_number(&text, "oldest-ready-age", stats.oldest_ready_s);
    add_number(&text, "total-puts", stats.total_jobs);
    add_number(&text, "total-duplicates", stats.duplicates);
    add_number(&text, "total-claims", stats.claims);
    add_number(&text, "total-dropped", stats.dropped);
    add_number(&text, "total-acks", stats.acks);
    add_number(&text, "total-recycled", stats.recycled);
    add_number(&text, "total-abandoned", stats.abandoned);
    job_text_answer(conn, BS_VERB_TUBE, &text);
}

/* ---- stats ----------------------------------------------------------------------------------- */

/* How often a verb was asked for, with those that wait. */
static uint64_t asked(const struct conn *conn, enum bs_verb verb)
{
    uint64_t sum = conn_tubes(conn)->counts[JOBS_WAITING + verb];
    for (unsigned n = 0; n < JOB_OUTCOME_COUNT; n++)
        sum += service_requests(service_of(conn), verb, n);
    return sum;
}

/* The verbs that `stats` counts, in its order. */
static const uint8_t commands[] = {BS_VERB_PUT,
                                   BS_VERB_PEEK,
                                   BS_VERB_PEEK_READY,
                                   BS_VERB_PEEK_DELAYED,
                                   BS_VERB_PEEK_BURIED,
                                   BS_VERB_RESERVE,
                                   BS_VERB_RESERVE_WITH_TIMEOUT,
                                   BS_VERB_DELETE,
                                   BS_VERB_RELEASE,
                                   BS_VERB_USE,
                                   BS_VERB_WATCH,
                                   BS_VERB_IGNORE,
                                   BS_VERB_BURY,
                                   BS_VERB_KICK,
                                   BS_VERB_TOUCH,
                                   BS_VERB_STATS,
                                   BS_VERB_STATS_JOB,
                                   BS_VERB_STATS_TUBE,
                                   BS_VERB_LIST_TUBES,
                                   BS_VERB_LIST_TUBE_USED,
                                   BS_VERB_LIST_TUBES_WATCHED,
                                   BS_VERB_PAUSE_TUBE};

static void add_counts(struct job_text *text, const struct conn *conn)
{
    const struct protocol *protocol = conn_protocol(conn);
    struct jobs_stats stats;
    jobs_get_stats(conn_jobs(conn), &stats);
    add_states(text, stats.urgent, stats.states);
    for (size_t n = 0; n < ARRAY_SIZE(commands); n++) {
        char key[32];
        snprintf(key, sizeof(key), "cmd-%s", jobs_row.verbs[commands[n]]);
        add_number(text, key, asked(conn, commands[n]) + (commands[n] == BS_VERB_STATS));
    }
    add_number(text, "job-timeouts", stats.timeouts);
    add_number(text, "total-jobs", stats.total_jobs);
    add_number(text, "max-job-size", job_size_max(conn));
    add_number(text, "current-tubes", stats.tubes);
    add_number(text, "current-connections",
               atomic_load_explicit(&protocol->connections, memory_order_relaxed));
    add_number(text, "current-producers", conn_tubes(conn)->counts[JOBS_PRODUCERS]);
    add_number(text, "current-workers", conn_tubes(conn)->counts[JOBS_WORKERS]);
    add_number(text, "current-waiting", stats.waiting);
    add_number(text, "total-connections",
               atomic_load_explicit(&protocol->connections_made, memory_order_relaxed));
}

enum served job_stats(struct conn *conn, const struct bs_request *r)
{
    struct job_text text;
    const struct utsname *system = &conn_tubes(conn)->system;
    struct rusage usage;
    char id[32];
    int64_t up_ns = service_now(conn).mono_ns - service_of(conn)->services->started_ns;
    conn_dear(conn);
    job_text_begin(&text, conn);
    add_counts(&text, conn);
    add_number(&text, "pid", (uint64_t)getpid());
    add_text(&text, bs_compose_quoted, "version", PACKAGE_VERSION);
    (void)getrusage(RUSAGE_SELF, &usage);
    add_micros(&text, "rusage-utime", usage.ru_utime);
    add_micros(&text, "rusage-stime", usage.ru_stime);
    add_number(&text, "uptime", up_ns > 0 ? (uint64_t)(up_ns / NS_PER_S) : 0);
    add_number(&text, "binlog-oldest-index", 0);
    add_number(&text, "binlog-current-index", 0);
    add_number(&text, "binlog-records-migrated", 0);
    add_number(&text, "binlog-records-written", 0);
    add_number(&text, "binlog-max-size", 0);
    add_text(&text, bs_compose_word, "draining",
             jobs_draining(service_of(conn)->services) ? "true" : "false");
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)conn_tubes(conn)->id);
    add_text(&text, bs_compose_word, "id", id);
    add_text(&text, bs_compose_string, "hostname", system->nodename);
    add_text(&text, bs_compose_string, "os", system->version);
    add_text(&text, bs_compose_string, "platform", system->machine);
    job_text_answer(conn, r->verb, &text);
    return SERVED;
}
