/* server.js - the server's memory, and the reasons of closed connections. */

function drawMemory() {
    const m = stats.memory;
    setText($('memory-used'), bytes(m.used_bytes));
    setText(
        $('memory-of'),
        m.limit_bytes
            ? 'of ' + bytes(m.limit_bytes) + ' (' + share(m.used_bytes / m.limit_bytes) + ')'
            : 'no limit',
    );
    setMeter($('memory-meter'), m.limit_bytes ? m.used_bytes / m.limit_bytes : 0);
    setAttr(
        $('memory-meter'),
        'aria-label',
        'Memory of names: ' + $('memory-used').textContent + ' ' + $('memory-of').textContent,
    );
    const pairs = [
        ['Resident in all', bytes(m.resident_bytes)],
        ['Names', count(stats.names)],
        ['Holdings', count(stats.holdings)],
    ];
    const list = $('memory');
    if (!list.firstChild)
        for (const [label] of pairs) {
            const pair = el('div');
            pair.append(el('dt', '', label), el('dd'));
            list.append(pair);
        }
    pairs.forEach(([, value], i) => setText(list.children[i].lastChild, value));
}

const REASONS = {peer: 'closed by the client', reset: 'reset by the client'};

function drawCloses() {
    const names = stats.protocols.map((p) => p.name),
        table = $('closes');
    const key = names.join(' ');
    if (!tables.closes || tables.closesKey !== key) {
        const head = table.tHead.rows[0];
        while (head.cells.length > 1) head.lastChild.remove();
        for (const name of names) {
            const th = el('th', 'n', name);
            th.scope = 'col';
            head.append(th);
        }
        table.tBodies[0].replaceChildren();
        tables.closesKey = key;
        tables.closes = new Rows(
            table,
            [
                {head: true, cls: 'wide', set: (c, x) => setText(c, x.label)},
                ...names.map((name) => num(name, (x) => count(x.counts[name] || 0))),
            ],
            (x) => x.label,
        );
    }
    const reasons = new Map();
    for (const p of stats.protocols)
        for (const [reason, n] of Object.entries(p.connections.closed))
            if (n > 0) {
                if (!reasons.has(reason))
                    reasons.set(reason, {
                        label: REASONS[reason] || reason.replace(/_/g, ' '),
                        counts: {},
                        total: 0,
                    });
                reasons.get(reason).counts[p.name] = n;
                reasons.get(reason).total += n;
            }
    const list = [...reasons.values()].sort((a, b) => b.total - a.total);
    tables.closes.update(list);
    show(table, list.length > 0);
    show($('closes-empty'), list.length === 0);
}
