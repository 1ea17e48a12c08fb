/* commit_rig.c - see commit_rig.h. */
#include "t/unit/jobs/commit_rig.h"
#include "t/models/jobs_check.h"

#include "t/unit/random.h"

#include <string.h>

#define IDS_BLOCK 100u

struct rig rig;
int64_t rig_wall_offset_ns;
uint32_t rig_many_watches, rig_log_bytes;

int64_t rig_wall_ns(void)
{
    return rig.now.mono_ns + rig_wall_offset_ns;
}

int64_t rig_wall_ms(void)
{
    return rig_wall_ns() / NS_PER_MS;
}

static void ring(void *arg)
{
    ((struct rig *)arg)->rings++;
}

/* ---- life ------------------------------------------------------------------------------------ */

void rig_start(const struct job_store_kind *kind, const char *path)
{
    rig = (struct rig){.config = rig.config,
                       .now = rig.now,
                       .kind = kind,
                       .store_config = {.path = path, .log_bytes = rig_log_bytes}};
    mail_list_init(&rig.messages);
    REQUIRE(rig_open() == JOB_STORE_OK);
}

void rig_begin(const struct job_store_kind *kind, const char *path)
{
    rig.config = (struct jobs_config){.memory_limit = UINT64_MAX,
                                      .defaults = job_default_settings,
                                      .wall_ms = rig_wall_ms,
                                      .hash_key = {.k0 = 1, .k1 = 2},
                                      .many_watches = rig_many_watches};
    rig_wall_offset_ns = INT64_C(1700000000) * NS_PER_S;
    rig.now.mono_ns = 0;
    rig_pass(1000);
    rig_start(kind, path);
}

bool rig_adopt(struct jobs *jobs)
{
    return jobs_use_store(jobs, ring, &rig);
}

static enum job_store_status need_ids(uint64_t max_id)
{
    uint64_t first;
    while (max_id >= rig.ids_end) {
        enum job_store_status status = rig.store->does->take_ids(rig.store, IDS_BLOCK, &first);
        if (status != JOB_STORE_OK)
            return status;
        REQUIRE(first >= rig.ids_end);
        rig.ids_end = first + IDS_BLOCK;
    }
    return JOB_STORE_OK;
}

static enum job_store_status load(void)
{
    uint64_t first;
    enum job_store_status status = jobs_load(rig.jobs, rig.store, rig.now);
    if (status == JOB_STORE_OK)
        status = rig.store->does->take_ids(rig.store, IDS_BLOCK, &first);
    if (status != JOB_STORE_OK)
        return status;
    rig.ids_end = first + IDS_BLOCK;
    jobs_set_next_id(rig.jobs, first);
    return JOB_STORE_OK;
}

enum job_store_status rig_open(void)
{
    char reason[JOB_STORE_REASON];
    struct jobs_stats stats;
    rig.config.seed += UINT64_C(1) << 32;
    enum job_store_status status = rig.kind->open(&rig.store_config, &rig.store, reason);
    if (status != JOB_STORE_OK)
        return status;
    rig.jobs = jobs_new(&rig.config);
    REQUIRE(rig.jobs && rig_adopt(rig.jobs));
    jobs_get_stats(rig.jobs, &stats);
    rig.empty = stats.memory;
    status = load();
    if (status != JOB_STORE_OK) {
        jobs_free(&rig.jobs);
        rig.store->does->close(&rig.store);
    }
    return status;
}

void rig_close(void)
{
    struct mail *mail;
    rig.has_list = false;
    while ((mail = mail_list_take(&rig.messages)) != NULL)
        (void)jobs_client_message(jobs_client_of(mail));
    jobs_free(&rig.jobs);
    rig.store->does->close(&rig.store);
}

void rig_crash(struct ask *const *asks, size_t count)
{
    struct jobs_outbox outbox;
    struct mail *mail;
    rig.store->does->close(&rig.store);
    if (rig.has_list) { /* no client is told */
        if (!rig.written)
            job_ops_committed(&rig.list, JOB_STORE_IO, false);
        jobs_outbox_init(&outbox);
        jobs_settle(rig.jobs, &rig.list, rig.now, &outbox);
        rig_send(&outbox);
        rig.has_list = rig.written = false;
    }
    while ((mail = mail_list_take(&rig.messages)) != NULL)
        (void)jobs_client_message(jobs_client_of(mail));
    for (size_t n = 0; n < count; n++) {
        for (size_t i = 0; i < RIG_PUTS; i++) {
            if (!(asks[n]->done && asks[n]->status == JOBS_OK))
                job_body_drop(rig.jobs, &asks[n]->puts[i].body);
            asks[n]->puts[i].body = NULL;
        }
        job_body_drop(rig.jobs, &asks[n]->view.body);
    }
    jobs_free(&rig.jobs);
}

void rig_restart(void)
{
    rig_close();
    REQUIRE(rig_open() == JOB_STORE_OK);
}

void rig_pass_ns(int64_t ns)
{
    rig.now.mono_ns += ns;
    rig.now.unix_s = rig_wall_ns() / NS_PER_S;
}

void rig_pass(double seconds)
{
    rig_pass_ns((int64_t)(seconds * (double)NS_PER_S));
}

/* ---- the store's thread ---------------------------------------------------------------------- */

bool rig_take(void)
{
    REQUIRE(!rig.has_list);
    rig.has_list = jobs_take_ops(rig.jobs, &rig.list, 2000, (size_t)4 << 20);
    if (rig.has_list)
        job_ops_read(rig.jobs, rig.store, &rig.list, rig_wall_ns());
    return rig.has_list;
}

static enum job_store_status write_list(bool but_puts)
{
    enum job_store_status status = job_ops_write(rig.store, &rig.list, rig.now.mono_ns, but_puts);
    rig.commits++;
    rig.failed_commits += status != JOB_STORE_OK;
    /* Only a later commit that writes overwrites what a failed one has left. */
    if (status != JOB_STORE_OK)
        rig.last_failed = true;
    else if (rig.list.has_puts && !but_puts)
        rig.last_failed = false;
    return status;
}

/* As the daemon does it: what fails runs again without its puts. */
void rig_write(void)
{
    REQUIRE(rig.has_list);
    rig.written = true;
    if (!rig.list.has_writes)
        return;
    bool full = rig.list.has_puts && rig.store->does->is_full(rig.store);
    enum job_store_status status = full ? JOB_STORE_FULL : JOB_STORE_OK;
    if (rig.list.has_puts && !full)
        status = need_ids(rig.list.max_id);
    if (status == JOB_STORE_OK)
        status = write_list(false);
    if (status == JOB_STORE_OK || !rig.list.has_puts)
        job_ops_committed(&rig.list, status, false);
    else
        job_ops_committed(&rig.list, write_list(true), true);
}

void rig_send(struct jobs_outbox *outbox)
{
    struct mail *mail;
    while ((mail = mail_list_take(&outbox->messages)) != NULL)
        mail_list_add(&rig.messages, mail);
    while ((mail = mail_list_take(&outbox->done)) != NULL) {
        struct ask *ask = (struct ask *)container_of(mail, struct job_op, message.mail);
        REQUIRE(!ask->done);
        ask->done = true;
        ask->answer = ++rig.answers;
        ask->status = ask->op.status;
    }
}

static void tell_damages(void)
{
    for (struct mail *mail = rig.list.ops.first; mail && rig.on_damage; mail = mail->next) {
        const struct job_op *op = container_of(mail, struct job_op, message.mail);
        for (size_t n = 0; n < op->write_count; n++) {
            if (op->writes[n].damaged)
                rig.on_damage(op->writes[n].id);
        }
    }
}

void rig_settle(void)
{
    struct jobs_outbox outbox;
    REQUIRE(rig.has_list);
    tell_damages();
    jobs_outbox_init(&outbox);
    jobs_settle(rig.jobs, &rig.list, rig.now, &outbox);
    rig.has_list = rig.written = false;
    rig_send(&outbox);
    jobs_check(rig.jobs, rig.now);
}

void rig_commit(void)
{
    unsigned rounds = 0;
    do {
        if (!rig.has_list)
            continue;
        if (!rig.written)
            rig_write();
        rig_settle();
        REQUIRE(++rounds < 10000);
    } while (rig_take());
}

void rig_run(void)
{
    struct jobs_outbox outbox;
    for (unsigned n = 0; n < 100 && jobs_next_ns(rig.jobs) <= rig.now.mono_ns; n++) {
        jobs_outbox_init(&outbox);
        jobs_run(rig.jobs, rig.now, &outbox);
        rig_send(&outbox);
        jobs_check(rig.jobs, rig.now);
        rig_commit();
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

struct jobs_client *rig_client(void)
{
    struct jobs_client *client = jobs_client_new(rig.jobs, 0, NULL);
    REQUIRE(client != NULL);
    return client;
}

void rig_end(struct jobs_client **client)
{
    struct jobs_outbox outbox;
    jobs_outbox_init(&outbox);
    while (rig_hears(*client))
        continue;
    jobs_client_end(*client, rig.now, &outbox);
    *client = NULL;
    rig_send(&outbox);
    jobs_check(rig.jobs, rig.now);
}

bool rig_hears(struct jobs_client *client)
{
    struct mail_list others;
    struct mail *mail;
    bool heard = false;
    mail_list_init(&others);
    while ((mail = mail_list_take(&rig.messages)) != NULL) {
        if (!heard && jobs_client_of(mail) == client) {
            heard = true;
            (void)jobs_client_message(client);
        } else {
            mail_list_add(&others, mail);
        }
    }
    rig.messages = others;
    if (!others.first)
        mail_list_init(&rig.messages);
    return heard;
}

/* ---- requests -------------------------------------------------------------------------------- */

struct ask *ask_new(struct jobs_client *client, enum job_op_kind kind)
{
    struct ask *ask = calloc(1, sizeof(*ask));
    REQUIRE(ask != NULL);
    ask->op.kind = kind;
    ask->op.act.client = client;
    ask->op.reason = ask->reason;
    ask->op.puts = ask->puts;
    ask->op.kick = &ask->kick;
    ask->op.clear = &ask->clear;
    ask->op.settings = &ask->settings;
    ask->op.views = &ask->view;
    return ask;
}

struct ask *ask_act(struct jobs_client *client, enum job_verb verb, uint64_t id)
{
    struct ask *ask = ask_new(client, JOB_OP_ACT);
    ask->op.act.verb = verb;
    ask->op.act.id = id;
    return ask;
}

struct ask *ask_submit(struct ask *ask)
{
    struct jobs_outbox outbox;
    jobs_outbox_init(&outbox);
    ask->done = false;
    ask->status = jobs_submit(rig.jobs, &ask->op, rig.now, &outbox);
    rig_send(&outbox);
    jobs_check(rig.jobs, rig.now);
    if (ask->status == JOBS_COMMITS)
        return ask;
    ask->done = true;
    ask->answer = ++rig.answers;
    return ask;
}

void ask_free(struct ask **ask_at)
{
    struct ask *ask = *ask_at;
    *ask_at = NULL;
    if (!ask)
        return;
    for (size_t n = 0; n < RIG_PUTS; n++) {
        if (ask->puts[n].body && !(ask->done && ask->status == JOBS_OK))
            job_body_drop(rig.jobs, &ask->puts[n].body);
    }
    job_body_drop(rig.jobs, &ask->view.body);
    free(ask);
}

void ask_tube(struct ask *ask, const char *tube)
{
    memcpy(ask->tube, tube, strlen(tube));
    ask->op.tube = bytes_at(ask->tube, strlen(tube));
}

struct job_put *ask_put(struct ask *ask, const char *tube, const char *text)
{
    struct job_put *put = &ask->puts[ask->op.count];
    REQUIRE(ask->op.count < RIG_PUTS);
    ask_tube(ask, tube);
    *put = (struct job_put){.tube = ask->op.tube,
                            .id = jobs_take_ids(rig.jobs, 1),
                            .pri = 10,
                            .ttr_s = 60,
                            .tries = JOB_TRIES_OF_TUBE,
                            .duplicate_r = &ask->duplicates[ask->op.count],
                            .body = job_body_new(rig.jobs, JOBS_PUTS, (uint32_t)strlen(text))};
    REQUIRE(put->body != NULL);
    memcpy(put->body->bytes, text, strlen(text));
    ask->op.count++;
    return put;
}

static struct bytes keep(char *to, const char *text)
{
    memcpy(to, text, strlen(text));
    return bytes_at(to, strlen(text));
}

void ask_key(struct ask *ask, const char *key, int64_t at_ms)
{
    size_t n = ask->op.count - 1;
    ask->puts[n].key = keep(ask->names[n][0], key);
    ask->puts[n].has_at = at_ms != 0;
    ask->puts[n].at_ms = at_ms;
}

void ask_root(struct ask *ask, const char *root, int64_t root_ms)
{
    size_t n = ask->op.count - 1;
    ask->puts[n].root = keep(ask->names[n][1], root);
    ask->puts[n].root_ms = root_ms;
}
