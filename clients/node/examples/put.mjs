// Puts jobs: one with a key, which is put once however often it is tried, and many at once.

import { Client } from 'counterd';

const client = new Client();
const first = await client.put('mail', 'Dear customer', { key: 'welcome-7', delay: 60 });
const second = await client.put('mail', 'Dear customer', { key: 'welcome-7', delay: 60 });
console.log(`the same job: ${second.duplicate && second.id === first.id}`);
const puts = await client.putMany('mail', [{ body: 'letter 0' }, { body: 'letter 1' }, { body: 'letter 2' }]);
console.log(`${puts.length} more`);
const ready = await client.ready('mail');
const mail = await client.tube('mail');
console.log(`ready: ${ready.get('mail')}, delayed: ${mail['current-jobs-delayed']}`);
for (const state of ['ready', 'delayed']) await client.clear('mail', state);
await client.close();
