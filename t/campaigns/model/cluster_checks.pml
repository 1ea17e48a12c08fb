/*
 * cluster_checks.pml - what must hold, in each step and after a recovery. See cluster.pml.
 */
#define COUNTS(node) (client[node] == HOLDING && !EXCUSED(node))

/* Sets `taken`: somebody remembers session `x`. */
inline find_uses()
{
    taken = (state[AT(0, x)] != UNKNOWN || state[AT(ENGINES - 1, x)] != UNKNOWN || session[0] == x || session[1] == x ||
             last[0] == x || last[1] == x || watched[EYE(0, x)] > 0 || watched[EYE(1, x)] > 0);
    z = 0;
    do
    :: z < SLOTS ->
        taken = taken || (command[z] != NOTHING && (who[z] == x || also[z] == x ||
                          (whom[z] == x && (command[z] == C_OPEN || command[z] == C_REAP))));
        z++
    :: else -> break
    od;
    z = 1;
    do
    :: z <= SESSIONS ->
        taken = taken || before[AT(0, z)] == x || before[AT(ENGINES - 1, z)] == x;
        z++
    :: else -> break
    od
}

/* A line of a trace for each node, and one for each session that an engine knows. */
inline print()
{
    printf("-- faults %d, acts %d, term %d of %d%c, named %d\n", faults, acts, term[0], term_now[0],
           (grace[0] -> '*' : ' '), named);
    z = 0;
    do
    :: z < NODES ->
        printf("   node %d: mode %d, client %d, power %d, session %d, last %d, lease %d, command %d, answer %d\n",
               z, mode[z], client[z], power[z], session[z], last[z], lease[z], command[z], answer[z]);
        z++
    :: else -> break
    od;
    z = 1;
    do
    :: z < WIDTH * ENGINES ->
        if
        :: state[z] != UNKNOWN ->
            printf("   session %d: state %d, beat %d, before %d, unit %d, wait %d; seen %d, %d\n", z, state[z], beat[z],
                   before[z], unit[z], wait[z], watched[EYE(0, z % WIDTH)], watched[EYE(1, z % WIDTH)])
        :: else
        fi;
        z++
    :: else -> break
    od
}

/* After each step. */
inline check()
{
#ifdef SHOW
    print();
#endif
    assert(!(COUNTS(0) && COUNTS(1)));
    n = 0;
    q = 0;
    clear()
}

/* Frees the numbers of sessions that nothing remembers. */
inline free_sessions()
{
    x = 1;
    do
    :: x <= SESSIONS ->
        if
        :: owner[x] != NODES ->
            find_uses();
            if
            :: !taken -> owner[x] = NODES; process[x] = 0; ghost[x] = false
            :: else
            fi
        :: else
        fi;
        x++
    :: else -> break
    od
}

inline clear()
{
    e = 0;
    s = 0;
    x = 0;
    y = 0;
    z = 0;
    m = 0;
    taken = 0;
    result = 0;
    round = 0;
    turns = 0;
    beat_due = false;
    had = false
}

#define OPENS_SLOWLY(node)                                                                              \
    (CALM == 2 && !message[node] && command[node] == NOTHING && mode[node] == ASSERTING && shown[node] <= LEASE)

/*
 * Lets each node do all that it can do at once, and then send a beat. Before the first round late commands
 * take the nodes' place.
 */
inline work()
{
    q = (round == 0 -> SLOTS - 1 : NODES - 1);
    turns = 0;
    do
    :: turns < 30 ->
        turns++;
        n = (q < NODES -> q : 0);
        if
        :: command[q] != NOTHING && (q >= NODES || (!message[n] && answer[n] == 0)) -> execute(q)
        :: q >= NODES && command[q] == NOTHING -> turns = 30
        :: q < NODES && gone[n] -> turns = 30
        :: q < NODES && !gone[n] && (command[n] == NOTHING || message[n] || answer[n] != 0) ->
            if
            :: message[n] -> read_message(n)
            :: !message[n] && command[n] != NOTHING && answer[n] != 0 -> listen(n)
            :: !message[n] && command[n] == NOTHING && mode[n] == AWAY -> connect(n, named)
#if PLANT == 15
            :: !message[n] && command[n] == NOTHING && mode[n] == AT_WORK && !subscribed[n] -> subscribed[n] = true
#endif
#if PLANT == 23 /* an opening that takes longer than a lease begins again */
            :: OPENS_SLOWLY(n) && shown[n] == LEASE -> close_both(n); turns = 30
#endif
            :: OPENS_SLOWLY(n) && beat_due -> say(n, C_SHOW); shown[n] = shown[n] + 1; beat_due = false
            /* A refused `open` is tried again later. */
            :: !message[n] && SPEAKS(n) && !OPENS_SLOWLY(n) && !(mode[n] == CONNECTED && turns > 10) -> speak(n)
            :: !message[n] && !SPEAKS(n) && MAY_BEAT(n) && turns < 20 && beat_due -> say_beat(n); beat_due = false
            :: else -> turns = 30
            fi
        fi;
        assert(!(COUNTS(0) && COUNTS(1)));
        if
        :: turns >= 30 && q > 0 -> q--; turns = 0; beat_due = true
        :: else
        fi
    :: else -> break
    od
}

inline tick_all()
{
    n = 0;
    do
    :: n < NODES -> tick_node(n); n++
    :: else -> break
    od
}

/* From now on all goes well. */
inline recover()
{
    x = 1;
    do
    :: x <= SESSIONS -> ghost[x] = false; x++
    :: else -> break
    od;
#if KINDS & FAILOVER
    named = (term_now[1] != 0 -> 1 : 0);
#endif
    n = 0;
    do
    :: n < NODES ->
        if
        :: power[n] != RUNS -> go_on(n)
        :: else
        fi;
        n++
    :: else -> break
    od;
    round = 0;
    do
    :: round < 6 * LEASE * CALM + 6 ->
        beat_due = true;
        work();
#ifdef SHOW
        print();
#endif
        tick_all();
        assert(!(COUNTS(0) && COUNTS(1)));
        free_sessions();
        round++
    :: else -> break
    od;
    beat_due = true;
    work();
    assert_calm();
    wipe_all()
}

inline assert_calm()
{
    e = named;
    assert(gone[0] || mode[0] == AT_WORK);
    assert(gone[1] || mode[1] == AT_WORK);
    assert((gone[0] && gone[1]) || !grace[e]);
    x = 1;
    do
    :: x <= SESSIONS ->
        assert((gone[0] && gone[1]) || state[AT(e, x)] == UNKNOWN || state[AT(e, x)] == LIVE);
        if
        :: state[AT(e, x)] == LIVE && !(gone[0] && gone[1]) ->
            m = owner[x];
            assert(session[m] == x);
            assert(unit[AT(e, x)] == (client[m] == HOLDING));
            assert(wait[AT(e, x)] == (client[m] == WAITING))
        :: else
        fi;
        x++
    :: else -> break
    od;
    assert(client[0] == IDLE || client[0] == WAITING || client[0] == HOLDING);
    assert(client[1] == IDLE || client[1] == WAITING || client[1] == HOLDING);
    assert((client[0] != WAITING && client[1] != WAITING) || client[0] == HOLDING || client[1] == HOLDING)
}

/* The last state is one for all. */
inline wipe_all()
{
    x = 0;
    do
    :: x < NODES ->
        mode[x] = 0;
        client[x] = 0;
        power[x] = 0;
        gone[x] = false;
        knows[x] = false;
        incarnation[x] = 0;
        session[x] = 0;
        last[x] = 0;
        lease[x] = 0;
        coming[x] = 0;
        voted[x] = false;
        subscribed[x] = false;
        dumb[x] = false;
        message[x] = false;
        must_try[x] = false;
        shown[x] = 0;
        known_term[x] = 0;
        grace_seen[x] = 0;
        excused[x] = 0;
        older[x] = false;
        answer[x] = 0;
        x++
    :: else -> break
    od;
    x = 0;
    do
    :: x < NODES * WIDTH -> watched[x] = 0; number[x] = 0; x++
    :: else -> break
    od;
    x = 0;
    do
    :: x < ENGINES * WIDTH -> forget_session(0, x); x++
    :: else -> break
    od;
    term[0] = 0;
    term[ENGINES - 1] = 0;
    grace[0] = false;
    grace[ENGINES - 1] = false;
    x = 0;
    do
    :: x < SLOTS -> forget_command(x); engine[x] = 0; x++
    :: else -> break
    od;
    x = 1;
    do
    :: x <= SESSIONS -> owner[x] = NODES; process[x] = 0; ghost[x] = false; x++
    :: else -> break
    od;
    term_now[0] = 0;
    term_now[ENGINES - 1] = 0;
    terms = 0;
    named = 0;
    acts = 0;
    n = 0;
    q = 0;
    clear();
    finished = true
}
