/*
 * page.h - the files of the status page. They are part of the executable, so there is nothing to
 * install or find, and page and API always have the same version.
 *
 * embed.sh makes them at build time from the files in src/admin/page. All of it is constant: any
 * thread may use it.
 */
#ifndef ADMIN_PAGE_H
#define ADMIN_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct page_file {
    const char *path;    /* of the URL: "/", "/page.css", "/page.js", "/favicon.svg" */
    const char *type;    /* for Content-Type: "text/html; charset=utf-8" */
    const uint8_t *data; /* `len` bytes */
    size_t len;
    const char *etag; /* for ETag, its quotes included; another one when the content is another */
};

/*
 * The file at `path`, which is that of a URL without its query, or NULL when the page has none
 * there.
 */
const struct page_file *page_find(const char *path);

#endif
