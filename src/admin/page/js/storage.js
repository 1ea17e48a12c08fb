/* storage.js - the reader's choices in the browser's storage, if it is allowed. */

function recall(key) {
    try {
        return localStorage.getItem('counterd.' + key);
    } catch (e) {
        return null; // storage is forbidden; the page works without it
    }
}

function remember(key, value) {
    try {
        if (value === null) localStorage.removeItem('counterd.' + key);
        else localStorage.setItem('counterd.' + key, value);
    } catch (e) {
        // as above
    }
}
