/** A client of counterd: locks, units of a limit, members of pools, and job queues. See index.d.ts. */

export { Client } from './lib/client.js';
export * from './lib/errors.js';
export { Hold, Job, Lock, Member, Units } from './lib/holds.js';
export { serversFor } from './lib/options.js';
export { Bury, Retry, Worker } from './lib/worker.js';
