/* search.js - the search box: a combobox of the names that begin with the typed text. */

const FOUND_MAX = 12;

let search = {text: '', names: [], at: -1, stop: null, timer: 0};

function closeSearch() {
    clearTimeout(search.timer);
    if (search.stop) search.stop.abort();
    search.names = [];
    search.at = -1;
    $('found').replaceChildren();
    show($('found-box'), false);
    $('find').setAttribute('aria-expanded', 'false');
    $('find').removeAttribute('aria-activedescendant');
}

function startSearch(text) {
    $('find').value = text;
    $('find').focus();
    onSearchInput();
}

function onSearchInput() {
    const text = $('find').value;
    closeSearch();
    search.text = text;
    if (text !== '') search.timer = setTimeout(() => find(text), 150);
}

/* Walks through the table until there are enough names or no more. New input stops it. */
async function find(text) {
    const stop = (search.stop = new AbortController());
    let cursorText = null,
        examined = 0,
        names = [];
    try {
        do {
            const answer = await ask(
                '/api/v1/names?sort=none&limit=' +
                    FOUND_MAX +
                    '&prefix=' +
                    nameToId(text) +
                    (cursorText ? '&cursor=' + encodeURIComponent(cursorText) : ''),
                stop.signal,
            );
            if (stop.signal.aborted) return;
            names = names.concat(answer.names).slice(0, FOUND_MAX);
            examined += answer.examined;
            cursorText = answer.cursor;
            drawFound(
                names,
                cursorText && names.length < FOUND_MAX
                    ? 'Searched ' + count(examined) + ' names so far'
                    : '',
            );
        } while (cursorText && names.length < FOUND_MAX);
        const known = names.some((n) => n.id === nameToId(text));
        drawFound(
            names,
            names.length >= FOUND_MAX && cursorText
                ? 'The first ' + names.length + ' matches; type more to find others'
                : names.length === 0
                  ? 'No name begins like this now.'
                  : known
                    ? ''
                    : plural(names.length, 'name begins like this', 'names begin like this'),
        );
        say(
            names.length === 0
                ? 'No name begins like this'
                : plural(names.length, 'name', 'names') + ' found',
        );
    } catch (e) {
        if (!stop.signal.aborted)
            drawFound([], e instanceof NotFound ? 'No name begins like this now.' : e.message);
    }
}

function drawFound(names, note) {
    search.names = names;
    $('found').replaceChildren(
        ...names.map((n, i) => {
            const item = el('li'),
                text = el('bdi', 'name');
            item.id = 'found-' + i;
            item.setAttribute('role', 'option');
            item.setAttribute('aria-selected', String(i === search.at));
            showName(text, n.name, 100);
            item.append(
                text,
                el(
                    'span',
                    'soft',
                    (n.limit ? count(n.in_use) + ' of ' + count(n.limit) : count(n.in_use)) +
                        ' in use' +
                        (n.waiting ? ', ' + count(n.waiting) + ' waiting' : ''),
                ),
            );
            // Keep the focus in the box.
            item.addEventListener('pointerdown', (e) => e.preventDefault());
            item.addEventListener('click', () => open(n.id));
            return item;
        }),
    );
    setText($('found-note'), note);
    show($('found-note'), note !== '');
    show($('found-box'), true);
    show($('found'), names.length > 0);
    $('find').setAttribute('aria-expanded', String(names.length > 0));
}

function choose(i) {
    search.at = i;
    for (const [k, item] of [...$('found').children].entries())
        item.setAttribute('aria-selected', String(k === i));
    if (i < 0) {
        $('find').removeAttribute('aria-activedescendant');
    } else {
        $('find').setAttribute('aria-activedescendant', 'found-' + i);
        $('found').children[i].scrollIntoView({block: 'nearest'});
    }
}

function open(id) {
    closeSearch();
    $('find').value = '';
    if (location.hash === '#/name/' + id) $('detail-head').focus();
    else location.hash = '#/name/' + id;
}

function onSearchKey(e) {
    const n = search.names.length;
    if (e.key === 'ArrowDown' && n) choose((search.at + 1) % n);
    else if (e.key === 'ArrowUp' && n) choose(search.at <= 0 ? n - 1 : search.at - 1);
    else if (e.key === 'Enter' && search.at >= 0) open(search.names[search.at].id);
    else if (e.key === 'Enter' && $('find').value !== '') open(nameToId($('find').value));
    else if (e.key === 'Escape' && ($('find').value !== '' || !$('found-box').hidden)) {
        closeSearch();
        $('find').value = '';
    } else return;
    e.preventDefault();
    e.stopPropagation();
}
