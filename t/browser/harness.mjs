/*
 * harness.mjs - the base of the tests of the status page: TAP, the daemon as a child, clients of
 * both protocols, and Chromium. Every wait is a poll with a deadline.
 */
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import {createRequire} from 'node:module';

const FOLDER = process.env.T_BROWSER;
const DEADLINE_MS = 30000; // a busy machine may stand still for seconds
const TEST_MS = 300000;

/* --- TAP ---------------------------------------------------------------------------------- */

let number = 0,
    failed = 0;
const tests = [];
let tidy = null;

/* Adds a test. Tests run in order; each continues from the end of the one before. */
export function addTest(name, fn) {
    tests.push({name, fn});
}

/* Sets the function that cleans up after a failed test. */
export function afterFailure(fn) {
    tidy = fn;
}

export function note(text) {
    console.log(
        text
            .split('\n')
            .map((line) => '# ' + line)
            .join('\n'),
    );
}

/* Runs all tests, or those whose names contain one of `chosen`. Returns true if all passed. */
export async function run(chosen) {
    for (const {name, fn} of tests) {
        if (chosen.length && !chosen.some((part) => name.includes(part))) continue;
        number++;
        const before = failed;
        let timer;
        const late = new Promise((_, reject) => {
            timer = setTimeout(() => reject(new Error('the test did not end')), TEST_MS);
        });
        try {
            await Promise.race([fn(), late]);
            console.log(`ok ${number} - page: ${name}`);
        } catch (e) {
            failed++;
            console.log(`not ok ${number} - page: ${name}`);
            note(String((e && e.stack) || e));
        }
        clearTimeout(timer);
        if (failed > before) await tidy().catch((e) => note('no order could be made: ' + e.message));
    }
    console.log(`1..${number}`);
    return failed === 0;
}

export function check(is, what) {
    if (!is) throw new Error(what);
}

export function same(got, wanted, what) {
    check(Object.is(got, wanted), `${what}: ${JSON.stringify(got)} instead of ${JSON.stringify(wanted)}`);
}

/* Calls `condition` until it is true. Returns its value; fails with `what` at the deadline. */
export async function poll(condition, what, deadline = DEADLINE_MS) {
    const until = Date.now() + deadline;
    let last;
    for (;;) {
        try {
            const value = await condition();
            if (value) return value;
            last = undefined;
        } catch (e) {
            last = e;
        }
        if (Date.now() > until) throw new Error('not within the deadline: ' + what + (last ? '\n' + last.stack : ''));
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

/* The value must be the wanted one, or match it. */
export function agrees(got, wanted, what) {
    if (wanted instanceof RegExp) check(wanted.test(got), `${what}: ${JSON.stringify(got)} does not match ${wanted}`);
    else same(got, wanted, what);
}

/*
 * Waits until `get` returns `wanted`, or a text that matches it. All that the page shows is waited for:
 * the page draws when it has its answers, and not in step with the test. Not so what must stay: that
 * is checked after it has had the time to change.
 */
export const shows = (get, wanted, what) =>
    poll(async () => {
        agrees(await get(), wanted, what);
        return true;
    }, what);

/* --- the daemon ----------------------------------------------------------------------------- */

/* A port that was free a moment ago, below the range that the kernel gives to clients. */
async function freePort() {
    for (;;) {
        const port = 16000 + Math.floor(Math.random() * 16000),
            server = net.createServer();
        const isFree = await new Promise((resolve) => {
            server.once('error', () => resolve(false));
            server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
        });
        if (isFree) return port;
    }
}

export const TOKEN = 'token-of-the-tests';

export class Daemon {
    /* `admin`: the admin interface's port, 0 for a free one. `token`: of that interface; '': none. */
    static async start(admin = 0, token = TOKEN) {
        const d = new Daemon();
        const options = {
            'poolcounter.port': 0,
            'counter.port': 0,
            'admin.port': admin || (await freePort()),
            'counter.enable': 'true',
            'jobs.enable': 'true',
            'jobs.port': 0,
            'jobs.listen': '127.0.0.1',
            'counter.threads': 2,
            'poolcounter.listen': '127.0.0.1',
            'counter.listen': '127.0.0.1',
            'admin.listen': '127.0.0.1',
        };
        if (token) options['admin.token'] = token;
        const argv = Object.entries(options).flatMap(([key, value]) => ['-o', `${key}=${value}`]);
        d.log = '';
        d.child = spawn(process.env.COUNTERD, argv, {stdio: ['ignore', 'ignore', 'pipe']});
        d.child.stderr.on('data', (bytes) => {
            d.log += bytes;
        });
        d.ended = new Promise((resolve) =>
            d.child.on('exit', (code, signal) => {
                d.status = signal || code;
                resolve(d.status);
            }),
        );
        await poll(() => {
            check(d.status === undefined, 'the daemon ended:\n' + d.log);
            return / info: ready\b/.test(d.log);
        }, 'the daemon is ready');
        const port = (name) => Number(new RegExp(` info: ${name}: listening on \\S*?:(\\d+)`).exec(d.log)[1]);
        d.ports = {text: port('poolcounter'), jobs: port('jobs'), admin: port('admin')};
        d.url = `http://127.0.0.1:${d.ports.admin}`;
        return d;
    }

    async api(what) {
        const answer = await fetch(this.url + '/api/v1/' + what);
        check(answer.ok, `${what}: ${answer.status}`);
        return answer.json();
    }

    /* Sends SIGTERM. The daemon must end in order. */
    async stop() {
        this.child.kill('SIGTERM');
        same(await this.ended, 0, 'exit status');
    }

    kill() {
        if (this.status === undefined) this.child.kill('SIGKILL');
    }
}

/* --- clients -------------------------------------------------------------------------------- */

/* A client of the text protocol. Names are latin-1 strings, a character for each byte. */
export class TextClient {
    constructor(port) {
        this.answers = [];
        this.waiting = [];
        this.rest = '';
        this.socket = net.connect(port, '127.0.0.1');
        this.socket.setNoDelay(true);
        this.socket.setEncoding('latin1');
        this.socket.on('data', (text) => this.take(text));
        this.socket.on('error', () => {});
        this.socket.on('close', () => {
            this.isClosed = true;
            for (const resolve of this.waiting.splice(0)) resolve(null);
        });
    }

    take(text) {
        const lines = (this.rest + text).split('\n');
        this.rest = lines.pop();
        for (const line of lines) {
            const resolve = this.waiting.shift();
            if (resolve) resolve(line);
            else this.answers.push(line);
        }
    }

    say(line) {
        this.socket.write(line + '\n', 'latin1');
    }

    /* Returns the next answer; null when the connection has ended. */
    answer() {
        if (this.answers.length) return Promise.resolve(this.answers.shift());
        if (this.isClosed) return Promise.resolve(null);
        return new Promise((resolve) => this.waiting.push(resolve));
    }

    /* Returns the answer, which must be the wanted one, or match it. */
    async ask(line, wanted = /^/) {
        this.say(line);
        const answer = await this.answer();
        agrees(answer, wanted, line.slice(0, 60));
        return answer;
    }

    async each(wanted, lines) {
        for (const line of lines) await this.ask(line, wanted);
    }

    get address() {
        return `127.0.0.1:${this.socket.localPort}`;
    }

    close() {
        this.socket.destroy();
    }
}

/* A client of the job queues. A body goes into the line of its put, behind "\r\n". */
export class JobClient extends TextClient {
    say(line) {
        super.say(line + '\r');
    }

    take(text) {
        super.take(text.replaceAll('\r', ''));
    }

    /* Puts a body, a latin-1 string, into a tube. Returns the job's id. */
    async put(tube, body, pri = 1024, delay = 0) {
        await this.ask('use ' + tube, 'USING ' + tube);
        const answer = await this.ask(`put ${pri} ${delay} 1000 ${body.length}\r\n${body}`, /^INSERTED /);
        return answer.slice('INSERTED '.length);
    }

    /* Reserves a job whose body is one line. */
    async reserve(id) {
        await this.ask('reserve-job ' + id, /^RESERVED /);
        await this.answer();
    }
}

/*
 * Clients that acquire and release a lock of a name of their own, each about `perSecond` times a
 * second. `answered` has the times (ms) of the answers in the last ten seconds.
 */
export class Load {
    constructor(port, clients, perSecond) {
        this.answered = [];
        this.clients = Array.from({length: clients}, () => new TextClient(port));
        this.timers = this.clients.map((client, i) => {
            let isBusy = false;
            const act = async () => {
                if (this.isOver || isBusy) return;
                isBusy = true;
                for (const line of [`ACQ4ME load:${i} 4 8 5`, `RELEASE load:${i}`]) {
                    if ((await client.ask(line)) === null) return;
                    this.answered.push(Date.now());
                }
                isBusy = false;
                while (this.answered.length && this.answered[0] < Date.now() - 10000) this.answered.shift();
            };
            return setInterval(act, 1000 / perSecond);
        });
    }

    /* Returns the requests answered per second, over the last `seconds`. */
    rate(seconds) {
        const from = Date.now() - seconds * 1000;
        return this.answered.filter((t) => t >= from).length / seconds;
    }

    stop() {
        this.isOver = true;
        this.timers.forEach(clearInterval);
        this.clients.forEach((client) => client.close());
    }
}

/* --- the browser ---------------------------------------------------------------------------- */

/*
 * Starts Chromium with an empty profile. `complaints` collects errors on the console, exceptions,
 * violations of the Content-Security-Policy, requests to other servers, and changes. It ignores
 * network errors while the daemon is down on purpose (`isAway`), missing names, pools, tubes and jobs, names
 * that are not shared or whose engine is away, and changes while the test makes some (`mayPost`). In the
 * page, `asked` has the paths of all requests since it was loaded, and `unanswered` counts those under
 * way.
 */
export async function openBrowser(origin) {
    const {chromium} = createRequire(path.join(FOLDER, 'package.json'))('playwright-core');
    const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'counterd-page-'));
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: process.env.T_CHROMIUM,
        headless: true,
        chromiumSandbox: false,
        viewport: {width: 1440, height: 900},
        colorScheme: 'light',
        args: [
            '--disable-gpu',
            '--disable-quic',
            '--no-first-run',
            '--disable-background-networking',
            '--disable-component-update',
            '--disable-sync',
        ],
    });
    const browser = {context, complaints: [], isAway: false, mayPost: false, page: null};
    await context.exposeFunction('violated', (text) => browser.complaints.push('CSP: ' + text));
    await context.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', (e) => {
            window.violated(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sourceFile + ':' + e.lineNumber);
        });
        // The page asks each second; here, `hurry` times as often.
        const {fetch, setTimeout} = window;
        window.hurry = 5;
        window.setTimeout = (f, ms) => setTimeout(f, ms > 1000 ? ms : ms / window.hurry);
        window.asked = [];
        window.unanswered = 0;
        window.fetch = (path, ...more) => {
            window.asked.push(path);
            window.unanswered++;
            return fetch(path, ...more).finally(() => window.unanswered--);
        };
    });
    const page = (browser.page = context.pages()[0] || (await context.newPage()));
    context.setDefaultTimeout(DEADLINE_MS);
    page.on('pageerror', (e) => browser.complaints.push('exception: ' + e.stack));
    page.on('console', (message) => {
        const where = message.location().url || '';
        const isNetwork = message.text().startsWith('Failed to load resource');
        if (
            isNetwork &&
            (browser.isAway ||
                (/\/api\/v1\/(names|pools|tubes|jobs)[/?]/.test(where) && /404/.test(message.text())) ||
                (/\/api\/v1\/cluster\?name=/.test(where) && /404|503/.test(message.text())) ||
                (browser.mayPost && /\/api\/v1\/(pools|jobs)\//.test(where)))
        )
            return;
        if (['error', 'warning', 'assert'].includes(message.type()))
            browser.complaints.push(`console: ${message.text()} (${where})`);
    });
    page.on('request', (request) => {
        if (!request.url().startsWith(origin + '/')) browser.complaints.push('a request to ' + request.url());
        if (request.method() !== 'GET' && !browser.mayPost)
            browser.complaints.push(request.method() + ' ' + request.url());
    });
    page.on('dialog', (dialog) => {
        browser.complaints.push('a dialog: ' + dialog.message());
        dialog.dismiss();
    });
    browser.close = async () => {
        await context.close();
        fs.rmSync(profile, {recursive: true, force: true, maxRetries: 5});
    };
    return browser;
}
