/* page_test.c - the files of the status page in the executable are those of the source folder. */
#include "admin/page.h"

#include "t/unit/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define JS_HEAD "(function () {\n'use strict';\n"
#define JS_TAIL "})();\n"

/*
 * The paths that are served, each from one file, or from all files of a folder with a head and a
 * tail.
 */
static const struct {
    const char *path, *file, *folder, *type, *head, *tail;
} served[] = {
    {"/", "index.html", NULL, "text/html; charset=utf-8", "", ""},
    {"/page.css", NULL, "css", "text/css; charset=utf-8", "", ""},
    {"/page.js", NULL, "js", "text/javascript; charset=utf-8", JS_HEAD, JS_TAIL},
    {"/favicon.svg", "favicon.svg", NULL, "image/svg+xml", "", ""},
};
#define SERVED (sizeof(served) / sizeof(served[0]))

/* Writes the path of a source file or folder of the page to path[]. */
static void source_path(char path[4096], const char *folder, const char *file)
{
    const char *top = getenv("TOP_SRCDIR");
    snprintf(path, 4096, "%s/src/admin/page/%s/%s", top ? top : ".", folder, file);
}

/* The content of a source file of the page; the caller frees it. *len_r gets its length. */
static uint8_t *read_source(const char *folder, const char *file, size_t *len_r)
{
    char path[4096];
    source_path(path, folder, file);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f, "%s can't be opened", path);
    const size_t room = 1 << 20;
    uint8_t *content = malloc(room);
    ck_assert_ptr_nonnull(content);
    *len_r = fread(content, 1, room, f);
    ck_assert(feof(f) && !ferror(f));
    fclose(f);
    return content;
}

TEST(each_file_is_found_with_its_type)
{
    for (size_t i = 0; i < SERVED; i++) {
        const struct page_file *file = page_find(served[i].path);
        ck_assert_ptr_nonnull(file);
        ck_assert_str_eq(file->path, served[i].path);
        ck_assert_str_eq(file->type, served[i].type);
    }
}
END_TEST

/* The total length of a folder's files; checks that `joined` contains each of them whole. */
static size_t check_joined(const struct page_file *joined, const char *folder)
{
    char path[4096];
    source_path(path, folder, "");
    DIR *dir = opendir(path);
    ck_assert_msg(dir, "%s can't be opened", path);
    size_t sum = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        size_t len = 0;
        uint8_t *content = read_source(folder, entry->d_name, &len);
        ck_assert_msg(memmem(joined->data, joined->len, content, len),
                      "%s/%s is not in %s: list it in local.mk", folder, entry->d_name,
                      joined->path);
        free(content);
        sum += len;
    }
    closedir(dir);
    return sum;
}

TEST(the_bytes_are_those_of_the_source_folder)
{
    for (size_t i = 0; i < SERVED; i++) {
        const struct page_file *file = page_find(served[i].path);
        size_t head = strlen(served[i].head), tail = strlen(served[i].tail);
        if (served[i].folder) {
            ck_assert_uint_eq(file->len, head + check_joined(file, served[i].folder) + tail);
            ck_assert_mem_eq(file->data, served[i].head, head);
            ck_assert_mem_eq(file->data + file->len - tail, served[i].tail, tail);
        } else {
            size_t len = 0;
            uint8_t *content = read_source(".", served[i].file, &len);
            ck_assert_uint_eq(file->len, len);
            ck_assert_mem_eq(file->data, content, len);
            free(content);
        }
    }
}
END_TEST

TEST(other_paths_are_not_found)
{
    static const char *const paths[] = {
        "", "/index.html", "/page.j", "/page.jsx", "page.js", "//", "/PAGE.JS", "/favicon.svg/",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        ck_assert_msg(!page_find(paths[i]), "\"%s\" is found", paths[i]);
}
END_TEST

TEST(etags_are_quoted_and_differ)
{
    for (size_t i = 0; i < SERVED; i++) {
        const char *etag = page_find(served[i].path)->etag;
        size_t len = strlen(etag);
        ck_assert_uint_gt(len, 2);
        ck_assert(etag[0] == '"' && etag[len - 1] == '"');
        ck_assert_uint_eq(strcspn(etag + 1, "\" \t"), len - 2);
        for (size_t k = 0; k < i; k++)
            ck_assert_str_ne(etag, page_find(served[k].path)->etag);
    }
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(each_file_is_found_with_its_type),
    UNIT(the_bytes_are_those_of_the_source_folder),
    UNIT(other_paths_are_not_found),
    UNIT(etags_are_quoted_and_differ),
};

UNIT_MAIN("page", tests)
