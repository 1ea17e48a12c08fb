/*
 * dom.js - finds, creates and changes elements of the document. It does not touch unchanged ones.
 */

const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

function el(tag, cls, text) {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) node.textContent = text;
    return node;
}

function svg(tag, attributes) {
    const node = document.createElementNS(SVG, tag);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    return node;
}

/* Sets a text only if it differs, so that selections and screen readers are not disturbed. */
function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

function setAttr(node, key, value) {
    if (node.getAttribute(key) !== String(value)) node.setAttribute(key, value);
}

function show(node, is) {
    if (node.hidden === is) node.hidden = !is;
}
