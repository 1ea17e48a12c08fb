/** The URL and the options of a client; servers, their order for a name, and their addresses. */

import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { Usage } from './errors.js';
import { quote } from './text.js';

const PORTS = { text: 7531, binary: 11215, jobs: 11300 };
const SHAPE = 'counter://HOST[:PORT][,HOST...][?OPTION=VALUE[&...]]';
const TIMES = { connect_timeout: 1, io_timeout: 10, down_seconds: 10, idle_seconds: 60 };
const NUMBERS = { ...TIMES, idle: 8, max_body: 64 << 20 };

/** The bytes of a text: UTF-8. */
export function encode(text) {
  if (Buffer.isBuffer(text)) return text;
  if (text instanceof Uint8Array) return Buffer.from(text.buffer, text.byteOffset, text.byteLength);
  if (typeof text !== 'string') throw new TypeError(`a string or bytes are wanted, not ${typeof text}`);
  if (/\p{Cs}/u.test(text)) throw new Usage('the text is no Unicode text: pass bytes', { target: text });
  return Buffer.from(text);
}

/** See index.d.ts. */
export function serversFor(name, servers) {
  const data = encode(name);
  const order = (text) => createHash('md5').update(text).update(data).digest('hex');
  const keyed = Array.from(servers, (text) => [order(text), text]);
  return keyed.sort(([a], [b]) => (a < b ? -1 : Number(a > b))).map(([, text]) => text);
}

/** A time of a call or an option, checked. */
export function seconds(value, what, top = 1e6) {
  if (typeof value !== 'number') throw new TypeError(`${what}: a number is wanted, not ${typeof value}`);
  if (!(value >= 0 && value <= top)) throw new Usage(`${what}: 0 to ${top} is allowed, not ${value}`);
  return value;
}

function portNumber(text) {
  if (!/^[0-9]{1,5}$/.test(text) || !(text > 0 && text < 65536)) {
    throw new Usage(`${quote(`${text}`)} is no port: 1 to 65535 are`);
  }
  return Number(text);
}

/** Splits HOST[:PORT], where HOST may be an IPv6 address in brackets. */
function hostAndPort(text) {
  const [all, six, host, port] = /^(?:\[([^[\]]+)\]|([^:[\]]+))(?::(.*))?$/.exec(text) ?? [];
  if (!all || !/^[^\s\p{C}@/?#]+$/u.test(six ?? host)) {
    throw new Usage(`${quote(text)} is no HOST or HOST:PORT; an IPv6 address stands in brackets`);
  }
  return [six ?? host, port === undefined ? undefined : portNumber(port)];
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Usage(`${quote(text)}: '%' stands before two hex digits of UTF-8`);
  }
}

/** All options of a client, checked. Names are those of the URL. */
export class Options {
  constructor(url, given) {
    const text = url ?? (process.env.COUNTER_URL || 'counter://127.0.0.1');
    const [, hosts, query] = /^counter:\/\/([^?#]*)(?:\?([^#]*))?$/.exec(text) ?? [];
    if (hosts === undefined) throw new Usage(`${quote(text)}: a URL is ${SHAPE}`);
    const values = new Map();
    for (const part of query ? query.split('&') : []) {
      const [, key, value] = /^([^=]*)=(.*)$/s.exec(part) ?? [];
      if (key === undefined || values.has(key)) {
        throw new Usage(`${quote(text)}: ${quote(part)} stands there twice or without a value`);
      }
      values.set(key, decoded(value));
    }
    for (const [name, value] of Object.entries(given)) {
      const key = name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
      if (value != null) values.set(key, value);
    }
    const take = (key, otherwise) => {
      const value = values.get(key) ?? otherwise;
      values.delete(key);
      return value;
    };
    for (const [key, otherwise] of Object.entries(NUMBERS)) {
      const value = take(key, otherwise);
      const number = typeof value === 'string' ? Number(value.trim() || NaN) : value;
      this[key] = seconds(number, key, key === 'max_body' ? 2 ** 40 : 1e6);
    }
    this.ports = {};
    for (const proto of Object.keys(PORTS)) this.ports[proto] = take(proto)?.toString();
    const tls = String(Number(take('tls', 0)));
    if (tls !== '0' && tls !== '1') throw new Usage('tls: 0 and 1 are allowed');
    const [ca, cert, key, name] = ['ca', 'cert', 'key', 'name'].map((word) => take(`tls_${word}`));
    this.tls_name = name || undefined;
    for (const left of values.keys()) throw new Usage(`there is no option ${quote(left)}`);
    const list = hosts.replace(/\/$/, '');
    this.servers = list ? list.split(',') : [];
    this.servers.forEach(hostAndPort);
    this._check(text, tls === '1');
    this.context = tls === '1' ? this._context(ca, cert, key) : null;
  }

  _check(url, tls) {
    const given = Object.entries(this.ports).filter(([, text]) => text !== undefined);
    if (!this.servers.length && !given.length) throw new Usage(`${quote(url)} names no server`);
    for (const [proto, text] of given) {
      if (text.startsWith('unix:')) {
        if (tls || text.length === 5) throw new Usage(`${proto}=${quote(text)}: unix:PATH without tls is allowed`);
      } else if (proto === 'text') {
        throw new Usage(`text=${quote(text)}: only unix:PATH stands there; ports stand in the URL`);
      } else if (proto === 'jobs' && text.includes(':')) {
        if (!hostAndPort(text)[1]) throw new Usage(`jobs=${quote(text)}: HOST:PORT, a port, or unix:PATH`);
      } else {
        portNumber(text);
      }
    }
  }

  _context(ca, cert, key) {
    try {
      const files = {};
      if (ca) files.ca = readFileSync(ca);
      if (ca) new X509Certificate(files.ca);
      if (cert) Object.assign(files, { cert: readFileSync(cert), key: readFileSync(key ?? cert) });
      return createSecureContext({ ...files, minVersion: 'TLSv1.2', allowPartialTrustChain: true });
    } catch (error) {
      const what = "tls_ca, tls_cert or tls_key can't be read, or has a password: check the files";
      throw new Usage(what, { reason: error.message });
    }
  }

  /** The servers of a protocol: text as configured, and where they are, as net.connect has it. */
  addresses(proto) {
    const own = this.ports[proto];
    if (own !== undefined && !/^[0-9]+$/.test(own)) {
      if (this.servers.length > 1 && proto !== 'jobs') {
        throw new Usage(`${proto}=${quote(own)}: one address for several servers`);
      }
      if (own.startsWith('unix:')) return [[own, { path: own.slice(5).replace(/^@/, '\0') }]];
      const [host, port] = hostAndPort(own);
      return [[own, { host, port }]];
    }
    if (!this.servers.length || (proto === 'jobs' && this.servers.length > 1)) {
      throw new Usage(`the URL has to name one address for this call: ${proto}=`);
    }
    return this.servers.map((text) => {
      const [host, named] = hostAndPort(text);
      const port = proto === 'text' ? named : own && Number(own);
      if (!port && this.context) throw new Usage(`with tls, the URL has to name the port for this call (${proto})`);
      return [text, { host, port: port ?? PORTS[proto] }];
    });
  }
}
