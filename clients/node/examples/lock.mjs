// A lock with a bounded queue: few render a page at once, others wait or are refused.

import { Busy, Client } from 'counterd';

const client = new Client(); // $COUNTER_URL, or this machine
await client.withLock('render:42', { workers: 1, queue: 2, timeout: 5 }, async (lock) => {
  console.log(`rendering, lost: ${lock.lost}`);
  try {
    await client.lock('render:42', { workers: 1, queue: 2, timeout: 0.2 });
  } catch (error) {
    if (!(error instanceof Busy)) throw error;
    console.log(`another one renders: ${error.answer}`);
  }
});
await client.withLock('render:42', { timeout: 0 }, () => console.log('free again'));
await client.close();
