/* storage.js - what the browser keeps of the reader's choices, where it may keep anything. */

function recall(key) {
    try {
        return localStorage.getItem('counterd.' + key);
    } catch (e) {
        return null; // storage is forbidden: the page works without
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
