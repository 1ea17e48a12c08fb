/*
 * table.js - tables that are updated in place (Rows; Sections for tables of several parts), and cells
 * with bars.
 */

/*
 * A table body with one row for each element of a list, identified by key. A row stays while its
 * element is in the list. The row with the focus never moves; the others move around it.
 */
class Rows {
    constructor(table, columns, keyOf) {
        this.table = table;
        this.body = table.tBodies[0] || table.createTBody();
        this.columns = columns;
        this.keyOf = keyOf;
        this.rows = new Map();
        setRoles(table);
    }

    update(list) {
        const rows = new Map();
        for (const item of list) {
            const key = this.keyOf(item);
            if (rows.has(key)) continue;
            const row = this.rows.get(key) || this.make();
            rows.set(key, row);
            this.columns.forEach((column, i) => column.set(row.cells[i], item));
        }
        for (const [key, row] of this.rows) if (!rows.has(key)) row.remove();
        this.rows = rows;
        this.arrange([...rows.values()]);
    }

    arrange(wanted) {
        if (wanted.every((row, i) => this.body.children[i] === row)) return;
        const focused = wanted.findIndex((row) => row.contains(document.activeElement));
        const stays = focused < 0 ? null : wanted[focused];
        wanted.forEach((row, i) => {
            if (stays && i < focused) this.body.insertBefore(row, stays);
            else if (row !== stays) this.body.append(row);
        });
    }

    make() {
        const row = el('tr');
        row.setAttribute('role', 'row');
        this.columns.forEach((column) => {
            const cell = el(column.head ? 'th' : 'td', column.cls || '');
            if (column.head) cell.scope = 'row';
            cell.setAttribute('role', column.head ? 'rowheader' : 'cell');
            if (column.label) cell.dataset.label = column.label;
            row.append(cell);
        });
        return row;
    }
}

/* Narrow screens lay out rows as grids; the roles keep the table a table for screen readers. */
function setRoles(table) {
    table.setAttribute('role', 'table');
    for (const part of table.querySelectorAll('thead, tbody'))
        part.setAttribute('role', 'rowgroup');
    for (const row of table.querySelectorAll('tr')) row.setAttribute('role', 'row');
    for (const head of table.querySelectorAll('thead th'))
        head.setAttribute('role', 'columnheader');
}

/* A table of several bodies, each with a heading row: [{key, title, rows: [{label, ...}]}]. */
class Sections {
    constructor(table, columns) {
        this.table = table;
        this.columns = [{head: true, cls: 'wide', set: (c, x) => setText(c, x.label)}, ...columns];
        this.parts = new Map();
        setRoles(table);
    }

    update(sections) {
        const bodies = [];
        for (const s of sections) {
            const part = this.part(s.key);
            setText(part.head, s.title);
            part.rows.update(s.rows);
            bodies.push(part.title, part.rows.body);
        }
        for (const [key, part] of this.parts)
            if (!bodies.includes(part.title)) {
                part.title.remove();
                part.rows.body.remove();
                this.parts.delete(key);
            }
        if (!bodies.every((body, i) => this.table.tBodies[i] === body))
            this.table.append(...bodies);
    }

    part(key) {
        if (!this.parts.has(key)) {
            const title = this.table.createTBody(),
                row = el('tr'),
                head = el('th');
            title.className = 'title';
            head.colSpan = this.columns.length;
            head.scope = 'rowgroup';
            title.setAttribute('role', 'rowgroup');
            row.setAttribute('role', 'row');
            head.setAttribute('role', 'rowheader');
            row.append(head);
            title.append(row);
            const body = this.table.createTBody();
            body.setAttribute('role', 'rowgroup');
            const rows = new Rows(this.table, this.columns, (x) => x.key || x.label);
            rows.body = body;
            this.parts.set(key, {title, head, rows});
        }
        return this.parts.get(key);
    }
}

const col = (label, cls, text) => ({label, cls, set: (cell, item) => setText(cell, text(item))});
const num = (label, text, minor) => col(label, minor ? 'n minor' : 'n', text);

/* "3 of 4" and a bar. When none is free, the bar is full and has a colour of its own. */
function useCell(cell, item) {
    if (!cell.firstChild) {
        const meter = svg('svg', {
            class: 'meter',
            viewBox: '0 0 100 8',
            preserveAspectRatio: 'none',
            'aria-hidden': 'true',
        });
        meter.append(
            svg('rect', {class: 'track', width: 100, height: 8}),
            svg('rect', {class: 'fill', width: 0, height: 8}),
        );
        const box = el('div', 'use');
        box.append(el('span', 'use-text'), meter);
        cell.append(box);
    }
    const box = cell.firstChild;
    setText(
        box.firstChild,
        item.limit ? count(item.in_use) + ' of ' + count(item.limit) : count(item.in_use),
    );
    box.lastChild.classList.toggle('none', !item.limit);
    setMeter(box.lastChild, item.limit ? item.in_use / item.limit : 0);
}

function setMeter(meter, part) {
    const x = Math.min(1, Math.max(0, part || 0));
    setAttr(meter.lastElementChild, 'width', (x * 100).toFixed(1));
    meter.classList.toggle('full', x >= 0.9995);
}

/* A number above a bar; the longest bar is that of the highest number in the column. */
function weighed(cell, text, part) {
    if (!cell.firstChild) {
        const bar = svg('svg', {
            class: 'weight',
            viewBox: '0 0 100 1',
            preserveAspectRatio: 'none',
            'aria-hidden': 'true',
        });
        bar.append(svg('rect', {x: 100, width: 0, height: 1}));
        cell.classList.add('weighed');
        cell.append(bar, el('span', 'over'));
    }
    setText(cell.lastChild, text);
    const width = (Math.min(1, Math.max(0, part || 0)) * 100).toFixed(1);
    setAttr(cell.firstChild.firstChild, 'width', width);
    setAttr(cell.firstChild.firstChild, 'x', (100 - width).toFixed(1));
}
