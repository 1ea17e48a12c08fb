/** What calls give: holds and jobs. The handle is the program's; the inner part is known to the connection. */

import { Fault, Link, now } from './link.js';
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
    this.client._tell('lost', error.server, this.target, { error });
    this.abort?.abort(error);
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

  constructor(server, grant, fields) {
    Object.assign(this, fields, { server });
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
    super(link.point.text, new Grant(client, done ? null : link, name, shared, back), { name, done });
  }
}

export class Units extends Hold {
  constructor(client, link, name, count, request) {
    const back = async () => {
      const [code, body] = await client._binary(link, wire.RELEASE, request, [0x01, 0x22]);
      return code ? wire.shown(code, body) : '';
    };
    super(link.point.text, new Grant(client, link, name, false, back), { name, count });
  }
}

export class Member extends Hold {
  constructor(client, link, pool, all) {
    const requests = (ok) => all.map(({ fence }) => `RETURN ${fence} ${ok ? 'ok' : 'fail'}\n`).join('');
    const back = backInText(client, requests, all.length, { RETURNED: 1, GONE: 1, NOT_TAKEN: 1 });
    super(link.point.text, new Grant(client, link, pool, false, back), { pool, ...all[0], all });
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

  /**
   * One request, on the connection that reserved the job; if that is gone by token on another (`bury`: not then).
   * `ends`: whatever is said, the job takes no more calls. `stats`: an answer to stats-job is behind the first one,
   * and has this number. `bury`: it is the first, and its number goes into a second request. `within`: seconds for
   * it all. NOT_FOUND is `Lost`, unless an earlier attempt may have been it. Gives the word, and the number.
   */
  async ask(request, good, how) {
    const { claim } = this;
    if (!claim) throw new Usage('the job has been given back', { target: this.tube, server: this.server });
    await Link.look();
    return claim.link.turn(() => this._asked(claim, request, good, how));
  }

  async _asked(claim, request, good, { again = false, ends = false, stats = '', bury = false, within }) {
    if (!this.claim) throw new Usage('the job has been given back meanwhile', { target: this.tube });
    const { client } = this;
    const own = claim.link;
    let earlier = false;
    let well = false;
    const ask = async (link, told, tried) => {
      if (link === own && own.fault) throw own.fault;
      earlier = tried;
      const io = within ? Math.min(told, client._io) : client._io;
      const behind = stats && !bury ? { OK: 2, NOT_FOUND: 1 } : null;
      let words;
      try {
        words = await client._jobs(link, request, { ...good, NOT_FOUND: 1 }, [], { io });
      } catch (error) {
        if (behind && error instanceof Refused && !link.partial) await client._answer(link, behind, [], { io });
        throw error;
      }
      let [word] = words;
      if (behind) words = await client._answer(link, behind, [], { io });
      if (words[0] === 'NOT_FOUND') return ['NOT_FOUND', 0];
      const number = stats ? wire.entry(words.at(-1), stats) : 0;
      if (bury) [word] = await client._jobs(link, `bury ${this.id} ${number}\r\n`, { BURIED: 1, NOT_FOUND: 1 }, [], { io });
      return [word, number];
    };
    try {
      if (bury && own.fault) throw new Lost('its connection has ended').at(this.server, this.tube);
      const how = { timeout: within, again, silent: again, own };
      const [link, [word, number]] = await client._run('jobs', this.tube, ask, how);
      if (link !== own) client._give(link);
      if (word === 'NOT_FOUND') {
        const what = 'it is reserved no more, or the first request has done it already';
        throw new (earlier ? Unanswered : Lost)(what, { answer: word, sent: earlier }).at(this.server, this.tube);
      }
      well = true;
      return [word, number];
    } catch (error) {
      if (error instanceof Lost) this.lose();
      throw error;
    } finally {
      if (ends) {
        this.claim = null;
        claim.leave(well);
      }
    }
  }

  /** Gives the job back; after that, it takes no more calls. */
  async end(kind, request, good, how) {
    try {
      const [word] = await this.ask(request, good, { ...how, ends: true });
      this.client._tell('job', this.server, this.tube, { result: kind });
      return word;
    } catch (error) {
      if (!(error instanceof Lost || error instanceof Usage)) {
        this.client._tell('job', this.server, this.tube, { result: kind, error });
      }
      throw error;
    }
  }

  async ack() {
    await this.end('ack', `ack ${this.id} ${this.token}\r\n`, { DELETED: 1 }, { again: true });
  }

  async nack(delay = 0) {
    const request = `nack ${this.id} ${this.token} ${wire.whole(delay, 'delay')}\r\n`;
    return await this.end('nack', request, { RELEASED: 1, BURIED: 1 }) === 'BURIED';
  }

  /** Has the connection that reserved it ended? */
  async ended() {
    await Link.look();
    return !this.claim || this.claim.link.fault !== null;
  }

  async bury() {
    await this.end('bury', `stats-job ${this.id}\r\n`, { OK: 2 }, { stats: 'pri', bury: true });
  }

  async renew(within) {
    await this.ask(`renew ${this.id} ${this.token}\r\n`, { TOUCHED: 1 }, { again: true, within });
  }

  /** Renews it within so many seconds, and gives its ttr. */
  async renewFirst(within) {
    const request = `renew ${this.id} ${this.token}\r\nstats-job ${this.id}\r\n`;
    return (await this.ask(request, { TOUCHED: 1 }, { again: true, stats: 'ttr', within }))[1];
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
