/*
 * poolcounter_state.c - saves and restores the sessions of the text protocol (poolcounter.c).
 */
#include "service/poolcounter.h"

#include "base/record.h"
#include "engine/state.h"
#include "proto/poolcounter.h"
#include "service/cluster.h"
#include "service/pool_verbs.h"
#include "service/text_session.h"

/* Saves the session: what arbiter_save writes, its holder, u32 number of locks, then each lock: its
 * holding, i64 time of its grant in ns; then what it has of pools (pool_verbs.h). The holder
 * includes the wait; the connection's deadline is the end of the wait. */
void poolcounter_save(struct conn *conn, struct record_writer *w)
{
    const struct text_session *s = text_session(conn);
    const struct table *t = service_table(conn);
    arbiter_save(conn, w);
    holder_save(t, &s->holder, w);
    record_put_u32(w, s->lock_count);
    for (uint32_t i = 0; i < s->lock_count; i++) {
        holding_save(t, s->locks[i].held, w);
        record_put_i64(w, s->locks[i].granted_ns);
    }
    pool_verbs_save(conn, w);
}

/* True when the session's locks are exactly the units that its holder has. */
static bool locks_are_units(const struct text_session *s, const struct table *t)
{
    uint32_t names = 0; /* names with locks of this session, and the name of its wait */
    for (uint32_t i = 0; i < s->lock_count; i++) {
        uint32_t count = 0, before = 0;
        for (uint32_t k = 0; k < s->lock_count; k++) {
            count += s->locks[k].held == s->locks[i].held;
            before += k < i && s->locks[k].held == s->locks[i].held;
        }
        if (count != holding_units(s->locks[i].held))
            return false;
        names += before == 0;
    }
    if (s->wait.on == WAIT_ON_TABLE && holding_units(s->wait.waiter->holding) == 0)
        names++;
    return names == holder_count(t, &s->holder, UINT32_MAX);
}

/* The wait in the table, if there is one. */
static void restore_wait(struct conn *conn, struct waiter *waiter, struct record_reader *r)
{
    struct text_session *s = text_session(conn);
    if (!waiter)
        return;
    if (waiter->next || waiter->units != 1)
        record_refuse(r, "a poolcounter connection waits for more than one lock");
    if (s->wait.on != WAIT_ON_NOTHING)
        record_refuse(r, "a poolcounter connection waits twice");
    wait_begin(conn, &s->wait, WAIT_ON_TABLE, waiter->since_ns);
    s->wait.waiter = waiter;
    s->wait.note[0] = waiter->kind == WAIT_ANY ? PC_ACQ4ANY : PC_ACQ4ME;
}

/* It waits once, for its wait or for a pending acquisition; the deadline is there if either may
 * last.
 */
static void check_wait(struct conn *conn, struct record_reader *r)
{
    const struct text_session *s = text_session(conn);
    const struct wait *pending = arbiter_pending(conn);
    bool waits = s->wait.on != WAIT_ON_NOTHING;
    if (pending && (waits || pending->request->request.op != NODE_ACQUIRE))
        record_refuse(r, "a poolcounter connection waits twice");
    else if (conn_expires(conn, WAIT_DEADLINE) !=
             (waits || (pending && pending->request->request.wait != NODE_WAIT_NO)))
        record_refuse(r, "a poolcounter connection's wait does not match its deadline");
}

bool poolcounter_restore(struct conn *conn, struct record_reader *r)
{
    struct text_session *s = text_session(conn);
    struct table *t = service_table(conn);
    uint32_t room = poolcounter_room(service_of(conn));
    if (!arbiter_restore(conn, r, false))
        return false;
    service_open_holder(conn);
    if (!holder_restore(t, &s->holder, r))
        return false;
    restore_wait(conn, s->holder.waiters, r);
    uint32_t count = record_get_u32(r);
    uint32_t wanted = s->wait.on != WAIT_ON_NOTHING || arbiter_pending(conn) ? 1 : 0;
    if (record_ok(r) && (count > room || wanted > room - count))
        record_refuse(r, "a poolcounter connection has too many locks");
    for (uint32_t i = 0; i < count && record_ok(r); i++) {
        struct text_lock *lock = &s->locks[i];
        lock->held = holding_restore(t, &s->holder, r);
        lock->granted_ns = record_get_i64(r);
        if (lock->granted_ns < 0)
            record_refuse(r, "a lock was granted at a negative time");
        s->lock_count++;
    }
    if (!record_ok(r) || !pool_verbs_restore(conn, r))
        return false;
    if (!locks_are_units(s, t))
        record_refuse(r, "a poolcounter connection's locks do not match its units");
    check_wait(conn, r);
    return record_ok(r);
}
