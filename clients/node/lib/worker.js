/** Workers of jobs: places that claim, call a handler, renew meanwhile, and report. See index.d.ts. */

import { isMainThread } from 'node:worker_threads';
import { listed } from './client.js';
import { CounterError, Lost, Unsupported, Usage } from './errors.js';
import { Job } from './holds.js';
import { ms, now } from './link.js';
import { seconds } from './options.js';
import * as wire from './wire.js';

const CLAIM_SECONDS = 2; // an idle place waits so long at most for a job, so that it can end
const RENEW_AFTER = 0.4; // seconds that a job runs without costing a renewal
const LAST = 1; // seconds that a handler has to end, once it is told to

export class Bury extends Error {
  name = 'Bury';
}

export class Retry extends Error {
  name = 'Retry';

  constructor(delay = 0) {
    super(`again after ${delay} s`);
    this.delay = seconds(delay, 'delay');
  }
}

const jittered = (delay) => delay * (0.8 + 0.4 * Math.random());
const defaultBackoff = (tries) => jittered(Math.min(3600, 2 ** (tries - 1)));

/** A wait that `wake` ends early. */
class Pause {
  wake() {}

  wait(delay) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms(delay));
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** What one call of `run` knows. */
class Shift {
  stopped = false; // no more claims
  running = false;
  told = false; // by a signal
  faults = [];
  pauses = new Set(); // of places
  runs = new Set(); // jobs whose handlers run
  grace = new Pause();
  claims = new AbortController();

  constructor(grace) {
    this.over = new Promise((resolve) => {
      this.cut = resolve; // no more grace
    });
    this.stop = () => {
      if (this.stopped) return;
      this.stopped = true;
      for (const pause of this.pauses) pause.wake();
      if (this.running) this.grace.wait(grace).then(this.cut);
    };
    this.signal = () => {
      this.stop();
      if (this.told) this.cut();
      this.told = true;
    };
  }
}

const signalled = new Set(); // shifts that signals end
const tell = () => {
  for (const shift of signalled) shift.signal();
};

/** Listens to signals as long as there are such shifts: once for all of them. */
function listen(change) {
  const before = signalled.size;
  change();
  if (before && signalled.size) return;
  for (const name of ['SIGTERM', 'SIGINT']) process[before ? 'off' : 'on'](name, tell);
}

export class Worker {
  #client;
  #tubes;
  #handler;
  #options;
  #failing = false;
  #shift;

  constructor(client, tubes, handler, options = {}) {
    const { concurrency = 1, backoff = defaultBackoff, tries = 0, grace = 30, onEvent } = options;
    this.#client = onEvent ? Object.create(client, { _onEvent: { value: onEvent } }) : client;
    this.#tubes = listed(tubes);
    if (!this.#tubes.map(wire.tube).length) throw new Usage('a worker needs 1 tube or more');
    this.#handler = handler;
    const length = wire.whole(concurrency, 'concurrency', 1, 1000);
    this.#options = { length, backoff, tries: wire.whole(tries, 'tries'), grace: seconds(grace, 'grace') };
    this.#shift = new Shift(grace);
  }

  async run({ signals = true } = {}) {
    const shift = this.#shift;
    if (shift.running) throw new Usage('the worker runs already');
    shift.running = true;
    const isTold = signals && isMainThread;
    if (isTold) listen(() => signalled.add(shift));
    try {
      const places = Array.from({ length: this.#options.length }, () => this.#place(shift));
      await Promise.race([Promise.all(places), shift.over]);
      shift.claims.abort();
      const count = await this.#giveUp([...shift.runs]);
      if (shift.faults.length) throw shift.faults[0];
      return count;
    } finally {
      if (isTold) listen(() => signalled.delete(shift));
      shift.claims.abort();
      shift.grace.wake();
      this.#shift = new Shift(this.#options.grace);
    }
  }

  stop() {
    this.#shift.stop();
  }

  /** What a place does until the worker stops. What will not get better ends the worker. */
  async #place(shift) {
    const pause = new Pause();
    let delay = 0;
    shift.pauses.add(pause);
    while (!shift.stopped) {
      try {
        const how = { timeout: CLAIM_SECONDS, again: false, signal: shift.claims.signal };
        const tasks = await this.#client._reserve(this.#tubes, 1, how);
        [this.#failing, delay] = [false, 0];
        for (const task of tasks) await this.#work(task, shift);
      } catch (error) {
        if (shift.claims.signal.aborted) return;
        if (!(error instanceof CounterError) || error instanceof Usage || error instanceof Unsupported) {
          shift.faults.push(error);
          shift.stop();
          return;
        }
        if (!this.#failing) this.#client._tell('retry', error.server, this.#tubes[0], { error }); // once for all places
        this.#failing = true;
        delay = Math.min(30, delay * 2 || 0.1);
        if (!shift.stopped) await pause.wait(jittered(delay));
      }
    }
  }

  async #work(task, shift) {
    if (shift.claims.signal.aborted) return task.forget(); // it came just now
    const job = new Job(task); // kept: the handler may forget it
    const one = { task, job, over: false, heard: false, abort: new AbortController() };
    Object.assign(one, { news: new Pause(), reported: new Pause() });
    shift.runs.add(one);
    const ended = this.#handle(one);
    await this.#renewals(one);
    if (task.gone) this.#tell(one, 'the job is lost');
    await this.#report(one, await ended);
    shift.runs.delete(one);
    one.reported.wake();
    return undefined;
  }

  #tell({ task, abort }, what) {
    abort.abort(new Lost(what).at(task.server, task.tube));
  }

  /** How the handler ended. */
  async #handle(one) {
    try {
      await this.#handler(one.job, one.abort.signal);
      return { ok: true };
    } catch (error) {
      return { ok: false, error };
    } finally {
      one.over = true;
      one.news.wake();
    }
  }

  /** Waits until the handler has ended, or the job's connection. */
  async #pause(one, delay) {
    if (one.over) return true;
    const link = one.task.claim?.link;
    const wake = () => one.news.wake();
    if (link?.open) {
      if (link.fault) return false;
      link.onLoss = wake;
    }
    await one.news.wait(delay);
    if (link?.onLoss === wake) link.onLoss = null; // not that of a later hold
    return one.over;
  }

  /**
   * Renews a job until its handler has ended, or it is lost; at once by token when its connection ends. Its ttr is
   * known from the first renewal on; until then the first try has `io_timeout`.
   */
  async #renewals(one) {
    const { task } = one;
    let [ends, wait, delay, ttr] = [0, RENEW_AFTER, 0, 0];
    while (!(await this.#pause(one, wait))) {
      const sent = now();
      ends ||= sent + this.#client._io;
      if (sent >= ends) {
        task.lose();
        return;
      }
      try {
        if (ttr) await task.renew(ends - sent);
        else ttr = await task.renewFirst(ends - sent);
        [ends, wait, delay] = [sent + ttr, ttr / 3, 0];
      } catch (error) {
        if (error instanceof Lost || error instanceof Usage) return; // told already; reported meanwhile
        delay = Math.min(30, delay * 2 || 0.1);
        wait = Math.min(jittered(delay), Math.max(0, ends - now()));
      }
    }
  }

  /** Seconds after which a failed job comes back. */
  #delayOf(task) {
    try {
      return wire.whole(this.#options.backoff(task.tries), 'backoff');
    } catch (error) {
      this.#client._tell('retry', task.server, task.tube, { error });
      return wire.whole(defaultBackoff(task.tries), 'backoff');
    }
  }

  /** Says how the handler ended, unless the job is not ours any more, or goes back since the grace was over. */
  async #report({ task, heard }, { ok, error }) {
    if (heard) return;
    const { tries } = this.#options;
    const buries = error instanceof Bury || (tries > 0 && tries <= task.tries);
    try {
      if (task.gone || !task.claim) return;
      if (ok) await task.ack();
      else if (error instanceof Retry) await task.nack(error.delay);
      else if (buries && !(await task.ended())) await task.bury();
      else await task.nack(this.#delayOf(task));
    } catch (refused) {
      if (!(refused instanceof CounterError)) throw refused; // else the hook was told
    } finally {
      await task.forget();
    }
  }

  /** After the grace: handlers are told as by a loss, and then their jobs go back. Gives how many. Reports end. */
  async #giveUp(runs) {
    const reports = runs.filter((one) => one.over).map((one) => one.reported.wait(this.#client._io));
    const late = runs.filter((one) => !one.over && !one.task.gone);
    for (const one of late) {
      one.heard = true;
      one.task.gone = true;
      this.#tell(one, 'the worker ends');
    }
    if (late.length) await new Pause().wait(LAST);
    const gone = await Promise.allSettled(late.map(({ task }) => task.nack()));
    for (const one of late) one.news.wake();
    await Promise.all(reports);
    return gone.filter(({ status }) => status === 'fulfilled').length;
  }
}
