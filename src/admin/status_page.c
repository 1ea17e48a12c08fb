/* status_page.c - the status page and what it is made of (page.h). */
#include "admin/admin_internal.h"
#include "admin/page.h"

#include <string.h>

/* True if a list of tags ("If-None-Match: W/"a", "b"" or "*") has this one. */
static bool has_tag(const char *list, const char *tag)
{
    return list && (strstr(list, tag) || strcmp(list, "*") == 0);
}

void get_page(const struct route_request *r)
{
    const struct page_file *file = page_find(http_path(r->http));
    CHECK(file); /* it has a route */
    http_set_header(r->http, "ETag", file->etag);
    http_set_header(r->http, "Cache-Control", "no-cache"); /* kept, and asked for again each time */
    http_set_header(r->http, "Referrer-Policy", "no-referrer");
    http_set_header(r->http, "Content-Security-Policy",
                    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                    "img-src 'self' data:; base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'");
    bool same = has_tag(http_asked(r->http, "If-None-Match"), file->etag);
    http_answer_static(r->http, same ? 304 : 200, file->type, file->data, same ? 0 : file->len);
}
