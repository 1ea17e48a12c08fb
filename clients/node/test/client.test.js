// What stories cannot show: what only this language has. COUNTER_URL names a daemon with job queues.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { getEventListeners, once } from 'node:events';
import { createServer } from 'node:net';
import { after, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { inspect } from 'node:util';
import { Worker as Thread } from 'node:worker_threads';
import { Busy, Client, CounterError, Lost, Refused, serversFor, Usage, Worker } from '../index.js';
import { Link, Point } from '../lib/link.js';

const LIBRARY = new URL('../index.js', import.meta.url).href;
const events = [];
const client = new Client(undefined, { onEvent: (event) => events.push(event) });
after(() => client.close());

/** Awaits what has to come. */
async function until(isThere) {
  for (let i = 0; i < 2000 && !isThere(); i += 1) await setTimeout(10);
  assert.ok(isThere(), String(isThere));
}

/** A server of text that answers each line; `ends` are the connections that clients closed. */
async function fake(answer) {
  const server = createServer((socket) => {
    server.sockets.push(socket);
    socket.on('data', (line) => socket.write(answer(line.toString())));
    socket.on('error', () => {}).on('close', () => (server.ends += 1));
  });
  Object.assign(server, { sockets: [], ends: 0 });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  after(() => {
    server.close();
    for (const socket of server.sockets) socket.destroy();
  });
  return [server, `counter://127.0.0.1:${server.address().port}`];
}

/** A program that uses the library. */
function program(code) {
  const text = `import { Client } from '${LIBRARY}'; const client = new Client(); ${code}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  after(() => child.kill());
  return child;
}

test('idle connections keep no process alive', async () => {
  const [status] = await once(
    program("await client.usage('k'); await client.withLock('idle', {}, () => {});"),
    'exit',
  );
  assert.equal(status, 0);
});

test('a hold keeps its process alive', async () => {
  const child = program("globalThis.lock = await client.lock('kept'); console.log('held');");
  await once(child.stdout, 'data');
  await setTimeout(300);
  assert.equal(child.exitCode, null);
  await assert.rejects(client.lock('kept', { timeout: 0 }), Busy);
});

test('a call removes its listener from the signal', async () => {
  const { signal } = new AbortController();
  await client.withLock('signal', { signal }, () => client.usage('k', { signal }));
  await assert.rejects(client.tube('unknown', undefined, { signal }), Refused);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('an aborted signal asks nothing, and its reason is what comes out', async () => {
  const [server, url] = await fake(() => 'LOCKED\n');
  const reason = { any: 'thing' };
  await assert.rejects(new Client(url).lock('k', { signal: AbortSignal.abort(reason) }), (error) => error === reason);
  assert.equal(server.sockets.length, 0);
});

test('a lookup without descriptors is no fault of the server', async () => {
  const code = `
    import fs from 'node:fs';
    const told = [];
    const one = new Client('counter://localhost:1', { onEvent: ({ kind }) => told.push(kind) });
    const call = () => one.lock('k').catch((error) => error.reason);
    console.log(''); // opens what it needs
    const all = [];
    try { for (;;) all.push(fs.openSync('/dev/null')); } catch {}
    const reason = await call();
    for (const fd of all) fs.closeSync(fd);
    console.log(told.includes('down'), /descriptor|EMFILE/.test(reason));`;
  const text = `import { Client } from '${LIBRARY}'; ${code}`;
  const child = spawn('sh', ['-c', 'ulimit -n 64; exec "$0" --input-type=module -e "$1"', process.execPath, text], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (data) => (said += data));
  await once(child, 'close');
  assert.equal(said.trim(), 'false true');
});

test('a call is cancelled while it connects', async () => {
  const signal = AbortSignal.timeout(50);
  const [server, url] = await fake(() => ''); // says nothing of TLS
  const calls = new Client(url, { connectTimeout: 60, tls: true });
  await assert.rejects(calls.lock('k', { signal }), { name: 'TimeoutError' });
  await until(() => server.ends === 1);
});

test('many calls with TLS connect in turn, and one that waits may be cancelled', async () => {
  const [server, url] = await fake(() => ''); // says nothing of TLS
  const calls = new Client(url, { connectTimeout: 1, tls: true });
  const signal = AbortSignal.timeout(100);
  const cancelled = [];
  const others = [];
  for (let i = 0; i < 50; i += 1) {
    others.push(assert.rejects(calls.lock('k'), { name: 'Unreachable', reason: 'timeout' }));
    cancelled.push(assert.rejects(calls.lock('k', { signal }), { name: 'TimeoutError' }));
  }
  await Promise.all(cancelled);
  await Promise.all(others);
  assert.ok(server.sockets.length <= 32, String(server.sockets.length));
  await assert.rejects(calls.lock('k'), { name: 'Unreachable' });
});

test('the signal of a hold aborts with Lost, early or late', async () => {
  const [server, url] = await fake(() => 'LOCKED\n');
  const early = await new Client(url).lock('k');
  const late = await new Client(url).lock('k');
  assert.equal(early.signal.aborted, false);
  for (const socket of server.sockets) socket.destroy();
  await once(early.signal, 'abort');
  assert.ok(early.signal.reason instanceof Lost);
  await until(() => late.lost);
  assert.equal(late.signal.aborted, true);
  await assert.rejects(early.release(), Lost);
  await early.release();
});

test('the signal of a hold aborts before the hook is told', async () => {
  const [server, url] = await fake(() => 'LOCKED\n');
  const told = [];
  const hooked = new Client(url, { onEvent: ({ kind }) => kind === 'lost' && told.push(lock.signal.aborted) });
  const lock = await hooked.lock('k');
  const { signal } = lock;
  const atHook = [];
  signal.addEventListener('abort', () => atHook.push(told.length));
  server.sockets[0].destroy();
  await until(() => told.length);
  assert.deepEqual(atHook, [0]);
});

test('an empty COUNTER_URL is none', () => {
  const before = process.env.COUNTER_URL;
  try {
    process.env.COUNTER_URL = '';
    assert.ok(new Client());
  } finally {
    process.env.COUNTER_URL = before;
  }
});

test('bytes that nobody asked for end a hold', async () => {
  const [server, url] = await fake(() => 'LOCKED\n');
  const lock = await new Client(url).lock('k');
  server.sockets[0].write('RELEASED\n');
  await until(() => lock.lost && server.ends === 1);
});

test('a forgotten client, hold and claim close their connections', { skip: !globalThis.gc }, async () => {
  const [server, url] = await fake((line) => (line.startsWith('ACQ') ? 'LOCKED\n' : 'RELEASED\n'));
  const told = [];
  await (async () => {
    const forgetful = new Client(url, { onEvent: ({ kind }) => told.push(kind) });
    await forgetful.withLock('idle', {}, () => forgetful.lock('forgotten'));
  })();
  for (let i = 0; i < 500 && server.ends < 2; i += 1) {
    await setTimeout(10);
    globalThis.gc();
  }
  assert.equal(server.ends, 2);
  assert.ok(told.includes('lost'));
});

test('a loop that was blocked while the server closed an idle connection costs no failed put', async () => {
  const closed = new Int32Array(new SharedArrayBuffer(4));
  const thread = new Thread(
    `const { parentPort, workerData } = require('node:worker_threads');
    const server = require('node:net').createServer((socket) => socket.on('data', (line) => {
      socket.write(/tube/.test(line) ? 'OK 4\\r\\n---\\n\\r\\n' : 'INSERTED 7\\r\\n');
      if (!/tube/.test(line)) setTimeout(() => socket.destroy(), 50);
    }).on('close', () => Atomics.add(workerData, 0, 1)));
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
    { eval: true, workerData: closed },
  );
  after(() => thread.terminate());
  const [port] = await once(thread, 'message');
  const jobs = new Client(`counter://127.0.0.1?jobs=${port}`);
  for (let i = 0; i < 3; i += 1) {
    assert.deepEqual(await jobs.put('t', 'x'), { id: 7, duplicate: false });
    while (Atomics.load(closed, 0) <= i); // the loop is blocked
  }
});

test('errors have a name, a code, and say where they happened', async () => {
  const error = await client.withLock('said', {}, () => client.lock('said', { timeout: 0 })).catch((cause) => cause);
  assert.ok(error instanceof Busy && error instanceof Refused && error instanceof CounterError);
  assert.deepEqual([error.name, error.code, error.target, error.sent], ['Busy', 'Busy', 'said', true]);
  assert.equal(error.message, `the server refused it; target: said; server: ${error.server}; answer: TIMEOUT`);
  assert.match(error.stack, /^Busy: the server refused it; target: said/);
});

test('what calls take and give is shown without the inside', async () => {
  assert.equal(inspect(client), 'Client {}');
  const lock = await client.lock('shown');
  assert.deepEqual(Object.keys(lock).sort(), ['done', 'name', 'server']);
  await lock[Symbol.asyncDispose]();
  assert.throws(() => new Client('counter://h', { idle: {} }), TypeError);
  await assert.rejects(client.lock(7), TypeError);
  await assert.rejects(client.lock('\ud800'), Usage);
});

test('names may be bytes', async () => {
  assert.deepEqual(serversFor(Buffer.from('é'), ['a:7531', 'b:7531', 'c:7531']), ['c:7531', 'a:7531', 'b:7531']);
  await client.withLock(new Uint8Array([0xff]), {}, (lock) => assert.equal(lock.name[0], 0xff));
});

test('a worker runs once at a time, and stop before run ends it', async () => {
  const worker = new Worker(client, 'none', () => {});
  worker.stop();
  assert.equal(await worker.run(), 0);
  const running = worker.run({ signals: false });
  await assert.rejects(worker.run(), Usage);
  worker.stop();
  assert.equal(await running, 0);
  assert.equal(process.listenerCount('SIGTERM'), 0);
});

test('a handler may forget its job, which stays its own', { skip: !globalThis.gc }, async () => {
  await client.put('forget', 'x');
  let body;
  const handler = async (job) => {
    body = String(job.body);
    job = null;
    for (let i = 0; i < 20; i += 1) {
      await setTimeout(10);
      globalThis.gc();
    }
    worker.stop();
  };
  const worker = new Worker(client, ['forget'], handler);
  await worker.run();
  assert.equal(body, 'x');
  assert.ok(events.some(({ kind, result, name }) => kind === 'job' && result === 'ack' && name === 'forget'));
});

test('after grace the signal of a handler aborts, and its job goes back', async () => {
  await client.put('late', 'x');
  const worker = new Worker(
    client,
    'late',
    async (job, signal) => {
      worker.stop();
      await once(signal, 'abort');
      assert.ok(job.lost && signal.reason instanceof Lost);
    },
    { grace: 0.1 },
  );
  assert.equal(await worker.run(), 1);
  const [job] = await client.claim('late', { timeout: 0 });
  assert.equal(job.tries, 2);
  await job.ack();
});

test('no handler starts once the grace is over', async () => {
  let ran = 0;
  const handler = () => {
    ran += 1;
    return new Promise(() => {}); // until never
  };
  const worker = new Worker(client, 'early', handler, { concurrency: 2, grace: 0 });
  await client.put('early', 'first');
  const running = worker.run();
  await until(() => ran === 1);
  await setTimeout(100); // the other place claims
  worker.stop();
  await setTimeout(100);
  await client.put('early', 'second');
  assert.equal(await running, 1);
  assert.equal(ran, 1);
  const jobs = [...(await client.claim('early', { timeout: 5 })), ...(await client.claim('early', { timeout: 5 }))];
  assert.deepEqual(jobs.map(({ body }) => String(body)).sort(), ['first', 'second']);
  for (const job of jobs) await job.ack();
});

test('run resolves after the report of a handler that ended in time', async () => {
  const [server, url] = await fake((lines) => {
    if (lines.startsWith('tube')) return 'OK 4\r\n---\n\r\nCLAIMED 1\r\nRESERVED 1 1 9 t 1\r\nx\r\n';
    setTimeout(600).then(() => server.sockets[0].write('DELETED\r\n'));
    return '';
  });
  const told = [];
  const jobs = new Client(url.replace('127.0.0.1:', '127.0.0.1?jobs='), {
    onEvent: ({ result }) => told.push(result),
  });
  const worker = new Worker(jobs, 't', () => worker.stop(), { grace: 0.1 });
  assert.equal(await worker.run(), 0);
  assert.ok(told.includes('ack'));
});

test('the first signal after stop leaves handlers their grace, and many workers share listeners', async () => {
  const workers = Array.from({ length: 12 }, () => new Worker(client, 'sig', () => {}));
  const others = workers.map((other) => other.run());
  let aborted = null;
  const handler = async (job, signal) => {
    worker.stop();
    process.emit('SIGTERM');
    await setTimeout(300);
    aborted = signal.aborted;
  };
  const worker = new Worker(client, 'first', handler);
  const running = worker.run();
  assert.equal(process.listenerCount('SIGTERM'), 1);
  await client.put('first', 'x');
  assert.equal(await running, 0);
  assert.equal(aborted, false);
  await Promise.all(others);
  assert.equal(process.listenerCount('SIGTERM'), 0);
});

test('a body that comes byte by byte is kept in few pieces', async () => {
  const link = new Link(new Point('here', 'jobs', {}), {});
  const body = link.exactly(300_000, 60);
  for (let i = 0; i < 300_000; i += 1) link._read(Buffer.from([i % 251]));
  assert.ok(link._chunks.length < 25);
  assert.ok((await body).every((byte, i) => byte === i % 251));
  link.close();
});

test('an answer that came in time counts, though the loop was blocked past its deadline', async () => {
  const quick = new Client(undefined, { ioTimeout: 3, connectTimeout: 3 });
  for (const delay of [0, 1]) {
    const lock = quick.lock('blocked', { timeout: 0 });
    await setTimeout(delay); // it connects, it is asked
    const end = Date.now() + 3500;
    while (Date.now() < end);
    await (await lock).release();
  }
});

test('a hook that rejects is harmless', async () => {
  const hooked = new Client(undefined, { onEvent: async () => Promise.reject(new Error('of the hook')) });
  await hooked.withLock('hooked', {}, () => setTimeout(10));
});
