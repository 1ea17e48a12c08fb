/*
 * contrast.mjs - computes in the browser what WCAG 2 requires of colours: 4.5 for text (3 for large
 * text), 3 for meaningful graphics. Runs inside the page; returns the elements that fail.
 */
export function lowContrast() {
    const numbers = (text) => {
        const found = /rgba?\(([^)]+)\)/.exec(text);
        if (!found) return null;
        const parts = found[1].split(/[\s,/]+/).map(Number);
        return {rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1};
    };
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((c) => {
            const x = c / 255;
            return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (a, b) => {
        const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
        return (high + 0.05) / (low + 0.05);
    };
    const over = (top, below) => top.rgb.map((c, i) => c * top.alpha + below[i] * (1 - top.alpha));
    const backOf = (node) => {
        const stack = [];
        for (let n = node; n; n = n.parentElement) {
            const back = numbers(getComputedStyle(n).backgroundColor);
            if (back && back.alpha > 0) stack.push(back);
            if (back && back.alpha === 1) break;
        }
        return stack.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
    };
    const short = [];
    let texts = 0,
        graphics = 0;
    let isGrey = false; // stale parts are drawn without colour
    const grey = (rgb) => {
        const luma = 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
        return isGrey ? [luma, luma, luma] : rgb;
    };
    const judge = (what, color, back, least) => {
        const got = ratio(grey(over(color, back)), grey(back));
        if (got < least - 0.005)
            short.push(`${what}: ${got.toFixed(2)} < ${least} (${color.rgb} on ${back.map(Math.round)})`);
    };
    const seen = (node) => {
        isGrey = Boolean(node.closest('.stale #overview, .stale #detail, .stale #pool'));
        return (
            node.checkVisibility({opacityProperty: true, visibilityProperty: true}) &&
            !node.closest('.hide, :disabled, noscript')
        );
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let t = walker.nextNode(); t; t = walker.nextNode()) {
        const node = t.parentElement;
        if (!t.data.trim() || !seen(node)) continue;
        texts++;
        const style = getComputedStyle(node),
            isSvg = node instanceof SVGElement;
        const size = parseFloat(style.fontSize),
            isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        const color = numbers(isSvg ? style.fill : style.color);
        for (let n = node; n; n = n.parentElement)
            if (parseFloat(getComputedStyle(n).opacity) < 1) short.push('text under opacity: ' + t.data);
        const label = `"${t.data.slice(0, 30)}" in ${node.tagName} ${node.getAttribute('class')}`;
        judge(label, color, backOf(node), isLarge ? 3 : 4.5);
        if (node.classList.contains('over'))
            judge(
                label + ' on its bar',
                color,
                numbers(getComputedStyle(node.parentElement.querySelector('.weight rect')).fill).rgb,
                4.5,
            );
    }
    for (const input of document.querySelectorAll('input[type=text]')) {
        isGrey = false;
        const back = backOf(input);
        judge('placeholder', numbers(getComputedStyle(input, '::placeholder').color), back, 4.5);
    }
    const drawn = [ // what, its colour, what it is drawn on
        ['.lines .line, .legend .line, .spark-line, button svg path, .glass path', 'stroke',
            (node) => node.closest('div, p, a, button, li, span')],
        ['.meter .fill, .bar-states rect:not(.track), .legend-states rect, .state rect', 'fill',
            (node) => node.closest('div, td')],
        ['.level-mark, .link .dot', 'backgroundColor', (node) => node.parentElement],
        ['button.tool, button.button, input[type=text], input[type=password], select', 'borderTopColor',
            (node) => node.parentElement],
    ];
    for (const [selector, colour, below] of drawn)
        for (const node of document.querySelectorAll(selector))
            if (seen(node)) {
                graphics++;
                const what = `${colour} of ${node.tagName} ${node.id || node.getAttribute('class')}`;
                judge(what, numbers(getComputedStyle(node)[colour]), backOf(below(node)), 3);
            }
    return {short: [...new Set(short)], texts, graphics};
}
