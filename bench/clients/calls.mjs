/**
 * The same as calls.py, in JavaScript: `calls.mjs SUBJECT TEXT_PORT JOBS_PORT REDIS_PORT [CA]`. SUBJECT: node (the
 * library), bare-node (sockets with the same bytes), ioredis (a semaphore in Lua), jackd. BENCH_MODULES is the folder
 * of what npm installed.
 */

import { createRequire } from 'node:module';
import net from 'node:net';
import { createInterface } from 'node:readline';

const [name, text, jobs, redis, ca] = process.argv.slice(2);
const HOST = '127.0.0.1';
const body = Buffer.alloc(100, 'x');
const ACQUIRE = `local n = tonumber(redis.call('get', KEYS[1]) or '0')
if n < tonumber(ARGV[1]) then redis.call('incr', KEYS[1]) return 1 end return 0`;
const RELEASE = "return redis.call('decr', KEYS[1])";

function check(isSo) {
  if (!isSo) throw new Error('a wrong answer');
}

function installed(module) {
  return createRequire(`${process.env.BENCH_MODULES}/`)(module);
}

/** A connection: `ask(data)` sends, and resolves with what has come once it ends a line. */
async function connected(port) {
  const socket = net.connect({ host: HOST, port: Number(port), noDelay: true });
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  let come = '';
  let pending = null; // the request that has no answer yet
  socket.setTimeout(10000, () => pending && socket.destroy(new Error('no answer')));
  socket.setEncoding('latin1');
  socket.on('error', (e) => pending?.reject(e));
  socket.on('data', (data) => {
    come += data;
    if (!come.endsWith('\n')) return;
    const [{ resolve }, whole] = [pending, come];
    [pending, come] = [null, ''];
    resolve(whole);
  });
  return (data) => new Promise((resolve, reject) => {
    pending = { resolve, reject };
    socket.write(data);
  });
}

const subjects = {
  async node() {
    const { Client } = await import(`file://${process.env.COUNTERD_NODE}/index.js`);
    const tls = ca ? { tls: true, tlsCa: ca } : {};
    const client = new Client(`counter://${HOST}:${text}?jobs=${jobs}`, tls);
    return {
      lock: async () => (await client.lock('bench')).release(),
      put: (tube) => client.put(tube, body),
      claim: async (tube) => {
        const [job] = await client.claim(tube, { timeout: 0 });
        await job.ack();
      },
    };
  },

  async 'bare-node'() {
    const locks = await connected(text);
    const queue = await connected(jobs);
    return {
      lock: async () => {
        check(await locks('ACQ4ME bench 1 101 10.000\n') === 'LOCKED\n');
        check(await locks('RELEASE bench\n') === 'RELEASED\n');
      },
      put: async (tube) => {
        check((await queue(`put-into ${tube} 1024 0 60 100\r\n${body}\r\n`)).startsWith('INSERTED '));
      },
      claim: async (tube) => {
        const words = (await queue(`claim 1 0 ${tube}\r\n`)).split(/\s+/, 7);
        check(words[0] === 'CLAIMED');
        check(await queue(`ack ${words[3]} ${words[5]}\r\n`) === 'DELETED\r\n');
      },
    };
  },

  async ioredis() {
    const Redis = installed('ioredis');
    const client = new Redis({ host: HOST, port: Number(redis) });
    client.defineCommand('acquireUnit', { numberOfKeys: 1, lua: ACQUIRE });
    client.defineCommand('releaseUnit', { numberOfKeys: 1, lua: RELEASE });
    return {
      lock: async () => {
        check(await client.acquireUnit('bench-node', 1) === 1);
        await client.releaseUnit('bench-node');
      },
    };
  },

  async jackd() {
    const Jackd = installed('jackd');
    const client = new Jackd();
    await client.connect({ host: HOST, port: Number(jobs) });
    const payload = body.toString(); // a Buffer would go as JSON
    let using;
    let watching = 'default';
    return {
      put: async (tube) => {
        if (using !== tube) await client.use(using = tube);
        await client.put(payload, { priority: 1024, ttr: 60 });
      },
      claim: async (tube) => {
        if (watching !== tube) {
          await client.watch(tube);
          await client.ignore(watching);
          watching = tube;
        }
        await client.delete((await client.reserveWithTimeout(0)).id);
      },
    };
  },
};

const calls = await subjects[name]();
console.log('{}');
for await (const line of createInterface({ input: process.stdin })) {
  const [call, count, tube] = line.split(' ');
  const run = calls[call];
  const used = process.cpuUsage();
  const begin = process.hrtime.bigint();
  for (let i = 0; i < Number(count); i += 1) await run(tube);
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  const { user, system } = process.cpuUsage(used);
  console.log(JSON.stringify({ seconds, cpu: (user + system) / 1e6 }));
}
process.exit();
