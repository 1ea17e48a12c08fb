/*
 * poolcounter_state.c - saves and restores the sessions of the text protocol (poolcounter.c).
 */
#include "service/poolcounter_inside.h"

#include "base/record.h"
#include "engine/state.h"

/* Saves the session: its holder, u32 number of locks, then each lock: its holding, i64 time of its
 * grant in ns; then what it has of pools (pool_verbs.h). The holder includes the wait; the
 * connection's deadline is the end of the wait. */
void poolcounter_save(struct conn *conn, struct record_writer *w)
{
    const struct pc_session *s = conn_session(conn);
    const struct table *t = service_table(conn);
    holder_save(t, &s->holder, w);
    record_put_u32(w, s->lock_count);
    for (uint32_t i = 0; i < s->lock_count; i++) {
        holding_save(t, s->locks[i].held, w);
        record_put_i64(w, s->locks[i].granted_ns);
    }
    pool_verbs_save(conn, w);
}

/* True when the session's locks are exactly the units that its holder has. */
static bool locks_are_units(const struct pc_session *s, const struct table *t)
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
    if (s->waiter && holding_units(s->waiter->holding) == 0)
        names++;
    return names == holder_count(t, &s->holder, UINT32_MAX);
}

bool poolcounter_restore(struct conn *conn, struct record_reader *r, bool asks)
{
    struct pc_session *s = conn_session(conn);
    struct table *t = service_table(conn);
    uint32_t room = poolcounter_room(service_of(conn));
    service_open_holder(conn, &s->holder);
    if (!holder_restore(t, &s->holder, r))
        return false;
    s->waiter = s->holder.waiters;
    uint32_t count = record_get_u32(r), wanted = s->waiter ? 1 : 0;
    if (wanted && (s->waiter->next || s->waiter->units != 1))
        record_refuse(r, "a poolcounter connection waits for more than one lock");
    if (record_ok(r) && (count > room || wanted > room - count))
        record_refuse(r, "a poolcounter connection has too many locks");
    for (uint32_t i = 0; i < count && record_ok(r); i++) {
        struct pc_lock *lock = &s->locks[i];
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
    if (s->waiter && s->pools.waits)
        record_refuse(r, "a poolcounter connection waits twice");
    s->pools.waits = s->pools.waits || s->waiter;
    if (conn_expires(conn, PC_WAIT_DEADLINE) != (s->pools.waits || asks))
        record_refuse(r, "a poolcounter connection's wait does not match its deadline");
    if (s->waiter)
        tally_add(&service_counts(conn)->waiting, 1);
    return record_ok(r);
}
