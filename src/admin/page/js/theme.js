/* theme.js - light or dark: as in the system's settings, until the reader chooses. */

const systemDark = matchMedia('(prefers-color-scheme: dark)');

function themeNow() {
    const said = recall('theme');
    return said === 'dark' || said === 'light' ? said : systemDark.matches ? 'dark' : 'light';
}

function applyTheme() {
    const theme = themeNow();
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById('theme');
    if (button) {
        const label = theme === 'dark' ? 'Use light colours' : 'Use dark colours';
        button.setAttribute('aria-label', label);
        button.title = label;
    }
}

applyTheme();
systemDark.addEventListener('change', applyTheme);

function toggleTheme() {
    const wanted = themeNow() === 'dark' ? 'light' : 'dark';
    // The reader chose the system's theme: follow the system again.
    remember('theme', wanted === (systemDark.matches ? 'dark' : 'light') ? null : wanted);
    applyTheme();
}
