/*
 * files.h - what embed.sh makes of index.html, favicon.svg, and page.js and page.css, which are
 * joined of js/ and css/.
 */
#ifndef ADMIN_PAGE_FILES_H
#define ADMIN_PAGE_FILES_H

#include "admin/page.h"

extern const struct page_file page_files[];
extern const size_t page_file_count;

#endif
