/** What calls give: holds and jobs. The handle is the program's; the inner part is known to the connection. */

import { Fault, now } from './link.js';
import { failure } from './core.js';
import { Lost, Refused, Unanswered, Unreachable, Usage } from './errors.js';
import * as wire from './wire.js';

const forgotten = new FinalizationRegistry((inner) => inner.forget());

/** The inner part of a hold. `back(link, ok)` gives it back, and gives the first bad answer. */
class Grant {
  over = false;
  lost = null;
  abort = null; // made when somebody asks for the signal

  constructor(client, link, target, closes, back) {
    Object.assign(this, { client, link, target, closes, back, since: now() });
    if (!link) return;
    link.onLoss = () => this.lose();
    if (link.fault) this.lose();
  }

  lose(error = new Lost('the connection of the hold has ended').at(this.link.point.text, this.target)) {
    if (this.lost) return;
    this.lost = error;
    this.client._drop(this.link);
    this.abort?.abort(error);
    this.client._tell('lost', error.server, this.target, { error });
  }

  forget() {
    this.lose(new Lost('the hold was forgotten: release it').at(this.link.point.text, this.target));
  }

  get signal() {
    this.abort ??= new AbortController();
    if (this.lost) this.abort.abort(this.lost);
    return this.abort.signal;
  }

  async release(ok) {
    const { client, link, target, since } = this;
    if (this.over || !link) return;
    this.over = true;
    this.abort = null;
    link.onLoss = null;
    const keep = ok || !this.closes;
    const server = link.point.text;
    let error = this.lost;
    try {
      link.sent = false;
      const answer = !error && keep ? await this.back(link, ok) : '';
      if (answer) error = new Lost('the server had taken it away', { answer, sent: true });
    } catch (cause) {
      error = failure(cause, link.sent);
      if ((cause instanceof Fault && !cause.late) || error instanceof Unreachable) {
        error = new Lost('the connection of the hold has ended', { reason: error.reason });
      }
    }
    if (!error) {
      if (keep) client._give(link);
      else client._drop(link);
      client._tell('held', server, target, { since, result: 'released' });
      return;
    }
    client._drop(link);
    error.at(server, target);
    if (error instanceof Lost) this.lose(error);
    client._tell('held', server, target, { since, error });
    throw error;
  }
}

export class Hold {
  #grant;

  constructor(server, grant) {
    this.server = server;
    this.#grant = grant;
    if (grant.link) forgotten.register(this, grant, grant);
  }

  get lost() {
    return this.#grant.lost !== null;
  }

  get signal() {
    return this.#grant.signal;
  }

  release(ok = true) {
    forgotten.unregister(this.#grant);
    return this.#grant.release(ok);
  }

  [Symbol.asyncDispose]() {
    return this.release();
  }
}

/** Gives back in text: `count` answers. */
const backInText = (client, requests, count, good) => async (link, ok) => {
  await link.write(requests(ok), client._io);
  let bad = '';
  for (let i = 0; i < count; i += 1) {
    const [word] = await client._answer(link, good);
    if (word !== 'RELEASED' && word !== 'RETURNED') bad ||= word;
  }
  return bad;
};

export class Lock extends Hold {
  constructor(client, link, done, name, sent, shared) {
    const back = backInText(client, () => `RELEASE ${sent}\n`, 1, { RELEASED: 1, NOT_LOCKED: 1 });
    super(link.point.text, new Grant(client, done ? null : link, name, shared, back));
    this.name = name;
    this.done = done;
  }
}

export class Units extends Hold {
  constructor(client, link, name, count, request) {
    const back = async () => {
      const [code, body] = await client._binary(link, wire.RELEASE, request, [0x01, 0x22]);
      return code ? wire.shown(code, body) : '';
    };
    super(link.point.text, new Grant(client, link, name, false, back));
    this.name = name;
    this.count = count;
  }
}

export class Member extends Hold {
  constructor(client, link, pool, all) {
    const requests = (ok) => all.map(({ fence }) => `RETURN ${fence} ${ok ? 'ok' : 'fail'}\n`).join('');
    const back = backInText(client, requests, all.length, { RETURNED: 1, GONE: 1, NOT_TAKEN: 1 });
    super(link.point.text, new Grant(client, link, pool, false, back));
    Object.assign(this, { pool, ...all[0], all });
  }
}

/** The connection of the jobs of one claim. It is theirs until the last of them has ended. */
export class Claim {
  spoiled = false; // a job that has not ended well is reserved on it still

  constructor(client, link, jobs) {
    Object.assign(this, { client, link, jobs });
  }

  /** A job ends, in its turn. */
  leave(well) {
    this.jobs -= 1;
    this.spoiled ||= !well;
    if (this.jobs) return;
    if (this.spoiled) this.client._drop(this.link);
    else this.client._give(this.link);
  }
}

/** The inner part of a job. */
export class Task {
  gone = false;
  heard = false; // the handler was told that it is lost

  constructor(claim, fields) {
    Object.assign(this, { claim, client: claim.client, server: claim.link.point.text, ...fields });
  }

  lose() {
    if (this.gone) return;
    this.gone = true;
    this.client._tell('lost', this.server, this.tube);
    this.client._tell('job', this.server, this.tube, { result: 'lost' });
  }

  /** It goes back with its connection, unless it was given back. */
  forget() {
    const { claim } = this;
    return claim?.link.turn(() => {
      if (this.claim) claim.leave(false);
      this.claim = null;
    });
  }

  /** Has the connection that reserved it ended? */
  async ended() {
    await this.claim?.link.look();
    return !this.claim || this.claim.link.fault !== null;
  }

  /**
   * A request, in its turn, on the connection that reserved the job; if that is gone by token on another one, but
   * not if it is `bound`. `ask(link, io)` gives the words. `ends`: whatever is said, the job takes no more calls.
   * `within`: seconds for it all. NOT_FOUND is `Lost`, unless an earlier attempt may have done it.
   */
  async request(ask, { again = false, ends = false, bound = false, within }) {
    const { claim, client, server, tube } = this;
    if (!claim) throw new Usage('the job has been given back', { target: tube, server });
    await claim.link.look();
    return claim.link.turn(async () => {
      if (!this.claim) throw new Usage('the job has been given back meanwhile', { target: tube, server });
      const own = claim.link;
      let earlier = false;
      let well = false;
      try {
        if (bound && own.fault) throw new Lost('its connection has ended').at(server, tube);
        const tried = (on, told, before) => {
          if (on === own && own.fault) throw own.fault;
          earlier = before;
          return ask(on, within ? Math.min(told, client._io) : client._io);
        };
        const how = { timeout: within, again, silent: again, own };
        const [link, words] = await client._run('jobs', tube, tried, how);
        if (link !== own) client._give(link);
        if (words[0] === 'NOT_FOUND') {
          const what = 'it is reserved no more, or the first request has done it already';
          throw new (earlier ? Unanswered : Lost)(what, { answer: words[0], sent: earlier }).at(server, tube);
        }
        well = true;
        return words;
      } catch (error) {
        if (error instanceof Lost) this.lose();
        throw error;
      } finally {
        if (ends) {
          this.claim = null;
          claim.leave(well);
        }
      }
    });
  }

  /** Gives the job back; after that, it takes no more calls. */
  async end(kind, ask, how) {
    try {
      const words = await this.request(ask, { ...how, ends: true });
      this.client._tell('job', this.server, this.tube, { result: kind });
      return words;
    } catch (error) {
      if (!(error instanceof Lost || error instanceof Usage)) {
        this.client._tell('job', this.server, this.tube, { result: kind, error });
      }
      throw error;
    }
  }

  /** Asks one line. */
  plain(verb, rest, good) {
    const request = `${verb} ${this.id} ${rest}\r\n`;
    return (link, io) => this.client._jobs(link, request, { ...good, NOT_FOUND: 1 }, [], { io });
  }

  ack() {
    return this.end('ack', this.plain('ack', this.token, { DELETED: 1 }), { again: true });
  }

  async nack(delay = 0) {
    const rest = `${this.token} ${wire.whole(delay, 'delay')}`;
    return (await this.end('nack', this.plain('nack', rest, { RELEASED: 1, BURIED: 1 })))[0] === 'BURIED';
  }

  /** Its priority stays: that is asked for first. */
  bury() {
    return this.end(
      'bury',
      async (link, io) => {
        const words = await this.client._jobs(link, `stats-job ${this.id}\r\n`, { OK: 2, NOT_FOUND: 1 }, [], { io });
        return words[0] === 'OK'
          ? this.plain('bury', wire.entry(words.at(-1), 'pri'), { BURIED: 1 })(link, io)
          : words;
      },
      { bound: true },
    );
  }

  renew(within) {
    return this.request(this.plain('renew', this.token, { TOUCHED: 1 }), { again: true, within });
  }

  /** Renews it, and gives its ttr, from a second answer, which comes also behind a refusal. */
  renewFirst(within) {
    const first = this.plain('renew', `${this.token}\r\nstats-job ${this.id}`, { TOUCHED: 1 });
    return this.request(
      async (link, io) => {
        const stats = () => this.client._answer(link, { OK: 2, NOT_FOUND: 1 }, [], { io });
        const words = await first(link, io).catch(async (error) => {
          if (error instanceof Refused && !link.partial) await stats();
          throw error;
        });
        const more = await stats();
        return more[0] === 'OK' && words[0] === 'TOUCHED' ? wire.entry(more.at(-1), 'ttr') : ['NOT_FOUND'];
      },
      { again: true, within },
    );
  }
}

export class Job {
  #task;

  constructor(task) {
    const { id, token, tube, tries, body, server } = task;
    Object.assign(this, { id, token, tube, tries, body, server });
    this.#task = task;
    forgotten.register(this, task, task);
  }

  get lost() {
    return this.#task.gone;
  }

  async ack() {
    await this.#ends(this.#task.ack());
  }

  async nack(delay) {
    return this.#ends(this.#task.nack(delay));
  }

  async bury() {
    await this.#ends(this.#task.bury());
  }

  async renew() {
    await this.#ends(this.#task.renew());
  }

  /** The program may forget it while this is under way. */
  async #ends(done) {
    try {
      return await done;
    } finally {
      if (!this.#task.claim) forgotten.unregister(this.#task);
    }
  }
}
