// A worker: runs a handler for each job, tries failed ones again, and ends on SIGTERM.

import { Client, Retry, Worker } from 'counterd';

const client = new Client();
await client.putMany('letters', [{ body: 'letter 1' }, { body: 'letter 2' }, { body: 'no address' }]);

async function send(job) {
  const body = job.body.toString();
  if (body === 'no address' && job.tries === 1) throw new Retry(0); // at once; any other error: later, and later still
  console.log(`sent ${body}, try ${job.tries}`);
  if (body === 'no address') worker.stop(); // here only, so that the example ends
}

const worker = new Worker(client, ['letters'], send);
console.log(`cut off: ${await worker.run()}`);
await client.close();
