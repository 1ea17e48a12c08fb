/*
 * state.js - what the page knows and shows: the newest answers, and what the reader looks at. The
 * server owns all figures; the page keeps only some history and what it needs to tell rates.
 */

const past = new History(SERIES);
let range = 300;
let by = 'waiting';
let stats = null; // the newest of each, or null
let contended = {}; // by what -> answer
let hot = null; // the name that is told of first: its row and what it says of itself
let before = null; // older stats, to tell rates of requests and of workers
let rates = new Map();
let busyShares = new Map();
let route = {view: 'overview', id: null};
let detail = null; // {id, answer | null, gone, history}
let conns = {cursors: [''], page: 0, of: '', at: -Infinity, answer: null, again: true};

const rangeText = () => ({60: '60 seconds', 300: '5 minutes', 600: '10 minutes'})[range];
