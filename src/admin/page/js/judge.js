/*
 * judge.js - what is wrong: findings from figures, the worst first. Nothing here touches the document
 * or asks the server. counterd-admin(7) states the thresholds.
 */

/* From the worst to the best. */
const LEVELS = ['bad', 'warn', 'note', 'ok'];

const NEAR = {warn: 0.8, bad: 0.95}; // of a limit
const UNWORKED = {warn: 100, bad: 1000, seconds: 60}; // ready jobs; or how long one of them is there
const WORKERS_S = 60; // a tube has workers if one took a job in this time
const IDLE_S = 10; // so long a client may watch a tube with ready jobs before it is no worker
const GROWS = {jobs: 100, share: 0.1, seconds: 300, known: 120, parts: 5};
const BURIED = {note: 1, warn: 100};
const DOWN_SHARE = 0.5;
const LONG_WAIT_S = 60;
const BEAT_SHARE = 0.5; // of a lease without a beat
const NODE_GONE_S = 600;

const worse = (a, b) => (LEVELS.indexOf(a) < LEVELS.indexOf(b) ? a : b);

/* The level that `value` reaches of {note, warn, bad}; 'ok': none. */
const reached = (value, of) => LEVELS.find((level) => level in of && value >= of[level]) || 'ok';

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

/*
 * How a tube grows: {from, to, seconds}, or null. `seen`: samples {at, ready}, oldest first. The time is
 * cut into equal parts. The median of each must be above the one before, and no step may be more than
 * half of the whole: so one burst is no growth, and neither is a backlog that shrinks again.
 */
function growthOf(seen, now) {
    const known = seen.filter((s) => now - s.at <= GROWS.seconds);
    if (!known.length) return null;
    const first = known[0],
        last = known[known.length - 1],
        span = last.at - first.at;
    if (span < GROWS.known) return null;
    const parts = Array.from({length: GROWS.parts}, () => []);
    for (const s of known)
        parts[Math.min(GROWS.parts - 1, Math.floor((GROWS.parts * (s.at - first.at)) / span))].push(
            s.ready,
        );
    if (parts.some((part) => part.length < 2)) return null; // a gap
    const medians = parts.map(median),
        grown = medians[GROWS.parts - 1] - medians[0];
    if (grown < Math.max(GROWS.jobs, GROWS.share * medians[0])) return null;
    if (last.ready < medians[GROWS.parts - 1]) return null;
    for (let i = 1; i < GROWS.parts; i++) {
        const step = medians[i] - medians[i - 1];
        if (step < grown / 20 || step > grown / 2) return null;
    }
    return {from: first.ready, to: last.ready, seconds: span};
}

/* True: somebody works off the tube's jobs. `seen`: samples {at, claims, reserved}, oldest first. */
function hasWorkers(t, seen, now) {
    if (t.states.reserved > 0) return true;
    const lately = seen.filter((s) => now - s.at <= WORKERS_S);
    if (lately.some((s) => s.reserved > 0 || s.claims < t.totals.claims)) return true;
    return t.watching > 0 && !(lately.length && now - lately[0].at >= IDLE_S);
}

/*
 * A finding: {level, kind, title, place, text}. `place` is what it is about: {name, href}, or {row} for
 * a name of counters; href may be ''.
 */
const finding = (level, kind, title, place, text) => ({level, kind, title, place, text});
const onPage = (name, id) => ({name, href: id ? '#' + id : ''});

/* The worst of `rows` by `weight`, 0 or less being no matter; {row, others} or null. */
function worstOf(rows, weight) {
    const all = rows.filter((row) => weight(row) > 0);
    if (!all.length) return null;
    return {
        row: all.reduce((a, b) => (weight(b) > weight(a) ? b : a)),
        others: all.length - 1,
    };
}

const andOthers = (n, one, many) => (n > 0 ? 'So it is in ' + plural(n, one, many) + '.' : '');
const sentences = (...texts) => texts.filter((t) => t).join(' ');

/* ---- names ---- */

/* "In the last 60 seconds 3 requests were refused and 1 wait timed out."; nothing: none. */
function turnedAway(refused, late) {
    const text = [
        refused ? plural(refused, 'request was refused', 'requests were refused') : '',
        late ? plural(late, 'wait timed out', 'waits timed out') : '',
    ]
        .filter((t) => t !== '')
        .join(' and ');
    return text ? 'In the last 60 seconds ' + text + '.' : '';
}

function judgeNames({row, isHot, otherNames, refused, late}) {
    const away = turnedAway(refused, late);
    if (row && isHot)
        return [
            finding(
                away ? 'bad' : 'warn',
                'contended',
                away ? 'Contended, clients are turned away' : 'Contended',
                {row},
                sentences(
                    row.truncated ? 'Only the start of this name is known.' : '',
                    away,
                    otherNames
                        ? 'Clients wait for ' +
                              (otherNames >= 19 ? 'at least ' : '') +
                              plural(otherNames, 'other name', 'other names') +
                              ', too.'
                        : '',
                ),
            ),
        ];
    if (!row && !away) return [];
    return [
        finding(
            'warn',
            'turned-away',
            'Clients are turned away',
            row ? {row} : onPage('Requests', 'requests-head'),
            away,
        ),
    ];
}

/* ---- jobs ---- */

function judgeStore({stats}) {
    const store = stats.resources && stats.resources['job store'];
    const place = onPage('Job queues', 'tubes-head');
    if (!store) return [];
    if (store.stopped)
        return [
            finding(
                'bad',
                'store-stopped',
                'Job queues do not serve',
                onPage('Job queues', ''),
                nameText(store.stopped, 300) + '. Mend jobs.path and restart counterd.',
            ),
        ];
    if (!store.enabled || !store.failing) return [];
    return [
        finding(
            'bad',
            'store-fails',
            'Jobs cannot be written',
            place,
            'New jobs are refused; the log says why jobs.path cannot be written. Make room on its disk, or mend it.',
        ),
    ];
}

const tubePlace = (t) => ({name: t.name, href: '#/tube/' + t.id});

function judgeUnworked(tubes, seenOf, now) {
    const weight = (t) =>
        t.pause_left_seconds > 0 || t.settings.read_only !== '' || hasWorkers(t, seenOf(t), now)
            ? 0
            : t.states.ready >= UNWORKED.warn || t.oldest_ready_seconds >= UNWORKED.seconds
              ? t.states.ready
              : 0;
    const found = worstOf(tubes, weight);
    if (!found) return [];
    const t = found.row,
        n = t.states.ready;
    return [
        finding(
            n >= UNWORKED.bad ? 'bad' : 'warn',
            'unworked',
            'Jobs without a worker',
            tubePlace(t),
            sentences(
                plural(n, 'job is', 'jobs are') +
                    ' ready, the first of them was put ' +
                    longTime(t.oldest_ready_seconds) +
                    ' ago, and nobody takes any. Start workers for this tube.',
                andOthers(found.others, 'other tube', 'other tubes'),
            ),
        ),
    ];
}

function judgeGrowth(tubes, seenOf, now) {
    const growths = new Map(
        tubes.filter((t) => hasWorkers(t, seenOf(t), now)).map((t) => [t, growthOf(seenOf(t), now)]),
    );
    const found = worstOf(tubes, (t) => {
        const g = growths.get(t);
        return g ? Math.max(1, g.to - g.from) : 0;
    });
    if (!found) return [];
    const g = growths.get(found.row);
    return [
        finding(
            'warn',
            'grows',
            'A backlog grows',
            tubePlace(found.row),
            sentences(
                'From ' +
                    count(g.from) +
                    ' to ' +
                    count(g.to) +
                    ' ready jobs in ' +
                    longTime(g.seconds) +
                    ': its workers finish less than is put. Add workers, or look at what slows them down.',
                andOthers(found.others, 'other tube', 'other tubes'),
            ),
        ),
    ];
}

function judgeBuried(stats, tubes) {
    const all = stats.resources.tubes,
        level = reached(all.buried + all.abandoned, BURIED);
    if (level === 'ok') return [];
    const found = worstOf(tubes, (t) => t.states.buried + t.states.abandoned);
    const parts = [
        all.buried ? plural(all.buried, 'job is buried', 'jobs are buried') : '',
        all.abandoned ? plural(all.abandoned, 'job has run out of tries', 'jobs have run out of tries') : '',
    ].filter((t) => t !== '');
    const here = found ? found.row.states.buried + found.row.states.abandoned : 0;
    return [
        finding(
            level,
            'buried',
            'Jobs were given up',
            found ? tubePlace(found.row) : onPage('Job queues', 'tubes-head'),
            sentences(
                parts.join(' and ') + (found && found.others ? ', ' + count(here) + ' in this tube' : '') + '.',
                'Find out why, then kick or delete ' + (all.buried + all.abandoned === 1 ? 'it.' : 'them.'),
            ),
        ),
    ];
}

function judgeHeldBack(tubes) {
    const found = worstOf(tubes, (t) =>
        t.settings.read_only !== '' ? t.jobs + 1 : t.pause_left_seconds > 0 ? t.states.ready : 0,
    );
    if (!found) return [];
    const t = found.row,
        readOnly = t.settings.read_only;
    return [
        finding(
            'note',
            'held-back',
            readOnly ? 'A tube is read-only' : 'A tube is paused',
            tubePlace(t),
            sentences(
                readOnly
                    ? 'It takes and hands out no jobs: ' + nameText(readOnly, 200) + '.'
                    : plural(t.states.ready, 'ready job waits', 'ready jobs wait') +
                          ' for the end of the pause in ' +
                          longTime(t.pause_left_seconds) +
                          '.',
                found.others ? plural(found.others, 'other tube', 'other tubes') + ' paused or read-only.' : '',
            ),
        ),
    ];
}

function judgeDraining({tubes: all}) {
    if (!all.draining) return [];
    return [
        finding(
            'warn',
            'draining',
            'No new jobs are taken',
            onPage('Job queues', 'tubes-head'),
            'They are being drained: puts are answered with DRAINING. To take jobs again, unless the daemon is about to end: counterctl jobs drain --off.',
        ),
    ];
}

function judgeTubes({stats, tubes, seenOf}) {
    if (!stats.resources || !stats.resources.tubes) return [];
    const now = stats.now;
    return [
        ...judgeDraining(stats.resources),
        ...judgeUnworked(tubes, seenOf, now),
        ...judgeGrowth(tubes, seenOf, now),
        ...judgeBuried(stats, tubes),
        ...judgeHeldBack(tubes),
    ];
}

/* ---- pools ---- */

const poolPlace = (p) => ({name: p.name, href: '#/pool/' + p.id});

/* True: it can serve nobody, and nobody is there to bring it members. */
const isDead = (p) => p.suppliers === 0 && p.states.down === p.members;

function judgeWaits(pools) {
    const dead = worstOf(pools, (p) => (isDead(p) ? p.waiting : 0));
    const found = dead || worstOf(pools, (p) => (p.waiting > 0 ? 1 + (p.oldest_wait_seconds || 0) : 0));
    if (!found) return [];
    const p = found.row,
        n = plural(p.waiting, 'request waits', 'requests wait');
    if (dead)
        return [
            finding(
                'bad',
                'pool-dead',
                'A pool cannot serve',
                poolPlace(p),
                sentences(
                    n + (p.members ? ', and all members are down.' : ', and there are no members.'),
                    p.members ? 'Mend a member and set it free.' : 'Add members or start a supplier.',
                    andOthers(found.others, 'other pool', 'other pools'),
                ),
            ),
        ];
    const isLong = (p.oldest_wait_seconds || 0) >= LONG_WAIT_S;
    return [
        finding(
            isLong ? 'warn' : 'note',
            'pool-waits',
            'Members are waited for',
            poolPlace(p),
            sentences(
                n +
                    ' for members of this pool, the first for ' +
                    duration(p.oldest_wait_seconds || 0) +
                    '.',
                isLong ? 'Look at the holders of its members, or add some.' : '',
                andOthers(found.others, 'other pool', 'other pools'),
            ),
        ),
    ];
}

function judgeDown(pools) {
    const found = worstOf(pools, (p) => (p.members ? p.states.down / p.members : 0));
    if (!found) return [];
    const p = found.row,
        down = p.states.down;
    return [
        finding(
            down >= DOWN_SHARE * p.members ? 'warn' : 'note',
            'pool-down',
            'Members are down',
            poolPlace(p),
            sentences(
                count(down) + ' of ' + plural(p.members, 'member', 'members') + (down === 1 ? ' is down.' : ' are down.'),
                'Their notes may say why; set them free when they work again.',
                andOthers(found.others, 'other pool', 'other pools'),
            ),
        ),
    ];
}

const judgePools = ({pools}) => [...judgeWaits(pools), ...judgeDown(pools)];

/* ---- limits ---- */

function judgeLimits({stats}) {
    const tubes = stats.resources && stats.resources.tubes;
    const near = (used, limit, kind, title, place, text) => {
        const level = limit > 0 ? reached(used / limit, NEAR) : 'ok';
        return level === 'ok' ? [] : [finding(level, kind, title, place, text)];
    };
    const part = (used, limit) => bytes(used) + ' of ' + bytes(limit) + ' (' + share(used / limit) + ')';
    const {used_bytes: used, limit_bytes: limit} = stats.memory;
    return [
        ...near(
            used,
            limit,
            'memory',
            'Memory of names is nearly full',
            onPage('Memory', 'memory-head'),
            part(used, limit) +
                ' are used. New names are refused when it is full: raise counter.memory_limit, or find out which clients make so many names.',
        ),
        ...(tubes
            ? near(
                  tubes.memory_bytes,
                  tubes.memory_limit_bytes,
                  'jobs-memory',
                  'Memory of jobs is nearly full',
                  onPage('Job queues', 'tubes-head'),
                  part(tubes.memory_bytes, tubes.memory_limit_bytes) +
                      ' are used. New jobs are refused when it is full: add workers, or raise jobs.memory_limit.',
              )
            : []),
        ...stats.protocols.flatMap(({name, connections: c}) =>
            near(
                c.open,
                c.max,
                'connections-' + name,
                'Connections are nearly used up',
                onPage(name, 'conns-head'),
                count(c.open) +
                    ' of ' +
                    count(c.max) +
                    ' are open (' +
                    share(c.open / c.max) +
                    '). New ones are refused at the limit: raise ' +
                    name +
                    '.max_connections, or find out which clients open so many.',
            ),
        ),
    ];
}

/* ---- the cluster ---- */

/* True: this node has no session with the engine, or does not get one. */
const isCutOff = (c) => Boolean(c && !['live', 'leaving'].includes(c.state));

/* `nodesSeen`: node -> when it was live last, as this page saw it. */
function judgeCluster({stats, cluster: c, nodesSeen}) {
    if (!c) return [];
    const found = [],
        part = onPage('Nodes that share limits', 'cluster-head');
    if (isCutOff(c)) {
        const why = c.reason ? ' (' + nameText(c.reason, 300) + ')' : '';
        const text = c.refused
            ? 'This node does not join the others: ' + nameText(c.refused, 300) + '.'
            : 'This node has no session with its engine' +
              why +
              ': it cannot grant strict names. See that the engine runs and can be reached.';
        return [finding('bad', 'cut-off', 'Limits are not shared', onPage('This node', 'cluster-head'), text)];
    }
    if (c.grace)
        found.push(
            finding('warn', 'grace', 'Strict names wait', part, 'The engine began anew: nothing strict is granted until its grace ends, after a lease.'),
        );
    const others = c.nodes.filter((n) => !n.this);
    const isLive = (n) => n.state !== 'ended' && !(n.beat_age >= BEAT_SHARE * c.lease);
    const live = new Set(c.nodes.filter((n) => n.this || isLive(n)).map((n) => n.node));
    const silent = worstOf(others, (n) => (live.has(n.node) ? 0 : Math.max(1, n.beat_age)));
    if (silent)
        found.push(
            finding(
                'warn',
                'node-away',
                'A node is away',
                {name: silent.row.node, href: '#cluster-head'},
                sentences(
                    silent.row.beat_age >= 0 ? 'No beat for ' + duration(silent.row.beat_age) + '.' : '',
                    'What its clients hold is given back after a lease. Look if it runs and reaches the engine.',
                    silent.others ? plural(silent.others, 'other node is', 'other nodes are') + ' away, too.' : '',
                ),
            ),
        );
    const listed = new Set(c.nodes.map((n) => n.node));
    const gone = [...nodesSeen]
        .filter(([node, at]) => !listed.has(node) && stats.now - at < NODE_GONE_S)
        .map(([node, at]) => ({node, at}));
    const left = worstOf(gone, (n) => n.at);
    if (left)
        found.push(
            finding(
                'note',
                'node-left',
                'A node has left',
                {name: left.row.node, href: '#cluster-head'},
                sentences(
                    'It was live ' + longTime(stats.now - left.row.at) + ' ago, and has no session now.',
                    left.others ? plural(left.others, 'other node has', 'other nodes have') + ' left, too.' : '',
                ),
            ),
        );
    const odd = worstOf(others, (n) => (n.same_patterns === false && n.state !== 'ended' ? 1 : 0));
    if (odd)
        found.push(
            finding(
                'warn',
                'other-patterns',
                'Nodes share other names',
                {name: odd.row.node, href: '#cluster-head'},
                'Its cluster.strict or cluster.loose differ from this node’s: give all nodes the same.',
            ),
        );
    if (c.advice.length)
        found.push(finding('note', 'advice', 'The engine could be set better', part, nameText(c.advice[0], 300)));
    return found;
}

/* ---- the configuration and the program ---- */

function judgeChanges({reload, upgrade}) {
    const found = [];
    if (reload && reload.tried > 0 && !reload.good)
        found.push(
            finding(
                'warn',
                'reload',
                'A reload was refused',
                onPage('Configuration', ''),
                'The reload at ' +
                    clock(reload.at) +
                    ' found mistakes, so the old settings are in force. The log says which; mend them and reload.',
            ),
        );
    if (upgrade && upgrade.tried > 0 && !upgrade.good && !upgrade.running)
        found.push(
            finding(
                'warn',
                'upgrade',
                'An upgrade was refused',
                onPage('counterd ' + upgrade.version, ''),
                sentences(
                    'The program that ran before still serves.',
                    upgrade.report.length ? 'It said: “' + nameText(upgrade.report[0], 300) + '”.' : '',
                    'Mend that and upgrade again.',
                ),
            ),
        );
    return found;
}

/*
 * Returns the findings, the worst first; none: all clear. Of one level, what clients feel now comes
 * first. `facts` has the answers `stats`, `cluster`, `reload` and `upgrade` (null: not known); `row`,
 * the name for the verdict or null, and `isHot`, that clients wait for it; `otherNames` with waiters;
 * how many requests were `refused` and waits timed out (`late`) in the last 60 seconds; lists of
 * `pools` and `tubes`, and what was seen of a tube before (`seenOf`); `nodesSeen`.
 */
function judge(facts) {
    const all = [
        ...judgeStore(facts),
        ...judgeCluster(facts),
        ...judgeNames(facts),
        ...judgeTubes(facts),
        ...judgePools(facts),
        ...judgeLimits(facts),
        ...judgeChanges(facts),
    ];
    return LEVELS.flatMap((level) => all.filter((f) => f.level === level));
}
