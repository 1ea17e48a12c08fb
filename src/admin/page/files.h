/*
 * files.h - the files of the page, embedded by embed.sh: index.html, favicon.svg, page.js (all of
 * js/) and page.css (all of css/).
 */
#ifndef ADMIN_PAGE_FILES_H
#define ADMIN_PAGE_FILES_H

#include "admin/page.h"

extern const struct page_file page_files[];
extern const size_t page_file_count;

#endif
