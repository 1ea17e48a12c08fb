/**
 * A worker or producer of the campaign, in JavaScript: `work.mjs ROLE URL FILE SETTINGS`. ROLE: work, produce.
 * The same as work.py; a long handler looks at its signal.
 */

import { openSync, readFileSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const { Bury, Client, Failed, Retry, Worker } = await import(
  pathToFileURL(`${process.env.COUNTERD_NODE}/index.js`)
);
const LOOK = 20; // ms

const [role, url, path, given] = process.argv.slice(2);
let settings = JSON.parse(given);
if (settings.file) settings = JSON.parse(readFileSync(settings.file));
const file = openSync(path, 'a');
const now = () => Number(process.hrtime.bigint()) / 1e9; // CLOCK_MONOTONIC

/** Appends a line. Tokens are wider than a number. */
function note(what, values = {}, job = null) {
  const of = job ? `"id":${job.id},"token":${job.token},` : '';
  writeSync(file, `{${of}${JSON.stringify({ e: what, t: now(), ...values }).slice(1)}\n`);
}

async function handler(job, signal) {
  const [label, plan, seconds] = job.body.toString().split(' ');
  const looks = [];
  note('start', { tries: job.tries, tube: job.tube, label }, job);
  const until = now() + Number(seconds ?? 0);
  for (let at = now(); at < until; at = now()) {
    if (signal.aborted) {
      note('lost', { looks }, job);
      return;
    }
    looks.push(Math.round(at * 1000) / 1000);
    await sleep(LOOK);
  }
  const how = plan === 'bury' || (job.tries === 1 && (plan === 'raise' || plan === 'retry')) ? plan : 'ok';
  note('end', { how, looks }, job);
  if (how === 'raise') throw new Error('as planned');
  if (how === 'retry') throw new Retry(1);
  if (how === 'bury') throw new Bury();
}

async function produce(client) {
  for (const rows of settings.jobs) {
    const labels = rows.map((row) => row[0]);
    const jobs = rows.map(([label, , plan, key]) => (
      { body: `${label} ${plan}`, ttr: settings.ttr, ...(key && { key }) }));
    for (;;) {
      const asked = now();
      try {
        const { body, ...options } = jobs[0];
        const puts = jobs.length === 1 ? [await client.put(rows[0][1], body, options)]
          : await client.putMany(rows[0][1], jobs);
        note('put', { labels, ids: puts.map((put) => put.id), duplicates: puts.map((put) => put.duplicate), asked });
        break;
      } catch (e) {
        if (!(e instanceof Failed)) throw e;
        note('failed', { labels, error: e.code, sent: e.sent, asked });
        if (e.sent && !jobs.every((job) => job.key)) break; // it may be there, and must not be put again
        await sleep(100);
      }
    }
    await sleep(-Math.log(1 - Math.random()) * settings.pause * 1000);
  }
  note('over');
}

try {
  const client = new Client(url);
  if (role === 'produce') await produce(client);
  else {
    const worker = new Worker(client, settings.tubes, handler, { concurrency: settings.concurrency });
    note('over', { nacked: await worker.run() });
  }
  await client.close();
} catch (e) {
  note('crash', { text: e.stack });
  throw e;
}
