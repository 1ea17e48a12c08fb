/*
 * cluster.pml - one strict name with limit 1, two nodes, and an engine that they share.
 *
 * It models the rules by which nodes share limits: sessions, beats, terms, grace, leases, watching, reaping,
 * the majority of the Sentinels. The search covers every order of the steps of both nodes, of the engine,
 * and of the faults that KINDS allows, FAULTS of them in all:
 *
 *     RESET      a node loses its connections. Its last command is lost, or the engine runs it later
 *     SLOW       answers come so late that leases end
 *     SUBSCRIBED the subscription alone ends, or is dead without a word
 *     RESTART    the engine restarts with its data; EMPTY: without; FLUSH: the data goes, the engine stays
 *     STOP       a node's process is stopped, and goes on later; MACHINE: also its clock stands still
 *     CRASH      a node's process ends. A successor starts on the same machine, elsewhere, or never
 *     FAILOVER   a replica that lacks the last writes is promoted; the old primary goes on
 *
 * A node has one client, which asks for the unit, waits for it, gives up, or releases it. Both clients do
 * ACTS things in all. Sessions are numbers, which are used again when nothing remembers them.
 *
 * Time: a tick may come between any two steps. A lease is LEASE ticks from the sending of a beat, and
 * a node that watches another's beat waits for LEASE ticks. Because a node whose lease is over closes its holders in
 * that tick, the last tenth of a lease is not needed here. What a beat's answer shows counts from the moment
 * when the engine wrote it: nodes reap a little earlier than they really do, never later.
 *
 * Fewer states: a node sends one beat a tick, but for the one that it needs before `reap` and `grace`; no
 * tick ends the lease of a node that is well, unless SLOW lets it; `open`, `ready` and `beat` are under way
 * for any time, all other commands are answered in the step that sends them, or are late after a RESET.
 *
 * A majority of the Sentinels names one engine, and changes its mind once. A node that asks between two
 * moments gets the answer that suits it best of all that were true in that time.
 *
 * Checks. At all times: the clients that were told LOCKED and are still connected are at most 1. Those of a
 * stopped process do not count when its lease is over, nor those of a paused machine until a beat that was
 * sent later is answered. With CALM, from each state in which all faults have happened: if all goes well
 * from now on, some leases later both nodes are live, the engine knows exactly what they hold and wait for,
 * nothing of dead sessions is left, and nobody waits for a unit that nobody has. This is one long step, so
 * only one order of what nodes do in that time is tried. With CALM 2 each opening takes longer than a lease
 * in that time, as where there are many names.
 *
 * Not here: loose names, several names and waits, DONE, full engines, other leases, a failover back, and the
 * order of waiters: the lowest session is first.
 *
 * PLANT=n plants a bug. Each bug is beside the line that it breaks. cluster.py runs the searches.
 */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef KINDS
#define KINDS 1
#endif
#ifndef ACTS
#define ACTS 2
#endif
#ifndef LEASE
#define LEASE 2 /* ticks */
#endif
#ifndef BEATS
#define BEATS 4 /* so high the number of a session grows */
#endif
#ifndef LATE
#define LATE 2 /* commands of closed connections that the engine may run later */
#endif
#ifndef START
/*
 * The first state; the sum of: 1 the client of node 0 holds the unit, and that of node 1 waits; 2 a replica
 * without any data was promoted, but is not named yet; 4 node 1 has lost its connections and its session.
 */
#define START 1
#endif
#ifndef CALM
#define CALM 0
#endif
#ifndef SHOWS
#define SHOWS 0 /* 1: nodes that open also send a `give` without ops, at any time */
#endif
#ifndef PLANT
#define PLANT 0
#endif
#if CALM
#define SESSIONS 7
#else
#define SESSIONS 5 /* when all are in use, a node does not connect again */
#endif

#define RESET      1
#define SUBSCRIBED 2
#define RESTART    4
#define EMPTY      8
#define FLUSH      16
#define STOP       32
#define MACHINE    64
#define CRASH      128
#define FAILOVER   256
#define SLOW       512

#define FAULT(kind) (faults > 0 && (KINDS & (kind)))

#define NODES    2
#define SENTINEL (KINDS & FAILOVER)
#if KINDS & FAILOVER
#define ENGINES 2
#else
#define ENGINES 1
#endif
#define SLOTS (NODES + LATE)
#define WIDTH (SESSIONS + 1) /* session 0 is none */

#define AT(engine, session)    ((engine) * WIDTH + (session))
#define EYE(node, session)     ((node) * WIDTH + (session))
#define ANY                    255 /* in place of a beat: its process is known to have ended */

/* ---- the engine ------------------------------------------------------------------------------ */

#define UNKNOWN 0
#define OPENING 1
#define LIVE    2
#define ENDED   3

byte term_now[ENGINES];  /* the term as the engine itself says it; 0: a replica */
byte term[ENGINES]; /* of `meta` */
bool grace[ENGINES];
byte state[ENGINES * WIDTH];
byte beat[ENGINES * WIDTH];
byte before[ENGINES * WIDTH]; /* `last` of `open` */
bool reaped[ENGINES * WIDTH];
bool unit[ENGINES * WIDTH];
bool wait[ENGINES * WIDTH];
byte terms = 1;
byte named; /* the engine that a majority of the Sentinels names */

/* Of sessions. */
byte owner[WIDTH];
byte process[WIDTH];
bool ghost[WIDTH]; /* the engine still has the subscription of a closed connection */

/* ---- nodes ----------------------------------------------------------------------------------- */

#define AWAY      0
#define CONNECTED 1 /* and subscribed */
#define ASSERTING 2 /* `open` was answered */
#define ASSERTED  3
#define GETTING_READY 4
#define AT_WORK   5

#define IDLE      0
#define ASKED     1 /* `a` was not answered yet */
#define WAITING   2
#define HOLDING   3 /* LOCKED was written */
#define GRANTED   4 /* LOCKED waits for `ready` */
#define GIVING    5 /* `r` is not answered yet */
#define LEAVING   6 /* `c` is not answered yet */
#define LEFT      7 /* `c` came too late: a G is under way */
#define LEFT_SOON 8 /* gave up before `a` was answered */

#define RUNS    0
#define STOPPED 1
#define PAUSED  2 /* its machine */
#define OVER    3 /* stopped, and its lease ended meanwhile */

byte mode[NODES];
byte client[NODES];
byte power[NODES];
bool gone[NODES];      /* crashed for good */
bool knows[NODES];     /* knows that its predecessor's process has ended */
byte incarnation[NODES];
byte session[NODES];
byte last[NODES];      /* the session in which it was last live */
byte lease[NODES];     /* ticks left */
byte coming[NODES];    /* ticks left if the beat under way is answered now */
bool voted[NODES];     /* a majority named this engine since that beat was sent */
bool subscribed[NODES];
bool dumb[NODES];      /* the subscription looks alive, but nothing arrives */
bool message[NODES];   /* a G is under way */
bool must_try[NODES];  /* `t` is due */
byte shown[NODES];     /* rounds of a recovery in which it has been opening; see CALM */
byte known_term[NODES];
byte grace_seen[NODES]; /* as `watched` */
byte excused[NODES];   /* its machine was paused: 1 until a beat succeeds; 2: and the engine lost its data */
bool older[NODES];     /* the command under way was sent before its machine went on */

/* What a node has seen of a session: which beat, and for how long: 0 not at all, else 1 + ticks. */
#define RIPE      (LEASE + 1)
#define CHECKING  (LEASE + 2) /* a beat was sent after that */
#define CONFIRMED (LEASE + 3) /* and has renewed the lease */
byte watched[NODES * WIDTH];
byte number[NODES * WIDTH];

/* Commands: one of each node, then those of closed connections. */
#define NOTHING  0
#define C_OPEN   1
#define C_READY  2
#define C_BEAT   3
#define C_REAP   4
#define C_GRACE  5
#define C_A      6
#define C_R      7
#define C_C      8
#define C_T      9
#define C_S      10
#define C_W      11
#define C_SHOW   12 /* a `give` without ops */

#define SUCCESS 1
#define ERROR   2 /* SESSION, TERM, DEAF: begin again */
#define NODE    3
#define REAPED  4
#define QUEUED  5 /* of `a`; of `reap`: something is left */
#define TOO_LATE 6

byte command[SLOTS];
byte engine[SLOTS]; /* a node's connections lead there */
byte who[SLOTS];    /* the session */
byte whom[SLOTS];   /* X, or `last` */
byte which[SLOTS];  /* X's beat, or the term */
byte also[SLOTS];   /* X of `open` */
byte answer[NODES];

byte faults = FAULTS;
byte acts = ACTS;
bool finished;
byte n, q; /* the node, the slot of this step; 0 between steps */

byte e, s, x, y, z, m, taken, result, round, turns; /* also 0 between steps */
bool beat_due, had;

#define SAME_SIDE(slot) ((slot) < NODES)
#define AGREED(node)    (voted[node] || named == engine[node])
#define EXCUSED(node)   (power[node] == OVER || excused[node] > 0)

#include "cluster_engine.pml"
#include "cluster_node.pml"
#include "cluster_faults.pml"
#include "cluster_checks.pml"

/* ---- the search --------------------------------------------------------------------------------- */

#define EITHER(condition) if :: condition(0) -> n = 0 :: condition(1) -> n = 1 fi

#define MAY_LISTEN(node)  (power[node] == RUNS && command[node] != NOTHING && answer[node] != 0)
#define MAY_READ(node)    (power[node] == RUNS && message[node])
#define MAY_CONNECT(node) (power[node] == RUNS && !gone[node] && mode[node] == AWAY)
#define MAY_ACT(node)     (acts > 0 && power[node] == RUNS && !gone[node] && client[node] < GIVING)
#define BEATS_NOW(node)                                                                                 \
    (MAY_BEAT(node) && beat[AT(engine[node], session[node])] < BEATS &&                                 \
     (lease[node] < LEASE || grace_seen[node] == RIPE || RIPE_FOR(node)))
#define RIPE_FOR(node)                                                                                  \
    (IS_RIPE(node, 1) || IS_RIPE(node, 2) || IS_RIPE(node, 3) || IS_RIPE(node, MIN(4)) ||               \
     IS_RIPE(node, MIN(5)) || IS_RIPE(node, MIN(6)) || IS_RIPE(node, MIN(7)))
#define IS_RIPE(node, dead) (watched[EYE(node, dead)] == RIPE)
/* A node that is well does not lose its lease, and gets its answers in time. */
#define IS_WELL(node)                                                                                   \
    (power[node] == RUNS && engine[node] == named &&                                                    \
     ((mode[node] == AT_WORK && lease[node] == 1) || (mode[node] == GETTING_READY && coming[node] == 1)))
#define IS_OFF(node)      (power[node] != RUNS)
#define IS_ON(node)       (power[node] == RUNS && !gone[node])
#define IS_UP(node)       (IS_ON(node) && mode[node] != AWAY)
#define HEARS(node)       (subscribed[node] && !dumb[node] && mode[node] >= ASSERTING)
#define MAY_SUBSCRIBE(node) (IS_UP(node) && !subscribed[node])
#define MAY_SHOW(node)                                                                                  \
    (SHOWS && MAY_SPEAK(node) && mode[node] == ASSERTING && beat[AT(engine[node], session[node])] < BEATS)

/* In the first state both nodes have just become live, and grace is over; then see START. */
inline begin(node, its)
{
    owner[its] = node;
    state[its] = LIVE;
    beat[its] = 2;
    session[node] = its;
    last[node] = its;
    subscribed[node] = true;
    known_term[node] = 1;
    mode[node] = AT_WORK;
    lease[node] = LEASE
}

#define SESSION_GHOST(id) ghost[id] -> ghost[id] = false

active proctype everything()
{
    d_step {
        x = 1;
        do
        :: x <= SESSIONS -> owner[x] = NODES; x++
        :: else -> break
        od;
        x = 0;
        term_now[0] = 1;
        term[0] = 1;
        begin(0, 1);
        begin(1, 2)
#if START & 1
        ;
        client[0] = HOLDING;
        client[1] = WAITING;
        unit[1] = true;
        wait[2] = true
#endif
#if START & 2
        ;
        terms = 2;
        term_now[1] = 2
#endif
#if START & 4
        ;
        forget_session(0, 2);
        mode[1] = AWAY;
        subscribed[1] = false;
        session[1] = 0;
        engine[1] = 0;
        known_term[1] = 0;
        last[1] = 0;
        lease[1] = 0;
        owner[2] = NODES
#endif
    };
    do
    :: finished -> break
    :: else ->
    if
    /* The engine. */
    :: atomic {
           if
           :: command[0] != NOTHING && answer[0] == 0 -> q = 0
           :: command[1] != NOTHING && answer[1] == 0 -> q = 1
           :: LATE > 0 && command[NODES] != NOTHING -> q = NODES
           :: LATE > 1 && command[SLOTS - 1] != NOTHING -> q = SLOTS - 1
           fi;
           d_step {
               n = q;
               execute(n);
               if
               :: n < NODES && command[n] == C_OPEN && power[n] == RUNS -> listen(n)
               :: else
               fi;
               free_sessions();
               check()
           }
       }
    :: atomic { /* a late command is lost */
           if
           :: LATE > 0 && command[NODES] != NOTHING -> q = NODES
           :: LATE > 1 && command[SLOTS - 1] != NOTHING -> q = SLOTS - 1
           fi;
           d_step { forget_command(q); engine[q] = 0; free_sessions(); check() }
       }

    :: atomic { /* the engine notices the end of a subscription */
           if
           :: SESSION_GHOST(1)
           :: SESSION_GHOST(2)
           :: SESSION_GHOST(3)
           :: SESSION_GHOST(4)
           :: SESSION_GHOST(MIN(5))
           :: SESSION_GHOST(MIN(6))
           :: SESSION_GHOST(MIN(7))
           fi
       }

    /* Nodes. */
    :: atomic { EITHER(MAY_LISTEN); d_step { listen(n); free_sessions(); check() } }
    :: atomic { EITHER(MAY_READ); d_step { read_message(n); check() } }
    :: atomic {
           EITHER(SPEAKS);
           d_step {
               speak(n);
               if
               :: command[n] > C_BEAT -> execute(n); listen(n); free_sessions()
               :: else
               fi;
               check()
           }
       }
    :: atomic { /* a client's call goes between those of `reap` */
           EITHER(CALLS_BESIDE);
           d_step { speak_for_client(n); execute(n); listen(n); free_sessions(); check() }
       }
    :: atomic { EITHER(MAY_SHOW); d_step { say(n, C_SHOW); execute(n); listen(n); free_sessions(); check() } }
    :: atomic { EITHER(BEATS_NOW); d_step { say_beat(n); check() } }
    :: atomic {
           EITHER(MAY_CONNECT);
           if
#if PLANT == 5 /* no majority before `open` */
           :: d_step { connect(n, 0); check() }
           :: term_now[ENGINES - 1] != 0 -> d_step { connect(n, ENGINES - 1); check() }
#else
           :: d_step { connect(n, named); check() }
#endif
           fi
       }
#if PLANT == 15
    :: atomic { EITHER(MAY_SUBSCRIBE); d_step { subscribed[n] = true; check() } }
#endif
    :: atomic { EITHER(MAY_ACT); d_step { act(n); check() } }

    /* Time. */
    :: atomic { !IS_WELL(0) && !IS_WELL(1) -> d_step { tick_node(0); tick_node(1); free_sessions(); check() } }
    :: atomic {
           FAULT(SLOW) && (IS_WELL(0) || IS_WELL(1)) ->
           d_step { faults--; tick_node(0); tick_node(1); free_sessions(); check() }
       }
    :: atomic { EITHER(IS_OFF); d_step { go_on(n); free_sessions(); check() } }

    /* Faults. */
    :: atomic {
           FAULT(RESET) -> EITHER(IS_UP);
           faults--;
           if
           :: SPEAKS(n) -> d_step { speak(n); close_both(n); free_sessions(); check() }
           :: d_step { close_both(n); free_sessions(); check() }
           fi
       }
    :: atomic {
           FAULT(SUBSCRIBED) -> EITHER(HEARS);
           faults--;
           if
           :: d_step { subscribed[n] = false; check() }
           :: d_step { dumb[n] = true; message[n] = false; check() }
           fi
       }
    :: atomic {
           FAULT(RESTART) -> d_step { faults--; restart(named); free_sessions(); check() }
       }
    :: atomic {
           FAULT(EMPTY) -> d_step { faults--; e = named; restart(e); lose_data(e); free_sessions(); check() }
       }
    :: atomic { FAULT(FLUSH) -> d_step { faults--; lose_data(named); free_sessions(); check() } }
    :: atomic { FAULT(STOP) -> EITHER(IS_ON); d_step { faults--; power[n] = STOPPED; check() } }
    :: atomic {
           FAULT(MACHINE) -> EITHER(IS_ON);
           d_step { faults--; power[n] = PAUSED; excused[n] = 1; check() }
       }
    :: atomic {
           FAULT(CRASH) -> EITHER(IS_ON);
           if
           :: knows[n] = true
           :: knows[n] = false
           :: gone[n] = true
           fi;
           d_step { faults--; crash(n); free_sessions(); check() }
       }
#if KINDS & FAILOVER
    :: atomic { faults > 0 && term_now[1] == 0 -> d_step { faults--; replicate(); check() } }
    :: atomic {
           faults > 0 && term_now[1] == 0 -> d_step { faults--; terms++; term_now[1] = terms; doubt(); check() }
       }
    :: atomic { named == 0 && term_now[1] != 0 -> d_step { named = 1; check() } }
#endif

#if CALM
    :: atomic { faults == 0 -> d_step { recover() } }
#endif
    fi
    od
}
