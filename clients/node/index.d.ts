/**
 * A client of counterd: locks, units of a limit, members of pools, and job queues.
 *
 * What a call gives you is one object with one connection; when that connection ends, it is not yours any
 * more, and the library says so. All times are seconds, fractions allowed. All calls may be cancelled by
 * `signal`: they then reject with its reason, and their connection is closed. What rejects is a `CounterError`,
 * that reason, or a `TypeError` for an argument of a wrong type.
 */

/** A name or a body. A string is sent as UTF-8. */
export type Text = string | Uint8Array;

/** Parameters of the URL, which they win over, and the hook. */
export interface Options {
  /** Seconds to reach one server, TLS included (1). */
  connectTimeout?: number;
  /** Seconds for an answer to begin behind the time that it may wait, and for each 64 KiB of a body (10). */
  ioTimeout?: number;
  /** Seconds for which a server that was not reached is passed over (10). */
  downSeconds?: number;
  /** Idle connections kept for each server and protocol (8). */
  idle?: number;
  /** Seconds for which they are kept (60). */
  idleSeconds?: number;
  /** Bytes of a job that are read at most (64 MiB). */
  maxBody?: number;
  /** TLS 1.2 or later on every port used; chain and name are always checked (false). */
  tls?: boolean | 0 | 1 | '0' | '1';
  /**
   * Files in PEM: the trusted certificates (else those of Node.js), the client's own, and its key. From Node.js 20.18
   * on the first may be the server's own, and with any if that is self-signed.
   */
  tlsCa?: string;
  tlsCert?: string;
  tlsKey?: string;
  /** The name in the server's certificate, where it is not that of the URL. */
  tlsName?: string;
  /** The port for units (11215), `unix:PATH` or `unix:@NAME`. */
  binary?: number | string;
  /** The port for jobs (11300), `HOST:PORT`, `unix:PATH` or `unix:@NAME`. */
  jobs?: number | string;
  /** `unix:PATH` or `unix:@NAME` for locks and members, instead of the URL's port. */
  text?: string;
  /** Called with each event, after the state is in order. What it throws is dropped. */
  onEvent?: (event: Event) => void;
}

/** What `onEvent` is told. */
export interface Event {
  /** `wait`: an acquire ended; `held`: a hold ended. */
  readonly kind: 'connect' | 'disconnect' | 'down' | 'up' | 'wait' | 'held' | 'lost' | 'retry' | 'put' | 'job';
  /** The server, as configured. */
  readonly server: string;
  /** Of the lock, units, pool or tube. */
  readonly name: string | null;
  /** How long it took. */
  readonly seconds: number | null;
  /** `locked`, `done`, `released`, `inserted`, `duplicate`, `ack`..., or the error's class in lower case. */
  readonly result: string | null;
  readonly error: Error | null;
}

/** What every call takes. */
export interface CallOptions {
  /** Cancels the call. */
  signal?: AbortSignal;
}

export interface LockOptions extends CallOptions {
  /** How many may have the lock at once (1). */
  workers?: number;
  /** Holders and waiters together, at most (workers + 100). */
  queue?: number;
  /** Seconds for the whole call (10). */
  timeout?: number;
  /** Also granted, with `done`, when another holder has done the work (false). */
  shared?: boolean;
}

export interface MemberOptions extends CallOptions {
  /** Seconds for the whole call (10). */
  timeout?: number;
  /** Members taken at once (1). */
  count?: number;
  /** Only the member of this name. */
  name?: Text;
  /** Only members with all of these attributes. */
  attrs?: Readonly<Record<string, Text>>;
  /** What it is taken for (`use`). */
  purpose?: 'use' | 'clean' | 'check';
  /** A name of the caller, for people. */
  by?: Text;
}

export interface JobOptions {
  /** Lower ones run first (1024). */
  priority?: number;
  /** Seconds after which it is ready, rounded up (0). */
  delay?: number;
  /** Seconds for which a worker has it, rounded up (60). */
  ttr?: number;
  /** 1 to 64 characters of a tube's name. A second job of this key is a duplicate, so a put is tried again. */
  key?: Text;
  /** Unix seconds of the job's making: a younger one of its key wins. */
  at?: number | string;
  /** Signature and unix seconds of the root job: a younger one supersedes it. */
  root?: readonly [signature: Text, time: number | string];
  /** Runs after which it is put aside. */
  tries?: number;
}

export interface PutOptions extends JobOptions, CallOptions {}

/** A job to put. */
export interface NewJob extends JobOptions {
  body: Text;
}

export interface ClaimOptions extends CallOptions {
  /** Jobs at most (1). */
  count?: number;
  /** Seconds to wait for one, rounded up (10). */
  timeout?: number;
}

export interface ReadyOptions extends CallOptions {
  /** Only tubes behind this one. */
  after?: Text;
  /** Tubes at most (1000). */
  limit?: number;
  /** Seconds to wait for one, rounded up (0). */
  timeout?: number;
}

/** Settings of a tube: `order`, `claim`, `tries`, `limit`, `prune`, `remember`, `read_only`. */
export type Settings = Readonly<Record<string, Text | number>>;

/** What a put gave. */
export interface Put {
  /** The job's id; of a duplicate that of the other job, or 0. */
  readonly id: number;
  readonly duplicate: boolean;
}

/** A job as `listJobs` shows it. */
export interface JobView {
  readonly id: number;
  readonly state: string;
  readonly tries: number;
  /** null: the server can't read it. */
  readonly body: Buffer | null;
}

/** One member of a pool that is held. */
export interface Taken {
  readonly name: string;
  readonly value: string | null;
  readonly attrs: Readonly<Record<string, string>>;
  /** Grows with each hold: pass it to the resource, and have that refuse lower ones. */
  readonly fence: bigint;
}

/** What a client has taken and has to give back. One that is forgotten is closed when it is collected. */
export abstract class Hold {
  protected constructor();
  /** The server that has it, as configured. */
  readonly server: string;
  /** Its connection has ended, or the server had taken it away: it is not held any more. */
  readonly lost: boolean;
  /** Aborts with a `Lost` when it is lost while held. */
  readonly signal: AbortSignal;
  /**
   * Gives it back; a second call does nothing. `ok` (true): what was done with it went well. Rejects with
   * `Lost`, `Unanswered` or another `Failed`. Nothing cancels it: it takes `ioTimeout` at most.
   */
  release(ok?: boolean): Promise<void>;
  /** `await using`: releases as if all went well. */
  [Symbol.asyncDispose](): Promise<void>;
}

export class Lock extends Hold {
  readonly name: Text;
  /** Another holder has done the work, and nothing is held. */
  readonly done: boolean;
}

export class Units extends Hold {
  readonly name: Text;
  readonly count: number;
}

/** Members of a pool: `all`. The other fields are those of the first. */
export class Member extends Hold implements Taken {
  readonly pool: string;
  readonly name: string;
  readonly value: string | null;
  readonly attrs: Readonly<Record<string, string>>;
  readonly fence: bigint;
  readonly all: readonly Taken[];
}

/**
 * A reserved job. After one of `ack`, `nack` and `bury` all of them are `Usage`. Nothing cancels them; each
 * rejects with `Lost`, `Unanswered` or another `Failed`.
 */
export class Job {
  private constructor();
  readonly id: number;
  readonly token: bigint;
  readonly tube: string;
  /** 1 for the first run. */
  readonly tries: number;
  readonly body: Buffer;
  readonly server: string;
  /** A renewal has found that it is reserved no more. */
  readonly lost: boolean;
  /** It is done. */
  ack(): Promise<void>;
  /** It runs again after `delay` (0) seconds. True: it is buried, since its tries are used up. */
  nack(delay?: number): Promise<boolean>;
  /** It is put aside for an operator. Also `Lost` when its connection has ended. */
  bury(): Promise<void>;
  /** Its ttr begins anew. */
  renew(): Promise<void>;
}

/** Servers, defaults and idle connections: one for a process. Making one connects to nothing. */
export class Client {
  /**
   * `url`: `counter://HOST[:PORT][,HOST...][?OPTION=VALUE[&...]]`, else `$COUNTER_URL`, else
   * `counter://127.0.0.1`. Throws `Usage`.
   */
  constructor(url?: string | null, options?: Options);

  /** Takes a lock. Rejects with `Busy`, `QueueFull`, `Draining`, `EngineAway`, `NoMemory`. */
  lock(name: Text, options?: LockOptions): Promise<Lock>;
  /** Takes `count` units of a counter of which `limit` may be held. Never waits: `Busy`, `NoMemory`. */
  units(name: Text, count: number, limit: number, options?: CallOptions): Promise<Units>;
  /** How many units of a counter are held; 0 if there is none. */
  usage(name: Text, options?: CallOptions): Promise<number>;
  /**
   * Takes members of a pool, of the first that can serve of several with commas between, or of one of
   * `@GROUP`. Rejects with `Busy`, `QueueFull`, `NotFound`, `Wrong`, `TooMany`, `Draining`, `NoMemory`.
   */
  member(target: Text, options?: MemberOptions): Promise<Member>;

  /**
   * Puts a job into a tube. Without a `key` it is never tried again. Rejects with `TooBig`, `Draining`,
   * `ReadOnly`, `QueueFull`, `NoMemory`.
   */
  put(tube: Text, body: Text, options?: PutOptions): Promise<Put>;
  /** Puts all of these jobs or none: up to 1,000 and 16 MiB. Tried again only if every job has a key. */
  putMany(tube: Text, jobs: Iterable<NewJob>, options?: CallOptions): Promise<Put[]>;
  /** Reserves jobs of the tubes, which take turns; none if none comes in time. `ReadOnly`, `NoMemory`. */
  claim(tubes: Text | Iterable<Text>, options?: ClaimOptions): Promise<Job[]>;
  /** Settings and counts of a tube, after setting what is given. `NotFound` without settings. */
  tube(name: Text, settings?: Settings, options?: CallOptions): Promise<Record<string, number | string>>;
  /** Tubes with ready jobs and how many, ordered by name: of a name, or of a beginning and `*`. */
  ready(pattern: Text, options?: ReadyOptions): Promise<Map<string, number>>;
  /** A tube's jobs in that state, asking for 100 at a time. `NotFound`. */
  listJobs(tube: Text, state: string, options?: CallOptions): AsyncGenerator<JobView, void, undefined>;
  /** Deletes a tube's jobs in that state (`all`: but reserved ones), and says how many. `NotFound`. */
  clear(tube: Text, state: string, options?: CallOptions): Promise<number>;
  /** Deletes a job that nobody has reserved. `NotFound`. */
  delete(id: number | bigint, options?: CallOptions): Promise<void>;
  /** Makes a buried or delayed job ready. `NotFound`. */
  kick(id: number | bigint, options?: CallOptions): Promise<void>;

  /**
   * Calls `body` with the lock, and gives it back: as not ok if `body` rejects. What it rejects with is never
   * replaced by an error of the release; without it a loss is `Lost`.
   */
  withLock<T>(name: Text, options: LockOptions | undefined, body: (lock: Lock) => T | PromiseLike<T>): Promise<T>;
  withUnits<T>(
    name: Text,
    count: number,
    limit: number,
    options: CallOptions | undefined,
    body: (units: Units) => T | PromiseLike<T>,
  ): Promise<T>;
  withMember<T>(
    target: Text,
    options: MemberOptions | undefined,
    body: (member: Member) => T | PromiseLike<T>,
  ): Promise<T>;

  /** Closes idle connections. Holds and jobs keep theirs until they end; later calls are `Usage`. */
  close(): Promise<void>;
}

export interface WorkerOptions {
  /** Handlers at once, each with a connection: 1 to 1,000 (1). */
  concurrency?: number;
  /** Seconds after which a failed job runs again: 1, doubled with each try, up to 3,600, times 0.8 to 1.2. */
  backoff?: (tries: number) => number;
  /** Runs after which a failed job is buried (0: never). */
  tries?: number;
  /** Seconds that handlers may run on after a stop (30). */
  grace?: number;
  /** Instead of the client's. */
  onEvent?: (event: Event) => void;
}

/**
 * Claims jobs of the tubes and calls `handler` with each. It resolves: ack; throws `Bury`: bury; `Retry`: nack
 * with its delay; anything else: nack with `backoff(tries)`. A job that runs for longer is renewed meanwhile;
 * when it is lost, or the grace is over, the handler's signal aborts. One that blocks the loop is not renewed.
 */
export class Worker {
  /** Throws `Usage`. */
  constructor(
    client: Client,
    tubes: Text | Iterable<Text>,
    handler: (job: Job, signal: AbortSignal) => unknown,
    options?: WorkerOptions,
  );
  /**
   * Runs until `stop`, TERM or INT (`signals`, true); then handlers run on for `grace` seconds at most, or
   * until a second signal. Resolves with how many jobs went back since their handlers had not ended. Rejects
   * with what no claim can do without: `Usage`, `Unsupported`.
   */
  run(options?: { signals?: boolean }): Promise<number>;
  /** No more claims; `run` resolves when all handlers have ended. Outside of `run` it ends the next one at once. */
  stop(): void;
}

/** Thrown by a handler: the job is put aside, until somebody kicks it. */
export class Bury extends Error {}

/** Thrown by a handler: the job runs again after `delay` (0) seconds. */
export class Retry extends Error {
  constructor(delay?: number);
  readonly delay: number;
}

/** The servers in the order in which they are asked for the name: the md5 of a server's text and the name. */
export function serversFor(name: Text, servers: Iterable<string>): string[];

/** The base of all errors of this library. */
export class CounterError extends Error {
  constructor(
    message: string,
    fields?: {
      server?: string;
      target?: Text;
      answer?: Text;
      reason?: string;
      sent?: boolean;
    },
  );
  /** The class's name, as `name`. */
  readonly code: string;
  /** As configured. */
  server: string;
  /** The name, pool or tube. */
  target: string;
  /** The first line as sent, controls escaped, 200 bytes at most. */
  answer: string;
  /** What the system or a certificate says. */
  reason: string;
  /** The server may have acted. */
  sent: boolean;
}
/** The call is wrong, or the client is closed. */
export class Usage extends CounterError {}
/** The server said no; nothing has changed. */
export class Refused extends CounterError {}
/** Not free within the timeout. */
export class Busy extends Refused {}
/** Too many wait, or the tube has as many jobs as it may have. */
export class QueueFull extends Refused {}
/** There is no such pool, member, tube or job. */
export class NotFound extends Refused {}
/** The pool is of another kind, or a value is wrong. */
export class Wrong extends Refused {}
/** The server does not let this client do so. */
export class Denied extends Refused {}
/** The server has no memory for it. */
export class NoMemory extends Refused {}
/** The tube is read-only; the reason is in `answer`. */
export class ReadOnly extends Refused {}
/** The server shuts down, or takes no new work. */
export class Draining extends Refused {}
/** The body is larger than the server takes. */
export class TooBig extends Refused {}
/** This connection would hold more than the server allows. */
export class TooMany extends Refused {}
/** Servers share this limit, and what they share it by is away or full. */
export class EngineAway extends Refused {}
/** No answer that can be believed. */
export class Failed extends CounterError {}
/** No server could be reached. Nothing was sent. */
export class Unreachable extends Failed {}
/** A request was sent, and its answer did not come. */
export class Unanswered extends Failed {}
/** The server sent what its protocol does not have, or more than it may. */
export class Malformed extends Failed {}
/** The server does not know the request. */
export class Unsupported extends Failed {}
/** What was held is not held any more. */
export class Lost extends CounterError {}
