/*
 * judged.js - what the verdict needs beyond what the overview shows: all tubes and pools, what has come
 * of reloads and upgrades, and what was seen earlier of tubes and nodes.
 */

const JUDGED_EVERY_MS = 5000;
const JUDGED_MAX = 1000; // tubes, and pools: the first by name
const SEEN_EVERY_S = 4.5;

let judged = {at: -Infinity, tubes: [], pools: [], reload: null, upgrade: null};
let tubesSeen = new Map(); // id -> [{at, ready, reserved, claims}], oldest first
let nodesSeen = new Map(); // other nodes -> when they were live last

function noteTubes() {
    const kept = new Map();
    for (const t of judged.tubes) {
        let seen = tubesSeen.get(t.id) || [];
        const last = seen[seen.length - 1];
        // A tube that was made anew begins again.
        if (last && t.totals.claims < last.claims) seen = [];
        while (seen.length && stats.now - seen[0].at > GROWS.seconds) seen.shift();
        if (!seen.length || stats.now - seen[seen.length - 1].at >= SEEN_EVERY_S)
            seen.push({
                at: stats.now,
                ready: t.states.ready,
                reserved: t.states.reserved,
                claims: t.totals.claims,
            });
        kept.set(t.id, seen);
    }
    tubesSeen = kept;
}

function noteNodes() {
    for (const n of cluster.answer ? cluster.answer.nodes : [])
        if (!n.this && n.state === 'live') nodesSeen.set(n.node, stats.now - Math.max(0, n.beat_age));
    for (const [node, at] of nodesSeen) if (stats.now - at >= NODE_GONE_S) nodesSeen.delete(node);
}

/* All rows of a list: those that the overview shows if these are all, else asked for if that is due. */
async function allOf(what, is, shown, isDue) {
    if (!is) return [];
    if (shown.page === 0 && shown.answer && shown.answer.cursor === null) return shown.answer[what];
    return isDue ? (await ask('/api/v1/' + what + '?limit=' + JUDGED_MAX))[what] : judged[what];
}

async function askJudged() {
    const isDue = Date.now() - judged.at >= JUDGED_EVERY_MS;
    const [listed, held, reload, upgrade] = await Promise.all([
        allOf('tubes', hasTubes(), tubes, isDue),
        allOf('pools', hasPools(), pools, isDue),
        isDue ? ask('/api/v1/reload').catch(() => null) : judged.reload, /* an older daemon does not tell it */
        isDue ? ask('/api/v1/upgrade').catch(() => null) : judged.upgrade,
    ]);
    judged = {at: isDue ? Date.now() : judged.at, tubes: listed, pools: held, reload, upgrade};
    noteTubes();
    noteNodes();
}

/* The server was restarted: what was seen of it is no more. */
function forgetJudged() {
    judged = {at: -Infinity, tubes: [], pools: [], reload: null, upgrade: null};
    tubesSeen = new Map();
}

/* The facts for judge(). */
function factsNow() {
    const row = hot && hot.row,
        times = (name) => Math.round(past.last(name, 60).reduce((sum, x) => sum + (x || 0), 0));
    return {
        stats,
        row,
        isHot: Boolean(row && isHot(row)),
        otherNames: contended.waiting.names.filter((n) => n.waiting > 0 && (!row || n.name !== row.name))
            .length,
        refused: times('refused'),
        late: times('timed_out'),
        tubes: judged.tubes,
        pools: judged.pools,
        seenOf: (t) => tubesSeen.get(t.id) || [],
        cluster: cluster.answer,
        nodesSeen,
        reload: judged.reload,
        upgrade: judged.upgrade,
    };
}
