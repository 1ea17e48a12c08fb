/*
 * page_test.mjs - tests the status page as a person uses it: Chromium shows the page of a real
 * daemon that real clients load. The tests run in order in one browser; each continues from the end
 * of the last. What they do is followed by what the page shows then (sees).
 */
import {
    Daemon, JobClient, Load, TOKEN, TextClient, addTest, afterFailure, agrees, check, note, openBrowser, poll, run,
    same, shows,
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

/* Adds a test. Its clients close at its end, unless it returns KEEP. */
const KEEP = {};
const test = (name, fn) =>
    addTest(name, async () => {
        if ((await fn()) !== KEEP) closeClients();
    });

const text = (selector) => page.locator(selector).first().textContent();
const cells = async (selector) => (await page.locator(selector).allTextContents()).map((cell) => cell.trim()).join();

/* The rows of a table: a line for each. */
const rowsOf = (table) =>
    page
        .locator(table + ' tbody tr')
        .evaluateAll((all) =>
            all.map((row) => [...row.cells].map((c) => c.innerText.trim().replace(/\s+/g, ' ')).join()).join('\n'),
        );

function look(what, wanted) {
    const [selector, attribute] = what.split(' @'),
        found = page.locator(selector);
    if (attribute) return found.first().getAttribute(attribute);
    if (typeof wanted === 'boolean') return found.first().isVisible();
    if (typeof wanted === 'number') return found.count();
    return Array.isArray(wanted) ? cells(selector) : text(selector);
}

/*
 * Waits until the page shows all of this: for selectors a text or a pattern of it, in brackets of the texts of all,
 * with commas; true or false, if it can be seen; a number, of how many there are. `SELECTOR @NAME` is an attribute.
 */
const sees = (all) =>
    poll(async () => {
        for (const [what, wanted] of Object.entries(all)) agrees(await look(what, wanted), [wanted].flat()[0], what);
        return true;
    }, Object.keys(all).join());

/* What a person does, and what the page shows then. */
const click = (selector, all = {}) => page.locator(selector).click().then(() => sees(all));
const fill = (selector, value, all = {}) => page.locator(selector).fill(value).then(() => sees(all));
const choose = (selector, value, all = {}) => page.locator(selector).selectOption(value).then(() => sees(all));
const press = (key, all = {}) => page.keyboard.press(key).then(() => sees(all));
const type = (keys, all = {}) => page.keyboard.type(keys).then(() => sees(all));
const back = (all) => page.goBack().then(() => sees(all));
const leave = () => press('Escape', {'#overview': true});
const focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.className);
const focusedLink = () => page.evaluate(() => document.activeElement.getAttribute('href'));

/* Waits for transitions; before their end the colours are not those of the style sheet. */
const transitionsEnd = () =>
    poll(
        () => page.evaluate(() => !document.getAnimations().some((a) => a instanceof CSSTransition)),
        'colours have changed',
    );

async function view(width, height, scheme) {
    await page.setViewportSize({width, height});
    await page.emulateMedia({colorScheme: scheme});
    await sees({'html @data-theme': scheme});
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
        await c.ask('STATS waiting_workers', /^waiting_workers: \d+$/);
    }
    return {holder, waiters: all};
}

/* Nothing scrolls sideways at these widths. */
async function fits(what, ...widths) {
    const excess = () => page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - innerWidth));
    for (const width of widths) {
        await view(width, 800, 'light');
        await shows(excess, 0, `${what} scrolls sideways at ${width}`);
    }
    await view(1440, 900, 'light');
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
    await fits(what, ...widths);
    for (const scheme of ['light', 'dark']) {
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

const openHash = (hash, all) => page.evaluate((to) => (location.hash = to), hash).then(() => sees(all));

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
    if (daemon.status !== undefined) daemon = await Daemon.start(daemon.ports.admin);
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

const CLEAR = 'Nothing waits. No name is contended.';

test('each verdict has its threshold', judgeCases);

test('with no client it says that nothing waits', async () => {
    await page.goto(daemon.url + '/');
    await sees({
        '#link-text': 'Live', '#verdict-level': 'All clear', '#verdict-head': CLEAR, '#verdict-more': false,
        '#names-empty': CLEAR, '#names': false,
    });
    await sees({
        '#conns-empty': true, '#requests-empty': true, '#closes-empty': true,
        '#version': (await daemon.api('stats')).version,
    });
});

test('with load on, charts move and rates are about right', async () => {
    load = new Load(daemon.ports.text, 10, 8);
    const figures = page.locator('.figure .value');
    const shown = async () => (await figures.allTextContents()).map((value) => Number(value.replace(/,/g, '')));
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
    await sees({'.figure:nth-child(8) .value': '10'});
    const line = () => page.locator('#charts .plot').nth(3).locator('path.line').first().getAttribute('d');
    await shows(line, /.{20}/, 'a line');
    const before = await line();
    await poll(async () => (await line()) !== before, 'the line moves');
    await sees({'#requests': /ACQ4ME\s*LOCKED.*RELEASE\s*RELEASED/s});
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
    await sees({'#names': /hot:page/});
    const looks = (await page.evaluate(() => window.listedIn)) - from;
    // One cycle may have been under way when the wait began; the next must show it.
    check(looks <= 1, `it took ${looks} looks`);
    await sees({
        '#verdict-head': 'hot:page', '#v-waiting': '3', '#verdict @data-level': 'warn', '#verdict-facts': true,
        '#verdict-who': true, '#v-use': '1 of 1', '#v-waiters': /127\.0\.0\.1×3/,
    });
    await click('#names a.name:has-text("hot:page")', {'#detail-head': 'hot:page', '#waiters tbody tr': 3});
    await sees({
        '#waiters tbody th span': [waiters.map((w) => w.address).join()],
        '#holders tbody th span': holder.address, '#detail-level': '3 clients wait',
    });
    await holder.ask('RELEASE hot:page', 'RELEASED');
    same(await waiters[0].answer(), 'LOCKED', 'the oldest waiter');
    await sees({'#holders tbody th span': waiters[0].address});
    closeClients();
    await sees({'#detail-level': /^There is no such name now/, '#holders-empty': true, '#waiters-empty': true});
    await leave();
});

test('names of any bytes do no harm and are shown spelled out', async () => {
    const utf8 = (shown) => Buffer.from(shown, 'utf8').toString('latin1');
    const names = [
        {bytes: '<img/src=x/onerror=pwned=1>', shown: '<img/src=x/onerror=pwned=1>'},
        {bytes: '"><script>pwned=1</script>', shown: '"><script>pwned=1</script>'},
        {bytes: 'bad\xff\xfe\xc3(', shown: 'bad\\xff\\xfe\\xc3('},
        {bytes: utf8('safe\u202egnp.exe\u2066'), shown: 'safeU+202Egnp.exeU+2066'},
        {bytes: 'back\\slash\\x41', shown: 'back\\\\slash\\\\x41'},
        {bytes: utf8('Straße:日本'), shown: 'Straße:日本'},
    ];
    for (const name of names) await contend(name.bytes, 2);
    await contend('L' + 'm'.repeat(253) + 'N', 2);
    await contend('M'.repeat(2000) + 'END', 2);
    const listed = '#names tbody .name';
    await poll(async () => {
        const all = await page.locator(listed).allTextContents();
        for (const {shown} of names) check(all.includes(shown), `${shown} is not among ${all}`);
        return true;
    }, 'all are listed');
    // Names of up to 255 bytes are cut in their middle, longer ones behind what is known of them.
    await sees({[listed]: [/(?:^|,)Lm+…m+N(?:,|$)/], '#names tbody .unseen': 7});
    await sees({[listed]: [/(?:^|,)M{84}…(?:,|$)/]});
    await isHarmless('img, main script');
    for (const {shown} of names) {
        await page.locator('#names tbody a.name').filter({hasText: shown}).first().click();
        await sees({'#detail-head': shown, '#waiters tbody tr': 2});
        await leave();
    }
    await fits('the overview', 360);
    return KEEP;
});

test('a long name is found by its beginning', async () => {
    await page.locator('#names .name', {hasText: /^M+…$/}).click();
    await shows(() => page.locator('#find').inputValue(), 'M'.repeat(255), 'what is known of it is looked for');
    await sees({'#found [role=option]': 1});
    await fill('#find', 'MMMM', {'#found [role=option]': 1});
    await press('ArrowDown', {'#find @aria-activedescendant': 'found-0'});
    await press('Enter', {'#detail-head': /MEND$/, '#detail-size': '2,003 bytes', '#waiters tbody tr': 2});
    await fits('the detail of a long name', 360);
    await leave();
});

test('names without waiters are found, whatever an address would make of them', async () => {
    const name = 'a+b&c=%41#?<b>';
    await client().ask(`ACQ4ME ${name} 10 20 0`, 'LOCKED');
    await press('/');
    await type('a+b&c', {'#found [role=option]': 1, '#found': /1 of 10 in use/});
    await press('Escape', {'#found-box': false});
    await type(name);
    await press('Enter', {'#detail-head': name, '#holders tbody td:nth-child(4)': '1'});
    await back({'#overview': true});
    await fill('#find', 'there is none such', {'#found-note': 'No name begins like this now.'});
    await press('Escape');
});

test('by keyboard alone: to a name and back, tabs, ranges, charts', async () => {
    await contend('keys:page', 1);
    // A new verdict is said, in place of a value that was just read out: it comes first.
    await sees({'#verdict-head': 'keys:page'});
    await page.locator('.brand').focus();
    const tabTo = async (is, what) => {
        for (let i = 0; i < 60; i++) {
            await press('Tab');
            if (await is()) return;
        }
        throw new Error('Tab does not reach ' + what);
    };
    await tabTo(() => page.evaluate(() => document.activeElement.name === 'range'), 'the ranges');
    await press('ArrowLeft', {'#charts-head': 'Last 60 seconds'});
    await tabTo(async () => (await focus()).includes('plot'), 'a chart');
    await press('ArrowLeft');
    await press('ArrowLeft', {'.plot .tip': true, '#say': /^\d\d:\d\d:\d\d: waiting \d/});
    const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    same(ring, 'solid', 'the focus can be seen');
    await press('Escape', {'.plot .tip': false});
    await tabTo(async () => (await focus()) === 'tab-waiting', 'the tabs');
    for (const step of ['ArrowRight refused', 'End peak', 'ArrowRight waiting', 'ArrowLeft peak', 'Home waiting']) {
        const [key, tab] = step.split(' ');
        await press(key, {[`#tab-${tab} @aria-selected`]: 'true', '[role=tab][aria-selected=true]': 1});
        await shows(focus, 'tab-' + tab, key);
    }
    const isLink = () =>
        page.evaluate(
            () => document.activeElement.matches('#names a') && document.activeElement.textContent === 'keys:page',
        );
    await tabTo(isLink, 'the name');
    await nextCycles(2);
    check(await isLink(), 'updates take the focus away');
    await press('Enter');
    await shows(focus, 'detail-head', 'the heading has the focus');
    await leave();
    await shows(isLink, true, 'the focus is back at the name');
    await click('#ranges label >> nth=1');
});

test('tabs list by refusals and by peak', async () => {
    const holder = client(),
        other = client();
    await holder.ask('ACQ4ME busy:page 1 1 0', 'LOCKED');
    const refuse = () => other.ask('ACQ4ME busy:page 1 1 0', 'QUEUE_FULL');
    for (let i = 0; i < 20; i++) await refuse();
    await click('#tab-refused', {'#names': /busy:page/});
    // The figure is about five seconds: it must not be missed.
    const figure = async () => {
        await refuse();
        return text('.figure:nth-child(3) .value');
    };
    await shows(figure, /[1-9]/, 'refusals in the figures');
    await sees({'#verdict-level': 'Clients are turned away'});
    await click('#tab-peak', {'#names tbody tr': true});
    await click('#tab-waiting');
});

test('connections by page and protocol', async () => {
    const extra = Array.from({length: 15}, () => client());
    for (const c of extra) await c.ask('RELEASE none', 'NOT_LOCKED');
    const all = async () => (await daemon.api('connections?limit=1000')).connections.length;
    await shows(all, extra.length + load.clients.length, 'those of the last test are gone');
    await nextCycles(2); // a page begins where the last one ended when that was read
    await sees({'#conns tbody tr': 20, '#conns-next:enabled': 1});
    await click('#conns-next', {'#conns-where': 'Page 2', '#conns tbody tr': 5});
    await click('#conns-back', {'#conns-where': 'Page 1', '#conns tbody tr': 20});
    await choose('#conns-of', 'counter', {'#conns-empty': true});
    await choose('#conns-of', '', {'#conns tbody tr': 20});
});

async function take(line) {
    const c = client();
    await c.ask(line, /^TAKEN /);
    return c;
}

test('pools are shown when there are some, with a bar of states for each', async () => {
    await sees({'#pools-part': false});
    const supplier = client();
    await client().each('OK', [
        'POOL ADD gpu group=gpus',
        ...[0, 1, 2, 3, 4, 5].map((i) => `MEMBER ADD gpu gpu${i} 10.0.0.${i}:80 type=a${i % 2}`),
        'MEMBER SET gpu gpu5 state=down note=fan_broken',
        'MEMBER SET gpu gpu4 state=dirty',
        'POOL ADD browsers kind=joined max=3',
    ]);
    await supplier.ask('SUPPLY browsers 1 3', 'OK');
    same(await supplier.answer(), 'WANT browsers 1', 'the supplier is asked');
    await supplier.ask('JOIN browsers b-1 10.0.0.9:9222', 'JOINED');
    await sees({
        '#pools tbody tr': 2, '#pools tbody a.name': ['browsers,gpu'],
        '#pools .states-text': ['1 free,4 free · 1 dirty · 1 down'],
    });
    await take('TAKE gpu by=train');
    await sees({'#pools .states-text': ['1 free,3 free · 1 taken · 1 dirty · 1 down']});
    const widths = () =>
        page.locator('#pools tbody tr:nth-child(2) .bar-states rect:not(.track)').evaluateAll((all) =>
            all
                .filter((e) => e.getAttribute('visibility') === 'visible')
                .map((e) => e.getAttribute('class') + ' ' + e.getAttribute('width'))
                .join(),
        );
    await shows(widths, 'state-free 50.00,state-taken 16.67,state-dirty 16.67,state-down 16.67', 'the bar');
    client().say('TAKE gpu 1000 count=5');
    const verdicts = async () => (await text('#verdict')) + (await cells('#verdict-more li'));
    await shows(verdicts, /Members are waited for ?gpu ?1 request waits/, 'the verdict says that somebody waits');
    await shows(verdicts, /Members are down ?gpu ?1 of 6 members is down/, 'and that a member is down');
    await nextCycles(1);
    await looksRight('the overview with pools');
    return KEEP;
});

test('a click on a pool shows its members, their holders, and since when', async () => {
    const holder = await take('TAKE gpu member=gpu1 by=alice@host');
    await client().ask('MEMBER SET gpu gpu1 state=down', 'OK');
    await click('#pools a.name:has-text("gpu")', {
        '#members tbody tr': 6, '#pool-head': 'gpu', '#pool-level': '1 request waits',
        '#pool-group': /^\s*gpus\s*$/, '#pool-waiters tbody tr': 1, '#supply-part': false,
    });
    const known = 'gpu1 type=a1,taken,\\d\\d:\\d\\d:\\d\\d,[^,]*,' + holder.address + '[^,]*,alice@host,down';
    await shows(() => rowsOf('#members'), new RegExp(known + '.*gpu5 (?:[^,]*,){7}fan_broken', 's'), 'members');
    check(!(await page.content()).includes('10.0.0.1:80'), 'a value is shown');
    holder.close();
    await sees({'#members tbody tr:nth-child(2) td:nth-child(2)': 'down'});
    await looksRight('a pool');
    await click('#pool-counter', {'#detail-head': 'pool:gpu'});
    await back({'#pool': true});
    await leave();
    await shows(focusedLink, '#/pool/gpu', 'the focus is back at the pool');
    await click('#pools a.name:has-text("browsers")', {
        '#suppliers tbody tr': 1, '#suppliers tbody td': [/^1,1,1,3,/],
    });
    await leave();
    return KEEP;
});

test('names and words of pools do no harm and are spelled out', async () => {
    const o = client();
    const pool = '<img/src=x/onerror=pwned=1>\xff';
    const member = Buffer.from('m\u202e<b>', 'utf8').toString('latin1');
    await o.each('OK', [
        `POOL ADD ${pool} group=<i>`,
        `MEMBER ADD ${pool} ${member} - k=<u>\x01`,
        `MEMBER SET ${pool} ${member} note="><script>pwned=2</script>`,
    ]);
    await take(`TAKE ${pool} by=javascript:pwned=3`);
    client().say(`TAKE ${pool} 1000 member=${member} with=k=<u>\x01 by=<s>`);
    await sees({'#pools tbody tr': 3});
    await click('#pools a.name:has-text("onerror")', {
        '#pool-waiters tbody tr': 1, '#pool-head': '<img/src=x/onerror=pwned=1>\\xff',
        '#members tbody th': 'mU+202E<b>k=<u>\\x01', '#pool-waiters tbody td': [/,<s>$/],
    });
    await shows(() => cells('#members tbody td'), /,javascript:pwned=3,.*,"><script>pwned=2<\/script>,/, 'by and note');
    await isHarmless('main img, main script, main b b, main i, main u');
    await o.ask(`POOL DROP ${pool} now`, 'OK');
    await sees({'#pool-level': 'There is no such pool now'});
    await leave();
    return KEEP;
});

test('an operator changes members and drops a pool, with the token', async () => {
    const holder = await take('TAKE gpu member=gpu2');
    browser.mayPost = true;
    const stateOf = '#members tbody tr:nth-child(1) td:nth-child(2)';
    const change = '#members tbody tr:nth-child(1) button';
    await click('#pools a.name:has-text("gpu")', {[change + ' @aria-label']: 'Change gpu0'});
    await click(change, {'#order-head': /^\s*Member\s+gpu0\s*$/});
    await fill('#order-note', 'to be repaired');
    await fill('#order-token', 'wrong');
    await checkContrast('the form, light');
    await click('#order-send', {'#order-said': 'this is not the token'});
    await fill('#order-token', TOKEN);
    await press('Enter', {[stateOf]: 'down', '#order': false, '#members tbody td': [/,to_be_repaired,/]});
    await click(change);
    await click('#order label:has-text("Free")');
    await click('#order-send', {[stateOf]: 'free'});
    await click('#members tbody tr:nth-child(3) button');
    await click('#order label:has-text("Drop")');
    await click('#order-now', {'#order-means': 'It is taken out of the pool at once; a holder loses it.'});
    await click('#order-send', {'#members tbody tr': 5});
    await holder.ask('RETURN', 'GONE');
    await click('#pool-drop', {'#order-head': /^\s*Pool\s+gpu\s*$/, '#order-states': false});
    await click('#order-cancel', {'#order': false});
    await click('#pool-drop');
    await click('#order-now');
    await click('#order-send', {'#pool-level': 'There is no such pool now'});
    await page.reload();
    await shows(() => page.locator('#order-token').inputValue(), '', 'the token is forgotten');
    await page.goto(daemon.url + '/#/');
    await sees({'#overview': true});
    browser.mayPost = false;
    closeClients();
    await client().ask('POOL DROP browsers now', 'OK');
    await sees({'#pools-part': false});
});

test('pools and members by page', async () => {
    const o = client();
    const numbers = Array.from({length: 150}, (_, i) => i + 100),
        pools = numbers.slice(0, 25).map((i) => 'p' + i);
    await o.each('OK', [...pools.map((p) => 'POOL ADD ' + p), ...numbers.map((i) => 'MEMBER ADD p100 m' + i)]);
    await sees({'#pools tbody tr': 20, '#pools-next:enabled': 1});
    // The verdict is about all of them: it asks for the rest, but not each second.
    const whole = async () => [await asked('limit=1000'), await page.evaluate(() => performance.now() / 1000)];
    const [before, from] = await whole();
    await poll(async () => (await whole())[0] > before, 'all are asked for');
    await nextCycles(2);
    const [after, to] = await whole();
    check(after - before <= 1 + (to - from) / 5, `${after - before} times in ${to - from} s`);
    await click('#pools a.name:has-text("p100")', {'#members tbody tr': 100});
    await click('#members-next', {'#members tbody tr': 50, '#members-where': 'Page 2'});
    await leave();
    await o.each('OK', pools.map((p) => 'POOL DROP ' + p));
    await sees({'#pools-part': false});
});

const JOBS_TUBE = 'enwiki/refreshLinks';

test('job queues are shown when a tube is used, with rates', async () => {
    await sees({'#tubes-part': false});
    const worker = jobClient(),
        ids = [];
    for (let i = 0; i < 60; i++) ids.push(await worker.put(JOBS_TUBE, 'job ' + i, 1000 + i));
    await worker.put('mail', 'later', 0, 1000);
    await worker.reserve(ids[0]);
    await worker.reserve(ids[1]);
    await worker.ask(`bury ${ids[1]} 5`, 'BURIED');
    await sees({'#tubes tbody tr': 3, '#tubes tbody a.name': [`default,${JOBS_TUBE},mail`]});
    const row = '#tubes tbody tr:nth-child(2) td';
    await sees({[row]: [/^58,1,0,1,0,/], '#tubes tbody tr:nth-child(3) td': [/^0,0,1,0,0,–,/]});
    await worker.ask('delete ' + ids[0], 'DELETED');
    await worker.put(JOBS_TUBE, 'one more');
    // Rates are about ten seconds: they must not be missed.
    const rates = async () => {
        await worker.ask('delete ' + (await worker.put(JOBS_TUBE, 'passing')), 'DELETED');
        return cells(row);
    };
    await shows(rates, /^(?:[^,]*,){6}[^,]*[1-9][^,]*,[^,]*[1-9]/, 'rates');
    await worker.ask('pause-tube mail 9999', 'PAUSED');
    await sees({
        '#tubes tbody tr:nth-child(3) small': /^paused for 2/,
        '#tubes-note': /^3 tubes with 61 jobs, in .* of at most 1.00.GiB\.$/,
    });
    await looksRight('the overview with tubes');
});

test('jobs that cannot be written are the first thing said', async () => {
    let fails = true;
    await alter('stats', (json) => {
        Object.assign(json.resources['job store'], {enabled: true, failing: fails, file_bytes: 4096});
        json.resources.tubes.draining = fails;
    });
    await sees({
        '#verdict-level': 'Jobs cannot be written', '#verdict-text': /^New jobs are refused; the log says why/,
        '#tubes-note': /Their file has 4.00.KiB\. They are being drained: no/,
    });
    fails = false;
    await sees({'#verdict-level': /^(?!Jobs cannot be written)/});
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
    await sees({'#link-text': 'Live'});
    canned = null;
}

test('nodes that share limits are shown when there is an engine', async () => {
    await nextCycles(1);
    await sees({'#cluster-part': false});
    same(await asked('/cluster'), 0, 'requests about nodes');
    await cannedBegin();
    await shows(
        () => rowsOf('#nodes'),
        'a.example:7531 this node,live,400 ms ago,3,5,1\n' +
            'b.example:7531 other patterns,live,–,3,–,1\n' +
            'c.example:7531,ended,12 s ago,3,5,1',
        'this node, one with other patterns, and an ended session',
    );
    await sees({
        '#cluster-facts dd': ['live,8.1\u202fs,no,210\u202fµs,2.5,3,3,–'],
        '#cluster-note':
            'Engine 127.0.0.1:6379. A lease lasts 10\u202fs; 1 was lost, with 6 connections closed.' +
            ' Reconnects: closed 2, slow 1.',
        '#cluster-advice li': 0,
    });
    await shows(
        async () => (await text('#verdict')).replace(/\s+/g, ' '),
        /A node is away ?c\.example:7531 ?.*No beat for 12 s\..*Nodes share other names ?b\.example:7531/,
        'both are in the verdict',
    );
    canned.cluster = {...CLUSTER, nodes: CLUSTER.nodes.slice(0, 1)};
    await sees({'#verdict': /A node has left\s*b\.example:7531/});
    canned.cluster = {...CLUSTER, grace: true, advice: ['Set save "" at the engine.', 'And more.']};
    await sees({'#cluster-advice li': 2});
    await looksRight('the overview with nodes', [800, 360]);
});

test('a node without its engine is the first thing said', async () => {
    canned.cluster = {...CLUSTER, state: 'connecting', engine: '', lease_left: 0, calls: 0, nodes: []};
    await sees({
        '#verdict-level': 'Limits are not shared', '#verdict-text': /cannot grant strict names/,
        '#cluster-facts dd': [/^connecting,over,no,–,–,/], '#nodes-empty': true, '#nodes': false,
        '#cluster-note': /^Engine not connected. A lease/,
    });
    const gone = {reason: 'h:1: Connection refused', reason_age: 75, reason_times: 60};
    canned.cluster = {...CLUSTER, state: 'away', ...gone};
    await sees({'#cluster-facts dd': [/, 60 times$/], '#cluster-advice li': ['h:1: Connection refused']});
    await looksRight('a node that is refused');
    canned.cluster = {...CLUSTER};
    await sees({'#verdict-level': /^(?!Limits are not shared)/});
});

test('a shared name shows which nodes have its units', async () => {
    const shared = [{node: 'a.example:7531', units: 1, waits: 0}, {node: 'b.example:7531', units: 3, waits: 2}];
    canned.named['licence%3Ax'] = {name: 'licence:x', class: 'strict', units: 4, waits: 2, nodes: shared};
    await contend('licence:x', 1);
    await openHash('#/name/licence%3Ax', {
        '#shared-count': 'strict · 4 of 1 in use · 2 waiting', '#detail-figures .sub': 'on this node',
    });
    await shows(() => rowsOf('#shared'), 'a.example:7531 this node,1,0\nb.example:7531,3,2', 'nodes');
    await looksRight('a shared name');
    closeClients();
    await sees({'#detail-level': 'No client of this node holds units or waits for them'});
    canned.named['licence%3Ax'] = 503;
    await sees({'#shared-empty': /not known while the engine is away/, '#shared': false});
    canned.named['licence%3Ax'] = {name: 'licence:x', class: 'strict', units: 0, waits: 0, nodes: []};
    await sees({'#shared-empty': 'Nobody holds units of it on any node.'});
    await leave();
    const before = await asked('?name=');
    await page.evaluate(() => {
        window.openedAt = performance.now();
        location.hash = '#/name/mine';
    });
    await sees({'#detail-head': 'mine'});
    await poll(async () => (await asked('?name=mine')) > 0, 'a request about it');
    await nextCycles(3);
    await sees({'#shared-part': false});
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
    const contains = new RegExp(spelled.replaceAll('+', '\\+'));
    await sees({
        '#nodes tbody .name': spelled, '#cluster-advice li': [spelled + ',' + spelled], '#cluster-note': contains,
        '#verdict-text': contains,
    });
    await openHash('#/name/licence%3Ax', {'#shared tbody .name': spelled});
    await isHarmless('main img');
    await leave();
    await cannedEnd();
    await nextCycles(1);
    await sees({'#cluster-part': false});
});

test('a click on a tube shows its jobs, and a click on a job its body, which does no harm', async () => {
    const worker = jobClient();
    const body = '<img src=x onerror=pwned=1>\n\t"ä\u202e\x1b[2J\\x41</pre><script>pwned=2</script>';
    const id = await worker.put('a;b', Buffer.from(body, 'utf8').toString('latin1')),
        binary = await worker.put('a;b', '\x00\xffA'),
        large = await worker.put('a;b', 'y'.repeat(70000));
    await worker.reserve(binary);
    await sees({'#tubes tbody tr': 4});
    await click('#tubes a.name:has-text("a;b")', {
        '#jobs tbody tr': 3, '#tube-head': 'a;b', '#tube-level': '2 jobs are ready',
        '#jobs tbody td:nth-child(2)': ['ready,reserved,ready'],
    });
    const shown = body.replace('\u202e', 'U+202E ').replace('\x1b', 'U+001B');
    await click('#jobs tbody button >> nth=0', {'#job-head': 'Job ' + id, '#job-body': shown});
    await isHarmless('main img, main script');
    await looksRight('a tube', [768, 360]);
    await click('#jobs tbody button >> nth=1', {
        '#job-body': /^00000 {2}00 ff 41 +\.\.A$/, '#job-about': /^reserved · priority 1,024 · put /,
    });
    await click('#jobs tbody button >> nth=2', {'#job-head': 'Job ' + large, '#job-cut': true});
    await shows(async () => (await text('#job-body')).length, 65536, 'the beginning');
    await choose('#jobs-of', 'reserved', {'#jobs tbody tr': 1});
    await click('#job-close', {'#job': false});
    await leave();
    await shows(focusedLink, '#/tube/a%3Bb', 'the focus is back at the tube');
    await click(`#tubes a.name:has-text("${JOBS_TUBE}")`, {'#jobs tbody tr': 50});
    await click('#jobs-next', {'#jobs tbody tr': 10});
    await leave();
});

test('an operator kicks and deletes a job, with the token', async () => {
    browser.mayPost = true;
    const worker = jobClient();
    await click('#tubes a.name:has-text("mail")', {'#jobs tbody tr': 1});
    await click('#jobs tbody button', {'#job-order': true});
    await fill('#job-token', 'wrong');
    await click('#job-kick', {'#job-said': 'this is not the token'});
    await fill('#job-token', TOKEN);
    await click('#job-kick', {'#job-said': 'It was kicked.', '#jobs tbody td:nth-child(2)': ['ready']});
    // A ready job is not kicked, and a reserved one not deleted.
    await sees({'#job-kick:disabled': 1, '#job-delete:enabled': 1});
    const id = await text('#jobs tbody button');
    await worker.reserve(id);
    await sees({'#job-delete:disabled': 1});
    await worker.ask(`release ${id} 0 0`, 'RELEASED');
    await sees({'#job-delete:enabled': 1});
    await click('#job-delete', {'#tube-level': 'There is no such tube now', '#job': false});
    await page.reload();
    await page.goto(daemon.url + '/#/');
    await sees({'#overview': true});
    browser.mayPost = false;
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
            check(count(role, (n) => !name || (name.test ? name.test(n) : name === n)), `no ${role} ${name || ''}`);
        check(count('heading', () => true) >= 10, 'headings');
        const summary = (n) => /, last 5\smin: .* now .*highest/.test(n);
        same(count('image', summary) + count('img', summary), 6, 'charts with a summary');
        for (const role of ['button', 'link', 'combobox', 'radio', 'tab'])
            check(!count(role, (n) => !n), `a ${role} without a name`);
        return true;
    }, 'the tree');
});

test('summaries of charts do not change every second', async () => {
    await page.evaluate(() => {
        window.changes = 0;
        window.watchedFrom = performance.now();
        const plot = document.querySelectorAll('#charts .plot')[3];
        const watcher = new MutationObserver((list) => (window.changes += list.length));
        watcher.observe(plot, {attributes: true, attributeFilter: ['aria-label']});
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
    const plot = page.locator('#charts .plot').nth(1),
        tip = plot.locator('.tip');
    await plot.hover({position: {x: 200, y: 80}});
    await shows(() => tip.isVisible(), true, 'the read-out');
    await sees({'#charts .cross.on': 6});
    await nextCycles(1);
    check(await tip.isVisible(), 'it stays over updates');
    await page.mouse.move(5, 300);
    await sees({'#charts .cross.on': 0});
});

test('contrast in both themes, while clients are turned away', async () => {
    await contend('Article:1', 3);
    const other = client();
    const turnedAway = async () => {
        await other.ask('ACQ4ME Article:1 1 1 0', 'QUEUE_FULL');
        return look('#verdict @data-level');
    };
    await shows(turnedAway, 'bad', 'the worst level');
    await sees({'#verdict-head': /Article/});
    await looksRight('the overview');
    await click('#names a.name:has-text("Article")', {'#waiters tbody tr': true});
    await looksRight('the detail');
    await leave();
    closeClients();
    await click('#pause', {'#link-text': 'Paused'});
    await looksRight('paused');
    await click('#pause');
});

test('nothing scrolls sideways at any width', () => fits('the overview', 320, 412, 768, 1024, 1920, 3440));

test('the theme is changed by its button and remembered', async () => {
    const colour = async () => {
        await transitionsEnd();
        return page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    };
    await sees({'html @data-theme': 'light'});
    const light = await colour();
    await click('#theme', {'html @data-theme': 'dark'});
    const dark = await colour();
    check(dark !== light, dark);
    await page.reload();
    await sees({'html @data-theme': 'dark', '#theme @aria-label': 'Use light colours'});
    await shows(colour, dark, 'dark after loading again');
    await click('#theme');
    await shows(colour, light, 'light again');
    await page.emulateMedia({colorScheme: 'dark'});
    await sees({'html @data-theme': 'dark'});
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
    await sees({'#link-text': 'Live'});
    await click('#pause', {'#link-text': 'Paused'});
    same(await still(), 0, 'requests while paused');
    await click('#pause');
    await nextCycles(1);
    await sees({'#link-text': 'Live'});
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
    await sees({'#verdict-head': 'gone:page'});
    browser.isAway = true;
    const admin = daemon.ports.admin,
        started = (await daemon.api('stats')).started;
    closeClients();
    load.stop();
    await daemon.stop();
    await sees({
        '#outage': true, '#link-text': 'Unreachable', '#outage-what': 'The daemon can’t be reached.',
        '#outage-data': /^The figures are from \d\d:\d\d:\d\d, not current\.$/,
        '#outage-next': /^Next try in|^Trying/, 'body @class': /\bstale\b/,
    });
    await sees({'#outage-next': /^Next try in (1\d|[3-9])\u202fs\.$/});
    await looksRight('unreachable');
    await click('#retry');
    // Not with the mouse from here: when the daemon is back, a try of the page's own takes the button away.
    const retry = () =>
        page.evaluate(() => {
            const before = window.asked.length;
            document.querySelector('#retry').click();
            return window.asked.length > before;
        });
    await shows(retry, true, 'a try at once');
    daemon = await Daemon.start(admin, '');
    check((await daemon.api('stats')).started >= started, 'another daemon');
    await retry();
    await sees({
        '#link-text': 'Live', '#outage': false, 'body.stale': 0,
        '#verdict-head': CLEAR,
    });
    browser.isAway = false;
    await nextCycles(2);
});

/* Has the page ask now, instead of in a second. */
const lookAgain = () => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));

const verdictIs = (level, title, place, said = /./) =>
    sees({'#verdict-level': title, '#verdict @data-level': level, '#verdict-head': place, '#verdict-text': said});

test('jobs without a worker, and jobs that were given up, are not all clear', async () => {
    await verdictIs('ok', 'All clear', CLEAR);
    await looksRight('the verdict clear');
    same(await asked('limit=1000'), 0, 'requests for what the overview shows');
    const c = jobClient();
    await c.ask('use idle', 'USING idle');
    c.socket.write('put 1 0 1000 1\r\nx\r\n'.repeat(1000));
    const ids = [];
    while (ids.length < 1000) ids.push((await c.answer()).slice('INSERTED '.length));
    const said = /^1,000 jobs are ready, the first of them was put .* ago, and nobody takes any\. /;
    await verdictIs('bad', 'Jobs without a worker', 'idle', said);
    await looksRight('the verdict unworked');
    await click('#verdict-head a', {'#tube-head': 'idle'});
    await leave();
    for (const id of ids.slice(0, 100)) {
        await c.reserve(id);
        await c.ask(`bury ${id} 1`, 'BURIED');
    }
    await verdictIs('warn', 'Jobs were given up', 'idle', /^100 jobs are buried\. Find out why/);
    await looksRight('the verdict buried');
    await c.ask('delete ' + ids[0], 'DELETED');
    await verdictIs('note', 'Jobs were given up', 'idle');
    for (const id of ids.slice(1)) c.say('delete ' + id);
    for (let i = 1; i < ids.length; i++) same(await c.answer(), 'DELETED', 'deleted');
    await sees({'#verdict-level': 'All clear'});
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
    await verdictIs('warn', 'A backlog grows', 'busy', /^From 1,\d\d0 to 1,\d\d0 ready jobs in \d+.min/);
    await looksRight('the verdict grows');
    await endRoutes();
    await c.ask('delete ' + id, 'DELETED');
    await page.reload();
    await sees({'#verdict-level': 'All clear'});
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
        worst: ['warn', 'A reload was refused', 'Configuration', /^The reload at \d\d:\d\d:\d\d found mistakes/],
        others: 'An upgrade was refused',
        more: /It said: “it <b>crashed<\/b>U\+202E”\./,
    },
];

for (const {what, answers, worst, others, more = /./, link} of ALTERED)
    test(what + ' in the verdict', async () => {
        for (const [path, change] of Object.entries(answers)) await alter(path, change);
        await verdictIs(...worst);
        await sees({'#verdict-more strong': [others], '#verdict-more .finding-text': more});
        await looksRight('the verdict');
        if (link) {
            await click('#verdict-more a >> nth=0', {'#overview': true});
            const isInView = () =>
                page.evaluate((to) => {
                    const {top, bottom} = document.querySelector(to).getBoundingClientRect();
                    return (
                        top > document.querySelector('.bar').getBoundingClientRect().bottom && bottom < innerHeight
                    );
                }, link);
            await shows(isInView, true, 'its link leads to the panel');
        }
        await endRoutes();
        await sees({'#verdict-level': 'All clear'});
    });

test('without a token nothing can be changed', async () => {
    await client().each('OK', ['POOL ADD db', 'MEMBER ADD db m']);
    await sees({'#pools tbody tr': 1});
    await click('#pools a.name', {'#members tbody tr': 1});
    await nextCycles(1);
    same(await page.locator('#pool button:visible').count(), 0, 'buttons');
    await leave();
    await jobClient().put('letters', 'x');
    await click('#tubes a.name:has-text("letters")', {'#jobs tbody tr': 1});
    await click('#jobs tbody button', {'#job-body': 'x', '#job-order': false});
    await leave();
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
