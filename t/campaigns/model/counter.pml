/*
 * counter.pml - one name, two workers, three connections: grants, and their notifications.
 *
 * The search covers every order of the steps of two threads, with clients that send any request and
 * timers that expire at any time, EVENTS in all. Connection 0 belongs to worker 0, connections 1 and 2
 * to worker 1, so verdicts travel both ways and within a worker. A connection that has ended may
 * reconnect, in the same slot with the next generation.
 *
 * Each step models a function of the sources, and has its name where possible:
 *
 *     table_acquire (do_acquire), table_release_held (release_lock), table_end_wait (end_wait),
 *     table_take_verdict (take_note), table_waiter_free (on_verdict), table_close (leave_waits,
 *     give_all_back); decide, grant_fitting, finish_any, leave_holding, holding_reap:
 *                                    engine/table.c; waitq_oldest: engine/waitq.c
 *     lock_release                   base/lock.h, and the checks of table_check
 *     mailbox_send, mailbox_take     base/mail.c, one step for each access to the shared `top`
 *     loop_ring                      net/loop.c: the write to the eventfd
 *     `edge` becomes `rung`          net/loop.c, tell_descriptors and its on_bell: epoll reports the
 *                                    eventfd once (edge-triggered), and nobody reads it
 *     on_bell                        net/worker.c: on_bell; net/reactor.c: reactor_deliver
 *     mailbox_send in service_deliver   net/worker.c: worker_post
 *     service_deliver, on_verdict    service/service.c; the assertion in on_verdict is conn_by_tag of
 *                                    net/conn.c, by slot and generation, and the CHECK on it
 *     take_note, end_wait, on_expire, do_acquire, release_lock, do_release, on_close
 *                                    service/poolcounter.c
 *     request, worker                net/loop.c, loop_run: iterations, with their events in any order
 *
 * A function of the table is one step, from taking the shard's lock to its release, because its data
 * is used only under that lock. At `lock_release` the ledger must be right again. Accesses without the
 * lock are steps of their own: a waiter's `holder` (only its owner's thread), sessions, letters, `top`
 * and the eventfd.
 *
 * Checks at each release of the lock: consumption is the sum of the units held; no grant exceeded its
 * own limit; no waiter that fits still waits. Checks at all times: the clients that were notified of
 * LOCKED are never more than the limit; the owner takes note of a verdict once; no waiter is used after
 * it was freed, no holding after it was reaped; a letter reaches its own connection, or nobody. Checks
 * when nothing more happens: no letter is unread, every client knows its verdict, and ended connections
 * have left nothing behind. This finds lost wake-ups: once all EVENTS are used up, no timer hides them.
 * Spin itself finds deadlocks: workers may stop only between iterations.
 *
 * PLANT=n plants a bug. Each bug is beside the line that it breaks. model.py runs the searches.
 */
#ifndef EVENTS
#define EVENTS 6 /* number of requests, ends, reconnects and expired timers */
#endif
#ifndef LIMIT_OF_LAST
#define LIMIT_OF_LAST 1 /* with 2, connection 2 passes waiters of a smaller limit */
#endif
#ifndef PLANT
#define PLANT 0
#endif

#define CONNS   3
#define WAITERS 3 /* memory for this many; one more gets none */
#define NONE    7

#define HOME(c)  ((c) == 0 -> 0 : 1)
#define LIMIT(c) ((c) == 2 -> LIMIT_OF_LAST : 1)

/* enum waiter_state, and FREE. TIMED_OUT and CANCELLED waiters are freed in the same step. */
#define FREE    0
#define WAITING 1
#define GRANTED 2
#define DONE    3

/* The ledger. Protected by the lock. */
byte consumption;
byte units[CONNS]; /* of each connection's holding */
byte waits[CONNS];
bool held[CONNS]; /* the holding exists */
byte line[WAITERS], in_line;
byte state[WAITERS] = FREE;

/* Waiters. `next` belongs to the owner of the letter, the other variables to the waiter's owner. */
byte holder[WAITERS] = NONE, next[WAITERS] = NONE;
byte slot_of[WAITERS], generation_of[WAITERS];
bool any[WAITERS];

/* Mailboxes and eventfds. */
byte top[2] = NONE;
bool edge[2]; /* the eventfd was written, and epoll has not reported it yet */

/* Connections and their sessions. Only their worker uses them. */
bool open[CONNS] = true;
byte generation[CONNS];
byte waiter_of[CONNS] = NONE, locks[CONNS];
byte left = EVENTS;

byte told; /* locks whose clients know of LOCKED and have not given back */

hidden byte i, k;

/* ---- the shard's lock ---------------------------------------------------------------------------- */

inline lock_release()
{
    assert(consumption == units[0] + units[1] + units[2]);
    i = 0;
    do
    :: i < in_line ->
        k = line[i];
        assert(state[k] == WAITING);
        assert(consumption >= LIMIT(slot_of[k])); /* else a waiter that fits still waits */
        i++
    :: else -> break
    od;
    i = 0;
    k = 0
}

/* ---- the mailbox ------------------------------------------------------------------------- */

inline loop_ring(box)
{
    edge[box] = true
}

inline mailbox_send(box, m)
{
#if PLANT == 1 /* writes the eventfd before it posts the letter */
    if
    :: top[box] == NONE -> loop_ring(box)
    :: else
    fi;
#endif
    seen = top[box];
    do
    :: next[m] = seen;
#if PLANT == 2 /* a store instead of a compare-and-swap */
       top[box] = m;
       break
#else
       atomic {
           if
           :: top[box] == seen -> top[box] = m; break
           :: else -> seen = top[box]
           fi
       }
#endif
    od;
#if PLANT == 3 /* writes the eventfd when the box was not empty */
    if
    :: seen != NONE -> loop_ring(box)
    :: else
    fi;
#elif PLANT != 1
    if
    :: seen == NONE -> loop_ring(box)
    :: else
    fi;
#endif
    seen = NONE
}

/* Leaves the letters in `mail`, oldest first. */
inline mailbox_take()
{
#if PLANT == 4 /* reads and clears in two steps */
    mail = top[me];
    top[me] = NONE;
#elif PLANT == 5 /* takes only the newest letter */
    d_step {
        mail = top[me];
        if
        :: mail != NONE -> top[me] = next[mail]; next[mail] = NONE
        :: else
        fi
    };
#else
    d_step { mail = top[me]; top[me] = NONE };
#endif
    d_step {
        k = NONE;
        do
        :: mail != NONE -> i = next[mail]; next[mail] = k; k = mail; mail = i
        :: else -> break
        od;
        mail = k;
        i = 0;
        k = 0
    }
}

/* ---- the table, under the lock ----------------------------------------------------------- */

/* Sets `k` to the oldest waiter of this kind that fits, or NONE. */
inline waitq_oldest(kind)
{
    k = NONE;
    i = 0;
    do
    :: i < in_line && k == NONE ->
        if
#if PLANT == 6 /* hands over to the oldest, even if it does not fit */
        :: any[line[i]] == kind -> k = line[i]
#else
        :: any[line[i]] == kind && consumption < LIMIT(slot_of[line[i]]) -> k = line[i]
#endif
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline leave_line(m)
{
    assert(state[m] == WAITING);
    i = 0;
    do
    :: line[i] == m -> break
    :: else -> i++
    od;
    in_line--;
    do
    :: i < in_line -> line[i] = line[i + 1]; i++
    :: else -> break
    od;
    line[in_line] = 0
}

/* Adds waiter `m` to the verdicts in `out`. */
inline decide(m, verdict)
{
    leave_line(m);
    state[m] = verdict;
    assert(held[slot_of[m]]);
    if
    :: verdict == GRANTED ->
        assert(consumption < LIMIT(slot_of[m]));
#if PLANT != 7 /* 7: the ledger gets a grant only when its client does */
        units[slot_of[m]]++;
        consumption++
#endif
    :: else
    fi;
    next[m] = NONE;
    if
    :: out == NONE -> out = m
    :: else -> next[out_last] = m
    fi;
    out_last = m
}

inline grant_fitting(kind)
{
    waitq_oldest(kind);
    do
    :: k != NONE -> chosen = k; decide(chosen, GRANTED); waitq_oldest(kind)
    :: else -> break
    od;
    chosen = NONE;
    i = 0;
    k = 0
}

inline finish_any()
{
    chosen = 0;
    do
    :: chosen < in_line ->
        if
        :: any[line[chosen]] -> k = line[chosen]; decide(k, DONE)
        :: else -> chosen++
        fi
    :: else -> break
    od;
    chosen = NONE;
    i = 0;
    k = 0
}

inline holding_reap(c)
{
    if
#if PLANT == 8 /* reaps a holding with its last unit, although it has waits */
    :: units[c] == 0 -> held[c] = false
#else
    :: units[c] == 0 && waits[c] == 0 -> held[c] = false
#endif
    :: else
    fi
}

inline leave_holding(c)
{
    assert(held[c] && waits[c] > 0);
    waits[c]--;
    holding_reap(c)
}

inline clear_waiter(m)
{
    state[m] = FREE;
    holder[m] = NONE;
    next[m] = NONE;
    slot_of[m] = 0;
    generation_of[m] = 0;
    any[m] = false
}

/* ---- verdicts ---------------------------------------------------------------------------- */

inline forget_wait(c)
{
    waiter_of[c] = NONE
}

inline tell_locked(c)
{
    locks[c]++;
    told++;
    assert(told <= LIMIT_OF_LAST)
}

/* Acknowledges the verdict on the wait of `c` (table_take_verdict), and notifies its client. */
inline take_note(c)
{
    d_step {
        noted = waiter_of[c];
        assert(noted != NONE && holder[noted] == c);
        assert(state[noted] == GRANTED || state[noted] == DONE);
        granted = state[noted] == GRANTED;
#if PLANT == 7
        if
        :: granted -> units[c]++; consumption++
        :: else
        fi;
#endif
        leave_holding(c);
        lock_release()
    };
    d_step {
#if PLANT != 9 /* 9: its letter does not know that the owner took note */
        holder[noted] = NONE;
#endif
        forget_wait(c);
        if
        :: granted -> tell_locked(c)
        :: else
        fi;
#if PLANT == 10 /* the owner frees the waiter while its letter is on the way */
        state[noted] = FREE;
#endif
        granted = false;
        noted = NONE
    }
}

inline on_verdict(m)
{
    assert(state[m] != FREE);
    if
    :: holder[m] != NONE ->
        assert(open[slot_of[m]]);
        assert(generation[slot_of[m]] == generation_of[m]);
        assert(waiter_of[slot_of[m]] == m);
        take_note(slot_of[m])
    :: else
    fi;
    d_step { /* table_waiter_free */
        assert(holder[m] == NONE && (state[m] == GRANTED || state[m] == DONE));
        clear_waiter(m)
    }
}

/* Delivers the verdicts in `out`: at once, or as letters. */
inline service_deliver()
{
    do
    :: out != NONE ->
        d_step { letter = out; out = next[letter]; next[letter] = NONE };
        if
        :: HOME(slot_of[letter]) == me -> on_verdict(letter)
        :: else -> mailbox_send(1 - me, letter) /* worker_post */
        fi;
        letter = NONE
    :: else -> break
    od;
    out_last = NONE
}

inline on_bell()
{
    mailbox_take();
    do
    :: mail != NONE ->
        letter = mail;
        mail = next[letter];
        on_verdict(letter);
        letter = NONE
    :: else -> break
    od
}

/* ---- actions of clients, and timers ------------------------------------------------------ */

/*
 * Ends the wait of `c` (table_end_wait, for any reason) and sets `ended`; or, if its verdict came
 * first, notifies the client.
 */
inline end_wait(c)
{
#if PLANT == 11 /* checks for a verdict before it has the lock */
    ended = state[waiter_of[c]] == WAITING;
#endif
    d_step {
        noted = waiter_of[c];
#if PLANT != 11
        ended = state[noted] == WAITING;
#endif
        if
        :: ended -> leave_line(noted); leave_holding(c); clear_waiter(noted); i = 0
#if PLANT == 12 /* a wait that has just been granted times out nevertheless */
        :: else -> leave_holding(c); holder[noted] = NONE; ended = true
#else
        :: else
#endif
        fi;
        noted = NONE;
        lock_release()
    };
    if
    :: ended -> d_step { forget_wait(c) }
    :: else -> take_note(c)
    fi
}

inline do_acquire(c, kind, may_wait)
{
    d_step {
        if
        :: consumption < LIMIT(c) ->
            held[c] = true;
            units[c]++;
            consumption++;
            tell_locked(c)
        :: else ->
            i = 0;
            do /* memory for a waiter */
            :: i < WAITERS && state[i] != FREE -> i++
            :: else -> break
            od;
            if
            :: may_wait && i < WAITERS ->
                held[c] = true;
                waits[c]++;
                state[i] = WAITING;
                holder[i] = c;
                slot_of[i] = c;
                generation_of[i] = generation[c];
                any[i] = kind;
                line[in_line] = i;
                in_line++;
                waiter_of[c] = i
            :: else /* TIMEOUT, or no memory */
            fi
        fi;
        lock_release()
    }
}

/* table_release_held, and the answer. */
inline release_lock(c)
{
    d_step {
        locks[c]--;
        told--;
        assert(held[c] && units[c] > 0 && consumption > 0);
        units[c]--;
        consumption--;
        finish_any();
        grant_fitting(false);
        holding_reap(c);
        lock_release()
    };
    service_deliver()
}

/* RELEASE without a name prefers a wait to a lock; with a name it prefers a lock. */
inline do_release(c, named)
{
    ended = false;
    if
    :: waiter_of[c] != NONE && !(named && locks[c] > 0) -> end_wait(c)
    :: else
    fi;
    if
    :: !ended && locks[c] > 0 -> release_lock(c)
    :: else
    fi;
    ended = false
}

inline leave_waits(c)
{
    if
    :: waiter_of[c] != NONE ->
        d_step {
            noted = waiter_of[c];
            if
            :: state[noted] == WAITING ->
                leave_line(noted);
                leave_holding(c);
                clear_waiter(noted);
                noted = NONE
            :: else -> leave_holding(c)
            fi;
            lock_release()
        };
        d_step {
            if
            :: noted != NONE ->
#if PLANT != 13 /* 13: its letter does not know that the connection has ended */
                holder[noted] = NONE;
#endif
                noted = NONE
            :: else
            fi;
            forget_wait(c)
        }
    :: else
    fi
}

inline give_all_back(c)
{
    if
    :: held[c] ->
        d_step {
#if PLANT == 14 /* gives back the locks that the client knows of, not the ledger's units */
            units[c] = units[c] - locks[c];
            consumption = consumption - locks[c];
#else
            consumption = consumption - units[c];
            units[c] = 0;
#endif
#if PLANT != 15 /* 15: nobody gets the units of a closed connection */
            grant_fitting(false);
            grant_fitting(true);
#endif
            holding_reap(c);
            lock_release()
        }
    :: else
    fi
}

/* table_close and the service's on_close. */
inline on_close(c)
{
    told = told - locks[c];
#if PLANT == 16 /* units before waits: it may be granted its own units */
    give_all_back(c);
    leave_waits(c);
#else
    leave_waits(c);
    give_all_back(c);
#endif
    service_deliver();
    d_step { locks[c] = 0; open[c] = false }
}

inline request(c)
{
    if
    :: !open[c] -> d_step { open[c] = true; generation[c]++ }
    :: open[c] && waiter_of[c] == NONE && locks[c] < 2 ->
        if
        :: do_acquire(c, false, true)
        :: do_acquire(c, true, true)
        :: do_acquire(c, false, false)
        fi
    :: open[c] && (waiter_of[c] != NONE || locks[c] > 0) ->
        if
        :: do_release(c, false)
        :: waiter_of[c] != NONE && locks[c] > 0 -> do_release(c, true)
        fi
    :: open[c] -> on_close(c)
    fi
}

inline on_expire(c)
{
    end_wait(c);
    ended = false
}

/* Runs iterations. Events that the real loop handles in one iteration come in any order here. */
proctype worker(byte me)
{
    byte seen = NONE, mail = NONE, letter = NONE, noted = NONE, chosen = NONE;
    byte out = NONE, out_last = NONE;
    bool granted, ended, rung;
end:
    do
    :: edge[me] -> d_step { edge[me] = false; rung = true } /* epoll reports it */
#if PLANT == 17 /* like a loop that reads the eventfd after the box */
    :: rung -> on_bell(); skip; d_step { edge[me] = false; rung = false }
#else
    :: rung -> rung = false; on_bell()
#endif
    :: atomic { HOME(0) == me && left > 0 -> left-- }; request(0)
    :: atomic { HOME(1) == me && left > 0 -> left-- }; request(1)
    :: atomic { HOME(2) == me && left > 0 -> left-- }; request(2)
    :: atomic { HOME(0) == me && left > 0 && waiter_of[0] != NONE -> left-- }; on_expire(0)
    :: atomic { HOME(1) == me && left > 0 && waiter_of[1] != NONE -> left-- }; on_expire(1)
    :: atomic { HOME(2) == me && left > 0 && waiter_of[2] != NONE -> left-- }; on_expire(2)
    od
}

/* Checks when nothing more happens. */
active proctype quiet()
{
    timeout;
    d_step {
        assert(top[0] == NONE && top[1] == NONE);
        i = 0;
        do
        :: i < WAITERS -> assert(state[i] == FREE || state[i] == WAITING); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < CONNS ->
            assert(units[i] == locks[i]);
            assert(waits[i] == (waiter_of[i] == NONE -> 0 : 1));
            assert(held[i] == (units[i] + waits[i] > 0));
            assert(open[i] || !held[i]);
            i++
        :: else -> break
        od
    }
}

init
{
    atomic { run worker(0); run worker(1) }
}
