// Takes a lock, puts and claims a job. Prints the folder that the library was read from. t/package/inside runs it with
// each way to install the library: node calls.mjs, beside node_modules, or node calls.mjs FOLDER

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';

const file = process.argv[2] ? path.join(process.argv[2], 'index.js') : createRequire(import.meta.url).resolve('counterd');
const { Client } = await import(file);

const client = new Client();
await client.withLock('calls', { workers: 1, timeout: 5 }, async (lock) => {
  assert.ok(!lock.lost && await client.usage('calls') === 1, 'the lock is not held');
});
const { id } = await client.put('calls', 'body', { key: 'once' });
assert.ok((await client.put('calls', 'body', { key: 'once' })).duplicate, 'the key is forgotten');
const [job] = await client.claim(['calls'], { timeout: 5 });
assert.deepEqual([job.id, job.tries, job.body.toString()], [id, 1, 'body']);
await job.ack();
await client.close();
console.log(path.dirname(file));
