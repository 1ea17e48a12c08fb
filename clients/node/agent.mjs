// The agent of the stories for Node.js: makes the calls that come as JSON lines, and says what came of them.

import { setImmediate, setTimeout } from 'node:timers/promises';
import { createInterface } from 'node:readline';
import * as counterd from './index.js';

const kept = new Map(); // what calls gave, by handle
const ends = new Map(); // how bodies that wait end, by handle
const running = new Map(); // an AbortController for each call

// The arguments that have a place of their own; the others are options.
// prettier-ignore
const PLACES = {
  lock: ['name'], units: ['name', 'count', 'limit'], usage: ['name'], member: ['target'], put: ['tube', 'body'],
  putMany: ['tube', 'jobs'], claim: ['tubes'], tube: ['name', 'settings'], ready: ['pattern'], delete: ['id'],
  listJobs: ['tube', 'state'], clear: ['tube', 'state'], kick: ['id'], release: ['ok'], nack: ['delay'],
};
// prettier-ignore
const SHOWN = {
  Lock: ['name', 'done', 'server'], Units: ['name', 'count', 'server'],
  Member: ['pool', 'name', 'value', 'attrs', 'fence', 'all', 'server'], Job: ['id', 'token', 'tube', 'tries', 'body'],
};

class Boom extends Error {}

const input = createInterface({ input: process.stdin });
const say = (words) => process.stdout.write(`${JSON.stringify(words)}\n`);
const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

function decoded(value) {
  if (Array.isArray(value)) return value.map(decoded);
  if (value === null || typeof value !== 'object') return value;
  if (Object.keys(value).join() === 'hex') return Buffer.from(value.hex, 'hex');
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, decoded(part)]));
}

function encoded(value) {
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return value ?? null;
  if (value instanceof Uint8Array) return { hex: Buffer.from(value).toString('hex') };
  if (value instanceof Map) return [...value];
  if (Array.isArray(value)) return value.map(encoded);
  const words = SHOWN[value.constructor?.name] ?? Object.keys(value);
  return Object.fromEntries(words.map((word) => [word, encoded(value[word])]));
}

function failed(error, signal) {
  const { code, server, target, answer, reason, sent } = error ?? {};
  if (error instanceof counterd.CounterError) return { error: code, server, target, answer, reason, sent };
  const other = error instanceof Boom ? 'Boom' : 'other';
  return { error: error === signal.reason ? 'Cancelled' : other, text: String(error?.stack) };
}

/** Waits for `go`, or until a signal aborts. */
async function endOf(handle, ...signals) {
  while (!ends.get(handle)?.length) {
    for (const signal of signals) signal.throwIfAborted();
    await setTimeout(10);
  }
  if (ends.get(handle).shift() === 'fail') throw new Boom();
}

function scope(client, handle, { call, args, body }, signal) {
  const { placed, options } = placedOf(call, args);
  return client[camel(`with_${call}`)](...placed, { ...options, signal }, async (hold) => {
    if (body === 'fail') throw new Boom();
    if (body === 'ok') return;
    say({ event: 'inside', of: handle });
    await endOf(handle, signal, body === 'wait' ? hold.signal : signal);
  });
}

function worker(client, handle, { tubes, signals, backoff, ...options }) {
  const handler = async (job, signal) => {
    const words = { of: handle, id: job.id, tries: job.tries, body: encoded(job.body) };
    say({ event: 'run', ...words });
    try {
      const [word, number] = String(job.body).split(' ');
      if (word === 'sleep') await setTimeout(number * 1000, undefined, { signal });
      if (word === 'wait') await endOf(handle, signal);
      if (word === 'raise') throw new Boom();
      if (word === 'bury') throw new counterd.Bury();
      if (word === 'retry') throw new counterd.Retry(Number(number));
    } finally {
      say({ event: 'ran', ...words, lost: job.lost });
    }
  };
  options.backoff = backoff === undefined ? undefined : () => backoff;
  kept.set(handle, new counterd.Worker(client, tubes, handler, options));
  return kept.get(handle).run(signals === undefined ? undefined : { signals });
}

function open(handle, { url, ...given }) {
  const options = Object.fromEntries(Object.entries(given).map(([key, value]) => [camel(key), value]));
  options.onEvent = ({ kind: event, error, ...words }) =>
    say({ event, ...words, error: error && (error.code ?? error.constructor.name) });
  kept.set(handle || 'client', new counterd.Client(url, options));
}

async function drop(handle) {
  for (const key of kept.keys()) if (key === handle || key.startsWith(`${handle}.`)) kept.delete(key);
  for (let i = 0; i < 3; i++) await setImmediate().then(globalThis.gc); // node --expose-gc
}

/** A call's arguments that have places, and its options. */
function placedOf(name, args) {
  const places = PLACES[name] ?? [];
  const options = Object.entries(args).filter(([key]) => !places.includes(key));
  return { placed: places.map((place) => args[place]), options: Object.fromEntries(options) };
}

async function call(name, handle, of, args, signal) {
  if (name === 'open') return open(handle, args);
  if (name === 'serversFor') return counterd.serversFor(args.name, args.servers);
  if (name === 'drop') return drop(of);
  if (name === 'go') return void ends.set(of, [...(ends.get(of) ?? []), args.end ?? 'ok']);
  if (name === 'cancel') return running.get(of).abort();
  if (name === 'lost') return kept.get(of).lost;
  if (name === 'dispose') return kept.get(of)[Symbol.asyncDispose]();
  if (name === 'scope') return scope(kept.get(of), handle, args, signal);
  if (name === 'worker') return worker(kept.get(of), handle, args);
  const { placed, options } = placedOf(name, args);
  const on = kept.get(of);
  let value = await on[name](...placed, ...(on instanceof counterd.Client ? [{ ...options, signal }] : []));
  if (name === 'listJobs') {
    const jobs = value;
    value = [];
    for await (const job of jobs) value.push(job);
  }
  if (handle) kept.set(handle, value);
  if (handle && Array.isArray(value)) value.forEach((one, i) => kept.set(`${handle}.${i}`, one));
  return name === 'nack' ? { buried: value } : value;
}

async function answer(command) {
  const { id, do: name, as: handle = '', of = 'client', args = {} } = command;
  const controller = new AbortController();
  running.set(handle, controller);
  try {
    say({ id, value: encoded(await call(camel(name), handle, of, decoded(args), controller.signal)) });
  } catch (error) {
    say({ id, ...failed(error, controller.signal) });
  }
}

say({ agent: 'node', can: ['later', 'cancel', 'told', 'scope', 'worker', 'dispose'] });
input.on('line', (line) => answer(JSON.parse(line)));
input.on('close', () => process.exit(0));
