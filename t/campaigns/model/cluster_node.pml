/*
 * cluster_node.pml - what a node and its client do. See cluster.pml.
 */
/* Closes both connections of `node`. */
inline close_both(node)
{
    if
    :: command[node] != NOTHING && answer[node] == 0 ->
        z = NODES;
        do
        :: z < SLOTS && command[z] != NOTHING -> z++
        :: else -> break
        od;
        if
        :: z < SLOTS ->
            command[z] = command[node];
            engine[z] = engine[node];
            who[z] = who[node];
            whom[z] = whom[node];
            which[z] = which[node];
            also[z] = also[node]
        :: else
        fi
    :: else
    fi;
    forget_command(node);
    answer[node] = 0;
    if
    :: subscribed[node] && (client[node] == ASKED || client[node] == WAITING || client[node] > GIVING) ->
        ghost[session[node]] = true
    :: else
    fi;
    subscribed[node] = false;
    dumb[node] = false;
    message[node] = false;
    must_try[node] = false;
    shown[node] = 0;
    session[node] = 0;
    engine[node] = 0;
    known_term[node] = 0;
    voted[node] = false;
    coming[node] = 0;
    older[node] = false;
    mode[node] = AWAY;
    if
    :: client[node] == GRANTED -> client[node] = WAITING
    :: client[node] > GRANTED -> client[node] = IDLE
    :: else
    fi;
    stop_watching(node)
}

inline stop_watching(node)
{
    grace_seen[node] = 0;
    z = 1;
    do
    :: z <= SESSIONS -> watched[EYE(node, z)] = 0; number[EYE(node, z)] = 0; z++
    :: else -> break
    od
}

inline close_holders(node)
{
    if
    :: client[node] == HOLDING -> client[node] = IDLE
    :: else
    fi;
    last[node] = 0
}

inline end_lease(node)
{
    close_holders(node);
    excused[node] = 0;
    close_both(node)
}

/* ---- nodes: steps ---------------------------------------------------------------------------- */

inline connect(node, to)
{
    x = 1;
    do
    :: x <= SESSIONS && owner[x] != NODES -> x++
    :: else -> break
    od;
    if
    :: x <= SESSIONS ->
        session[node] = x;
        owner[x] = node;
        process[x] = incarnation[node];
        engine[node] = to;
        mode[node] = CONNECTED;
#if PLANT != 15 /* 15: opens before the subscription is confirmed */
        subscribed[node] = true
#endif
    :: else
    fi
}

inline tell(node)
{
    if
    :: lease[node] > 0 -> client[node] = HOLDING
    :: else -> client[node] = GRANTED
    fi
}

/* Reads a G. */
inline read_message(node)
{
    message[node] = false;
    if
    :: client[node] == ASKED || client[node] == WAITING -> tell(node)
    :: client[node] > GIVING -> client[node] = GIVING
    :: else -> assert(false)
    fi
}

/* Calls the engine. */
inline say(node, what)
{
    command[node] = what;
    who[node] = session[node]
}

inline say_open(node)
{
    x = 1;
    do
    :: x <= SESSIONS && !(watched[EYE(node, x)] >= RIPE && owner[x] == node) -> x++
    :: else -> break
    od;
    say(node, C_OPEN);
    whom[node] = last[node];
    coming[node] = LEASE;
    if
    :: x <= SESSIONS -> also[node] = x; which[node] = number[EYE(node, x)]
    :: else
    fi
}

inline say_ready(node)
{
    say(node, C_READY);
    mode[node] = GETTING_READY;
    coming[node] = LEASE;
#if PLANT != 6
    voted[node] = named == engine[node]
#endif
}

inline say_beat(node)
{
    say(node, C_BEAT);
    coming[node] = LEASE;
#if PLANT != 6 /* 6: the majority was asked before the beat was sent */
    voted[node] = named == engine[node];
#endif
    z = 1;
    do
    :: z <= SESSIONS ->
        if
        :: watched[EYE(node, z)] == RIPE -> watched[EYE(node, z)] = CHECKING
        :: else
        fi;
        z++
    :: else -> break
    od;
    if
    :: grace_seen[node] == RIPE -> grace_seen[node] = CHECKING
    :: else
    fi
}

inline say_reap(node, dead)
{
    say(node, C_REAP);
    whom[node] = dead;
    which[node] = number[EYE(node, dead)]
}

#if PLANT == 7 /* no fresh beat before `reap` and `grace` */
#define SURE RIPE
#else
#define SURE (SENTINEL -> CONFIRMED : RIPE)
#endif
#define MAY_REAP_IT(node, dead) (watched[EYE(node, dead)] >= (owner[dead] == node -> RIPE : SURE))
#define REAPS(node)                                                                                     \
    (MAY_REAP_IT(node, 1) || MAY_REAP_IT(node, 2) || MAY_REAP_IT(node, 3) || MAY_REAP_IT(node, MIN(4)) || \
     MAY_REAP_IT(node, MIN(5)) || MAY_REAP_IT(node, MIN(6)) || MAY_REAP_IT(node, MIN(7)))
#define MIN(a) (SESSIONS < (a) -> SESSIONS : (a))

#define MAY_SPEAK(node) (power[node] == RUNS && mode[node] != AWAY && command[node] == NOTHING)
#define MAY_BEAT(node)  (MAY_SPEAK(node) && mode[node] == AT_WORK)

#define CALLS(node)                                                                                     \
    (mode[node] == AT_WORK && (client[node] == ASKED || (client[node] == WAITING && must_try[node])))
#define CALLS_BESIDE(node) (MAY_SPEAK(node) && CALLS(node) && REAPS(node))

inline speak_for_client(node)
{
    if
    :: client[node] == WAITING -> must_try[node] = false; say(node, C_T)
    :: else -> say(node, C_A)
    fi
}

/* What a node says next, a beat excepted. */
#define SPEAKS(node)                                                                                    \
    (MAY_SPEAK(node) &&                                                                                 \
     ((mode[node] >= CONNECTED && mode[node] <= ASSERTED) || client[node] == GIVING ||                  \
      client[node] == LEAVING ||                                                                        \
      CALLS(node) || (mode[node] == AT_WORK && (grace_seen[node] >= SURE || REAPS(node)))))

inline speak(node)
{
    if
    :: mode[node] == CONNECTED -> say_open(node)
    :: mode[node] == ASSERTING ->
        mode[node] = ASSERTED;
        shown[node] = 0;
        if
        :: client[node] == HOLDING || client[node] == GRANTED -> say(node, C_S)
        :: client[node] == WAITING -> say(node, C_W)
        :: else
        fi
    :: mode[node] == ASSERTED -> say_ready(node)
    :: mode[node] == AT_WORK && REAPS(node) ->
        x = 1;
        do
        :: !MAY_REAP_IT(node, x) -> x++
        :: else -> break
        od;
        say_reap(node, x)
    :: !REAPS(node) && CALLS(node) -> speak_for_client(node)
    :: mode[node] == AT_WORK && grace_seen[node] >= SURE ->
        say(node, C_GRACE);
        which[node] = known_term[node];
        grace_seen[node] = 1
    :: mode[node] >= ASSERTED && client[node] == GIVING -> say(node, C_R)
    :: mode[node] >= ASSERTED && client[node] == LEAVING -> say(node, C_C)
    :: else
    fi
}

inline renew(node)
{
#if PLANT == 9 /* a lease is counted from the answer */
    lease[node] = LEASE;
#else
    lease[node] = coming[node];
#endif
    if
    :: !older[node] && (excused[node] == 1 || client[node] != HOLDING) -> excused[node] = 0
    :: else
    fi
}

inline read_ready(node)
{
    if
#if PLANT == 4 /* no majority for `ready` */
    :: coming[node] == 0 -> result = ERROR
#else
    :: coming[node] == 0 || !AGREED(node) -> result = ERROR
#endif
    :: else ->
        renew(node);
        mode[node] = AT_WORK;
        last[node] = session[node];
#if PLANT != 11 /* 11: no `t` after `ready` */
        must_try[node] = client[node] == WAITING;
#endif
        if
        :: client[node] == GRANTED -> client[node] = HOLDING
        :: else
        fi
    fi
}

inline read_beat(node)
{
    if
#if PLANT == 3 /* no majority for beats */
    :: coming[node] > 0 ->
#else
    :: coming[node] > 0 && AGREED(node) ->
#endif
        renew(node);
        z = 1;
        do
        :: z <= SESSIONS ->
            if
            :: watched[EYE(node, z)] == CHECKING -> watched[EYE(node, z)] = CONFIRMED
            :: else
            fi;
            z++
        :: else -> break
        od;
        if
        :: grace_seen[node] == CHECKING -> grace_seen[node] = CONFIRMED
        :: else
        fi
    :: else
    fi;
#if PLANT != 14 /* 14: a beat's message is not waited for */
    if
    :: dumb[node] -> result = ERROR
    :: else
    fi
#endif
}

/* Reads the answer. */
inline listen(node)
{
    taken = command[node];
    result = answer[node];
    if
    :: taken == C_REAP && result == SUCCESS -> /* else it is called again */
        watched[EYE(node, whom[node])] = 0;
        number[EYE(node, whom[node])] = 0
    :: else
    fi;
    forget_command(node);
    answer[node] = 0;
    if
    :: result == ERROR
    :: result == NODE || result == REAPED -> close_holders(node)
    :: taken == C_OPEN && result == SUCCESS ->
#if PLANT == 1 /* `open` renews the lease */
        lease[node] = coming[node];
#endif
        mode[node] = ASSERTING
#if PLANT == 21 /* a `give` renews the lease */
    :: taken == C_SHOW && result == SUCCESS -> lease[node] = LEASE
#endif
    :: taken == C_READY && result == SUCCESS -> read_ready(node)
    :: taken == C_BEAT && result == SUCCESS -> read_beat(node)
    :: taken == C_GRACE && result == SUCCESS -> grace_seen[node] = 0; must_try[node] = client[node] == WAITING
    :: taken == C_A && client[node] == ASKED && result == SUCCESS -> tell(node)
    :: taken == C_A && client[node] == ASKED && result == QUEUED -> client[node] = WAITING
    :: taken == C_A && client[node] == LEFT_SOON ->
        client[node] = (result == SUCCESS -> GIVING : LEAVING)
    :: taken == C_R -> client[node] = IDLE
    :: taken == C_C && client[node] == LEAVING -> client[node] = (result == SUCCESS -> IDLE : LEFT)
    :: else
    fi;
    if
    :: result == ERROR -> close_both(node)
    :: else
    fi;
    older[node] = false;
#if PLANT != 6
    voted[node] = false;
#else
    voted[node] = mode[node] != AWAY && named == engine[node];
#endif
    if
    :: mode[node] == AWAY || taken == C_READY || taken == C_BEAT || taken == C_OPEN -> coming[node] = 0
    :: else
    fi
}

/* A client of `node` acts. */
inline act(node)
{
    acts--;
    if
    :: client[node] == IDLE -> client[node] = ASKED
    :: client[node] == ASKED -> client[node] = (command[node] == C_A -> LEFT_SOON : IDLE)
    :: client[node] == WAITING -> client[node] = (mode[node] >= ASSERTED -> LEAVING : IDLE)
    :: client[node] == HOLDING || client[node] == GRANTED ->
        client[node] = (mode[node] >= ASSERTED -> GIVING : IDLE)
    :: else
    fi
}
