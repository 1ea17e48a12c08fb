/* routes.js - the view that the address selects, and the way back to the reader's last position. */

function readRoute() {
    const found = /^#\/(name|find)\/(.+)$/.exec(location.hash);
    // Some browsers return the address decoded: encode again what is not an id.
    const id = found && found[2].replace(/[^A-Za-z0-9\-._~%]+/g, (c) => encodeURIComponent(c));
    if (!id) return {view: 'overview', id: null};
    return {view: found[1] === 'name' ? 'detail' : 'find', id};
}

function go() {
    const old = route;
    route = readRoute();
    if (route.view === 'find') {
        startSearch(idToName(route.id));
        history.replaceState(null, '', '#/');
        route = readRoute();
    }
    if (old.view === 'overview') cameFrom = document.activeElement.closest('#overview a.name');
    show($('overview'), route.view === 'overview');
    show($('detail'), route.view === 'detail');
    setCursor(null, null);
    if (route.view === 'detail') {
        detail = {
            id: route.id,
            answer: null,
            gone: false,
            history: new History(DETAIL_SERIES),
            opened: Date.now() / 1000,
        };
        drawDetail();
        scrollTo(0, 0);
        $('detail-head').focus({preventScroll: true});
    } else if (old.view === 'detail') {
        detail = null;
        document.title = 'counterd';
        drawOverview();
        if (document.activeElement !== $('find')) returnFocus(old.id);
    }
    wake();
}

let cameFrom = null; // the link that opened the detail, if any

/* Goes back to that link, to another one of the same name, or to the top. */
function returnFocus(id) {
    const link =
        cameFrom && cameFrom.isConnected
            ? cameFrom
            : [...document.querySelectorAll('#overview a.name')].find(
                  (a) => a.getAttribute('href') === '#/name/' + id,
              );
    if (link) link.focus();
    else $('main').focus({preventScroll: true});
}

function closeDetail() {
    if (route.view === 'detail') location.hash = '#/';
}
