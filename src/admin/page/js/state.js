/*
 * state.js - the state of the page: the newest answers, and what the reader looks at. The server owns
 * all figures; the page stores only some history, and older answers to compute rates.
 */

const past = new History(SERIES);
let range = 300;
let by = 'waiting';
let stats = null; // the newest answer, or null
let contended = {}; // order -> answer
let hot = null; // the name in the verdict: its row and its detail
let before = null; // older stats, to compute rates of requests and workers
let rates = new Map();
let busyShares = new Map();
let route = {view: 'overview', id: null};
let detail = null; // {id, answer | null, gone, history, shared | null, sharedTrouble}
let pools = {cursors: [''], page: 0, answer: null};
let pool = null; // {id, answer | null, gone, cursors, page, isOpen}
let tubes = {cursors: [''], page: 0, answer: null};
let tube = null; // {id, answer | null, gone, jobs | null, state, cursors, page, job | null, shown, isOpen}
let conns = {cursors: [''], page: 0, of: '', at: -Infinity, answer: null, again: true};

const rangeText = () => ({60: '60 seconds', 300: '5 minutes', 600: '10 minutes'})[range];
