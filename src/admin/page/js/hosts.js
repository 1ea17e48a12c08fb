/* hosts.js - lists of clients by host, the host with most clients first. */

/* Clients by host, the host with most first: "192.0.2.1 ×3". */
function hostOf(client) {
    const ip6 = /^\[([^\]]*)\]:\d+$/.exec(client),
        ip4 = /^([^:]*):\d+$/.exec(client);
    return ip6 ? ip6[1] : ip4 ? ip4[1] : client;
}

function drawHosts(list, all, total, none) {
    const hosts = new Map();
    for (const one of all) {
        const host = hostOf(one.client);
        hosts.set(host, (hosts.get(host) || 0) + 1);
    }
    const sorted = [...hosts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const shown = sorted.slice(0, 5);
    const texts = shown.map(([host, n]) => [host, n > 1 ? '×' + count(n) : '']);
    const rest = total - shown.reduce((n, h) => n + h[1], 0);
    if (rest > 0 && shown.length) texts.push(['and ' + count(rest) + ' more', '']);
    if (!texts.length && none) texts.push([none, '']);
    const key = JSON.stringify(texts);
    if (list.shownKey === key) return;
    list.shownKey = key;
    list.replaceChildren(
        ...texts.map(([host, n], i) => {
            const item = el('li', i < shown.length ? '' : 'rest');
            const text = el('bdi');
            showName(text, host, 60);
            item.append(text);
            if (n) item.append(el('b', '', n));
            return item;
        }),
    );
}
