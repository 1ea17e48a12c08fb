/* page_test.c - the files of the status page in the executable are those of the source folder. */
#include "admin/page.h"

#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>

/* What is served where, of which file. */
static const struct {
    const char *path, *file, *type;
} served[] = {
    {"/", "index.html", "text/html; charset=utf-8"},
    {"/page.css", "page.css", "text/css; charset=utf-8"},
    {"/page.js", "page.js", "text/javascript; charset=utf-8"},
    {"/favicon.svg", "favicon.svg", "image/svg+xml"},
};
#define SERVED (sizeof(served) / sizeof(served[0]))

/* The content of a file beside the page's sources, from malloc; its length in *len_r. */
static uint8_t *read_source(const char *file, size_t *len_r)
{
    const char *top = getenv("TOP_SRCDIR");
    char path[4096];
    snprintf(path, sizeof(path), "%s/src/admin/page/%s", top ? top : ".", file);
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

TEST(the_bytes_are_those_of_the_source_folder)
{
    for (size_t i = 0; i < SERVED; i++) {
        size_t len = 0;
        uint8_t *content = read_source(served[i].file, &len);
        const struct page_file *file = page_find(served[i].path);
        ck_assert_uint_eq(file->len, len);
        ck_assert_mem_eq(file->data, content, len);
        free(content);
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
