/*
 * api.js - fetches one answer from the server, and reports errors. It contacts only the page's own
 * origin; operate.js and tube.js alone change something there.
 */

const TIMEOUT_MS = 5000;

class Trouble extends Error {} // its message is for the reader
class NotFound extends Error {}

async function ask(path, signal) {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), TIMEOUT_MS);
    const stop = () => limit.abort();
    if (signal) signal.addEventListener('abort', stop);
    try {
        let answer;
        try {
            answer = await fetch(path, {cache: 'no-store', signal: limit.signal});
        } catch (e) {
            throw new Trouble(
                limit.signal.aborted
                    ? 'The daemon does not answer.'
                    : 'The daemon can’t be reached.',
            );
        }
        if (answer.status === 404) throw new NotFound();
        if (!answer.ok) throw new Trouble('The daemon answers with error ' + answer.status + '.');
        try {
            return await answer.json();
        } catch (e) {
            throw new Trouble(
                limit.signal.aborted
                    ? 'The daemon does not answer.'
                    : 'The daemon’s answer can’t be read.',
            );
        }
    } finally {
        clearTimeout(timer);
        if (signal) signal.removeEventListener('abort', stop);
    }
}
