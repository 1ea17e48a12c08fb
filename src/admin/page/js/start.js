/*
 * start.js - set-up once the document is ready: creates the views, and listens to the reader's input.
 */

function onKey(e) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== 'radio';
    if (e.key === 'Escape' && !e.defaultPrevented && !typing) {
        closeDetail();
    } else if (e.key === '/' && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
        $('find').focus();
        e.preventDefault();
    }
}

function start() {
    applyTheme();
    makeFigures(FIGURES, $('figures'));
    makeFigures(DETAIL_FIGURES, $('detail-figures'));
    makeTables();
    for (const spec of OVERVIEW_CHARTS) new Chart($('charts'), past, spec);
    detailChart = new Chart($('detail-charts'), new History(DETAIL_SERIES), {
        key: 'name',
        title: 'Since this view was opened',
        unit: 'count',
        series: [
            {key: 'in_use', label: 'in use', cls: 's1', fill: true},
            {key: 'waiting', label: 'waiting', cls: 's2 dash'},
        ],
    });
    for (const radio of document.querySelectorAll('#ranges input')) {
        radio.checked = radio.value === (recall('range') || '300');
        radio.addEventListener('change', () => setRange(Number(radio.value), true));
        if (radio.checked) setRange(Number(radio.value), false);
    }
    for (const tab of $('tabs').children) tab.addEventListener('click', () => setTab(tab, false));
    $('tabs').addEventListener('keydown', onTabKey);
    $('theme').addEventListener('click', toggleTheme);
    $('pause').addEventListener('click', togglePause);
    $('retry').addEventListener('click', wake);
    $('find').addEventListener('input', onSearchInput);
    $('find').addEventListener('keydown', onSearchKey);
    $('find').addEventListener('blur', closeSearch);
    $('conns-next').addEventListener('click', () => turn(conns.page + 1));
    $('conns-back').addEventListener('click', () => turn(Math.max(0, conns.page - 1)));
    $('conns-of').addEventListener('change', () => {
        conns.of = $('conns-of').value;
        conns.cursors = [''];
        turn(0);
    });
    document.addEventListener('keydown', onKey);
    document.addEventListener('visibilitychange', () => {
        clearTimeout(timer);
        wake();
    });
    addEventListener('hashchange', go);
    go();
}

document.addEventListener('DOMContentLoaded', start);
