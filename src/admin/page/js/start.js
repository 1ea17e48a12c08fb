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
    makeFigures(POOL_FIGURES, $('pool-figures'));
    makeTables();
    makePoolsTable();
    makePoolTables();
    makeFigures(TUBE_FIGURES, $('tube-figures'));
    makeTubesTable();
    makeTubeTables();
    makeClusterTables();
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
    $('pools-next').addEventListener('click', () => turnPools(pools.page + 1));
    $('pools-back').addEventListener('click', () => turnPools(Math.max(0, pools.page - 1)));
    $('members-next').addEventListener('click', () => turnMembers(pool.page + 1));
    $('members-back').addEventListener('click', () => turnMembers(Math.max(0, pool.page - 1)));
    $('pool-drop').addEventListener('click', () => openOrder(null));
    $('order').addEventListener('submit', sendOrder);
    $('order').addEventListener('change', onOrderChange);
    $('order-cancel').addEventListener('click', closeOrder);
    $('tubes-next').addEventListener('click', () => turnTubes(tubes.page + 1));
    $('tubes-back').addEventListener('click', () => turnTubes(Math.max(0, tubes.page - 1)));
    $('jobs-next').addEventListener('click', () => turnJobs(tube.page + 1));
    $('jobs-back').addEventListener('click', () => turnJobs(Math.max(0, tube.page - 1)));
    $('jobs-of').addEventListener('change', chooseJobs);
    $('job-close').addEventListener('click', () => openJob(tube.job));
    $('job-order').addEventListener('submit', sendJobOrder);
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
