/*
 * cluster_engine.pml - what the engine does: its scripts, as far as one name needs them. See cluster.pml.
 */
/* Sets `taken` to the units in all sessions. */
inline count_units()
{
    taken = 0;
    z = 1;
    do
    :: z <= SESSIONS -> taken = taken + unit[AT(e, z)]; z++
    :: else -> break
    od
}

/* Gives the unit to a session that waits, if it is free. */
inline hand_over()
{
    count_units();
    z = 1;
    do
#if PLANT == 16 /* strict names are granted in grace */
    :: z <= SESSIONS && taken == 0 ->
#else
    :: z <= SESSIONS && taken == 0 && !grace[e] ->
#endif
        if
        :: wait[AT(e, z)] ->
            wait[AT(e, z)] = false;
            m = owner[z];
            if
#if PLANT == 12 /* sessions that are opening are not granted anything */
            :: state[AT(e, z)] != LIVE
#else
            :: state[AT(e, z)] != LIVE && state[AT(e, z)] != OPENING
#endif
            :: else ->
                if
                :: session[m] == z && engine[m] == e && subscribed[m] ->
                    unit[AT(e, z)] = true;
                    taken = 1;
                    if
                    :: !dumb[m] -> message[m] = true
                    :: else
                    fi
                :: else ->
                    if
                    :: ghost[z] -> unit[AT(e, z)] = true; taken = 1
                    :: else
                    fi
                fi
            fi
        :: else
        fi;
        z++
    :: else -> break
    od
}

/* Node `m` reads the beats of all sessions, and whether there is grace. */
inline watch()
{
    z = 1;
    do
    :: z <= SESSIONS ->
        if
        :: state[AT(e, z)] == UNKNOWN || z == s -> watched[EYE(m, z)] = 0; number[EYE(m, z)] = 0
#if PLANT == 13 /* ended sessions are not watched */
        :: state[AT(e, z)] == ENDED && watched[EYE(m, z)] < CONFIRMED ->
            watched[EYE(m, z)] = 0;
            number[EYE(m, z)] = 0
#endif
        :: else ->
            if
            :: watched[EYE(m, z)] == 0 || number[EYE(m, z)] != beat[AT(e, z)] ->
                watched[EYE(m, z)] = 1;
                number[EYE(m, z)] = beat[AT(e, z)]
            :: else
            fi
        fi;
        z++
    :: else -> break
    od;
    see_grace()
}

inline see_grace()
{
    if
    :: grace[e] && grace_seen[m] == 0 -> grace_seen[m] = 1
    :: !grace[e] && grace_seen[m] > 0 -> grace_seen[m] = 0; must_try[m] = client[m] == WAITING
    :: else
    fi
}

inline do_open(slot)
{
    m = owner[s];
    if
    :: term[e] != term_now[e] -> term[e] = term_now[e]; grace[e] = true
    :: else
    fi;
    y = whom[slot];
    x = 1; /* the session of the node that is not ended */
    do
    :: x <= SESSIONS && !(owner[x] == m && (state[AT(e, x)] == OPENING || state[AT(e, x)] == LIVE)) -> x++
    :: else -> break
    od;
    if
#if PLANT != 17 /* 17: nobody finds out that its last session was reaped */
    :: y != 0 && (reaped[AT(e, y)] || (state[AT(e, y)] == UNKNOWN && !grace[e])) -> result = REAPED
#endif
    :: else ->
        if
        :: x <= SESSIONS && process[x] != process[s] &&
           !(also[slot] == x && (which[slot] == ANY || which[slot] == beat[AT(e, x)])) ->
            result = NODE;
            if
            :: SAME_SIDE(slot) && knows[m] -> watched[EYE(m, x)] = CONFIRMED; number[EYE(m, x)] = ANY
            :: SAME_SIDE(slot) && !knows[m] && number[EYE(m, x)] != beat[AT(e, x)] ->
                watched[EYE(m, x)] = 1;
                number[EYE(m, x)] = beat[AT(e, x)]
            :: else
            fi
        :: else ->
            if
            :: x <= SESSIONS -> state[AT(e, x)] = ENDED
            :: else
            fi;
            state[AT(e, s)] = OPENING;
            beat[AT(e, s)] = 1;
            before[AT(e, s)] = y;
            if
            :: SAME_SIDE(slot) -> known_term[m] = term_now[e]; see_grace(); must_try[m] = false
            :: else
            fi
        fi
    fi
}

inline do_ready(slot)
{
    if
    :: state[AT(e, s)] == OPENING || state[AT(e, s)] == LIVE ->
        state[AT(e, s)] = LIVE;
        before[AT(e, s)] = 0;
#if PLANT != 2 /* 2: `ready` does not add to the beat */
        beat[AT(e, s)] = beat[AT(e, s)] + 1;
#endif
        z = 1;
        do
        :: z <= SESSIONS && SAME_SIDE(slot) ->
            if
            :: state[AT(e, z)] == ENDED && owner[z] == owner[s] ->
                watched[EYE(owner[s], z)] = CONFIRMED;
                number[EYE(owner[s], z)] = beat[AT(e, z)]
            :: else
            fi;
            z++
        :: else -> break
        od
    :: else -> result = ERROR
    fi
}

#if PLANT == 10 /* ended sessions go on */
#define MAY_CALL (state[AT(e, s)] == LIVE || state[AT(e, s)] == ENDED)
#else
#define MAY_CALL (state[AT(e, s)] == LIVE)
#endif
#define MAY_GIVE (MAY_CALL || state[AT(e, s)] == OPENING)

inline do_beat(slot)
{
    if
    :: MAY_CALL && term[e] == term_now[e] ->
        beat[AT(e, s)] = beat[AT(e, s)] + 1;
        if
        :: SAME_SIDE(slot) ->
            m = owner[s];
#if PLANT != 20 /* 20: a beat that reaches nobody succeeds */
            if
            :: !subscribed[m] -> result = ERROR
            :: else
            fi;
#endif
            watch()
        :: else
        fi
    :: else -> result = ERROR
    fi
}

#define MAY_REAP (state[AT(e, s)] == LIVE || state[AT(e, s)] == OPENING)

/* The first call for a session ends it and gives back what it has, the next one removes its keys. */
inline do_reap(slot)
{
    x = whom[slot];
    if
    :: state[AT(e, s)] != LIVE && state[AT(e, s)] != OPENING -> result = ERROR
#if PLANT == 8 /* `reap` does not compare the beats */
    :: MAY_REAP && state[AT(e, x)] != UNKNOWN ->
#else
    :: MAY_REAP && state[AT(e, x)] != UNKNOWN && beat[AT(e, x)] == which[slot] ->
#endif
        y = before[AT(e, x)];
        taken = state[AT(e, x)];
        state[AT(e, x)] = ENDED;
#if PLANT != 19 /* 19: sessions that count on the reaped one go on */
        if
        :: owner[x] != owner[s] ->
            reaped[AT(e, x)] = true;
            if
            :: y != 0 && state[AT(e, y)] != UNKNOWN -> reaped[AT(e, y)] = true
            :: else
            fi;
            z = 1;
            do
            :: z <= SESSIONS ->
                if
                :: state[AT(e, z)] == OPENING && owner[z] == owner[x] && z != x &&
                   before[AT(e, z)] != 0 && (before[AT(e, z)] == x || before[AT(e, z)] == y) ->
                    state[AT(e, z)] = ENDED
                :: else
                fi;
                z++
            :: else -> break
            od
        :: else
        fi;
#endif
        had = unit[AT(e, x)] || wait[AT(e, x)];
        if
        :: taken == ENDED -> forget_session(e, x)
        :: else ->
            unit[AT(e, x)] = false;
            wait[AT(e, x)] = false;
            result = QUEUED
        fi
    :: else
    fi
}

inline forget_session(at, which_one)
{
    state[AT(at, which_one)] = UNKNOWN;
    beat[AT(at, which_one)] = 0;
    before[AT(at, which_one)] = 0;
    reaped[AT(at, which_one)] = false;
    unit[AT(at, which_one)] = false;
    wait[AT(at, which_one)] = false
}

/* After those that wait already were given what fits. */
inline do_acquire()
{
    count_units();
    if
#if PLANT == 16
    :: taken == 0 -> unit[AT(e, s)] = true
#else
    :: taken == 0 && !grace[e] -> unit[AT(e, s)] = true
#endif
    :: else -> wait[AT(e, s)] = true; result = QUEUED
    fi
}

/* `s` and `w`: what the node's ended sessions have moves, else it is added. */
#define MOVE_TO(what)                                                                                   \
    z = 1;                                                                                              \
    do                                                                                                  \
    :: z <= SESSIONS && !(state[AT(e, z)] == ENDED && owner[z] == owner[s] && what[AT(e, z)]) -> z++    \
    :: else -> break                                                                                    \
    od;                                                                                                 \
    if                                                                                                  \
    :: z <= SESSIONS -> what[AT(e, z)] = false                                                          \
    :: else                                                                                             \
    fi;                                                                                                 \
    what[AT(e, s)] = true

#define HANDS_OVER(what) ((what) == C_A || (what) == C_R || (what) == C_T || had)

/* The engine runs the command of slot `slot`. */
inline execute(slot)
{
    e = engine[slot];
    s = who[slot];
    had = false;
    result = SUCCESS;
    if
    :: command[slot] == C_OPEN -> do_open(slot)
    :: command[slot] == C_READY -> do_ready(slot)
    :: command[slot] == C_BEAT -> do_beat(slot)
    :: command[slot] == C_REAP -> do_reap(slot)
    :: command[slot] == C_GRACE ->
        if
        :: state[AT(e, s)] != LIVE -> result = ERROR
        :: state[AT(e, s)] == LIVE && which[slot] == term[e] && which[slot] == term_now[e] -> grace[e] = false
        :: else
        fi
    :: command[slot] == C_A && MAY_CALL
    :: command[slot] == C_R && MAY_GIVE ->
        if
        :: unit[AT(e, s)] -> unit[AT(e, s)] = false
        :: else -> result = ERROR
        fi
    :: command[slot] == C_C && MAY_GIVE ->
        if
        :: wait[AT(e, s)] -> wait[AT(e, s)] = false
        :: else -> result = TOO_LATE
        fi
    :: command[slot] == C_T && MAY_GIVE
    :: command[slot] == C_S && state[AT(e, s)] == OPENING -> MOVE_TO(unit)
    :: command[slot] == C_W && state[AT(e, s)] == OPENING -> MOVE_TO(wait)
    :: command[slot] == C_SHOW && MAY_GIVE
    :: else -> result = ERROR
    fi;
#if PLANT != 22 /* 22: nobody sees that an opening session lives */
    if
    :: result != ERROR && command[slot] >= C_R && state[AT(e, s)] == OPENING -> beat[AT(e, s)] = beat[AT(e, s)] + 1
    :: else
    fi;
#endif
    if
    :: result != ERROR && HANDS_OVER(command[slot]) -> hand_over()
    :: else
    fi;
    if
    :: result != ERROR && command[slot] == C_A -> do_acquire()
    :: else
    fi;
    if
    :: SAME_SIDE(slot) -> answer[slot] = result
    :: else -> forget_command(slot); engine[slot] = 0
    fi
}

inline forget_command(slot)
{
    command[slot] = NOTHING;
    who[slot] = 0;
    whom[slot] = 0;
    which[slot] = 0;
    also[slot] = 0
}
