/** All calls of a client. See index.d.ts. */

import { Core } from './core.js';
import { Usage } from './errors.js';
import { Claim, Job, Lock, Member, Task, Units } from './holds.js';
import { seconds } from './options.js';
import * as wire from './wire.js';

/** One or several. */
export const listed = (tubes) => (typeof tubes === 'string' || tubes instanceof Uint8Array ? [tubes] : [...tubes]);
const PUT = ['JOB_TOO_BIG', 'DRAINING', 'READ_ONLY', 'TUBE_FULL'];

/** Calls the body, and gives back what it has; an error of the body is never replaced by one of the release. */
async function scoped(hold, body) {
  let value;
  try {
    value = await body(hold);
  } catch (error) {
    await hold.release(false).catch(() => {}); // the hook was told
    throw error;
  }
  await hold.release();
  return value;
}

export class Client extends Core {
  async lock(name, { workers = 1, queue, timeout = 10, shared = false, signal } = {}) {
    const most = wire.whole(workers, 'workers', 1);
    const sent = wire.name(name);
    const verb = shared ? 'ACQ4ANY' : 'ACQ4ME';
    const head = `${verb} ${sent} ${most} ${wire.whole(queue ?? most + 100, 'queue', 1)} `;
    const good = shared ? { LOCKED: 1, DONE: 1 } : { LOCKED: 1 };
    const ask = async (link, told) => {
      await link.write(`${head}${wire.wait(told)}\n`, this._io);
      return (await this._answer(link, good, ['TIMEOUT', 'QUEUE_FULL', 'LOCK_HELD'], { wait: told }))[0];
    };
    const [link, word] = await this._acquire('text', name, ask, { timeout: seconds(timeout, 'timeout'), signal });
    const done = word === 'DONE';
    if (done) this._give(link);
    return new Lock(this, link, done, name, sent, shared);
  }

  async units(name, count, limit, { signal } = {}) {
    const numbers = [wire.whole(count, 'count', 1), wire.whole(limit, 'limit', 1)];
    const sent = wire.name(name);
    const request = wire.binary(wire.ACQUIRE, numbers, sent);
    if (count > limit) throw new Usage(`${count} units are more than the limit, ${limit}`, { target: name });
    const ask = async (link) => {
      const [, body] = await this._binary(link, wire.ACQUIRE, request, []);
      if (body.length !== 4 || body.readUInt32BE() !== numbers[0]) wire.malformed(body);
    };
    const [link] = await this._acquire('binary', name, ask, { signal });
    return new Units(this, link, name, numbers[0], wire.binary(wire.RELEASE, numbers.slice(0, 1), sent));
  }

  async usage(name, { signal } = {}) {
    const request = wire.binary(wire.GET, [], wire.name(name));
    const ask = async (link) => {
      const [code, body] = await this._binary(link, wire.GET, request, [0x01]);
      if (!code && body.length !== 4) wire.malformed(body);
      return code ? 0 : body.readUInt32BE();
    };
    return this._once('binary', name, ask, { signal });
  }

  async member(target, { timeout = 10, signal, ...wanted } = {}) {
    const { pools, group, count, head, tail } = wire.take(target, wanted);
    const first = Buffer.from(pools[0], 'latin1');
    if ((group || pools.length > 1) && this._order('text', first).length > 1) {
      throw new Usage('with several servers, a target is one pool', { target });
    }
    const ask = async (link, told) => {
      await link.write(`${head}${wire.wait(told)}${tail}`, this._io);
      let words = await this._answer(link, { TAKEN: 5 }, ['TIMEOUT', 'QUEUE_FULL'], { wait: told });
      const pool = words[1];
      const members = [];
      while (words[1] === pool && (group || pools.includes(pool))) {
        members.push(wire.taken(words));
        if (members.length === count) return [wire.utf8(pool), members];
        words = await this._answer(link, { TAKEN: 5 }, null);
      }
      return wire.malformed(words[1]);
    };
    const how = { timeout: seconds(timeout, 'timeout'), signal };
    const [link, [pool, members]] = await this._acquire('text', first, ask, how);
    return new Member(this, link, pool, members);
  }

  async put(tube, body, options = {}) {
    const request = wire.record(`put-into ${wire.tube(tube)} `, body, options);
    const keyed = options.key != null;
    const how = { again: keyed, silent: keyed, body: true, signal: options.signal };
    const put = await this._plain(tube, request, { INSERTED: 2, DUPLICATE: 2 }, wire.put, PUT, how);
    const result = put.duplicate ? 'duplicate' : 'inserted';
    this._tell('put', this._order('jobs', tube)[0].text, tube, { result });
    return put;
  }

  async putMany(tube, jobs, { signal } = {}) {
    const given = [...jobs];
    const sent = Buffer.concat(given.map((job) => Buffer.from(wire.record('', job.body, job), 'latin1')));
    if (given.length < 1 || given.length > 1000 || sent.length > 16 << 20) {
      throw new Usage('1 to 1,000 jobs and 16 MiB can be put at once', { target: tube });
    }
    const keyed = given.every((job) => job.key != null);
    const head = `put-batch ${wire.tube(tube)} ${given.length} ${sent.length}\r\n`;
    const request = Buffer.concat([Buffer.from(head), sent, Buffer.from('\r\n')]);
    const how = { again: keyed, silent: keyed, body: true, signal };
    const parse = (words) => wire.batch(words.at(-1), given.length);
    const puts = await this._plain(tube, request, { OK: 2 }, parse, PUT, how);
    this._tell('put', this._order('jobs', tube)[0].text, tube, { result: 'inserted' });
    return puts;
  }

  async claim(tubes, { count = 1, timeout = 10, signal } = {}) {
    const how = { timeout: seconds(timeout, 'timeout'), signal };
    return (await this._reserve(listed(tubes), count, how)).map((task) => new Job(task));
  }

  async _reserve(tubes, count, how) {
    const names = tubes.map(wire.tube);
    const most = wire.whole(count, 'count', 1, 1000);
    if (!names.length || names.join(' ').length > 7980) {
      throw new Usage('claim needs 1 tube or more, and a line of up to 8,000 bytes');
    }
    const ask = async (link, told) => {
      const wait = Math.ceil(told);
      const request = `claim ${most} ${wait} ${names.join(' ')}\r\n`;
      let words = await this._jobs(link, request, { CLAIMED: 2, TIMED_OUT: 1 }, ['READ_ONLY'], { wait });
      const jobs = [];
      const many = words[0] === 'CLAIMED' ? wire.number(words[1], 1, most) : 0;
      while (jobs.length < many) {
        words = await this._answer(link, { RESERVED: 6 }, null);
        const [, id, size, token, tube, tries] = words;
        if (!names.includes(tube)) wire.malformed(tube, 'the server sent a job of another tube');
        const body = await this._body(link, size, this._options.max_body);
        jobs.push({ id: wire.number(id, 1), token: wire.big(token, 1n), tube, tries: wire.number(tries, 1), body });
      }
      return jobs;
    };
    this._check(names[0]);
    const [link, jobs] = await this._run('jobs', names[0], ask, how);
    if (!jobs.length) this._give(link);
    const claim = new Claim(this, link, jobs.length);
    return jobs.map((job) => new Task(claim, job));
  }

  async tube(name, settings = {}, { signal } = {}) {
    const sent = wire.settings(settings);
    const parse = (words) => Object.fromEntries(wire.dictionary(words.at(-1)));
    const request = `tube ${wire.tube(name)}${sent}\r\n`;
    return this._plain(name, request, { OK: 2 }, parse, sent ? [] : ['NOT_FOUND'], { again: !sent, signal });
  }

  async ready(pattern, { after = '', limit = 1000, timeout = 0, signal } = {}) {
    const rest = wire.pattern(pattern, after);
    const most = wire.whole(limit, 'limit', 1, 1000);
    const ask = async (link, told) => {
      const wait = Math.ceil(told);
      const request = `ready ${wait} ${most} ${rest}\r\n`;
      const words = await this._jobs(link, request, { OK: 2, TIMED_OUT: 1 }, [], { wait });
      const found = words[0] === 'OK' ? wire.dictionary(words.at(-1)) : new Map();
      const isGood = found.size <= most && [...found.values()].every((count) => typeof count === 'number');
      return isGood ? found : wire.malformed(words.at(-1));
    };
    return this._once('jobs', pattern, ask, { timeout: seconds(timeout, 'timeout'), signal });
  }

  async *listJobs(tube, state, { signal } = {}) {
    let after = 0;
    do {
      const request = `list-jobs ${wire.tube(tube)} ${wire.state(state)} ${after} 100\r\n`;
      const [views, next] = await this._once('jobs', tube, (link) => this._page(link, request, after), { signal });
      yield* views;
      after = next;
    } while (after);
  }

  /** Up to 100 jobs with ids greater than `after`, and the next `after`; 0 at the end. */
  async _page(link, request, after) {
    const words = await this._jobs(link, request, { LISTED: 3 }, ['NOT_FOUND']);
    const [count, next] = [wire.number(words[1], 0, 100), wire.number(words[2])];
    const views = [];
    while (views.length < count) {
      const found = await this._answer(link, { FOUND: 5, UNREADABLE: 4 }, null);
      const size = found[0] === 'FOUND' ? found.splice(2, 1)[0] : null;
      const body = size === null ? null : await this._body(link, size, this._options.max_body);
      const [, id, state, tries] = found;
      views.push({ id: wire.number(id, 1), state, tries: wire.number(tries), body });
    }
    if (next && next <= after) wire.malformed(words[2], "the server's list does not go on");
    return [views, next];
  }

  async clear(tube, state, { signal } = {}) {
    const request = `clear ${wire.tube(tube)} ${wire.state(state)}\r\n`;
    const parse = (words) => wire.number(words[1]);
    return this._plain(tube, request, { CLEARED: 2 }, parse, ['NOT_FOUND', 'READ_ONLY'], { again: false, signal });
  }

  async delete(id, { signal } = {}) {
    const request = `delete ${wire.jobId(id)}\r\n`;
    await this._plain(String(id), request, { DELETED: 1 }, () => {}, ['NOT_FOUND'], { silent: true, signal });
  }

  async kick(id, { signal } = {}) {
    const request = `kick-job ${wire.jobId(id)}\r\n`;
    await this._plain(String(id), request, { KICKED: 1 }, () => {}, ['NOT_FOUND'], { again: false, signal });
  }

  async withLock(name, options, body) {
    return scoped(await this.lock(name, options), body);
  }

  async withUnits(name, count, limit, options, body) {
    return scoped(await this.units(name, count, limit, options), body);
  }

  async withMember(target, options, body) {
    return scoped(await this.member(target, options), body);
  }

  async close() {
    this._close();
  }
}
