/** What calls reject with: one tree, with the same names in the libraries of all languages. */

import { quote } from './text.js';

export class CounterError extends Error {
  constructor(what, { server = '', target = '', answer = '', reason = '', sent = false } = {}) {
    super(what);
    Object.defineProperty(this, 'what', { value: what });
    this.server = server;
    this.target = quote(target);
    this.answer = quote(answer);
    this.reason = quote(reason);
    this.sent = sent;
    this.at('', '', new.target);
  }

  /** Says where it happened, unless it knows. */
  at(server, target, from = this.at) {
    this.server ||= server;
    this.target ||= quote(target);
    this.message = this.what;
    for (const field of ['target', 'server', 'answer', 'reason']) {
      if (this[field]) this.message += `; ${field}: ${this[field]}`;
    }
    Error.captureStackTrace(this, from);
    return this;
  }
}

/** A class whose names stay, whatever a minifier does. */
function define(name, Base) {
  const kind = Base ? { [name]: class extends Base {} }[name] : CounterError;
  for (const key of ['name', 'code']) Object.defineProperty(kind.prototype, key, { value: name });
  return kind;
}

define('CounterError');
export const Usage = define('Usage', CounterError);
export const Refused = define('Refused', CounterError);
export const Busy = define('Busy', Refused);
export const QueueFull = define('QueueFull', Refused);
export const NotFound = define('NotFound', Refused);
export const Wrong = define('Wrong', Refused);
export const Denied = define('Denied', Refused);
export const NoMemory = define('NoMemory', Refused);
export const ReadOnly = define('ReadOnly', Refused);
export const Draining = define('Draining', Refused);
export const TooBig = define('TooBig', Refused);
export const TooMany = define('TooMany', Refused);
export const EngineAway = define('EngineAway', Refused);
export const Failed = define('Failed', CounterError);
export const Unreachable = define('Unreachable', Failed);
export const Unanswered = define('Unanswered', Failed);
export const Malformed = define('Malformed', Failed);
export const Unsupported = define('Unsupported', Failed);
export const Lost = define('Lost', CounterError);
