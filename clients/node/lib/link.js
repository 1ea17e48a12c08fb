/** One connection: what has come and is not read yet, one deadline, and how it ended. Times are seconds. */

import dns from 'node:dns';
import fs from 'node:fs';
import net from 'node:net';
import tls from 'node:tls';
import { Malformed } from './errors.js';

const PIECE = 65536;
const HANDSHAKES = 16; // with one server at once
const LF = 10;
const JUST = 0.0001; // seconds
const LIMITS = { text: 16384, jobs: 1024 }; // bytes of a line
const OLD_LIBUV = process.versions.uv.split('.')[1] < 48; // it pads the names of abstract sockets
const LONGEST = 2 ** 31 - 1; // ms of a timer

/** Monotonic. */
export const now = () => performance.now() / 1000;
export const ms = (seconds) => Math.min(Math.max(Math.ceil(seconds * 1000), 0), LONGEST);

/** Without one, a lookup says that there is no such host. */
function hasDescriptor() {
  try {
    fs.closeSync(fs.openSync('/dev/null'));
    return true;
  } catch (error) {
    return error.code !== 'EMFILE' && error.code !== 'ENFILE';
  }
}

/** How a connection failed: its end, or a deadline (`late`). `code`: that of the system. */
export class Fault extends Error {
  constructor(message, { late = false, code } = {}) {
    super(message);
    Object.assign(this, { late, code });
  }

  static of(error) {
    return new Fault(error?.message || error?.code || 'closed by the server', { code: error?.code });
  }
}

/** A server, for one protocol: its text as configured, its address, its idle connections. */
export class Point {
  constructor(text, proto, address) {
    Object.assign(this, { text, proto, address, idle: [], downUntil: 0 }); // 0: it is up
    Object.assign(this, { busy: 0, waiting: new Set(), reached: 0, failed: 0, fault: null }); // of connecting
  }

  /**
   * A turn to connect with TLS: of many handshakes at once none ends in time, or the server refuses some. If the
   * server was not reached during the wait, the turn fails as the others did.
   */
  async enter(link) {
    if (this.busy < HANDSHAKES) {
      this.busy += 1;
      return true;
    }
    this.waiting.add(link);
    try {
      while (this.waiting.has(link)) await link._news(Infinity);
      link._wake = null;
    } catch (cause) {
      if (this.waiting.delete(link)) throw cause; // cancelled
    }
    return true;
  }

  /** Passes the turn on. */
  leave() {
    const [next] = this.waiting;
    if (this.waiting.delete(next)) next._wake();
    else this.busy -= 1;
  }
}

export class Link {
  open = true; // nobody has closed it here
  sent = false; // the system has taken a byte; each attempt clears it
  partial = false; // a request was not sent to its end, since an answer came before
  checked = false; // the server knows our verbs for jobs
  since = 0; // the last answer was complete, or it was given back
  size = 0; // bytes to read
  fault = null; // it has ended
  onLoss = null; // called when it ends while no call waits
  _chunks = [];
  _wake = null; // continues the call that waits
  _turn = Promise.resolve();

  constructor(point, options) {
    this.point = point;
    this._options = options;
  }

  /** Tries all addresses, each for its share of the time. */
  async connect(deadline, signal) {
    const { path, host, port } = this.point.address;
    if (path?.startsWith('\0') && OLD_LIBUV) throw new Fault('abstract sockets need Node.js 22 or later');
    let found = [this.point.address];
    if (host && !net.isIP(host)) {
      let wrong = null;
      found = null;
      dns.lookup(host, { all: true, verbatim: true }, (error, list) => {
        wrong = error;
        found = (list ?? []).map(({ address }) => ({ host: address, port }));
        this._wake?.();
      });
      while (!found) await this._news(deadline);
      if (wrong && !hasDescriptor()) throw new Fault('no descriptor is left to look it up', { code: 'EMFILE' });
      if (wrong) throw Fault.of(wrong);
    }
    for (let left = found.length; left; left -= 1) {
      try {
        return await this._attempt(found.at(-left), now() + (deadline - now()) / left);
      } catch (error) {
        if (left === 1 || signal?.aborted) throw error;
        this.fault = null;
      }
    }
    throw new Fault('the name has no address');
  }

  async _attempt(where, deadline) {
    const { context: secureContext, tls_name: name = this.point.address.host } = this._options;
    const checkServerIdentity = (_, cert) => tls.checkServerIdentity(name, cert);
    const servername = net.isIP(name) ? '' : name;
    const options = { ...where, secureContext, rejectUnauthorized: true, servername, checkServerIdentity };
    const socket = secureContext ? tls.connect(options) : net.connect(where);
    let ready = false;
    const fail = (error) => this._socket === socket && this.fail(Fault.of(error));
    this._socket = socket;
    socket.on('data', (chunk) => this._read(chunk));
    for (const event of ['end', 'error', 'close']) socket.on(event, fail);
    socket.once(secureContext ? 'secureConnect' : 'connect', () => {
      ready = true;
      this._wake?.();
    });
    while (!ready) await this._news(deadline);
    this._wake = null;
    if (this.fault) throw this.fault;
    if (where.port) socket.setNoDelay(true).setKeepAlive(true, 10_000);
  }

  _read(chunk) {
    if (!this._wake) return this.fail(new Fault('bytes that nobody asked for'));
    let data = chunk; // small pieces are joined: a byte is many in a list
    while (data.length < PIECE && this._chunks.at(-1)?.length < 2 * data.length) {
      data = Buffer.concat([this._chunks.pop(), data]);
    }
    this._chunks.push(data);
    this.size += chunk.length;
    return this._wake();
  }

  /** It has ended: closes it, and continues the call that waits. */
  fail(fault) {
    if (this.fault) return;
    this.fault = fault;
    this._socket?.destroy();
    clearTimeout(this._timer);
    this._timer = null;
    if (this._wake) this._wake();
    else this.onLoss?.();
  }

  close() {
    this.open = false;
    this.onLoss = null;
    this.fail(new Fault('closed'));
  }

  /** Idle connections keep no process alive. */
  hold(held) {
    if (held) this._socket.ref();
    else this._socket.unref();
  }

  /** May it be used again? */
  get fresh() {
    return this.open && !this.fault && !this.size && !this.partial && !this._socket.writableLength;
  }

  /**
   * Lets the loop read what has come: a first turn may still be busy with what came before. Right behind an answer
   * the loop has not turned yet, and knows no more.
   */
  async look() {
    if (now() - this.since < JUST) return;
    await new Promise(setImmediate);
    await new Promise(setImmediate);
  }

  /** Waits until something has come or has been sent. The timer is one for many deadlines. */
  _news(deadline) {
    if (this.fault) throw this.fault;
    this._deadline = deadline;
    if (!this._timer || this._fires > deadline) this._arm();
    return new Promise((wake) => {
      this._wake = wake;
    });
  }

  _arm() {
    clearTimeout(this._timer);
    this._fires = this._deadline;
    const fire = () => {
      this._timer = null;
      if (!this._wake || this.fault) return;
      if (now() >= this._deadline) this.fail(new Fault('no answer came in time', { late: true }));
      else this._arm();
    };
    // a loop that was blocked runs timers before it reads what came in time
    this._timer = setTimeout(setImmediate, ms(this._fires - now()), fire).unref();
  }

  _push(data, done) {
    if (this.fault) throw this.fault;
    this._socket.write(data, 'latin1', done);
    this.sent ||= !this._socket.errored && !this._socket.destroyed;
  }

  /** Sends all, `io` for each 64 KiB. Reads meanwhile; what comes ends the sending. */
  write(data, io) {
    return data.length > PIECE ? this._pieces(data, io) : this._push(data);
  }

  async _pieces(data, io) {
    for (let at = 0; at < data.length; at += PIECE) {
      let busy = true;
      this._push(data.subarray(at, at + PIECE), () => {
        busy = false;
        this._wake?.();
      });
      const deadline = now() + io;
      while (busy && !this.size) await this._news(deadline);
      this._wake = null;
      this.partial = this.size > 0 && (busy || at + PIECE < data.length);
      if (this.partial) return;
    }
  }

  /** What has come, as one piece. */
  peek() {
    if (this._chunks.length > 1) this._chunks = [Buffer.concat(this._chunks)];
    return this._chunks[0] ?? Buffer.alloc(0);
  }

  _take(size) {
    const data = this.peek();
    this._wake = null;
    this.size -= size;
    this._chunks = this.size ? [data.subarray(size)] : [];
    return this.size ? data.subarray(0, size) : data;
  }

  /** A line without its end: its first byte by `begin`, the rest `io` later. */
  async line(begin, io) {
    while (!this.size) await this._news(begin);
    const deadline = now() + io;
    const end = this.point.proto === 'jobs' ? '\r\n' : '\n';
    const limit = LIMITS[this.point.proto];
    let found;
    while ((found = this.peek().indexOf(LF)) < 0 && this.size <= limit) await this._news(deadline);
    const line = this.peek().latin1Slice(0, found < 0 ? limit : found + 1);
    if (!line.endsWith(end) || line.length > limit + end.length) {
      const answer = Buffer.from(line, 'latin1');
      throw new Malformed("the server's line is too long, or has no end", { answer, sent: true });
    }
    this._take(line.length);
    return line.slice(0, -end.length);
  }

  /** So many bytes; `io` begins anew with each 64 KiB. */
  async exactly(size, io) {
    while (this.size < size) {
      const piece = Math.floor(this.size / PIECE);
      const deadline = now() + io;
      while (this.size < size && Math.floor(this.size / PIECE) === piece) await this._news(deadline);
    }
    return this._take(size);
  }

  /** Does it when those before have ended: requests of the jobs of one claim queue. */
  turn(work) {
    const done = this._turn.then(work);
    this._turn = done.catch(() => {});
    return done;
  }
}
