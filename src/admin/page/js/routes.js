/* routes.js - the view that the address selects, and the way back to the reader's last position. */

function readRoute() {
    const found = /^#\/(name|find|pool|tube)\/(.+)$/.exec(location.hash);
    // Some browsers return the address decoded: encode again what is not an id.
    const id = found && found[2].replace(/[^A-Za-z0-9\-._~%]+/g, (c) => encodeURIComponent(c));
    if (!id) return {view: 'overview', id: null};
    return {view: {name: 'detail', find: 'find', pool: 'pool', tube: 'tube'}[found[1]], id};
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
    show($('pool'), route.view === 'pool');
    show($('tube'), route.view === 'tube');
    setCursor(null, null);
    detail = pool = tube = null;
    closeOrder();
    if (route.view === 'detail') {
        detail = {
            id: route.id,
            answer: null,
            gone: false,
            history: new History(DETAIL_SERIES),
            opened: Date.now() / 1000,
            shared: null,
            sharedTrouble: '',
            notSharedUntil: 0,
            isAskingShared: false,
        };
        drawDetail();
        scrollTo(0, 0);
        $('detail-head').focus({preventScroll: true});
    } else if (route.view === 'pool') {
        pool = {id: route.id, answer: null, gone: false, cursors: [''], page: 0, isOpen: false};
        drawPool();
        scrollTo(0, 0);
        $('pool-head').focus({preventScroll: true});
    } else if (route.view === 'tube') {
        tube = {
            id: route.id,
            answer: null,
            gone: false,
            jobs: null,
            state: 'all',
            cursors: [''],
            page: 0,
            job: null,
            shown: null,
            jobGone: false,
            isOpen: false,
        };
        $('jobs-of').value = 'all';
        drawTube();
        scrollTo(0, 0);
        $('tube-head').focus({preventScroll: true});
    } else if (old.view !== 'overview') {
        document.title = 'counterd';
        drawOverview();
        if (document.activeElement !== $('find')) returnFocus('#/' + (old.view === 'detail' ? 'name' : old.view) + '/' + old.id);
    }
    wake();
}

let cameFrom = null; // the link that opened the detail, if any

/* Goes back to that link, to another one that leads to the same view, or to the top. */
function returnFocus(href) {
    const link =
        cameFrom && cameFrom.isConnected
            ? cameFrom
            : [...document.querySelectorAll('#overview a.name')].find(
                  (a) => a.getAttribute('href') === href,
              );
    if (link) link.focus();
    else $('main').focus({preventScroll: true});
}

function closeDetail() {
    if (route.view !== 'overview') location.hash = '#/';
}
