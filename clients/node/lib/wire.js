/** Requests and answers: what is checked before sending, and what is believed. Text is latin1: a byte, a character. */

import * as errors from './errors.js';
import { encode } from './options.js';
import { quote } from './text.js';

const { Malformed, Usage } = errors;
export const MAX_OK = 1 << 20; // bytes of the body of an OK
const MAX_BINARY = 65545;
export const [GET, ACQUIRE, RELEASE] = [1, 2, 3];
const OPAQUE = 0x63747264;
const STATES = ['ready', 'delayed', 'reserved', 'buried', 'abandoned', 'all'];
const TUBE = '[A-Za-z0-9\\-+/;.$_()]';
const shape = (source) => new RegExp(`^(?:${source})$`);
const isPool = shape('[^@* \\r\\n\\0,][^ \\r\\n\\0,]{0,254}');
const isMember = shape('[^ \\r\\n\\0]{1,255}');
const isWord = shape('[^ \\r\\n\\0]{0,128}');
const isAttribute = shape('(?!(?:value|state|note)$)[a-z][a-z0-9_]{0,31}');
const isTube = shape(`(?!-)${TUBE}{1,200}`);
const isKey = shape(`${TUBE}{1,64}`);
const isPattern = shape(`(?!-|$)${TUBE}{0,200}\\*?`);
const isSetting = shape('[a-z][a-z_]*');
const isValue = shape('[A-Za-z0-9_.\\-]+');
const isReason = shape('[ !#-\\[\\]-~]{0,200}');
const isAscii = shape('[\\0-\\x7f]*');
const isTime = shape('[0-9]{1,12}(?:\\.[0-9]{1,3})?');

/** Words of answers, and the errors that they mean. */
function kinds(text) {
  const pairs = text.split(/;\s+/).map((part) => part.split(': '));
  return new Map(pairs.flatMap(([kind, list]) => list.split(', ').map((word) => [word, errors[kind]])));
}
const REFUSED = kinds(`Busy: TIMEOUT; QueueFull: QUEUE_FULL, TUBE_FULL; TooMany: LOCK_HELD; NotFound: NOT_FOUND;
  ReadOnly: READ_ONLY; TooBig: JOB_TOO_BIG; Draining: DRAINING`); // by some verbs
const ANY_VERB = kinds(`Usage: ERROR BAD_SYNTAX, ERROR LINE_TOO_LONG, BAD_FORMAT;
  Unsupported: ERROR BAD_COMMAND, UNKNOWN_COMMAND; Draining: ERROR SHUTTING_DOWN; Denied: ERROR DENIED;
  NotFound: ERROR NO_POOL, ERROR NO_MEMBER; Wrong: ERROR WRONG_KIND, ERROR BAD_VALUE; TooMany: ERROR TOO_MANY;
  NoMemory: ERROR OUT_OF_MEMORY, OUT_OF_MEMORY; EngineAway: ERROR ENGINE_AWAY, ERROR ENGINE_FULL;
  Unanswered: ERROR INTERNAL_ERROR, INTERNAL_ERROR`);
const STATUSES = { 0x04: errors.Usage, 0x21: errors.Busy, 0x81: errors.Unsupported, 0x82: errors.NoMemory };

// ---- what a caller gives

const latin1 = (text) => (typeof text === 'string' && isAscii.test(text) ? text : encode(text).latin1Slice());
export const utf8 = (word) => Buffer.from(word, 'latin1').toString();

/** A text of that shape, as it is sent. */
function shaped(text, pattern, what) {
  const sent = latin1(text);
  if (!pattern.test(sent)) throw new Usage(what, { target: text });
  return sent;
}

/** A name of a lock or of units, as it is sent. */
export function name(text) {
  const sent = latin1(text).replaceAll(' ', '%20');
  if (!sent || sent.length > 4096 || /[\r\n\0]/.test(sent)) {
    throw new Usage('a name has 1 to 4,096 bytes without CR, LF, NUL', { target: text });
  }
  return sent;
}

export function tube(text) {
  return shaped(text, isTube, "a tube has 1 to 200 bytes of A-Za-z0-9-+/;.$_(), the first no '-'");
}

/** A number, rounded up, within its bounds. */
export function whole(value, what, low = 0, top = 0xffffffff) {
  if (typeof value !== 'number' && typeof value !== 'bigint') throw new TypeError(`${what}: a number is wanted`);
  if (!(value >= low && value <= top)) throw new Usage(`${what}: ${low} to ${top} is allowed, not ${value}`);
  return typeof value === 'bigint' ? value : Math.ceil(value);
}

export function jobId(id) {
  if (typeof id === 'number' && !Number.isSafeInteger(id)) throw new Usage(`id: ${id} is no whole number`);
  return whole(id, 'id', 1, 2n ** 63n - 1n);
}

/** A time to wait as the server is told: cut to milliseconds. */
export const wait = (told) => (Math.floor(told * 1000 + 1e-6) / 1000).toFixed(3);

export function state(text) {
  if (!STATES.includes(text)) throw new Usage(`${quote(String(text))} is no state: ${STATES.join(', ')} are`);
  return text;
}

/** The pools, and what is before and behind the time in the line of TAKE. */
export function take(target, { count = 1, name: member, attrs = {}, purpose = 'use', by }) {
  const sent = latin1(target);
  const group = sent[0] === '@';
  const pools = group ? [sent.slice(1)] : sent.split(',');
  if (!pools.every((pool) => isPool.test(pool)) || pools.length > 16 || new Set(pools).size < pools.length) {
    throw new Usage('a target is up to 16 pools with commas between, or @GROUP', { target });
  }
  let options = whole(count, 'count', 1, 64) === 1 ? '' : ` count=${Math.ceil(count)}`;
  if (member != null) {
    options += ` member=${shaped(member, isMember, 'a member has 1 to 255 bytes without space')}`;
    if (group || pools.length > 1) throw new Usage('a member is asked for in one pool', { target });
  }
  const given = Object.entries(attrs);
  for (const [key, value] of given) {
    const data = latin1(value);
    if (!isAttribute.test(key) || !isWord.test(data) || given.length > 8) {
      throw new Usage(`attrs has up to 8 words; ${quote(key)} is none, or its value`, { target });
    }
    options += ` with=${key}=${data}`;
  }
  if (!/^(use|clean|check)$/.test(purpose)) throw new Usage('purpose: use, clean, check are allowed', { target });
  if (purpose !== 'use') options += ` for=${purpose}`;
  if (by != null) options += ` by=${shaped(by, /^[^ \r\n\0]{1,128}$/, 'by: a word of 1 to 128 bytes')}`;
  return { pools, group, count: Math.ceil(count), head: `TAKE ${sent} `, tail: `${options}\n` };
}

function unix(value) {
  const text = typeof value === 'number' ? (value % 1 ? value.toFixed(3) : String(value)) : value;
  if (isTime.test(text)) return text;
  throw new Usage(`${quote(String(value))} is no time in unix seconds, with up to 3 decimals`);
}

function signature(text, what) {
  return shaped(text, isKey, `${what}: 1 to 64 of A-Za-z0-9-+/;.$_(); for other text pass a hash`);
}

/** A job behind `head`, as put-into and put-batch send it: latin1, or bytes if it is long. */
export function record(head, body, { priority = 1024, delay = 0, ttr = 60, key, at, root, tries }) {
  const data = encode(body);
  let line = `${whole(priority, 'priority')} ${whole(delay, 'delay')} ${whole(ttr, 'ttr')} ${data.length}`;
  if (key != null) line += ` key=${signature(key, 'key')}`;
  if (at != null) line += ` at=${unix(at)}`;
  if (root != null) line += ` root=${signature(root[0], 'root')}:${unix(root[1])}`;
  if (tries != null) line += ` tries=${whole(tries, 'tries')}`;
  return data.length > 4096
    ? Buffer.concat([Buffer.from(`${head}${line}\r\n`), data, Buffer.from('\r\n')])
    : `${head}${line}\r\n${data.latin1Slice()}\r\n`;
}

/** The settings of a tube as they are sent; read_only comes last. */
export function settings(values) {
  let sent = '';
  for (const [key, value] of Object.entries(values).sort(([a], [b]) => (a === 'read_only') - (b === 'read_only'))) {
    const data = latin1(typeof value === 'number' ? String(value) : value);
    if (!isSetting.test(key) || !(key === 'read_only' ? isReason : isValue).test(data)) {
      throw new Usage(`${quote(key)}=${quote(data)} is no setting of a tube`);
    }
    sent += ` ${key.replaceAll('_', '-')}=${data}`;
  }
  return sent;
}

/** The words of `ready` behind the limit. */
export function pattern(text, after) {
  const sent = shaped(text, isPattern, "a pattern is a tube, or the beginning of tubes and '*'");
  return after.length ? `${sent} ${tube(after)}` : sent;
}

/** A request of the binary protocol. */
export function binary(opcode, numbers, sent) {
  const data = Buffer.alloc(14 + 4 * numbers.length + sent.length);
  data.writeUInt16BE(0x9000 + opcode);
  data.writeUInt32BE(data.length - 12, 4);
  data.writeUInt32BE(OPAQUE, 8);
  numbers.forEach((number, i) => data.writeUInt32BE(number, 12 + 4 * i));
  data.writeUInt16BE(sent.length, 12 + 4 * numbers.length);
  data.write(sent, 14 + 4 * numbers.length, 'latin1');
  return data;
}

// ---- what a server says

export function malformed(answer, what = "the server's answer is outside the protocol") {
  throw new Malformed(what, { answer: Buffer.from(answer, 'latin1'), sent: true });
}

/**
 * The words of an answer. Its first is one of `good`, each with the least number of words; else this throws the
 * error that the line means, if it is one of `refusals` or of those of any verb. null: it can't refuse any more.
 */
export function words(line, good, refusals) {
  const found = line.split(' ');
  let least = 0;
  for (const word in good) if (word === found[0]) least = good[word];
  if (least && found.length >= least && found.slice(0, least).every(Boolean)) return found;
  if (least || refusals === null) malformed(line);
  const Kind = refusals.includes(found[0])
    ? REFUSED.get(found[0])
    : ANY_VERB.get(found[0] === 'ERROR' ? `ERROR ${found[1]}` : found[0]);
  if (!Kind) malformed(line);
  throw new Kind('the server refused it', { answer: Buffer.from(line, 'latin1'), sent: true });
}

/** A number of an answer, checked. */
export function number(word, low = 0, top = Number.MAX_SAFE_INTEGER) {
  const value = /^[0-9]{1,19}$/.test(word) ? Number(word) : NaN;
  return value >= low && value <= top ? value : malformed(word, 'the server sent a number out of its bounds');
}

/** One of 63 bits. */
export function big(word, low) {
  const value = /^[0-9]{1,19}$/.test(word) ? BigInt(word) : -1n;
  return value >= low && value < 2n ** 63n ? value : malformed(word, 'the server sent a number out of its bounds');
}

/** Status and length of the body, from the header of a binary answer. */
export function status(header, opcode) {
  const length = header.readUInt32BE(4);
  if (header.readUInt16BE() !== 0x9100 + opcode || header.readUInt32BE(8) !== OPAQUE || length > MAX_BINARY) {
    malformed(header);
  }
  return [header[2], length];
}

/** The first line of a binary answer, for people. */
export const shown = (code, body) => Buffer.concat([Buffer.from(`0x${code.toString(16).padStart(2, '0')} `), body]);

export function binaryError(code, body) {
  const Kind = STATUSES[code] ?? malformed(shown(code, body), 'the server answered an unknown status');
  return new Kind('the server refused it', { answer: shown(code, body), sent: true });
}

/** The text of `tube`, `ready` and `stats-job`: numbers as numbers, else text. */
export function dictionary(body) {
  const lines = body.toString().split('\n');
  if (lines[0] !== '---' || lines.at(-1)) malformed(body);
  return new Map(
    lines.slice(1, -1).map((line) => {
      const [, key, digits, value] = /^"?([^:]*?)"?: (?:([0-9]+)|"?(.*?)"?)$/.exec(line) ?? malformed(body);
      return [key, digits ? number(digits) : value];
    }),
  );
}

/** A number of a dictionary. */
export function entry(body, key) {
  const value = dictionary(body).get(key);
  return typeof value === 'number' ? value : malformed(body);
}

export function put(found) {
  const duplicate = found[0] === 'DUPLICATE';
  return { id: number(found[1], duplicate ? 0 : 1), duplicate };
}

/** The list that answers put-batch. */
export function batch(body, count) {
  const lines = body.toString('latin1').split('\n');
  if (lines[0] !== '---' || lines.at(-1) || lines.length !== count + 2) malformed(body);
  return lines.slice(1, -1).map((line) => {
    if (!line.startsWith('- ')) malformed(body);
    return put(words(line.slice(2), { INSERTED: 2, DUPLICATE: 2 }, []));
  });
}

/** The member of the words of TAKEN. */
export function taken(found) {
  const text = found.map(utf8);
  const pairs = text.slice(5).map((word) => /^([^=]*)=(.*)$/s.exec(word)?.slice(1));
  const attrs = Object.fromEntries(pairs.filter(Boolean));
  return { name: text[2], value: text[4] === '-' ? null : text[4], attrs, fence: big(found[3], 0n) };
}
