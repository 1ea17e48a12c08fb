/*
 * cluster_faults.pml - time, and faults. See cluster.pml.
 */
inline tick_node(node)
{
    if
    :: power[node] != PAUSED ->
        if
        :: coming[node] > 0 -> coming[node] = coming[node] - 1
        :: else
        fi;
        x = 1;
        do
        :: x <= SESSIONS ->
            if
            :: watched[EYE(node, x)] > 0 && watched[EYE(node, x)] < RIPE ->
                watched[EYE(node, x)] = watched[EYE(node, x)] + 1
            :: else
            fi;
            x++
        :: else -> break
        od;
        if
        :: grace_seen[node] > 0 && grace_seen[node] < RIPE -> grace_seen[node] = grace_seen[node] + 1
        :: else
        fi;
        if
        :: lease[node] > 0 ->
            lease[node] = lease[node] - 1;
            if
            :: lease[node] == 0 && power[node] == RUNS -> end_lease(node)
            :: lease[node] == 0 && power[node] == STOPPED -> power[node] = OVER
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

inline go_on(node)
{
    if
    :: power[node] == PAUSED && command[node] != NOTHING -> older[node] = true
#if PLANT != 18 /* 18: reads before it looks at its lease */
    :: power[node] == OVER -> end_lease(node)
#endif
    :: else
    fi;
    power[node] = RUNS
}

inline crash(node)
{
    close_both(node);
    stop_watching(node);
    client[node] = IDLE;
    last[node] = 0;
    lease[node] = 0;
    excused[node] = 0;
    power[node] = RUNS;
    incarnation[node] = incarnation[node] + 1
}

inline lose_data(at)
{
    term[at] = 0;
    grace[at] = false;
    y = 1;
    do
    :: y <= SESSIONS -> forget_session(at, y); y++
    :: else -> break
    od;
    doubt()
}

/* The engine lost something while a machine was paused. */
inline doubt()
{
    if
    :: excused[0] == 1 -> excused[0] = 2
    :: else
    fi;
    if
    :: excused[1] == 1 -> excused[1] = 2
    :: else
    fi
}

/* Nothing that was on the way to an engine that restarts arrives. */
inline restart(at)
{
    x = 0;
    do
    :: x < SLOTS ->
        if
        :: engine[x] == at -> forget_command(x)
        :: else
        fi;
        x++
    :: else -> break
    od;
    if
    :: mode[0] != AWAY && engine[0] == at -> close_both(0)
    :: else
    fi;
    if
    :: mode[1] != AWAY && engine[1] == at -> close_both(1)
    :: else
    fi;
    x = 1;
    do
    :: x <= SESSIONS -> ghost[x] = false; x++
    :: else -> break
    od;
    terms++;
    term_now[at] = terms
}

/* The replica gets what the primary has. */
inline replicate()
{
#if KINDS & FAILOVER
    term[1] = term[0];
    grace[1] = grace[0];
    x = 1;
    do
    :: x <= SESSIONS ->
        state[AT(1, x)] = state[AT(0, x)];
        beat[AT(1, x)] = beat[AT(0, x)];
        before[AT(1, x)] = before[AT(0, x)];
        reaped[AT(1, x)] = reaped[AT(0, x)];
        unit[AT(1, x)] = unit[AT(0, x)];
        wait[AT(1, x)] = wait[AT(0, x)];
        x++
    :: else -> break
    od
#else
    skip
#endif
}
