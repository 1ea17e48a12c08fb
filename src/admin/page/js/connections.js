/*
 * connections.js - the table of connections, one page at a time; each page has the cursor of the
 * next.
 */

const CONNS_EVERY_MS = 5000; // less often: each query interrupts the workers
const CONNS_A_PAGE = 20;

function connsPath() {
    return (
        '/api/v1/connections?limit=' +
        CONNS_A_PAGE +
        (conns.of ? '&protocol=' + encodeURIComponent(conns.of) : '') +
        (conns.cursors[conns.page]
            ? '&cursor=' + encodeURIComponent(conns.cursors[conns.page])
            : '')
    );
}

function drawConns() {
    const answer = conns.answer;
    if (!answer) return;
    tables.conns.update(answer.connections);
    show($('conns'), answer.connections.length > 0);
    show($('conns-empty'), answer.connections.length === 0);
    setText($('conns-empty'), conns.page ? 'No more connections.' : 'No client is connected.');
    conns.cursors[conns.page + 1] = answer.cursor;
    $('conns-next').disabled = !answer.cursor;
    $('conns-back').disabled = conns.page === 0;
    setText($('conns-where'), 'Page ' + (conns.page + 1));
}

function turn(to) {
    conns.page = to;
    conns.again = true;
    askConns();
}

async function askConns() {
    const wanted = connsPath();
    conns.again = false;
    conns.at = Date.now();
    try {
        const answer = await ask(wanted);
        if (wanted === connsPath()) {
            conns.answer = answer;
            drawConns();
        }
    } catch (e) {
        conns.again = true; // the cycle reports an unreachable server
    }
}

function fillProtocols() {
    const select = $('conns-of');
    for (const p of stats.protocols)
        if (![...select.options].some((o) => o.value === p.name)) {
            const option = el('option', '', p.name);
            option.value = p.name;
            select.append(option);
        }
}
