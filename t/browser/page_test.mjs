/*
 * page_test.mjs - tests the status page as a person uses it: Chromium shows the page of a real
 * daemon that real clients load. The tests run in order in one browser; each continues from the end
 * of the last.
 */
import {
    Daemon, JobClient, Load, TOKEN, TextClient, afterFailure, check, note, openBrowser, poll, run, same, shows, test,
} from './harness.mjs';
import {lowContrast} from './contrast.mjs';
import {judgeCases} from './judge.mjs';

let daemon = await Daemon.start();
const browser = await openBrowser(daemon.url);
const page = browser.page;
let load = null;
const clients = []; // open until the end of the test that made them

function client() {
    const c = new TextClient(daemon.ports.text);
    clients.push(c);
    return c;
}

function jobClient() {
    const c = new JobClient(daemon.ports.jobs);
    clients.push(c);
    return c;
}

function closeClients() {
    for (const c of clients.splice(0)) c.close();
}

const text = (selector) => page.locator(selector).first().textContent();
const isShown = (selector) => page.locator(selector).first().isVisible();
const cells = (selector) => page.locator(selector).evaluateAll((all) => all.map((e) => e.textContent.trim()));

const focusedLink = () => page.evaluate(() => document.activeElement.getAttribute('href'));

/* The rows of a table, each as the texts of its cells. */
const rowsOf = (table) =>
    page
        .locator(table + ' tbody tr')
        .evaluateAll((all) => all.map((row) => [...row.cells].map((c) => c.innerText.trim().replace(/\s+/g, ' '))));

/* Wait for what the page shows; as shows() does. */
const reads = (selector, wanted, what) => shows(() => text(selector), wanted, what);
const appears = (selector, what) => shows(() => isShown(selector), true, what);
const goes = (selector, what) => shows(() => isShown(selector), false, what);
const counts = (selector, n, what) => shows(() => page.locator(selector).count(), n, what);
const lists = (selector, wanted, what) => shows(async () => (await cells(selector)).join(), wanted, what);
const has = (selector, attribute, wanted, what) =>
    shows(() => page.locator(selector).first().getAttribute(attribute), wanted, what);

/* By Escape, back to the overview. */
async function leave() {
    await page.keyboard.press('Escape');
    await appears('#overview', 'the overview');
}

/* Waits for transitions; before their end the colours are not those of the style sheet. */
const transitionsEnd = () =>
    poll(
        () => page.evaluate(() => !document.getAnimations().some((a) => a instanceof CSSTransition)),
        'colours have changed',
    );

async function view(width, height, scheme) {
    await page.setViewportSize({width, height});
    await page.emulateMedia({colorScheme: scheme});
    await has('html', 'data-theme', scheme, 'the theme follows the system');
}

/* Returns how many requests the page has made, since it was loaded, whose path contains `part`. */
const asked = (part) => page.evaluate((p) => window.asked.filter((path) => path.includes(p)).length, part);

/* Each cycle begins with this request, when the cycle before has drawn. */
const CYCLE = '/api/v1/stats';

/* Waits until `n` cycles that begin from now on have drawn. */
async function nextCycles(n) {
    const from = await asked(CYCLE);
    await poll(async () => (await asked(CYCLE)) > from + n, n + ' cycles', 30000 + 2000 * n);
}

/* One client holds `name`, and `waiters` others wait for it, the first of them longest. */
async function contend(name, waiters) {
    const holder = client();
    await holder.ask(`ACQ4ME ${name} 1 100 1000`, 'LOCKED');
    const all = Array.from({length: waiters}, () => client());
    for (const c of all) {
        // An answer to another request shows that the client is in line: one after the other.
        c.say(`ACQ4ME ${name} 1 100 1000`);
        const answer = await c.ask('STATS waiting_workers');
        check(/^waiting_workers: \d+$/.test(answer), `it does not wait: ${answer}`);
    }
    return {holder, waiters: all};
}

async function checkWidth(what) {
    const excess = () => page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - innerWidth));
    await shows(excess, 0, what + ' scrolls sideways');
}

async function checkContrast(what) {
    let found;
    const short = async () => {
        await transitionsEnd();
        found = await page.evaluate(lowContrast);
        check(found.texts > 30 && found.graphics > 5, `${what}: too little was looked at: ${JSON.stringify(found)}`);
        return found.short.join('\n');
    };
    await shows(short, '', what);
}

/* What is shown fits phones, or these widths, and can be read on a large screen, in both themes. */
async function looksRight(what, widths = [360]) {
    for (const scheme of ['light', 'dark']) {
        for (const width of widths) {
            await view(width, 800, scheme);
            await checkWidth(what);
        }
        await view(1440, 900, scheme);
        await checkContrast(`${what}, ${scheme}`);
    }
    await view(1440, 900, 'light');
}

/* Changes the daemon's answer to `path` before the page gets it, until endRoutes. */
const alter = (path, change) =>
    page.route('**/api/v1/' + path, async (route) => {
        const response = await route.fetch();
        const json = await response.json();
        change(json);
        await route.fulfill({response, json});
    });

/* Answers nothing more in place of the daemon. What is under way is answered first: later it can't be. */
const endRoutes = () => page.unrouteAll({behavior: 'wait'});

const openHash = (hash) =>
    page.evaluate((to) => {
        location.hash = to;
    }, hash);

/* No script of the shown text has run, and no element was made of it. */
async function isHarmless(elements) {
    same(await page.evaluate(() => typeof window.pwned), 'undefined', 'scripts ran');
    same(await page.locator(elements).count(), 0, 'elements');
}

afterFailure(async () => {
    closeClients();
    await page.unrouteAll({behavior: 'ignoreErrors'});
    await page.emulateMedia({colorScheme: 'light', reducedMotion: 'no-preference'});
    await page.setViewportSize({width: 1440, height: 900});
    await page.goto('about:blank');
    if (daemon.status !== undefined) daemon = await Daemon.start({admin: daemon.ports.admin});
    await page.goto(daemon.url + '/');
});

/* Returns the accessibility tree as [{role, name}], without ignored nodes. */
async function accessible() {
    const session = await browser.context.newCDPSession(page);
    const {nodes} = await session.send('Accessibility.getFullAXTree');
    await session.detach();
    return nodes
        .filter((n) => !n.ignored && n.role)
        .map((n) => ({role: n.role.value, name: n.name ? n.name.value : ''}));
}

test('each verdict has its threshold', judgeCases);

test('with no client it says that nothing waits', async () => {
    await page.goto(daemon.url + '/');
    await reads('#link-text', 'Live', 'it is live');
    await reads('#verdict-level', 'All clear', 'level');
    await reads('#verdict-head', 'Nothing waits. No name is contended.', 'verdict');
    await goes('#verdict-more', 'other findings');
    await reads('#names-empty', 'Nothing waits. No name is contended.', 'names');
    await goes('#names', 'the empty table');
    for (const part of ['#names-empty', '#conns-empty', '#requests-empty', '#closes-empty'])
        await appears(part, part);
    const version = (await daemon.api('stats')).version;
    await reads('#version', version, 'version');
});

test('with load on, charts move and rates are about right', async () => {
    load = new Load(daemon.ports.text, 10, 8);
    const shown = async () => (await cells('.figure .value')).map((figure) => Number(figure.replace(/,/g, '')));
    await poll(() => load.rate(5) > 40, 'the load has begun');
    // After a standstill of the machine both are right again within seconds.
    await poll(async () => {
        const [requests] = await shown(),
            rate = load.rate(5);
        check(Math.abs(requests - rate) <= 0.25 * rate, `${requests} instead of ${rate}`);
        return true;
    }, 'the rate shown is that of the load');
    await poll(async () => {
        const [requests, granted] = await shown();
        check(Math.abs(2 * granted - requests) <= 0.25 * requests, `${granted} of ${requests}`);
        return requests > 0;
    }, 'half of them are grants');
    await reads('.figure:nth-child(8) .value', '10', 'connections');
    const line = () => page.locator('#charts .plot').nth(3).locator('path.line').first().getAttribute('d');
    await shows(line, /.{20}/, 'a line');
    const before = await line();
    await poll(async () => (await line()) !== before, 'the line moves');
    await reads('#requests', /ACQ4ME\s*LOCKED/, 'requests by outcome');
    await reads('#requests', /RELEASE\s*RELEASED/, 'requests by outcome');
});

test('the axis of a chart stays while its values do', async () => {
    const marks = page.locator('#charts .plot').nth(3).locator('.grid text[text-anchor=end]');
    let highest = 0,
        axes = [];
    while (axes.length < 4) {
        await nextCycles(1);
        const axis = (await marks.allTextContents()).join();
        const rates = (await daemon.api('history?seconds=300')).series.requests;
        // A higher value may be drawn from the next cycle on.
        if (Math.max(...rates) !== highest) axes = [];
        else axes.push(axis);
        highest = Math.max(...rates);
    }
    check(highest > 40, 'no load');
    for (const axis of axes) same(axis, axes[0], 'axis');
});

test('a hot name is there with the second look, and its waiters in its detail', async () => {
    // The page itself notes which cycle shows it.
    await page.evaluate((cycle) => {
        const names = document.querySelector('#names');
        new MutationObserver(() => {
            if (names.textContent.includes('hot:page'))
                window.listedIn ??= window.asked.filter((path) => path === cycle).length;
        }).observe(names, {subtree: true, childList: true, characterData: true});
    }, CYCLE);
    const {holder, waiters} = await contend('hot:page', 3);
    const from = await asked(CYCLE);
    await reads('#names', /hot:page/, 'the name is listed');
    const looks = (await page.evaluate(() => window.listedIn)) - from;
    // One cycle may have been under way when the wait began; the next must show it.
    check(looks <= 1, `it took ${looks} looks`);
    await reads('#verdict-head', 'hot:page', 'the verdict names it');
    await reads('#v-waiting', '3', 'how many wait');
    await has('#verdict', 'data-level', 'warn', 'level');
    await appears('#verdict-facts', 'how badly');
    await appears('#verdict-who', 'who');
    await reads('#v-use', '1 of 1', 'in use');
    await reads('#v-waiters', /127\.0\.0\.1×3/, 'the waiters');
    await page.locator('#names a.name', {hasText: 'hot:page'}).click();
    await reads('#detail-head', 'hot:page', 'the detail');
    await counts('#waiters tbody tr', 3, 'three waiters');
    await shows(
        async () => (await cells('#waiters tbody th span')).sort().join(),
        waiters
            .map((w) => w.address)
            .sort()
            .join(),
        'waiters',
    );
    await reads('#holders tbody th span', holder.address, 'holder');
    await reads('#detail-level', '3 clients wait', 'level');
    await holder.ask('RELEASE hot:page', 'RELEASED');
    same(await waiters[0].answer(), 'LOCKED', 'the oldest waiter');
    await reads('#holders tbody th span', waiters[0].address, 'the next holder');
    closeClients();
    await reads('#detail-level', /^There is no such name now/, 'it has gone');
    await appears('#holders-empty', 'the empty table of holders');
    await appears('#waiters-empty', 'the empty table of waiters');
    await leave();
});

test('names of any bytes do no harm and are shown spelled out', async () => {
    const names = [
        {bytes: '<img/src=x/onerror=pwned=1>', shown: '<img/src=x/onerror=pwned=1>'},
        {bytes: '"><script>pwned=1</script>', shown: '"><script>pwned=1</script>'},
        {bytes: 'bad\xff\xfe\xc3(', shown: 'bad\\xff\\xfe\\xc3('},
        {
            bytes: Buffer.from('safe\u202egnp.exe\u2066', 'utf8').toString('latin1'),
            shown: 'safeU+202Egnp.exeU+2066',
        },
        {bytes: 'back\\slash\\x41', shown: 'back\\\\slash\\\\x41'},
        {bytes: Buffer.from('Straße:日本', 'utf8').toString('latin1'), shown: 'Straße:日本'},
    ];
    for (const name of names) await contend(name.bytes, 2);
    await contend('L' + 'm'.repeat(253) + 'N', 2);
    await contend('M'.repeat(2000) + 'END', 2);
    const listed = async () => (await cells('#names tbody .name')).join('\n');
    await poll(async () => {
        const all = (await listed()).split('\n');
        for (const {shown} of names) check(all.includes(shown), `${shown} is not among ${all}`);
        return true;
    }, 'all are listed');
    await shows(listed, /^Lm+…m+N$/m, 'the name of 255 bytes is cut in its middle');
    await shows(listed, /^M{84}…$/m, 'the longer name is cut');
    await counts('#names tbody .unseen', 7, 'spelled out');
    await isHarmless('img, main script');
    for (const {shown} of names) {
        await page.locator('#names tbody a.name').filter({hasText: shown}).first().click();
        await reads('#detail-head', shown, 'the detail');
        await counts('#waiters tbody tr', 2, 'waiters of ' + shown);
        await leave();
    }
    await view(360, 800, 'light');
    await nextCycles(1);
    await checkWidth('the overview');
    await view(1440, 900, 'light');
});

test('a long name is found by its beginning', async () => {
    await page.locator('#names .name', {hasText: /^M+…$/}).click();
    const find = page.locator('#find');
    await shows(() => find.inputValue(), 'M'.repeat(255), 'what is known of it is looked for');
    await counts('#found [role=option]', 1, 'it is found');
    await find.fill('MMMM');
    await counts('#found [role=option]', 1, 'one is found');
    await page.keyboard.press('ArrowDown');
    await has('#find', 'aria-activedescendant', 'found-0', 'active option');
    await page.keyboard.press('Enter');
    await reads('#detail-head', /MEND$/, 'its detail');
    await reads('#detail-size', '2,003 bytes', 'size');
    await counts('#waiters tbody tr', 2, 'its waiters');
    await view(360, 800, 'light');
    await checkWidth('the detail of a long name');
    await view(1440, 900, 'light');
    await leave();
    closeClients();
});

test('names without waiters are found, whatever an address would make of them', async () => {
    const name = 'a+b&c=%41#?<b>';
    await client().ask(`ACQ4ME ${name} 10 20 0`, 'LOCKED');
    await page.keyboard.press('/');
    await page.keyboard.type('a+b&c');
    await counts('#found [role=option]', 1, 'it is found');
    await reads('#found', /1 of 10 in use/, 'units');
    await page.keyboard.press('Escape');
    await goes('#found-box', 'the list is closed');
    await page.keyboard.type(name);
    await page.keyboard.press('Enter');
    await reads('#detail-head', name, 'its detail');
    await reads('#holders tbody td:nth-child(4)', '1', 'units held');
    await page.goBack();
    await appears('#overview', 'the overview');
    await page.locator('#find').fill('there is none such');
    await reads('#found-note', 'No name begins like this now.', 'it says so');
    await page.keyboard.press('Escape');
    closeClients();
});

test('by keyboard alone: to a name and back, tabs, ranges, charts', async () => {
    await contend('keys:page', 1);
    // A new verdict is said, in place of a value that was just read out: it comes first.
    await reads('#verdict-head', 'keys:page', 'it is in the verdict');
    await page.locator('.brand').focus();
    const focus = () =>
        page.evaluate(() => {
            const e = document.activeElement;
            return e.id || e.className || e.tagName;
        });
    const tabTo = async (is, what) => {
        for (let i = 0; i < 60; i++) {
            await page.keyboard.press('Tab');
            if (await is()) return;
        }
        throw new Error('Tab does not reach ' + what);
    };
    await tabTo(async () => await page.evaluate(() => document.activeElement.name === 'range'), 'the ranges');
    await page.keyboard.press('ArrowLeft');
    await reads('#charts-head', 'Last 60 seconds', 'range');
    await tabTo(async () => (await focus()).includes('plot'), 'a chart');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    await appears('.plot .tip', 'the read-out is shown');
    await reads('#say', /^\d\d:\d\d:\d\d: waiting \d/, 'it is said');
    const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    same(ring, 'solid', 'the focus can be seen');
    await page.keyboard.press('Escape');
    await goes('.plot .tip', 'the read-out is closed');
    await tabTo(async () => (await focus()) === 'tab-waiting', 'the tabs');
    for (const [key, tab] of [
        ['ArrowRight', 'tab-refused'],
        ['End', 'tab-peak'],
        ['ArrowRight', 'tab-waiting'],
        ['ArrowLeft', 'tab-peak'],
        ['Home', 'tab-waiting'],
    ]) {
        await page.keyboard.press(key);
        await shows(focus, tab, key);
        await has('#' + tab, 'aria-selected', 'true', key);
        await counts('[role=tab][aria-selected=true]', 1, 'one tab');
    }
    const isLink = () =>
        page.evaluate(
            () => document.activeElement.matches('#names a') && document.activeElement.textContent === 'keys:page',
        );
    await tabTo(isLink, 'the name');
    await nextCycles(2);
    check(await isLink(), 'updates take the focus away');
    await page.keyboard.press('Enter');
    await shows(focus, 'detail-head', 'the heading has the focus');
    await leave();
    await shows(isLink, true, 'the focus is back at the name');
    closeClients();
    await page.locator('#ranges label').nth(1).click();
});

test('tabs list by refusals and by peak', async () => {
    const holder = client(),
        other = client();
    await holder.ask('ACQ4ME busy:page 1 1 0', 'LOCKED');
    const refuse = () => other.ask('ACQ4ME busy:page 1 1 0', 'QUEUE_FULL');
    for (let i = 0; i < 20; i++) await refuse();
    await page.locator('#tab-refused').click();
    await reads('#names', /busy:page/, 'refused');
    // The figure is about five seconds: it must not be missed.
    const figure = async () => {
        await refuse();
        return text('.figure:nth-child(3) .value');
    };
    await shows(figure, /[1-9]/, 'refusals in the figures');
    await reads('#verdict-level', 'Clients are turned away', 'the verdict');
    await page.locator('#tab-peak').click();
    await appears('#names tbody tr', 'peak');
    await page.locator('#tab-waiting').click();
    closeClients();
});

test('connections by page and protocol', async () => {
    const extra = Array.from({length: 15}, () => client());
    for (const c of extra) await c.ask('RELEASE none', 'NOT_LOCKED');
    await counts('#conns tbody tr', 20, 'a full page');
    await shows(() => page.locator('#conns-next').isEnabled(), true, 'there is another');
    await page.locator('#conns-next').click();
    await reads('#conns-where', 'Page 2', 'page');
    await poll(async () => {
        const all = (await daemon.api('connections?limit=1000')).connections.length;
        check(all > 20 && all <= 40, all + ' connections');
        same(await page.locator('#conns tbody tr').count(), all - 20, 'rows');
        return true;
    }, 'the rest');
    await page.locator('#conns-back').click();
    await reads('#conns-where', 'Page 1', 'page');
    await counts('#conns tbody tr', 20, 'back');
    await page.locator('#conns-of').selectOption('counter');
    await appears('#conns-empty', 'none of the other protocol');
    await page.locator('#conns-of').selectOption('');
    await counts('#conns tbody tr', 20, 'all again');
    closeClients();
});

/* Makes pools with members in many states. Returns the client that may change them. */
async function makePools() {
    const o = client(),
        supplier = client();
    for (const line of [
        'POOL ADD gpu group=gpus',
        ...[0, 1, 2, 3, 4, 5].map((i) => `MEMBER ADD gpu gpu${i} 10.0.0.${i}:80 type=a${i % 2}`),
        'MEMBER SET gpu gpu5 state=down note=fan_broken',
        'MEMBER SET gpu gpu4 state=dirty',
        'POOL ADD browsers kind=joined max=3',
    ])
        await o.ask(line, 'OK');
    await supplier.ask('SUPPLY browsers 1 3', 'OK');
    same(await supplier.answer(), 'WANT browsers 1', 'the supplier is asked');
    await supplier.ask('JOIN browsers b-1 10.0.0.9:9222', 'JOINED');
    return {o, supplier};
}

async function take(line) {
    const c = client();
    const answer = await c.ask(line);
    check(answer.startsWith('TAKEN '), `${line}: ${answer}`);
    return c;
}

test('pools are shown when there are some, with a bar of states for each', async () => {
    await goes('#pools-part', 'there is no pool yet');
    await makePools();
    await counts('#pools tbody tr', 2, 'two pools');
    await lists('#pools tbody a.name', 'browsers,gpu', 'pools by name');
    await lists('#pools .states-text', '1 free,4 free · 1 dirty · 1 down', 'states in words');
    await take('TAKE gpu by=train');
    await lists('#pools .states-text', '1 free,3 free · 1 taken · 1 dirty · 1 down', 'a member is taken');
    const widths = async () =>
        (
            await page
                .locator('#pools tbody tr:nth-child(2) .bar-states rect:not(.track)')
                .evaluateAll((all) =>
                    all
                        .filter((e) => e.getAttribute('visibility') === 'visible')
                        .map((e) => e.getAttribute('class') + ' ' + e.getAttribute('width')),
                )
        ).join();
    await shows(widths, 'state-free 50.00,state-taken 16.67,state-dirty 16.67,state-down 16.67', 'the bar');
    client().say('TAKE gpu 1000 count=5');
    const verdicts = async () => [await text('#verdict'), ...(await cells('#verdict-more li'))].join();
    await shows(verdicts, /Members are waited for ?gpu ?1 request waits/, 'the verdict says that somebody waits');
    await shows(verdicts, /Members are down ?gpu ?1 of 6 members is down/, 'and that a member is down');
    await nextCycles(1);
    await looksRight('the overview with pools');
});

test('a click on a pool shows its members, their holders, and since when', async () => {
    const holder = await take('TAKE gpu member=gpu1 by=alice@host');
    await daemon.api('pools/gpu');
    const o = client();
    await o.ask('MEMBER SET gpu gpu1 state=down', 'OK');
    await page.locator('#pools a.name', {hasText: 'gpu'}).click();
    await counts('#members tbody tr', 6, 'members');
    await reads('#pool-head', 'gpu', 'head');
    await reads('#pool-level', '1 request waits', 'level');
    await reads('#pool-group', /^\s*gpus\s*$/, 'group');
    await poll(async () => {
        const rows = await rowsOf('#members'),
            gpu1 = rows[1];
        same(gpu1[0], 'gpu1 type=a1', 'name and attributes');
        same(gpu1[1], 'taken', 'state');
        check(/^\d\d:\d\d:\d\d$/.test(gpu1[2]), 'since ' + gpu1[2]);
        check(gpu1[4].startsWith(holder.address), 'holder ' + gpu1[4]);
        same(gpu1[5] + ' ' + gpu1[6], 'alice@host down', 'by and then');
        same(rows[5][7], 'fan_broken', 'note');
        return true;
    }, 'what is known of members');
    await counts('#pool-waiters tbody tr', 1, 'waiters');
    await goes('#supply-part', 'a static pool has no suppliers');
    check(!(await page.content()).includes('10.0.0.1:80'), 'a value is shown');
    holder.close();
    await reads('#members tbody tr:nth-child(2) td:nth-child(2)', 'down', 'given back');
    await looksRight('a pool');
    await page.locator('#pool-counter').click();
    await reads('#detail-head', 'pool:gpu', 'its counter');
    await page.goBack();
    await appears('#pool', 'the pool again');
    await leave();
    await shows(focusedLink, '#/pool/gpu', 'the focus is back at the pool');
    await page.locator('#pools a.name', {hasText: 'browsers'}).click();
    await counts('#suppliers tbody tr', 1, 'supplier');
    await lists('#suppliers tbody td', /^1,1,1,3,/, 'has, wanted, at least, at most');
    await leave();
});

test('names and words of pools do no harm and are spelled out', async () => {
    const o = client();
    const pool = '<img/src=x/onerror=pwned=1>\xff';
    const member = Buffer.from('m\u202e<b>', 'utf8').toString('latin1');
    await o.ask(`POOL ADD ${pool} group=<i>`, 'OK');
    await o.ask(`MEMBER ADD ${pool} ${member} - k=<u>\x01`, 'OK');
    await o.ask(`MEMBER SET ${pool} ${member} note="><script>pwned=2</script>`, 'OK');
    await take(`TAKE ${pool} by=javascript:pwned=3`);
    client().say(`TAKE ${pool} 1000 member=${member} with=k=<u>\x01 by=<s>`);
    await counts('#pools tbody tr', 3, 'the pool');
    await page.locator('#pools a.name', {hasText: 'onerror'}).click();
    await counts('#pool-waiters tbody tr', 1, 'waiter');
    await reads('#pool-head', '<img/src=x/onerror=pwned=1>\\xff', 'head');
    await reads('#members tbody th', 'mU+202E<b>k=<u>\\x01', 'the member and its attribute');
    await lists('#members tbody td', /,"><script>pwned=2<\/script>,/, 'note');
    await lists('#members tbody td', /,javascript:pwned=3,/, 'by');
    await lists('#pool-waiters tbody td', /,<s>$/, 'by of the waiter');
    await isHarmless('main img, main script, main b b, main i, main u');
    await o.ask(`POOL DROP ${pool} now`, 'OK');
    await reads('#pool-level', 'There is no such pool now', 'gone');
    await leave();
});

test('an operator changes members and drops a pool, with the token', async () => {
    const holder = await take('TAKE gpu member=gpu2');
    browser.mayPost = true;
    const stateOf = '#members tbody tr:nth-child(1) td:nth-child(2)';
    await page.locator('#pools a.name', {hasText: 'gpu'}).click();
    const change = page.locator('#members tbody tr:nth-child(1) button');
    await shows(() => change.getAttribute('aria-label'), 'Change gpu0', 'label');
    await change.click();
    await reads('#order-head', /^\s*Member\s+gpu0\s*$/, 'what it is about');
    await page.locator('#order-note').fill('to be repaired');
    await page.locator('#order-token').fill('wrong');
    await checkContrast('the form, light');
    await page.locator('#order-send').click();
    await reads('#order-said', 'this is not the token', 'refused');
    await page.locator('#order-token').fill(TOKEN);
    await page.keyboard.press('Enter');
    await reads(stateOf, 'down', 'it is down');
    await goes('#order', 'the form is closed');
    await lists('#members tbody td', /,to_be_repaired,/, 'its note');
    await change.click();
    await page.locator('#order label', {hasText: 'Free'}).click();
    await page.locator('#order-send').click();
    await reads(stateOf, 'free', 'it is free; the token is still known');
    await page.locator('#members tbody tr:nth-child(3) button').click();
    await page.locator('#order label', {hasText: 'Drop'}).click();
    await page.locator('#order-now').check();
    await reads('#order-means', 'It is taken out of the pool at once; a holder loses it.', 'what it means');
    await page.locator('#order-send').click();
    await counts('#members tbody tr', 5, 'it has gone');
    await holder.ask('RETURN', 'GONE');
    await page.locator('#pool-drop').click();
    await reads('#order-head', /^\s*Pool\s+gpu\s*$/, 'the pool');
    await goes('#order-states', 'a pool has no states');
    await page.locator('#order-cancel').click();
    await goes('#order', 'cancelled');
    await page.locator('#pool-drop').click();
    await page.locator('#order-now').check();
    await page.locator('#order-send').click();
    await reads('#pool-level', 'There is no such pool now', 'dropped');
    await page.reload();
    const token = page.locator('#order-token');
    await shows(() => token.inputValue(), '', 'the token is forgotten');
    await page.goto(daemon.url + '/#/');
    await appears('#overview', 'the overview');
    browser.mayPost = false;
    closeClients();
    const o = client();
    await o.ask('POOL DROP browsers now', 'OK');
    await goes('#pools-part', 'the part goes with the last pool');
    closeClients();
});

test('pools and members by page', async () => {
    const o = client();
    for (let i = 10; i < 35; i++) await o.ask('POOL ADD p' + i, 'OK');
    for (let i = 100; i < 250; i++) await o.ask('MEMBER ADD p10 m' + i, 'OK');
    await shows(() => page.locator('#pools-next').isEnabled(), true, 'a full page');
    await counts('#pools tbody tr', 20, 'a page');
    // The verdict is about all of them: it asks for the rest, but not each second.
    const whole = async () => [await asked('limit=1000'), await page.evaluate(() => performance.now() / 1000)];
    const [before, from] = await whole();
    await poll(async () => (await whole())[0] > before, 'all are asked for');
    await nextCycles(2);
    const [after, to] = await whole();
    check(after - before <= 1 + (to - from) / 5, `${after - before} times in ${to - from} s`);
    await page.locator('#pools a.name', {hasText: 'p10'}).click();
    await counts('#members tbody tr', 100, 'members');
    await page.locator('#members-next').click();
    await counts('#members tbody tr', 50, 'the rest');
    await reads('#members-where', 'Page 2', 'page');
    await leave();
    for (let i = 10; i < 35; i++) await o.ask('POOL DROP p' + i, 'OK');
    await goes('#pools-part', 'all are gone');
    closeClients();
});

const JOBS_TUBE = 'enwiki/refreshLinks';

test('job queues are shown when a tube is used, with rates', async () => {
    await goes('#tubes-part', 'no tube was used yet');
    const worker = jobClient(),
        ids = [];
    for (let i = 0; i < 60; i++) ids.push(await worker.put(JOBS_TUBE, 'job ' + i, 1000 + i));
    await worker.put('mail', 'later', 0, 1000);
    await worker.reserve(ids[0]);
    await worker.reserve(ids[1]);
    await worker.ask(`bury ${ids[1]} 5`, 'BURIED');
    await counts('#tubes tbody tr', 3, 'three tubes');
    await lists('#tubes tbody a.name', `default,${JOBS_TUBE},mail`, 'by name');
    const row = '#tubes tbody tr:nth-child(2) td';
    await lists(row, /^58,1,0,1,0,/, 'ready, reserved, delayed, buried, waiting');
    await lists('#tubes tbody tr:nth-child(3) td', /^0,0,1,0,0,–,/, 'a delayed job');
    await worker.ask('delete ' + ids[0], 'DELETED');
    await worker.put(JOBS_TUBE, 'one more');
    // Rates are about ten seconds: they must not be missed.
    const rates = async () => {
        await worker.ask('delete ' + (await worker.put(JOBS_TUBE, 'passing')), 'DELETED');
        return (await cells(row)).slice(6).join();
    };
    await shows(rates, /^[^,]*[1-9][^,]*,[^,]*[1-9]/, 'rates');
    await worker.ask('pause-tube mail 9999', 'PAUSED');
    await reads('#tubes tbody tr:nth-child(3) small', /^paused for 2/, 'the pause');
    await reads('#tubes-note', /^3 tubes with 61 jobs, in .* of at most 1.00.GiB\.$/, 'note');
    await looksRight('the overview with tubes');
    closeClients();
});

test('jobs that cannot be written are the first thing said', async () => {
    let fails = true;
    await alter('stats', (json) => {
        Object.assign(json.resources['job store'], {enabled: true, failing: fails, file_bytes: 4096});
        json.resources.tubes.draining = fails;
    });
    await reads('#verdict-level', 'Jobs cannot be written', 'the verdict');
    await reads('#verdict-text', /^New jobs are refused; the log says why/, 'text');
    await reads('#tubes-note', /Their file has 4.00.KiB\. They are being drained: no/, 'the note');
    fails = false;
    await reads('#verdict-level', /^(?!Jobs cannot be written)/, 'the end of it');
    await endRoutes();
});

/* The answers about a cluster that the page gets instead of the daemon's, until cannedEnd. */
let canned = null; // {cluster, named: name -> the part of the answer, or a status}

const node = (name, more) => ({
    node: name, session: name + '-session', state: 'live', this: false, same_patterns: true, beat: 17,
    beat_age: 0.4, names: 3, waits: 1, units: 5, ...more,
});

const CLUSTER = {
    enabled: true, state: 'live', node: 'a.example:7531', session: '0123456789abcdef', engine: '127.0.0.1:6379',
    term: 'r:p', grace: false, refused: '', reason: '', reason_age: 0, reason_times: 0, advice: [], lease: 10,
    lease_left: 8.1, patience: 1, prefix: 'counterd', strict: 'licence:*', loose: 'render:*', requests: 3, waits: 2,
    beats: 21, calls: 4, ops: 10, round_trip: 0.00021, asserted: 7, reaped: 0, leases_lost: 1,
    connections_closed: 6, reconnects: {closed: 2, slow: 1, deaf: 0},
    nodes: [
        node('a.example:7531', {this: true}),
        node('b.example:7531', {same_patterns: false, units: -1, beat_age: -1}),
        node('c.example:7531', {state: 'ended', beat_age: 12}),
    ],
};

async function cannedBegin() {
    canned = {cluster: {...CLUSTER}, named: {}};
    await alter('config', (json) => {
        json.options = json.options.filter((o) => o.key !== 'cluster.engine');
        json.options.push({key: 'cluster.engine', value: 'redis://127.0.0.1:6379', default: ''});
    });
    await page.route('**/api/v1/cluster**', async (route) => {
        const name = /\?name=(.*)$/.exec(route.request().url());
        const part = name ? canned.named[name[1]] || 404 : null;
        if (typeof part === 'number') await route.fulfill({status: part, json: {error: {status: part, reason: 'x'}}});
        else await route.fulfill({json: part ? {...canned.cluster, name: part} : canned.cluster});
    });
    await page.reload();
}

async function cannedEnd() {
    await page.goto('about:blank');
    await endRoutes();
    await page.goto(daemon.url + '/');
    await reads('#link-text', 'Live', 'it is live');
    canned = null;
}

test('nodes that share limits are shown when there is an engine', async () => {
    await nextCycles(1);
    await goes('#cluster-part', 'there is no engine');
    same(await asked('/cluster'), 0, 'requests about nodes');
    await cannedBegin();
    await counts('#nodes tbody tr', 3, 'three nodes');
    await shows(
        async () => (await rowsOf('#nodes')).join('\n'),
        'a.example:7531 this node,live,400 ms ago,3,5,1\n' +
            'b.example:7531 other patterns,live,–,3,–,1\n' +
            'c.example:7531,ended,12 s ago,3,5,1',
        'this node, one with other patterns, and an ended session',
    );
    await lists('#cluster-facts dd', 'live,8.1\u202fs,no,210\u202fµs,2.5,3,3,–', 'facts');
    await reads(
        '#cluster-note',
        'Engine 127.0.0.1:6379. A lease lasts 10\u202fs; 1 was lost, with 6 connections closed.' +
            ' Reconnects: closed 2, slow 1.',
        'note',
    );
    await counts('#cluster-advice li', 0, 'advice');
    await shows(
        async () => (await text('#verdict')).replace(/\s+/g, ' '),
        /A node is away ?c\.example:7531 ?.*No beat for 12 s\..*Nodes share other names ?b\.example:7531/,
        'both are in the verdict',
    );
    canned.cluster = {...CLUSTER, nodes: CLUSTER.nodes.slice(0, 1)};
    await reads('#verdict', /A node has left\s*b\.example:7531/, 'it was live, as the page saw');
    canned.cluster = {...CLUSTER, grace: true, advice: ['Set save "" at the engine.', 'And more.']};
    await counts('#cluster-advice li', 2, 'advice');
    await looksRight('the overview with nodes', [800, 360]);
});

test('a node without its engine is the first thing said', async () => {
    canned.cluster = {...CLUSTER, state: 'connecting', engine: '', lease_left: 0, calls: 0, nodes: []};
    await reads('#verdict-level', 'Limits are not shared', 'the verdict');
    await reads('#verdict-text', /cannot grant strict names/, 'text');
    await lists('#cluster-facts dd', /^connecting,over,no,–,–,/, 'facts');
    await appears('#nodes-empty', 'no nodes');
    await goes('#nodes', 'the empty table');
    await reads('#cluster-note', /^Engine not connected. A lease/, 'note');
    const gone = {reason: 'h:1: Connection refused', reason_age: 75, reason_times: 60};
    canned.cluster = {...CLUSTER, state: 'away', ...gone};
    await lists('#cluster-facts dd', /, 60 times$/, 'how often');
    await lists('#cluster-advice li', 'h:1: Connection refused', 'what is wrong');
    await looksRight('a node that is refused');
    canned.cluster = {...CLUSTER};
    await reads('#verdict-level', /^(?!Limits are not shared)/, 'the end of it');
});

test('a shared name shows which nodes have its units', async () => {
    canned.named['licence%3Ax'] = {
        name: 'licence:x',
        class: 'strict',
        units: 4,
        waits: 2,
        nodes: [
            {node: 'a.example:7531', units: 1, waits: 0},
            {node: 'b.example:7531', units: 3, waits: 2},
        ],
    };
    await contend('licence:x', 1);
    await openHash('#/name/licence%3Ax');
    await counts('#shared tbody tr', 2, 'two nodes');
    await reads('#shared-count', 'strict · 4 of 1 in use · 2 waiting', 'sums, and the limit that is known here');
    await shows(
        async () => (await rowsOf('#shared')).join('\n'),
        'a.example:7531 this node,1,0\nb.example:7531,3,2',
        'nodes',
    );
    await reads('#detail-figures .sub', 'on this node', 'what is in use here');
    await looksRight('a shared name');
    closeClients();
    await reads('#detail-level', 'No client of this node holds units or waits for them', 'other nodes use it');
    canned.named['licence%3Ax'] = 503;
    await reads('#shared-empty', /not known while the engine is away/, 'the engine is away');
    await appears('#shared-empty', 'the engine is away');
    await goes('#shared', 'figures');
    canned.named['licence%3Ax'] = {name: 'licence:x', class: 'strict', units: 0, waits: 0, nodes: []};
    await reads('#shared-empty', 'Nobody holds units of it on any node.', 'nobody');
    await leave();
    const before = await asked('?name=');
    await page.evaluate(() => {
        window.openedAt = performance.now();
        location.hash = '#/name/mine';
    });
    await reads('#detail-head', 'mine', 'another name');
    await poll(async () => (await asked('?name=mine')) > 0, 'a request about it');
    await nextCycles(3);
    await goes('#shared-part', 'a name that is not shared');
    // The page asks again after ten seconds; on a busy machine this may take as long.
    const again = await page.evaluate(() => Math.floor((performance.now() - window.openedAt) / 10000));
    check((await asked('?name=')) - before <= 1 + again, 'too many requests about it');
    await leave();
});

test('words of other nodes do no harm and are spelled out', async () => {
    const bad = '<img src=x onerror=pwned=1>\u202e\u0007', spelled = '<img src=x onerror=pwned=1>U+202EU+0007';
    const nodes = [node(bad, {state: bad, same_patterns: false})];
    canned.cluster = {...CLUSTER, node: bad, engine: bad, advice: [bad], refused: bad, state: 'refused', nodes};
    canned.named['licence%3Ax'] = {
        name: bad, class: 'strict', units: 1, waits: 0, nodes: [{node: bad, units: 1, waits: 0}],
    };
    await reads('#nodes tbody .name', spelled, 'the node');
    await lists('#cluster-advice li', spelled + ',' + spelled, 'advice');
    const contains = new RegExp(spelled.replaceAll('+', '\\+'));
    await reads('#cluster-note', contains, 'the engine');
    await reads('#verdict-text', contains, 'why it is refused');
    await openHash('#/name/licence%3Ax');
    await reads('#shared tbody .name', spelled, 'its holder');
    await isHarmless('main img');
    await leave();
    await cannedEnd();
    await nextCycles(1);
    await goes('#cluster-part', 'the end of it');
});

test('a click on a tube shows its jobs, and a click on a job its body, which does no harm', async () => {
    const worker = jobClient();
    const body = Buffer.from(
        '<img src=x onerror=pwned=1>\n\t"ä\u202e\x1b[2J\\x41</pre><script>pwned=2</script>',
        'utf8',
    ).toString('latin1');
    const id = await worker.put('a;b', body),
        binary = await worker.put('a;b', '\x00\xffA'),
        large = await worker.put('a;b', 'y'.repeat(70000));
    await worker.reserve(binary);
    await counts('#tubes tbody tr', 4, 'the tube');
    await page.locator('#tubes a.name', {hasText: 'a;b'}).click();
    await counts('#jobs tbody tr', 3, 'its jobs');
    await reads('#tube-head', 'a;b', 'head');
    await reads('#tube-level', '2 jobs are ready', 'level');
    await lists('#jobs tbody td:nth-child(2)', 'ready,reserved,ready', 'states');
    await page.locator('#jobs tbody button').nth(0).click();
    await appears('#job-body', 'its body');
    await reads('#job-head', 'Job ' + id, 'which job');
    await reads(
        '#job-body',
        '<img src=x onerror=pwned=1>\n\t"äU+202E U+001B[2J\\x41</pre><script>pwned=2</script>',
        'the body',
    );
    await isHarmless('main img, main script');
    await looksRight('a tube', [768, 360]);
    await page.locator('#jobs tbody button').nth(1).click();
    await reads('#job-body', /^00000 {2}00 ff 41 +\.\.A$/, 'bytes in hexadecimal');
    await reads('#job-about', /^reserved · priority 1,024 · put /, 'facts');
    await page.locator('#jobs tbody button').nth(2).click();
    await reads('#job-head', 'Job ' + large, 'the large one');
    await appears('#job-cut', 'it is cut');
    await shows(async () => (await text('#job-body')).length, 65536, 'the beginning');
    await page.locator('#jobs-of').selectOption('reserved');
    await counts('#jobs tbody tr', 1, 'only reserved');
    await page.locator('#job-close').click();
    await goes('#job', 'closed');
    await leave();
    await shows(focusedLink, '#/tube/a%3Bb', 'the focus is back at the tube');
    await page.locator('#tubes a.name', {hasText: JOBS_TUBE}).click();
    await counts('#jobs tbody tr', 50, 'a page of jobs');
    await page.locator('#jobs-next').click();
    await counts('#jobs tbody tr', 10, 'the rest');
    await leave();
    closeClients();
});

test('an operator kicks and deletes a job, with the token', async () => {
    browser.mayPost = true;
    const worker = jobClient();
    await page.locator('#tubes a.name', {hasText: 'mail'}).click();
    await counts('#jobs tbody tr', 1, 'its job');
    const job = page.locator('#jobs tbody button');
    await job.click();
    await appears('#job-order', 'the form');
    await page.locator('#job-token').fill('wrong');
    await page.locator('#job-kick').click();
    await reads('#job-said', 'this is not the token', 'refused');
    await page.locator('#job-token').fill(TOKEN);
    await page.locator('#job-kick').click();
    await reads('#job-said', 'It was kicked.', 'kicked');
    await lists('#jobs tbody td:nth-child(2)', 'ready', 'ready');
    const isOffered = (button) => page.locator(button).isEnabled();
    await shows(() => isOffered('#job-kick'), false, 'a ready job is not kicked');
    const id = await job.textContent();
    await worker.reserve(id);
    await shows(() => isOffered('#job-delete'), false, 'a reserved job is not deleted');
    await worker.ask(`release ${id} 0 0`, 'RELEASED');
    await shows(() => isOffered('#job-delete'), true, 'it is ready again');
    await page.locator('#job-delete').click();
    await reads('#tube-level', 'There is no such tube now', 'gone');
    await goes('#job', 'nothing is shown of it');
    await page.reload();
    await page.goto(daemon.url + '/#/');
    await appears('#overview', 'the overview');
    browser.mayPost = false;
    closeClients();
});

test('the tree for screen readers has its landmarks, headings, tables and charts', async () => {
    const {holder, waiters} = await contend('tree:page', 3);
    await holder.ask('RELEASE tree:page', 'RELEASED');
    same(await waiters[0].answer(), 'LOCKED', 'a wait that ends, for the chart of these');
    const roles = ['banner', 'main', 'contentinfo', 'search', 'tablist', 'tabpanel', 'combobox', 'status'];
    const regions = ['Key figures', 'Contended names', 'Connections', 'Memory', 'Protocols', 'Durations'];
    const parts = [
        ...roles.map((role) => [role]),
        ...regions.map((name) => ['region', name]),
        ['table', /^Names by how many clients wait/],
        ['table', /^Open connections$/],
        ['table', /^Requests since the start/],
        ['columnheader', 'Waiting load'],
        ['rowheader', 'tree:page'],
    ];
    await poll(async () => {
        const tree = await accessible();
        const count = (role, is) => tree.filter((n) => n.role === role && is(n.name)).length;
        for (const [role, name] of parts)
            check(
                count(role, (n) => name === undefined || (name.test ? name.test(n) : name === n)),
                `no ${role} ${name || ''}`,
            );
        check(count('heading', () => true) >= 10, 'headings');
        const summary = (n) => /, last 5\smin: .* now .*highest/.test(n);
        same(count('image', summary) + count('img', summary), 6, 'charts with a summary');
        for (const role of ['button', 'link', 'combobox', 'radio', 'tab'])
            same(
                count(role, (n) => !n),
                0,
                `${role} without a name`,
            );
        return true;
    }, 'the tree');
    closeClients();
});

test('summaries of charts do not change every second', async () => {
    await page.evaluate(() => {
        window.changes = 0;
        window.watchedFrom = performance.now();
        new MutationObserver((list) => {
            window.changes += list.length;
        }).observe(document.querySelectorAll('#charts .plot')[3], {
            attributes: true,
            attributeFilter: ['aria-label'],
        });
    });
    await nextCycles(5);
    const {changes, seconds} = await page.evaluate(() => ({
        changes: window.changes,
        seconds: (performance.now() - window.watchedFrom) / 1000,
    }));
    // At most one in 15 seconds.
    check(changes <= 1 + seconds / 15, `${changes} changes in ${seconds} seconds`);
});

test('a second look at a chart with the pointer', async () => {
    await page
        .locator('#charts .plot')
        .nth(1)
        .hover({position: {x: 200, y: 80}});
    const tip = page.locator('#charts .plot').nth(1).locator('.tip');
    await shows(() => tip.isVisible(), true, 'the read-out');
    await counts('#charts .cross.on', 6, 'charts that show the same moment');
    await nextCycles(1);
    check(await tip.isVisible(), 'it stays over updates');
    await page.mouse.move(5, 300);
    await counts('#charts .cross.on', 0, 'after leaving');
});

test('contrast in both themes, while clients are turned away', async () => {
    await contend('Article:1', 3);
    const other = client();
    await has('#verdict', 'data-level', 'warn', 'a name is contended');
    const turnedAway = async () => {
        await other.ask('ACQ4ME Article:1 1 1 0', 'QUEUE_FULL');
        return page.locator('#verdict').getAttribute('data-level');
    };
    await shows(turnedAway, 'bad', 'the worst level');
    await reads('#verdict-head', /Article/, 'the worst name');
    await looksRight('the overview');
    await page.locator('#names a.name', {hasText: 'Article'}).click();
    await appears('#waiters tbody tr', 'detail');
    await looksRight('the detail');
    await leave();
    closeClients();
    await page.locator('#pause').click();
    await reads('#link-text', 'Paused', 'it says so');
    await looksRight('paused');
    await page.locator('#pause').click();
});

test('nothing scrolls sideways at any width', async () => {
    for (const width of [320, 412, 768, 1024, 1920, 3440]) {
        await view(width, 900, 'light');
        await checkWidth(width + ' pixels');
    }
    await view(1440, 900, 'light');
});

test('the theme is changed by its button and remembered', async () => {
    const colour = async () => {
        await transitionsEnd();
        return page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    };
    await has('html', 'data-theme', 'light', 'theme');
    const light = await colour();
    await page.locator('#theme').click();
    await has('html', 'data-theme', 'dark', 'theme');
    const dark = await colour();
    check(dark !== light, dark);
    await page.reload();
    await has('html', 'data-theme', 'dark', 'theme after loading again');
    await shows(colour, dark, 'dark after loading again');
    await has('#theme', 'aria-label', 'Use light colours', 'label');
    await page.locator('#theme').click();
    await shows(colour, light, 'light again');
    await page.emulateMedia({colorScheme: 'dark'});
    await has('html', 'data-theme', 'dark', 'it follows the system again');
    await page.emulateMedia({colorScheme: 'light'});
});

test('pause and a hidden tab stop the questions', async () => {
    const still = async () => {
        // In the page's own time, so that timers of cycles that end before would be seen.
        const askedIn = (ms) =>
            page.evaluate(async (time) => {
                const before = window.asked.length;
                await new Promise((resolve) => setTimeout(resolve, time));
                return window.asked.length - before + window.unanswered;
            }, ms);
        await shows(() => askedIn(1000), 0, 'the cycle under way ends');
        return askedIn(3000);
    };
    await reads('#link-text', 'Live', 'it is live');
    await page.locator('#pause').click();
    await reads('#link-text', 'Paused', 'it says so');
    same(await still(), 0, 'requests while paused');
    await page.locator('#pause').click();
    await nextCycles(1);
    await reads('#link-text', 'Live', 'again');
    const hide = (is) =>
        page.evaluate((hidden) => {
            Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        }, is);
    await hide(true);
    same(await still(), 0, 'requests while hidden');
    await hide(false);
    await nextCycles(1);
});

test('no animation with reduced motion', async () => {
    await page.emulateMedia({reducedMotion: 'reduce'});
    await shows(() => page.evaluate(() => document.getAnimations().length), 0, 'animations');
    await page.emulateMedia({reducedMotion: 'no-preference'});
});

test('the server gone and back', async () => {
    await contend('gone:page', 2);
    await reads('#verdict-head', 'gone:page', 'the verdict');
    browser.isAway = true;
    const admin = daemon.ports.admin,
        started = (await daemon.api('stats')).started;
    closeClients();
    load.stop();
    await daemon.stop();
    await appears('#outage', 'it says that the daemon is gone');
    await reads('#link-text', 'Unreachable', 'link');
    await reads('#outage-what', 'The daemon can’t be reached.', 'what is wrong');
    await reads('#outage-data', /^The figures are from \d\d:\d\d:\d\d, not current\.$/, 'since when');
    await reads('#outage-next', /^Next try in|^Trying/, 'the next try');
    await has('body', 'class', /\bstale\b/, 'marked as stale');
    await reads('#outage-next', /^Next try in (1\d|[3-9])\u202fs\.$/, 'it tries less often');
    await looksRight('unreachable');
    await page.locator('#retry').click();
    // Not with the mouse from here: when the daemon is back, a try of the page's own takes the button away.
    const retry = () =>
        page.evaluate(() => {
            const before = window.asked.length;
            document.querySelector('#retry').click();
            return window.asked.length > before;
        });
    await shows(retry, true, 'a try at once');
    daemon = await Daemon.start({admin}, '');
    check((await daemon.api('stats')).started >= started, 'another daemon');
    await retry();
    await reads('#link-text', 'Live', 'it is live again');
    await goes('#outage', 'the outage is over');
    await counts('body.stale', 0, 'still marked as stale');
    await reads('#verdict-head', 'Nothing waits. No name is contended.', 'figures of the new daemon');
    browser.isAway = false;
    await nextCycles(2);
});

/* Has the page ask now, instead of in a second. */
const lookAgain = () => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));

async function verdictIs(level, title, place) {
    await reads('#verdict-level', title, 'title');
    await has('#verdict', 'data-level', level, 'level of ' + title);
    await reads('#verdict-head', place, 'place of ' + title);
}

test('jobs without a worker, and jobs that were given up, are not all clear', async () => {
    await verdictIs('ok', 'All clear', 'Nothing waits. No name is contended.');
    await looksRight('the verdict clear');
    same(await asked('limit=1000'), 0, 'requests for what the overview shows');
    const c = jobClient();
    await c.ask('use idle', 'USING idle');
    c.socket.write('put 1 0 1000 1\r\nx\r\n'.repeat(1000));
    const ids = [];
    while (ids.length < 1000) ids.push((await c.answer()).slice('INSERTED '.length));
    await verdictIs('bad', 'Jobs without a worker', 'idle');
    await reads(
        '#verdict-text',
        /^1,000 jobs are ready, the first of them was put .* ago, and nobody takes any\. /,
        'what to do',
    );
    await looksRight('the verdict unworked');
    await page.locator('#verdict-head a').click();
    await reads('#tube-head', 'idle', 'its link leads to the tube');
    await leave();
    for (const id of ids.slice(0, 100)) {
        await c.reserve(id);
        await c.ask(`bury ${id} 1`, 'BURIED');
    }
    await verdictIs('warn', 'Jobs were given up', 'idle');
    await reads('#verdict-text', /^100 jobs are buried\. Find out why/, 'what to do');
    await looksRight('the verdict buried');
    await c.ask('delete ' + ids[0], 'DELETED');
    await verdictIs('note', 'Jobs were given up', 'idle');
    for (const id of ids.slice(1)) c.say('delete ' + id);
    for (let i = 1; i < ids.length; i++) same(await c.answer(), 'DELETED', 'deleted');
    await reads('#verdict-level', 'All clear', 'the end of it');
    closeClients();
});

test('a backlog that grows is told of when it has grown for a while', async () => {
    const c = jobClient();
    const id = await c.put('busy', 'x');
    let looks = 0;
    await alter('stats', (json) => {
        json.now += 30 * looks;
    });
    await alter('tubes?**', (json) => {
        looks++;
        json.tubes = json.tubes.filter((t) => t.name === 'busy');
        for (const t of json.tubes) {
            Object.assign(t.states, {ready: 1000 + 50 * looks, reserved: 4});
            t.totals.claims += looks;
        }
    });
    const level = async () => {
        await lookAgain();
        return text('#verdict-level');
    };
    await shows(level, 'A backlog grows', 'it grows');
    check(looks >= 4, `told of after ${looks} looks`);
    await verdictIs('warn', 'A backlog grows', 'busy');
    await reads('#verdict-text', /^From 1,\d\d0 to 1,\d\d0 ready jobs in \d+.min/, 'text');
    await looksRight('the verdict grows');
    await endRoutes();
    await c.ask('delete ' + id, 'DELETED');
    await page.reload();
    await reads('#verdict-level', 'All clear', 'the end of it');
    closeClients();
});

/* Altered answers of the daemon, and the verdict: the worst finding, and the titles of the others. */
const ALTERED = [
    {
        what: 'memory and connections near their limits are',
        answers: {
            stats: (json) => {
                json.memory = {used_bytes: 850, limit_bytes: 1000, resident_bytes: 5000};
                Object.assign(json.resources.tubes, {memory_bytes: 96 << 20, memory_limit_bytes: 100 << 20});
                Object.assign(json.protocols[0].connections, {open: 900, max: 1000});
            },
        },
        worst: ['bad', 'Memory of jobs is nearly full', 'Job queues'],
        others: 'Memory of names is nearly full,Connections are nearly used up',
        link: '#memory-head',
    },
    {
        what: 'a refused reload or upgrade is',
        answers: {
            reload: (json) => Object.assign(json, {tried: 1, good: false, at: 1800000000}),
            upgrade: (json) => Object.assign(json, {tried: 1, good: false, report: ['it <b>crashed</b>\u202e']}),
        },
        worst: ['warn', 'A reload was refused', 'Configuration'],
        text: /^The reload at \d\d:\d\d:\d\d found mistakes/,
        others: 'An upgrade was refused',
        more: /It said: “it <b>crashed<\/b>U\+202E”\./,
    },
];

for (const {what, answers, worst, text: said, others, more, link} of ALTERED)
    test(what + ' in the verdict', async () => {
        for (const [path, change] of Object.entries(answers)) await alter(path, change);
        await verdictIs(...worst);
        await reads('#verdict-text', said || /./, 'text');
        await lists('#verdict-more strong', others, 'the other findings');
        await reads('#verdict-more .finding-text', more || /./, 'text of the next one');
        await looksRight('the verdict');
        if (link) {
            await page.locator('#verdict-more a').first().click();
            const isInView = () =>
                page.evaluate((to) => {
                    const {top, bottom} = document.querySelector(to).getBoundingClientRect();
                    return (
                        top > document.querySelector('.bar').getBoundingClientRect().bottom && bottom < innerHeight
                    );
                }, link);
            await shows(isInView, true, 'its link leads to the panel');
            await appears('#overview', 'the overview is still there');
        }
        await endRoutes();
        await reads('#verdict-level', 'All clear', 'the end of it');
    });

test('without a token nothing can be changed', async () => {
    const o = client();
    await o.ask('POOL ADD db', 'OK');
    await o.ask('MEMBER ADD db m', 'OK');
    await counts('#pools tbody tr', 1, 'the pool');
    await page.locator('#pools a.name').click();
    await counts('#members tbody tr', 1, 'its member');
    await nextCycles(1);
    same(await page.locator('#pool button:visible').count(), 0, 'buttons');
    await leave();
    await jobClient().put('t', 'x');
    await page.locator('#tubes a.name', {hasText: /^t$/}).click();
    await counts('#jobs tbody tr', 1, 'its job');
    await page.locator('#jobs tbody button').click();
    await reads('#job-body', 'x', 'its body');
    await goes('#job-order', 'the form');
    await leave();
    closeClients();
});

test('in all this no error, no violation of the policy, no request elsewhere', async () => {
    same(browser.complaints.join('\n'), '', 'complaints');
    const answer = await fetch(daemon.url + '/');
    check(/script-src 'self'/.test(answer.headers.get('content-security-policy') || ''), 'the page has its policy');
    await page.evaluate(() => {
        const s = document.createElement('script');
        s.textContent = 'window.pwned = 2';
        document.body.append(s);
    });
    await poll(() => browser.complaints.some((c) => c.startsWith('CSP:')), 'a violation would have been seen');
    same(await page.evaluate(() => typeof window.pwned), 'undefined', 'the policy is in force');
});

let isGood = false;
try {
    isGood = await run(process.argv.slice(2));
} finally {
    if (load) load.stop();
    closeClients();
    await browser.close();
    if (daemon.status === undefined)
        await daemon.stop().catch((e) => {
            note('the daemon did not end in order: ' + e.message + '\n' + daemon.log);
            isGood = false;
        });
    daemon.kill();
}
process.exit(isGood ? 0 : 1);
