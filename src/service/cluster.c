/*
 * cluster.c - the resource "cluster": the thread that runs a node (cluster/node.h), its wires, and
 * the messages between it and the workers (cluster.h).
 *
 * Every iteration first lets the node look at the time, and last lets it send what was gathered:
 * the timer is set to now whenever something has come, and timers run after mail.
 *
 * Without cluster.engine there is no thread, and the services do not know of it.
 */
#include "service/cluster.h"

#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* The snapshot for people is made so often at most. */
#define SEEN_NS (NS_PER_S / 20)

/* At the end the node has this much time to leave. */
#define LEAVE_NS (2 * NS_PER_S)

static struct cluster *of_thread(struct reactor *thread)
{
    return cluster_own(container_of(thread, struct resource, thread));
}

static int64_t now_ns(const struct cluster *c)
{
    return c->resource.thread.now.mono_ns;
}

/* ---- time ------------------------------------------------------------------------------------ */

void cluster_stir(struct cluster *c)
{
    reactor_set_timer(&c->resource.thread, &c->timer, now_ns(c));
}

static void make_snapshot(struct cluster *c)
{
    size_t count;
    const struct node_peer *peers = node_peers(c->node, &count);
    lock_acquire(&c->lock);
    node_look(c->node, &c->snapshot.node);
    if (count > c->snapshot.peer_room) {
        struct node_peer *room = realloc(c->snapshot.peers, count * sizeof(*room));
        if (room) {
            c->snapshot.peers = room;
            c->snapshot.peer_room = count;
        }
    }
    c->snapshot.peer_count = count < c->snapshot.peer_room ? count : c->snapshot.peer_room;
    if (c->snapshot.peer_count > 0)
        memcpy(c->snapshot.peers, peers, c->snapshot.peer_count * sizeof(*peers));
    bool live = c->snapshot.node.state == NODE_LIVE;
    lock_release(&c->lock);
    atomic_store_explicit(&c->is_live, live, memory_order_relaxed);
    c->seen_ns = now_ns(c);
    c->changed = false;
}

/* Confirms what the workers, which have ended, can't. */
static void confirm(struct cluster *c)
{
    if (c->strict_due) {
        c->strict_due = false;
        node_strict_closed(c->node, now_ns(c));
    }
    if (c->report_due) {
        c->report_due = false;
        node_reported(c->node, now_ns(c));
    }
}

static int64_t on_time(struct timer *timer, struct moment now)
{
    struct cluster *c = container_of(timer, struct cluster, timer);
    if (c->paused && !c->ending) {
        c->paused = false;
        node_start(c->node, now.mono_ns);
    }
    if (node_due_ns(c->node) <= now.mono_ns)
        node_tick(c->node, now.mono_ns);
    confirm(c);
    node_flush(c->node, now.mono_ns);
    c->changed = true;
    if (now.mono_ns >= c->seen_ns + SEEN_NS)
        make_snapshot(c);
    if (c->waits_to_leave && node_has_left(c->node)) {
        c->waits_to_leave = false;
        CHECK(sem_post(&c->left) == 0);
    }
    int64_t at_ns = node_due_ns(c->node), seen_ns = c->seen_ns + SEEN_NS;
    if (c->changed && seen_ns < at_ns)
        at_ns = seen_ns;
    return at_ns == INT64_MAX ? DEADLINE_NONE : at_ns > now.mono_ns ? at_ns : now.mono_ns + 1;
}

/* The first thing of an iteration: a node that was stopped must look at its lease. */
static void on_begin(struct reactor_hook *hook, struct moment now)
{
    struct cluster *c = container_of(hook, struct cluster, hook);
    if (!c->paused && node_due_ns(c->node) <= now.mono_ns) {
        node_tick(c->node, now.mono_ns);
        cluster_stir(c);
    }
}

/* The clock of the lease also runs while the machine is suspended; the loop's does not. */
static void on_wake(struct loop_io *io, unsigned what)
{
    struct cluster *c = container_of(io, struct cluster, wake);
    uint64_t times;
    (void)what;
    while (read(c->wake_fd, &times, sizeof(times)) < 0 && errno == EINTR)
        continue;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Ends a request that no connection waits for any more. */
static void drop_request(struct cluster *c, struct arbiter_request *request)
{
    request->request.result = NODE_ENGINE_AWAY;
    if (request->answered) {
        request->answered(c, request);
        return;
    }
    free(request->request.shares);
    free(request);
}

static void on_ask(struct mail *mail, void *reactor)
{
    struct cluster *c = of_thread(reactor);
    struct arbiter_request *request = container_of(mail, struct arbiter_request, message.mail);
    if (c->over) { /* all connections have closed */
        drop_request(c, request);
        return;
    }
    node_submit(c->node, &request->request, now_ns(c));
    cluster_stir(c);
}

void cluster_ask(struct cluster *c, struct arbiter_request *request)
{
    request->message.mail.deliver = on_ask;
    reactor_post_late(&c->resource.thread, &request->message.mail);
}

/* A message that cancels an acquisition. */
struct cancel {
    struct mail mail; /* first */
    uint64_t id;
};

static void on_cancel(struct mail *mail, void *reactor)
{
    struct cluster *c = of_thread(reactor);
    struct cancel *cancel = container_of(mail, struct cancel, mail);
    if (!c->over) {
        node_cancel(c->node, cancel->id, now_ns(c));
        cluster_stir(c);
    }
    free(cancel);
}

void cluster_cancel(struct cluster *c, uint64_t id)
{
    struct cancel *cancel = malloc(sizeof(*cancel));
    if (!cancel)
        return; /* what it is granted is given back */
    *cancel = (struct cancel){.mail.deliver = on_cancel, .id = id};
    reactor_post_late(&c->resource.thread, &cancel->mail);
}

static void do_queued(void *arg, struct node_request *node_request)
{
    struct cluster *c = arg;
    struct arbiter_request *request = container_of(node_request, struct arbiter_request, request);
    if (request->answered)
        return;
    request->has_place = node_request->seq > 0;
    request->queued.mail.deliver = arbiter_on_queued;
    conn_post_late(c->resource.services->server, &request->queued);
}

static void do_answer(void *arg, struct node_request *node_request)
{
    struct cluster *c = arg;
    struct arbiter_request *request = container_of(node_request, struct arbiter_request, request);
    if (request->answered) {
        request->answered(c, request);
        return;
    }
    request->message.mail.deliver = arbiter_on_answer;
    conn_post_late(c->resource.services->server, &request->message);
}

static void on_lost(struct mail *mail, void *reactor)
{
    struct cluster *c = of_thread(reactor);
    (void)mail;
    atomic_store(&c->lost_on_its_way, false);
    if (c->over)
        return;
    node_open_anew(c->node, "there was no memory for a release", now_ns(c));
    cluster_stir(c);
}

void cluster_lost(struct cluster *c)
{
    if (!atomic_exchange(&c->lost_on_its_way, true)) {
        c->lost_message.deliver = on_lost;
        reactor_post(&c->resource.thread, &c->lost_message);
    }
}

/* ---- calls of the views ---------------------------------------------------------------------- */

static unsigned view_count(const struct cluster *c)
{
    return c->resource.services->server->count;
}

static void post_to(struct cluster_copy *view, struct cluster_call *call,
                    void (*deliver)(struct mail *mail, void *worker))
{
    call->mail.deliver = deliver;
    reactor_post_late(worker_reactor(view->worker), &call->mail);
}

static void do_report(void *arg, const struct patterns *patterns, uint32_t number)
{
    struct cluster *c = arg;
    CHECK(c->reporting == 0);
    if (c->ending) { /* nobody holds anything */
        c->report_due = true;
        cluster_stir(c);
        return;
    }
    c->reporting = view_count(c);
    for (unsigned i = 0; i < view_count(c); i++) {
        struct cluster_copy *view = &c->views[i];
        view->new_patterns = patterns_share(unconst(patterns));
        view->new_report = number;
        post_to(view, &view->report_call, cluster_copy_on_report);
    }
}

void cluster_on_part(struct mail *mail, void *reactor)
{
    struct cluster *c = of_thread(reactor);
    struct cluster_part *part = container_of(mail, struct cluster_part, mail);
    for (size_t at = 0; !c->ending && at < part->used;) {
        uint32_t units, len;
        memcpy(&units, part->data + at, sizeof(units));
        memcpy(&len, part->data + at + sizeof(units), sizeof(len));
        at += sizeof(units) + sizeof(len);
        node_report(c->node, bytes_at(part->data + at, len), units);
        at += len;
    }
    free(part);
}

void cluster_on_reported(struct mail *mail, void *reactor)
{
    struct cluster *c = of_thread(reactor);
    struct cluster_copy *view = container_of(mail, struct cluster_copy, report_call.mail);
    if (c->ending)
        return;
    CHECK(c->reporting > 0);
    if (view->failed)
        node_open_anew(c->node, "there was no memory for a report of what is held", now_ns(c));
    if (--c->reporting == 0)
        node_reported(c->node, now_ns(c));
    cluster_stir(c);
}

static void do_serve_alone(void *arg)
{
    struct cluster *c = arg;
    for (unsigned i = 0; i < view_count(c) && !c->ending; i++) {
        struct cluster_copy *view = &c->views[i];
        if (view->alone_call.under_way) {
            view->alone_call.again = true;
            continue;
        }
        view->alone_call.under_way = true;
        post_to(view, &view->alone_call, cluster_copy_on_alone);
    }
}

/* The message has come back. A report that was asked for meanwhile came after it. */
void cluster_on_alone(struct mail *mail, void *reactor)
{
    struct cluster *c = of_thread(reactor);
    struct cluster_copy *view = container_of(mail, struct cluster_copy, alone_call.mail);
    view->alone_call.under_way = view->alone_call.again && !c->ending;
    view->alone_call.again = false;
    if (view->alone_call.under_way)
        post_to(view, &view->alone_call, cluster_copy_on_alone);
}

static void do_close_strict(void *arg)
{
    struct cluster *c = arg;
    CHECK(c->closing == 0);
    if (c->ending) {
        c->strict_due = true;
        cluster_stir(c);
        return;
    }
    c->closing = view_count(c);
    for (unsigned i = 0; i < view_count(c); i++)
        post_to(&c->views[i], &c->views[i].strict_call, cluster_copy_on_close_strict);
}

void cluster_on_strict_closed(struct mail *mail, void *reactor)
{
    struct cluster *c = of_thread(reactor);
    (void)mail;
    if (c->ending)
        return;
    CHECK(c->closing > 0);
    if (--c->closing == 0)
        node_strict_closed(c->node, now_ns(c));
    cluster_stir(c);
}

/* ---- what else the node asks for ------------------------------------------------------------- */

/* A lease that is lost leaves a time that has passed, not 0: a worker that wakes later than this
 * thread still closes the holders of strict units before it reads. */
static void do_lease(void *arg, int64_t end_ns)
{
    struct cluster *c = arg;
    int64_t before_ns = atomic_load_explicit(&c->lease_end_ns, memory_order_relaxed);
    if (end_ns == 0 && before_ns > 0)
        end_ns = before_ns < now_ns(c) ? before_ns : now_ns(c);
    atomic_store_explicit(&c->lease_end_ns, end_ns, memory_order_release);
}

static bool do_is_gone(void *arg, const char *where)
{
    const struct cluster *c = arg;
    return location_is_gone(&c->where, bytes_of(where));
}

static uint64_t do_random(void *arg)
{
    uint64_t number;
    (void)arg;
    CHECK(RAND_bytes((unsigned char *)&number, sizeof(number)) == 1);
    return number;
}

static void do_log(void *arg, enum node_level level, const char *text)
{
    (void)arg;
    if (level == NODE_LOG_ERROR)
        log_error("%s", text);
    else if (level == NODE_LOG_WARNING)
        log_warning("%s", text);
    else
        log_info("%s", text);
}

static const struct node_does node_does = {
    .open = cluster_open_wire,
    .send = cluster_send,
    .close = cluster_close_wire,
    .queued = do_queued,
    .answer = do_answer,
    .report = do_report,
    .serve_alone = do_serve_alone,
    .close_strict = do_close_strict,
    .lease = do_lease,
    .is_gone = do_is_gone,
    .random = do_random,
    .log = do_log,
};

/* ---- start ----------------------------------------------------------------------------------- */

/* Visible bytes only: of another host name no more than that is used. */
static void make_name(struct cluster *c)
{
    const char *given = cluster_text(c->settings->node);
    char host[256] = "", text[300];
    if (*given == '\0') {
        if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
            snprintf(host, sizeof(host), "node");
        host[sizeof(c->node_name) - 7] = '\0';
        snprintf(text, sizeof(text), "%s:%u", host, c->resource.services->port);
        given = text;
    }
    snprintf(c->node_name, sizeof(c->node_name), "%.64s", given);
    for (char *at = c->node_name; *at; at++) {
        if (*at <= ' ' || *at > '~')
            *at = '_';
    }
}

static bool make_views(struct cluster *c, struct patterns *patterns)
{
    struct server *server = c->resource.services->server;
    c->views = aligned_alloc(64, server->count * sizeof(*c->views));
    if (!c->views)
        return false;
    memset(c->views, 0, server->count * sizeof(*c->views));
    for (unsigned i = 0; i < server->count; i++) {
        struct cluster_copy *view = &c->views[i];
        view->cluster = c;
        view->worker = server->workers[i];
        view->patterns = patterns_share(patterns);
        view->mode = NODE_ASK_ENGINE;
        view->hook.run = cluster_copy_hook;
        reactor_add_hook(worker_reactor(view->worker), &view->hook);
    }
    return true;
}

static bool make_node(struct cluster *c, const struct patterns *patterns)
{
    const struct node_config config = {
        .url = &c->url,
        .user = cluster_text(c->settings->user),
        .password = cluster_text(c->settings->password),
        .node = c->node_name,
        .where = c->where.text,
        .prefix = cluster_text(c->settings->prefix),
        .patterns = patterns,
        .lease_ns = c->settings->lease_ns,
        .patience_ns = c->settings->patience_ns,
    };
    c->node = node_new(&config, &node_does, c);
    return c->node != NULL;
}

/* A timer that also wakes a thread whose machine was suspended. */
static bool make_wake(struct cluster *c)
{
    int64_t step_ns = c->settings->lease_ns / 10;
    struct itimerspec often = {.it_interval.tv_sec = step_ns / NS_PER_S,
                               .it_interval.tv_nsec = step_ns % NS_PER_S};
    often.it_value = often.it_interval;
    c->wake_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    return c->wake_fd >= 0 && timerfd_settime(c->wake_fd, 0, &often, NULL) == 0 &&
           loop_io_add(c->resource.thread.loop, &c->wake, c->wake_fd, LOOP_READ, on_wake);
}

static void end(struct resource *r);

/* What people see of these settings from now on. */
static void show(struct cluster *c, struct patterns *patterns, int64_t patience_ns)
{
    lock_acquire(&c->lock);
    struct patterns *old = c->patterns;
    c->patterns = patterns_share(patterns);
    c->patience_ns = patience_ns;
    lock_release(&c->lock);
    patterns_free(&old);
}

static bool make_all(struct cluster *c, struct moment now)
{
    char reason[PATTERNS_REASON_SIZE];
    struct patterns *patterns = patterns_new(c->settings->strict, c->settings->loose, NULL, reason);
    bool made = patterns && make_views(c, patterns) && cluster_make_wires(c) && make_wake(c) &&
                make_node(c, patterns);
    if (made)
        show(c, patterns, c->settings->patience_ns);
    patterns_free(&patterns);
    c->timed = made && reactor_add_timer(&c->resource.thread, &c->timer, now.mono_ns);
    c->hooked = c->timed;
    if (c->hooked)
        reactor_add_hook(&c->resource.thread, &c->hook);
    return c->hooked;
}

static bool start(struct resource *r, const void *settings, struct moment now)
{
    struct cluster *c = cluster_own(r);
    char reason[URL_REASON_SIZE];
    c->settings = settings;
    c->wake_fd = -1;
    r->without_thread = !settings || *cluster_text(c->settings->engine) == '\0';
    if (r->without_thread)
        return true;
    if (!url_parse(c->settings->engine, &c->url, reason)) {
        log_error("cluster.engine: %s", reason);
        errno = EINVAL;
        return false;
    }
    lock_init(&c->lock, LOCK_RANK_RIGHTS);
    CHECK(sem_init(&c->left, 0, 0) == 0);
    atomic_init(&c->next_id, 1);
    c->timer.run = on_time;
    c->hook.run = on_begin;
    c->paused = true; /* the timer starts the node */
    location_read(&c->where);
    make_name(c);
    if (!make_all(c, now)) {
        end(r);
        errno = ENOMEM;
        return false;
    }
    r->sandbox = (struct sandbox){.name = "cluster", .connects = true, .reads = c->reads};
    r->services->cluster = r;
    return true;
}

static void say_what_is_left(const struct patterns *patterns)
{
    if (patterns_leave_pools(patterns))
        log_info("cluster: names that begin with pool: are units of this node's own pools, and not "
                 "shared: no pattern of cluster.strict or cluster.loose begins with pool:");
}

static void warn_of_files(const struct cluster_settings *is, const struct tls *tls)
{
    if (!tls || !is->cert)
        return;
    tls_client_warn(tls, is->cert);
    file_warn_of_others(is->key ? "cluster.key" : "cluster.cert, which also has the key",
                        is->key ? is->key : is->cert, FILE_FORBID_OTHERS);
}

static bool open_now(struct resource *r, struct moment now)
{
    const struct cluster *c = cluster_own(r);
    (void)now;
    if (r->without_thread)
        return true;
    say_what_is_left(c->patterns);
    warn_of_files(c->settings, c->tls);
    return true;
}

/* ---- reloads --------------------------------------------------------------------------------- */

struct change {
    const struct cluster_settings *was, *is;
    struct patterns *patterns; /* NULL: they stay */
};

static bool same(const char *a, const char *b)
{
    return strcmp(cluster_text(a), cluster_text(b)) == 0;
}

/* The workers serve by the patterns at once: without an engine there is no report that has them.
 * Without memory for a message they come with the next report. */
static void send_patterns(struct cluster *c, struct patterns *patterns)
{
    for (unsigned i = 0; i < view_count(c); i++) {
        struct cluster_patterns *message = malloc(sizeof(*message));
        if (!message)
            continue;
        *message = (struct cluster_patterns){.mail.deliver = cluster_copy_on_patterns,
                                             .view = &c->views[i],
                                             .patterns = patterns_share(patterns)};
        reactor_post_late(worker_reactor(message->view->worker), &message->mail);
    }
}

static void change_node(struct reactor *thread, void *arg)
{
    struct cluster *c = of_thread(thread);
    const struct change *change = arg;
    const struct cluster_settings *was = change->was, *is = change->is;
    if ((!same(was->user, is->user) || !same(was->password, is->password)) &&
        !node_set_access(c->node, cluster_text(is->user), cluster_text(is->password), now_ns(c)))
        log_error("cluster.user and cluster.password: no memory to change them; reload again");
    if (is->tls) {
        tls_free(&c->tls);
        c->tls = tls_share(is->tls);
        node_try_again(c->node, now_ns(c));
    }
    node_set_patience(c->node, is->patience_ns, now_ns(c));
    if (change->patterns) {
        node_set_patterns(c->node, change->patterns, now_ns(c));
        send_patterns(c, change->patterns);
    }
    cluster_stir(c);
}

void cluster_change(struct services *services, const struct cluster_settings *was,
                    const struct cluster_settings *is)
{
    struct cluster *c = cluster_of(services);
    struct change change = {.was = was, .is = is};
    char reason[PATTERNS_REASON_SIZE];
    if (!c)
        return;
    if (!was) {
        c->tls = is->tls ? tls_share(is->tls) : NULL;
        return;
    }
    if (!same(was->strict, is->strict) || !same(was->loose, is->loose)) {
        change.patterns = patterns_new(is->strict, is->loose, NULL, reason);
        if (!change.patterns)
            log_error("cluster.strict and cluster.loose: no memory to change them; reload again");
    }
    reactor_ask(&c->resource.thread, change_node, &change);
    show(c, change.patterns ? change.patterns : c->patterns, is->patience_ns);
    if (change.patterns)
        say_what_is_left(change.patterns);
    if (is->tls)
        log_info("cluster: the certificates were read again");
    warn_of_files(is, is->tls);
    patterns_free(&change.patterns);
}

/* ---- end, upgrades --------------------------------------------------------------------------- */

/* The connections have closed, and all that their workers sent has come. */
static void begin_to_end(struct reactor *thread, void *arg)
{
    struct cluster *c = of_thread(thread);
    (void)arg;
    c->ending = true;
    c->strict_due = c->closing > 0;
    c->report_due = c->reporting > 0;
    c->closing = c->reporting = 0;
    confirm(c);
    cluster_stir(c);
}

static void begin_to_leave(struct reactor *thread, void *arg)
{
    struct cluster *c = of_thread(thread);
    (void)arg;
    c->waits_to_leave = true;
    node_leave(c->node, now_ns(c));
    cluster_stir(c);
}

static void give_up(struct reactor *thread, void *arg)
{
    struct cluster *c = of_thread(thread);
    (void)arg;
    if (!node_has_left(c->node))
        log_warning("cluster: this node could not leave; the others free what it had when its "
                    "lease is over");
    c->over = true;
    node_pause(c->node, now_ns(c));
}

/* The node knows that no client waits any more before its last messages to the workers are read:
 * what they grant goes back, and has come to the node before it leaves. */
static void leave(struct cluster *c)
{
    struct timespec until;
    reactor_ask(&c->resource.thread, begin_to_end, NULL);
    for (unsigned i = 0; i < view_count(c); i++)
        worker_drain(c->views[i].worker);
    reactor_ask(&c->resource.thread, begin_to_leave, NULL);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_sec += LEAVE_NS / NS_PER_S;
    while (sem_clockwait(&c->left, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
        continue;
    reactor_ask(&c->resource.thread, give_up, NULL);
}

static void pause_node(struct reactor *thread, void *arg)
{
    struct cluster *c = of_thread(thread);
    (void)arg;
    c->paused = true;
    node_pause(c->node, now_ns(c));
    reactor_set_timer(thread, &c->timer, now_ns(c)); /* when the thread runs again */
    loop_stop(thread->loop);                         /* in this iteration, before its timers */
}

static bool pause_resource(struct resource *r, int64_t until_ns)
{
    struct cluster *c = cluster_own(r);
    if (r->without_thread)
        return true;
    if (until_ns == DEADLINE_NONE)
        leave(c);
    else
        reactor_ask(&r->thread, pause_node, NULL);
    return true;
}

static void free_views(struct cluster *c)
{
    for (unsigned i = 0; c->views && i < view_count(c); i++) {
        struct cluster_copy *view = &c->views[i];
        reactor_remove_hook(worker_reactor(view->worker), &view->hook);
        patterns_free(&view->patterns);
        patterns_free(&view->new_patterns);
    }
    free(c->views);
    c->views = NULL;
}

static void end(struct resource *r)
{
    struct cluster *c = cluster_own(r);
    struct node_request *request;
    if (r->without_thread)
        return;
    r->services->cluster = NULL;
    while (c->node && (request = node_forget_request(c->node)) != NULL)
        drop_request(c, container_of(request, struct arbiter_request, request));
    if (c->hooked)
        reactor_remove_hook(&r->thread, &c->hook);
    if (c->timed)
        reactor_remove_timer(&r->thread, &c->timer);
    node_free(&c->node);
    loop_io_remove(r->thread.loop, &c->wake);
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    free_views(c);
    cluster_free_wires(c);
    free(c->snapshot.peers);
    patterns_free(&c->patterns);
    CHECK(sem_destroy(&c->left) == 0);
    lock_destroy(&c->lock);
}

const struct resource_row cluster_resource_row = {
    .name = "cluster",
    .size = sizeof(struct cluster),
    .threaded = true,
    .start = start,
    .open = open_now,
    .may_pause = cluster_may_pause,
    .serve_by = cluster_serve_by,
    .pause = pause_resource,
    .save = cluster_save,
    .restore = cluster_restore,
    .restore_done = cluster_restore_done,
    .monitor = &cluster_monitor,
    .end = end,
};
