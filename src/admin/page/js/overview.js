/*
 * overview.js - draws the open view: the detail of a name, a pool, a tube, or the overview over the chosen
 * time range.
 */

function drawAll() {
    setText($('version'), stats.version);
    setText($('uptime'), 'up ' + longTime(stats.uptime_seconds));
    if (route.view === 'detail') drawDetail();
    else if (route.view === 'pool') drawPool();
    else if (route.view === 'tube') drawTube();
    else drawOverview();
}

function drawOverview() {
    if (!stats || !contended.waiting) return;
    document.title = (stats.waiting ? '(' + count(stats.waiting) + ' waiting) ' : '') + 'counterd';
    drawVerdict();
    drawFigures();
    for (const c of charts)
        if (c !== detailChart) {
            if (c.pointer !== null && cursorOf === c) c.pointTo(c.pointer);
            c.draw();
        }
    drawNames();
    drawCluster();
    drawPools();
    drawTubes();
    drawDurations();
    drawRequests();
    drawMemory();
    tables.workers.update(stats.workers);
    tables.protocols.update(stats.protocols);
    drawCloses();
    fillProtocols();
}

function setRange(to, isSaved) {
    range = to;
    setText($('charts-head'), 'Last ' + rangeText());
    if (isSaved) remember('range', String(to));
    setCursor(null, null);
    drawOverview();
}
