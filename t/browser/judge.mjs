/*
 * judge.mjs - the page's judge() as a function: facts in, findings out, case by case, at each threshold of
 * counterd-admin(7).
 */
import fs from 'node:fs';
import vm from 'node:vm';
import {same} from './harness.mjs';

const JS = new URL('../../src/admin/page/js/', import.meta.url);
const sources = ['format.js', 'names.js', 'judge.js'].map((name) => fs.readFileSync(new URL(name, JS), 'utf8'));
const {judge, growthOf} = vm.runInNewContext(sources.join('\n') + '\n({judge, growthOf})');

const NOW = 1800000000;

const protocol = (open, max) => ({name: 'jobs', connections: {open, max}});

function stats(more = {}) {
    return {
        now: NOW,
        memory: {used_bytes: 0, limit_bytes: 1000},
        protocols: [],
        resources: {tubes: {buried: 0, abandoned: 0, memory_bytes: 0, memory_limit_bytes: 1000}},
        ...more,
    };
}

const store = (more) => stats({resources: {'job store': {enabled: true, stopped: '', failing: false, ...more}}});

const inTubes = (more) => stats({resources: {tubes: {...stats().resources.tubes, ...more}}});

/* A tube; `seen` is what the page saw of it before. */
function tube(name, ready, more = {}, seen = []) {
    const {buried = 0, abandoned = 0, reserved = 0, read_only = '', claims = 7, ...rest} = more;
    return {
        name,
        id: name,
        states: {ready, reserved, delayed: 0, buried, abandoned},
        jobs: ready + reserved + buried + abandoned,
        oldest_ready_seconds: ready ? 1 : null,
        watching: 0,
        pause_left_seconds: 0,
        settings: {read_only},
        totals: {claims},
        ...rest,
        seen,
    };
}

/* Samples every five seconds up to now: `ready` of each, from its age. */
const samples = (seconds, ready) =>
    Array.from({length: seconds / 5 + 1}, (_, i) => {
        const age = seconds - 5 * i;
        return {at: NOW - age, ready: Math.round(ready(age)), reserved: 0, claims: 7 - (age > 0)};
    });

const pool = (name, states, more = {}) => ({
    name,
    id: name,
    members: Object.values(states).reduce((a, b) => a + b, 0),
    states: {free: 0, taken: 0, down: 0, ...states},
    waiting: 0,
    suppliers: 0,
    oldest_wait_seconds: null,
    ...more,
});

const node = (name, more = {}) => ({
    node: name,
    state: 'live',
    this: false,
    same_patterns: true,
    beat_age: 1,
    ...more,
});

const cluster = (more = {}, nodes = []) => ({
    state: 'live',
    refused: '',
    reason: '',
    advice: [],
    grace: false,
    lease: 10,
    nodes: [node('a', {this: true}), ...nodes],
    ...more,
});

const ROW = {name: 'n', id: 'n', waiting: 1};
const upgrade = (more) => ({upgrade: {tried: 1, good: false, running: false, report: ['no'], version: '1', ...more}});

/* Name, facts, and what is found: "level kind place", worst first. */
const CASES = [
    ['nothing at all', {}, ''],
    ['a server without jobs and pools', {stats: stats({resources: undefined})}, ''],

    ['a name is contended', {row: ROW, isHot: true}, 'warn contended n'],
    ['and clients are turned away', {row: ROW, isHot: true, refused: 1}, 'bad contended n'],
    ['waits time out', {row: ROW, isHot: true, late: 1}, 'bad contended n'],
    ['refusals of a name', {row: ROW, refused: 1}, 'warn turned-away n'],
    ['refusals of no name that is known', {refused: 1}, 'warn turned-away Requests'],

    ['8,000 jobs without a worker', {tubes: [tube('t', 8000)]}, 'bad unworked t'],
    ['1,000 are an alarm', {tubes: [tube('t', 1000)]}, 'bad unworked t'],
    ['999 are none', {tubes: [tube('t', 999)]}, 'warn unworked t'],
    ['99 that are new', {tubes: [tube('t', 99)]}, ''],
    ['one for a minute', {tubes: [tube('t', 1, {oldest_ready_seconds: 60})]}, 'warn unworked t'],
    ['one for less', {tubes: [tube('t', 1, {oldest_ready_seconds: 59})]}, ''],
    ['the tube with most of them', {tubes: [tube('s', 200), tube('t', 300)]}, 'warn unworked t'],
    ['a worker has a job', {tubes: [tube('t', 8000, {reserved: 1})]}, ''],
    ['a worker watches', {tubes: [tube('t', 8000, {watching: 1})]}, ''],
    ['it watches for ten seconds, and takes none', {
        tubes: [tube('t', 8000, {watching: 1}, [{at: NOW - 10, ready: 8000, reserved: 0, claims: 7}])],
    }, 'bad unworked t'],
    ['a worker comes now and then', {
        tubes: [tube('t', 8000, {}, [{at: NOW - 60, ready: 8001, reserved: 0, claims: 6}])],
    }, ''],
    ['it came more than a minute ago', {
        tubes: [tube('t', 8000, {}, [{at: NOW - 61, ready: 8001, reserved: 0, claims: 6}])],
    }, 'bad unworked t'],
    ['the tube is paused', {tubes: [tube('t', 8000, {pause_left_seconds: 5})]}, 'note held-back t'],
    ['it is read-only', {tubes: [tube('t', 8000, {read_only: 'x'})]}, 'note held-back t'],

    ['a backlog grows', {tubes: [tube('t', 400, {}, samples(300, (age) => 400 - age))]}, 'warn grows t'],
    ['by less than 100', {tubes: [tube('t', 400, {}, samples(300, (age) => 400 - age / 4))]}, ''],
    ['by less than a tenth', {tubes: [tube('t', 9000, {}, samples(300, (age) => 9000 - age))]}, ''],
    ['known for two minutes', {tubes: [tube('t', 400, {}, samples(120, (age) => 400 - 2 * age))]}, 'warn grows t'],
    ['known for less', {tubes: [tube('t', 400, {}, samples(115, (age) => 400 - 2 * age))]}, ''],
    ['nobody works on it', {
        tubes: [tube('t', 400, {claims: 6}, samples(300, (age) => 400 - age).map((s) => ({...s, claims: 6})))],
    }, 'warn unworked t'],

    ['a job is buried', {stats: inTubes({buried: 1}), tubes: [tube('t', 0, {buried: 1})]}, 'note buried t'],
    ['99 are given up', {stats: inTubes({buried: 50, abandoned: 49})}, 'note buried Job queues'],
    ['100 are', {stats: inTubes({buried: 1, abandoned: 99}), tubes: [tube('t', 0, {abandoned: 99})]}, 'warn buried t'],
    ['the tube with most of them', {
        stats: inTubes({buried: 502}),
        tubes: [tube('s', 0, {buried: 2}), tube('t', 0, {buried: 500})],
    }, 'warn buried t'],

    ['jobs are drained', {stats: inTubes({draining: true})}, 'warn draining Job queues'],
    ['they are not', {stats: inTubes({draining: false})}, ''],

    ['jobs cannot be written', {stats: store({failing: true})}, 'bad store-fails Job queues'],
    ['the file is damaged', {stats: store({stopped: 'x'})}, 'bad store-stopped Job queues'],
    ['a store that works', {stats: store({})}, ''],

    ['a request waits for a member', {pools: [pool('p', {taken: 1}, {waiting: 1})]}, 'note pool-waits p'],
    ['for a minute', {pools: [pool('p', {taken: 1}, {waiting: 1, oldest_wait_seconds: 60})]}, 'warn pool-waits p'],
    ['for less', {pools: [pool('p', {taken: 1}, {waiting: 1, oldest_wait_seconds: 59})]}, 'note pool-waits p'],
    ['all members are down', {pools: [pool('p', {down: 2}, {waiting: 1})]}, 'bad pool-dead p,warn pool-down p'],
    ['nobody waits for them', {pools: [pool('p', {down: 2})]}, 'warn pool-down p'],
    ['half are down', {pools: [pool('p', {free: 1, down: 1})]}, 'warn pool-down p'],
    ['fewer are', {pools: [pool('p', {free: 2, down: 1})]}, 'note pool-down p'],
    ['there are no members', {pools: [pool('p', {}, {waiting: 1})]}, 'bad pool-dead p'],
    ['a supplier may bring some', {pools: [pool('p', {}, {waiting: 1, suppliers: 1})]}, 'note pool-waits p'],

    ['memory of names', {stats: stats({memory: {used_bytes: 800, limit_bytes: 1000}})}, 'warn memory Memory'],
    ['less of it', {stats: stats({memory: {used_bytes: 799, limit_bytes: 1000}})}, ''],
    ['more of it', {stats: stats({memory: {used_bytes: 950, limit_bytes: 1000}})}, 'bad memory Memory'],
    ['no limit', {stats: stats({memory: {used_bytes: 800, limit_bytes: 0}})}, ''],
    ['memory of jobs', {stats: inTubes({memory_bytes: 800})}, 'warn jobs-memory Job queues'],
    ['more of it', {stats: inTubes({memory_bytes: 950})}, 'bad jobs-memory Job queues'],
    ['connections', {stats: stats({protocols: [protocol(80, 100)]})}, 'warn connections-jobs jobs'],
    ['more of them', {stats: stats({protocols: [protocol(95, 100)]})}, 'bad connections-jobs jobs'],
    ['fewer', {stats: stats({protocols: [protocol(79, 100), protocol(1, 0)]})}, ''],

    ['a node that is well', {cluster: cluster({}, [node('b')])}, ''],
    ['no session', {cluster: cluster({state: 'away'}, [node('b', {state: 'ended'})])}, 'bad cut-off This node'],
    ['it ends', {cluster: cluster({state: 'leaving'})}, ''],
    ['grace', {cluster: cluster({grace: true})}, 'warn grace Nodes that share limits'],
    ['no beat for half a lease', {cluster: cluster({}, [node('b', {beat_age: 5})])}, 'warn node-away b'],
    ['a beat before that', {cluster: cluster({}, [node('b', {beat_age: 4.9})])}, ''],
    ['its session has ended', {cluster: cluster({}, [node('b', {state: 'ended'})])}, 'warn node-away b'],
    ['it has another one', {cluster: cluster({}, [node('b', {state: 'ended'}), node('b')])}, ''],
    ['an older one of this node', {cluster: cluster({}, [node('a', {state: 'ended'})])}, ''],
    ['it is gone', {cluster: cluster(), nodesSeen: new Map([['b', NOW - 599]])}, 'note node-left b'],
    ['it is gone for ten minutes', {cluster: cluster(), nodesSeen: new Map([['b', NOW - 600]])}, ''],
    ['other patterns', {cluster: cluster({}, [node('b', {same_patterns: false})])}, 'warn other-patterns b'],
    ['advice', {cluster: cluster({advice: ['x']})}, 'note advice Nodes that share limits'],

    ['a reload is refused', {reload: {tried: 2, good: false, at: NOW}}, 'warn reload Configuration'],
    ['the last one was good', {reload: {tried: 2, good: true, at: NOW}}, ''],
    ['there was none', {reload: {tried: 0, good: false, at: null}}, ''],
    ['an upgrade is refused', upgrade({}), 'warn upgrade counterd 1'],
    ['another one is under way', upgrade({running: true}), ''],
    ['the last one was good', upgrade({good: true}), ''],
    ['there was none', upgrade({tried: 0}), ''],

    ['the worst comes first', {
        row: ROW,
        isHot: true,
        stats: inTubes({buried: 5, memory_bytes: 950}),
        tubes: [tube('t', 500)],
        reload: {tried: 1, good: false, at: NOW},
    }, 'bad jobs-memory Job queues,warn contended n,warn unworked t,warn reload Configuration,note buried Job queues'],
];

/* How the ready jobs of a tube went, and if that is growth. */
const COURSES = [
    ['steady', (age) => 1000 - age, true],
    ['in small steps', (age) => 1000 - 20 * Math.floor(age / 20), true],
    ['with noise', (age) => 1000 - age + (age % 15 ? 20 : -20), true],
    ['it stays', () => 1000, false],
    ['it shrinks', (age) => 1000 + age, false],
    ['a jump that stays', (age) => (age > 150 ? 0 : 5000), false],
    ['a jump at the end', (age) => (age > 20 ? 0 : 5000), false],
    ['a jump at the start', (age) => (age > 270 ? 0 : 5000), false],
    ['a burst over half a minute', (age) => 5000 * Math.min(1, Math.max(0, (165 - age) / 30)), false],
    ['bursts that are worked off', (age) => 50 * (age % 60), false],
    ['growth that has turned', (age) => (age > 20 ? 1000 - age : 700), false],
];

export function judgeCases() {
    for (const [name, more, wanted] of CASES) {
        const tubes = more.tubes || [];
        const found = judge({
            stats: stats(),
            row: null,
            isHot: false,
            otherNames: 0,
            refused: 0,
            late: 0,
            pools: [],
            cluster: null,
            nodesSeen: new Map(),
            reload: null,
            upgrade: null,
            ...more,
            tubes,
            seenOf: (t) => t.seen,
        });
        const told = found.map((f) => `${f.level} ${f.kind} ${(f.place.row || f.place).name}`);
        same(told.join(), wanted, name);
        for (const f of found) {
            same(/[.]$/.test(f.text) || f.kind === 'contended' || f.kind === 'advice', true, name + ': ' + f.text);
            same(/undefined|null|NaN|–/.test(f.title + f.text), false, name + ': ' + f.text);
        }
    }
    for (const [name, ready, wanted] of COURSES)
        same(growthOf(samples(300, ready), NOW) !== null, wanted, name);
}
