// A program in TypeScript. ../test_client_node.py lets tsc check it, and runs what tsc makes of it.

import {
  Bury,
  Busy,
  Client,
  CounterError,
  type Event,
  type Job,
  type Lock,
  NotFound,
  Refused,
  Retry,
  serversFor,
  Worker,
} from 'counterd';

const events: Event['kind'][] = [];
const client = new Client(undefined, { ioTimeout: 20, onEvent: (event) => events.push(event.kind) });

async function scoped(): Promise<number> {
  await using lock: Lock = await client.lock('k', { workers: 2, timeout: 20 });
  const inside: number = await client.withLock('k', { workers: 2 }, async () => client.usage('k'));
  return lock.lost || lock.signal.aborted ? -1 : inside;
}

async function refused(): Promise<string> {
  await using held = await client.units('u', 2, Number(2));
  try {
    return await client.withUnits('u', held.count, 2, {}, () => 'never here');
  } catch (error) {
    if (!(error instanceof Busy && error instanceof Refused && error instanceof CounterError)) throw error;
    return [error.name, error.code, error.server === '' ? 'nowhere' : 'a server', String(error.sent)].join();
  }
}

async function member(): Promise<string> {
  const attrs = { type: 'a100' } as const;
  return client.withMember('gpu', { attrs, timeout: 20 }, (gpu) => {
    const fence: bigint = gpu.fence;
    const value: string = gpu.value ?? gpu.name;
    return `${value} ${fence > 0n} ${gpu.all.map((taken) => taken.attrs['type']).join()}`;
  });
}

async function jobs(): Promise<string[]> {
  const seen: string[] = [];
  const { id, duplicate } = await client.put('t', Buffer.from('one'), { key: 'a/1', tries: 2 });
  const [second] = await client.putMany('t', [{ body: new Uint8Array([120]), priority: 1025 }]);
  for await (const view of client.listJobs('t', 'ready')) seen.push(`${view.state} ${view.body?.toString()}`);
  seen.push(`${duplicate} ${id < (second?.id ?? 0)}`, String((await client.ready('t')).get('t')));
  const [job]: Job[] = await client.claim('t', { count: 1, timeout: 0 });
  seen.push(String(await job?.nack(0)));
  const handler = async (job: Job, signal: AbortSignal): Promise<void> => {
    seen.push(`${job.body.toString()} ${job.tries} ${signal.aborted}`);
    if (job.tries === 1) throw new Retry(0);
    if (job.body.length === 1) worker.stop();
    else throw new Bury();
  };
  const worker = new Worker(client, ['t'], handler, { backoff: () => 0, concurrency: 1 });
  seen.push(String(await worker.run({ signals: false })));
  const settings: Record<string, string | number> = await client.tube('t', { limit: 5 });
  seen.push(String(settings['current-jobs-buried']), String(await client.clear('t', 'buried')));
  await client.tube('no-such-tube').catch((error: unknown) => seen.push(String(error instanceof NotFound)));
  return seen;
}

// What the types refuse, and so does the library.
async function wrong(): Promise<string> {
  // @ts-expect-error: a number is no name
  const one = await client.lock(7).catch((error: unknown) => error instanceof TypeError);
  // @ts-expect-error: nor is text a number
  const two = await client.units('u', '1', 2).catch((error: unknown) => error instanceof TypeError);
  return `${one} ${two}`;
}

console.log(await scoped());
console.log(await refused());
console.log(await member());
console.log((await jobs()).join('; '));
console.log(await wrong());
console.log(serversFor('page 1', ['a:7531', 'b:7531', 'c:7531']).join());
await client.close();
console.log(['connect', 'wait', 'held', 'put', 'job'].every((kind) => events.some((one) => one === kind)));
