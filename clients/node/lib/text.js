/** Text for people. */

const utf8 = (data) => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data, { stream: true });
const hex = (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`;
const NAMED = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escaped(c) {
  return NAMED[c] ?? (c < '\u0100' ? hex(c) : `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}`);
}

/** The text for people: controls and what is not UTF-8 escaped, 200 bytes at most. */
export function quote(text) {
  if (typeof text === 'string' && /^[ -~]{0,200}$/.test(text)) return text;
  const data = Buffer.from(text).subarray(0, 200);
  let shown;
  try {
    shown = utf8(data);
  } catch {
    shown = data.toString('latin1').replace(/[\x80-\xff]/g, hex);
  }
  return utf8(Buffer.from(shown.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, escaped)).subarray(0, 200));
}
