/** Servers, idle connections, one request, and what is tried again. */

import { setMaxListeners } from 'node:events';
import { CounterError, Draining, Refused, Unanswered, Unreachable, Usage } from './errors.js';
import { Fault, Link, now, Point } from './link.js';
import { Options, serversFor } from './options.js';
import { quote } from './text.js';
import * as wire from './wire.js';

const OURS = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']; // no fault of a server
const forgotten = new FinalizationRegistry((points) => closeIdle(points));

/** The error of a connection as one of our tree; what is none of it is thrown. */
export function failure(cause, sent) {
  if (cause instanceof CounterError) return cause;
  if (!(cause instanceof Fault)) throw cause;
  const what = cause.late ? 'no answer came in time' : 'the connection ended before an answer came';
  const Kind = sent ? Unanswered : Unreachable;
  return new Kind(what, { reason: cause.late ? '' : cause.message, sent });
}

function closeIdle(points, tell) {
  for (const { idle, text } of [...points.values()].flat()) {
    for (const link of idle.splice(0)) {
      link.close();
      tell?.('disconnect', text);
    }
  }
}

/** What calls are made of. A worker's copy has a hook of its own. */
export class Core {
  constructor(url, { onEvent, ...given } = {}) {
    const hidden = {
      _options: new Options(url, given),
      _onEvent: onEvent,
      _points: new Map(), // by protocol
      _state: { closed: false }, // one for all copies
      _io: 0,
    };
    for (const [key, value] of Object.entries(hidden)) Object.defineProperty(this, key, { value, writable: true });
    this._io = this._options.io_timeout;
    forgotten.register(this, this._points);
  }

  /** Calls the hook. */
  _tell(kind, server, target = null, { since, result = null, error = null } = {}) {
    if (!this._onEvent) return;
    const event = {
      kind,
      server,
      name: target === null ? null : quote(target),
      seconds: since === undefined ? null : now() - since,
      result: result ?? (error && error.name.toLowerCase()),
      error,
    };
    try {
      this._onEvent(event)?.catch?.(() => {});
    } catch {
      // a hook must not change what a call does
    }
  }

  /** The servers in the order of asking. Those that are down come last. */
  _order(proto, target) {
    let points = this._points.get(proto);
    if (!points) {
      points = this._options.addresses(proto).map(([text, address]) => new Point(text, proto, address));
      this._points.set(proto, points);
    }
    if (points.length === 1) return points;
    const texts = points.map((point) => point.text);
    const ordered = serversFor(target, texts).map((text) => points[texts.indexOf(text)]);
    const isDown = (point) => now() < point.downUntil;
    return ordered.sort((a, b) => isDown(a) - isDown(b));
  }

  _setDown(point, error) {
    const was = point.downUntil;
    point.downUntil = now() + this._options.down_seconds;
    if (!was) this._tell('down', point.text, null, { error });
  }

  _setUp(point) {
    point.downUntil = 0;
    this._tell('up', point.text);
  }

  /** The newest idle connection that is still good. */
  async _take(point) {
    let link;
    while ((link = point.idle.pop())) {
      link.hold(true);
      await link.look();
      if (link.fresh && now() - link.since <= this._options.idle_seconds) return link;
      this._drop(link);
    }
    return null;
  }

  /** Gives a connection back, to be used again. */
  _give(link) {
    if (this._state.closed || !link.fresh) return this._drop(link);
    const { idle } = link.point;
    link.onLoss = null;
    link.since = now();
    link.hold(false);
    idle.push(link);
    while (idle.length > this._options.idle || (idle.length && now() - idle[0].since > this._options.idle_seconds)) {
      this._drop(idle.shift());
    }
    return undefined;
  }

  _drop(link) {
    if (!link.open) return;
    link.close();
    this._tell('disconnect', link.point.text);
  }

  async _open(link, within, signal) {
    const { point } = link;
    const since = now();
    const turns = this._options.context !== null;
    let isIn = false;
    if (point.downUntil) point.downUntil = since + this._options.down_seconds; // others pass by meanwhile
    try {
      if (turns) isIn = await point.enter(link);
      if (link.fault) throw link.fault;
      if (point.failed > since && point.reached < since) throw point.fault;
      await link.connect(now() + within, signal);
      point.reached = now();
    } catch (cause) {
      link.close();
      if (signal?.aborted) throw cause;
      if (turns && cause !== point.fault) [point.failed, point.fault] = [now(), cause];
      const { path, host, port } = point.address;
      const reason = cause.late ? 'timeout' : cause.message;
      const error = new Unreachable(`no connection to ${quote(path ?? `${host} port ${port}`)}`, { reason });
      error.at(point.text, '');
      if (!OURS.includes(cause.code)) this._setDown(point, error);
      throw error;
    } finally {
      if (isIn) point.leave();
    }
    this._tell('connect', point.text, null, { since });
  }

  /**
   * Asks a server, and others where that may be. `ask` gets a connection, the time that is left of `timeout`, and
   * whether an earlier attempt may have been heard. `again`: it is asked anew when the connection ended, with
   * `silent` also when no answer came in time; a refusal of a later attempt is then no proof that the first was not
   * heard. `own`: a connection to try first, which stays the caller's if the server refuses; `timeout` then bounds
   * connecting, too. Gives the connection, which is the caller's, and what `ask` gave.
   */
  async _run(proto, target, ask, { timeout = 0, again = true, silent = false, own = null, signal } = {}) {
    signal?.throwIfAborted();
    const until = now() + timeout;
    const points = this._order(proto, target);
    const most = this._options.connect_timeout;
    let link = own;
    let failed = null;
    let attempt = 0;
    const cancel = () => link?.fail(new Fault('cancelled'));
    if (signal) {
      setMaxListeners(0, signal); // any number of calls may have one signal
      signal.addEventListener('abort', cancel);
    }
    try {
      for (;;) {
        const point = points[attempt % points.length];
        let idle = false;
        try {
          link ??= await this._take(point);
          idle = link !== null;
          signal?.throwIfAborted();
          let told = idle && !attempt ? timeout : Math.max(0, until - now());
          if (!idle) {
            link = new Link(point, this._options);
            await this._open(link, own && timeout ? Math.min(most, told) : most, signal);
            told = Math.max(0, until - now());
          }
          link.sent = false;
          const value = await ask(link, told, failed instanceof Unanswered);
          signal?.throwIfAborted();
          if (link.size) wire.malformed(link.peek(), 'the server sent more than the answer');
          link.since = now();
          if (point.downUntil) this._setUp(point);
          return [link, value];
        } catch (cause) {
          const isOver = !(cause instanceof Refused) || signal?.aborted;
          if (link && isOver) this._drop(link);
          if (signal?.aborted) throw signal.reason;
          const error = failure(cause, Boolean(link?.sent)).at(point.text, target);
          if (!isOver && link !== own) this._give(link);
          link = null;
          if (error instanceof Unreachable && idle) continue;
          if (error.answer.includes('SHUTTING_DOWN')) this._setDown(point, error);
          else if (error instanceof Refused && point.downUntil) this._setUp(point);
          const ended = cause instanceof Fault && !cause.late;
          const isUnheard = error instanceof Unreachable || error instanceof Draining;
          if (!isUnheard && !(error instanceof Unanswered && again && (ended || silent))) {
            if (!silent || !(failed instanceof Unanswered && error instanceof Refused)) throw error;
            failed.answer = error.answer; // the first request may have been done
            throw failed.at('', '');
          }
          attempt += 1;
          if (!failed || error instanceof Unanswered || failed instanceof Unreachable) failed = error;
          if (attempt >= points.length + Number(again && failed instanceof Unanswered)) throw failed;
          this._tell('retry', error.server, target, { error });
        }
      }
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  _check(target) {
    if (this._state.closed) throw new Usage('the client is closed', { target });
  }

  /** As `_run`, for what needs the connection no longer. */
  async _once(proto, target, ask, how) {
    this._check(target);
    const [link, value] = await this._run(proto, target, ask, how);
    this._give(link);
    return value;
  }

  /** As `_run`, for holds. */
  async _acquire(proto, target, ask, how) {
    this._check(target);
    const since = now();
    try {
      const [link, value] = await this._run(proto, target, ask, how);
      this._tell('wait', link.point.text, target, { since, result: value === 'DONE' ? 'done' : 'locked' });
      return [link, value];
    } catch (error) {
      if (error instanceof CounterError) this._tell('wait', error.server, target, { since, error });
      throw error;
    }
  }

  /** The words of an answer, and the body of an OK as the last. See `wire.words`. */
  async _answer(link, good, refusals = [], { wait = 0, io = this._io } = {}) {
    const words = wire.words(await link.line(now() + wait + io, io), good, refusals);
    if (words[0] === 'OK') words.push(await this._body(link, words[1], wire.MAX_OK));
    return words;
  }

  async _body(link, size, top) {
    const body = await link.exactly(wire.number(size, 0, top) + 2, this._io);
    if (body.toString('latin1', body.length - 2) !== '\r\n') wire.malformed(body.subarray(-2));
    return body.subarray(0, -2);
  }

  /**
   * A request of the protocol for jobs. A new connection asks `tube default` first, and with a `body` waits for the
   * answer: a plain beanstalkd would take the body for commands.
   */
  async _jobs(link, request, good, refusals, { wait, body = false, io } = {}) {
    if (!link.checked) {
      await link.write(`tube default\r\n${body ? '' : request}`, this._io);
      [link.sent, link.partial] = [!body, true]; // a refusal leaves an answer to come
      await this._answer(link, { OK: 2 }, [], { io });
      [link.checked, link.partial] = [true, false];
      if (body) await link.write(request, this._io);
    } else {
      await link.write(request, this._io);
    }
    return await this._answer(link, good, refusals, { wait, io });
  }

  /** A request for jobs that never waits. */
  _plain(target, request, good, parse, refusals, { body, ...how }) {
    const ask = async (link) => parse(await this._jobs(link, request, good, refusals, { body }));
    return this._once('jobs', target, ask, how);
  }

  /** A request of the binary protocol. Gives status 0 or a known one, and the body. */
  async _binary(link, opcode, request, known) {
    await link.write(request, this._io);
    const [code, length] = wire.status(await link.exactly(12, this._io), opcode);
    const body = length ? await link.exactly(length, this._io) : Buffer.alloc(0);
    if (code && !known.includes(code)) throw wire.binaryError(code, body);
    return [code, body];
  }

  /** Closes idle connections. */
  _close() {
    this._state.closed = true;
    closeIdle(this._points, (kind, server) => this._tell(kind, server));
  }
}
