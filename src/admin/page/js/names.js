/*
 * names.js - names are untrusted bytes. They only ever go into text nodes, and showName spells out
 * invisible characters. This file also converts names to API ids and back, and makes links.
 */

const ID_MAX = 6000; // a longer id makes too long an address

/*
 * Characters that the eye can't tell apart: controls, characters that change the direction of
 * writing or have no width, unassigned and private ones, unusual spaces, and more marks on a letter
 * than any script needs.
 */
const UNSEEN = new RegExp(
    '\\\\x[0-9a-f]{2}|\\\\\\\\' + // the API's escapes for bytes that are no text
        '|[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}\\p{Co}\\p{Cn}' +
        '\\u034f\\u115f\\u1160\\u2800\\u3164\\uffa0\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]' +
        '|(?! )\\p{Zs}|(?<=\\p{M}{3})\\p{M}',
    'giu',
);

/* An invisible character, or an escape of the API for one, spelled out. */
const spelled = (found) =>
    found[0] === '\\'
        ? found
        : 'U+' + found.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');

/* The name in one piece, or the two ends of one that is longer than `room` characters (0: any length). */
function endsOf(name, room) {
    const letters = room && name.length > room ? Array.from(name) : null;
    if (!letters || letters.length <= room) return [name];
    const tail = Math.floor(room / 3);
    return [letters.slice(0, room - tail).join(''), letters.slice(-tail).join('')];
}

/*
 * Puts a name (as written by the API) into `node`, isolates its direction of writing, and spells out
 * invisible characters: \xNN for bytes, U+NNNN for characters. If the name is longer than `room`
 * characters, it omits the middle, because names differ at their ends as often as at their starts.
 */
function showName(node, name, room) {
    const key = room + ':' + name;
    if (node.shownName === key) return;
    node.shownName = key;
    node.replaceChildren();
    const put = (text) => {
        let at = 0;
        for (const found of text.matchAll(UNSEEN)) {
            if (found.index > at) node.append(text.slice(at, found.index));
            node.append(el('bdi', 'unseen', spelled(found[0])));
            at = found.index + found[0].length;
        }
        if (at < text.length) node.append(text.slice(at));
    };
    endsOf(name, room).forEach((end, i) => {
        if (i) node.append(el('span', 'cut', '…'));
        put(end);
    });
    if (name === '') node.append(el('span', 'soft', '(empty)'));
}

/* A name as plain text, for titles and screen readers. */
function nameText(name, room) {
    return (
        endsOf(name, room)
            .map((end) => end.replace(UNSEEN, spelled))
            .join('…') || '(empty)'
    );
}

/* The id (percent-encoded bytes) of a name that the API wrote, or that was typed in the same form. */
function nameToId(text) {
    let id = '';
    for (const part of text.split(/(\\x[0-9a-fA-F]{2}|\\\\)/)) {
        if (/^\\x[0-9a-fA-F]{2}$/.test(part)) {
            const byte = parseInt(part.slice(2), 16);
            const letter = String.fromCharCode(byte);
            id += /[A-Za-z0-9\-._~]/.test(letter) ? letter : '%' + part.slice(2).toUpperCase();
        } else {
            id += encodeURIComponent(
                (part === '\\\\' ? '\\' : part).replace(
                    /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
                    '\ufffd',
                ),
            ).replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());
        }
    }
    return id;
}

/* The reverse: the API's spelling of the name with this id. */
function idToName(id) {
    const raw = [];
    for (let i = 0; i < id.length; i++) {
        if (id[i] === '%' && /^[0-9a-fA-F]{2}$/.test(id.slice(i + 1, i + 3))) {
            raw.push(parseInt(id.slice(i + 1, i + 3), 16));
            i += 2;
        } else {
            raw.push(...new TextEncoder().encode(id[i]));
        }
    }
    const strict = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});
    let name = '';
    for (let i = 0; i < raw.length;) {
        const lead = raw[i];
        const len = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        let letter = null;
        try {
            letter = strict.decode(new Uint8Array(raw.slice(i, i + len)));
        } catch (e) {
            // invalid UTF-8: the byte itself
        }
        if (letter === null || lead < 0x20 || lead === 0x7f) {
            name += '\\x' + two(lead.toString(16));
            i++;
        } else {
            name += letter === '\\' ? '\\\\' : letter;
            i += len;
        }
    }
    return name;
}

/* A link to a name's detail; if only the start of the name is known, a link to the search. */
function nameLink(cell, row) {
    if (!cell.firstChild) {
        const link = el('a', 'name');
        link.append(el('bdi'));
        cell.append(link);
    }
    const link = cell.firstChild,
        canOpen = row.id && row.id.length <= ID_MAX;
    setAttr(link, 'href', canOpen ? '#/name/' + row.id : '#/find/' + nameToId(row.name));
    showName(
        link.firstChild,
        row.truncated ? row.name.slice(0, 84) + '…' : row.name,
        row.truncated ? 0 : 84,
    );
    link.title = row.truncated
        ? 'Only the start of this name is known: search for it'
        : nameText(row.name, 500);
}
