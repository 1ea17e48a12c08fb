/*
 * operate.js - what an operator changes: sends one request with the token, which the reader types and
 * which is forgotten with the page. The form says what will be done before it is done.
 */

let token = '';
let mayOperate = false; // the server has a token

/* Asks if the server has a token: without one, nothing can be changed. */
async function askOperable() {
    const config = await ask('/api/v1/config');
    mayOperate = config.options.some(
        (o) => (o.key === 'admin.token' || o.key === 'admin.token_file') && o.value !== '',
    );
}

/* Sends a change. Throws Trouble with the server's reason. */
async function post(path) {
    let answer, body;
    try {
        answer = await fetch(path, {
            method: 'POST',
            cache: 'no-store',
            headers: {Authorization: 'Bearer ' + token},
            signal: AbortSignal.timeout(TIMEOUT_MS),
        });
        body = await answer.json();
    } catch (e) {
        throw new Trouble('The daemon can’t be reached: it may be done or not.');
    }
    if (!answer.ok) throw new Trouble(body.error ? body.error.reason : 'Error ' + answer.status);
}

/* What the form is about: {member: name and id or null}; null: it is closed. */
let order = null;

/* Opens the form for a member, or with null for the whole pool. */
function openOrder(member) {
    order = {pool: pool.id, member};
    const isMember = member !== null;
    show($('order'), true);
    show($('order-states'), isMember);
    show($('order-note-box'), isMember);
    showName($('order-what'), isMember ? member.name : pool.answer.pool.name, 60);
    setText($('order-kind'), isMember ? 'Member' : 'Pool');
    for (const radio of $('order').querySelectorAll('input[type=radio]'))
        radio.checked = radio.value === (isMember ? 'down' : 'drop');
    $('order-now').checked = false;
    $('order-note').value = '';
    setText($('order-said'), '');
    onOrderChange();
    $('order-what').focus();
}

function closeOrder() {
    order = null;
    show($('order'), false);
}

const chosen = () => $('order').querySelector('input[type=radio]:checked').value;

/* Enables what belongs to the choice, and says what it means. */
function onOrderChange() {
    const what = chosen(),
        now = $('order-now').checked;
    $('order-note').disabled = what === 'drop';
    setText(
        $('order-means'),
        !order.member
            ? now
                ? 'All members go at once, also from their holders; then the pool is gone.'
                : 'No more is handed out. Members go when they are returned, then the pool.'
            : (what === 'drop' ? 'It is taken out of the pool' : 'It will be ' + what) +
                  (now
                      ? ' at once; a holder loses it.'
                      : ' at once if nobody holds it, otherwise when it is returned.'),
    );
}

function orderPath() {
    const what = chosen();
    const query = [];
    if (order.member) query.push('member=' + order.member.id);
    if (what !== 'drop') {
        query.push('state=' + what);
        // A note is one word on the wire.
        const note = $('order-note').value.trim().replace(/\s+/g, '_');
        if (what === 'down' || note !== '') query.push('note=' + encodeURIComponent(note));
    }
    if ($('order-now').checked) query.push('now=true');
    return (
        '/api/v1/pools/' +
        order.pool +
        (order.member ? '/members' : '') +
        (what === 'drop' ? '/drop' : '/set') +
        (query.length ? '?' + query.join('&') : '')
    );
}

async function sendOrder(e) {
    e.preventDefault();
    token = $('order-token').value;
    const sent = order;
    $('order-send').disabled = true;
    setText($('order-said'), 'Sending…');
    try {
        await post(orderPath());
        if (order === sent) closeOrder();
        wake();
    } catch (failure) {
        setText($('order-said'), failure.message);
    } finally {
        $('order-send').disabled = false;
    }
}
