/* upgrade_back.c - see upgrade_back.h. */
#include "daemon/upgrade_back.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void upgrade_back_open(struct upgrade_back *back, const char *path)
{
    back->fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    snprintf(back->path, sizeof(back->path), "%s", path);
}

void upgrade_back_close(struct upgrade_back *back)
{
    if (back->fd >= 0)
        close(back->fd);
    back->fd = -1;
}

/* --- Sections -------------------------------------------------------------------------------- */

/* Writes an option that was set, or has another value than its default. */
static void save_option(const struct settings *settings, const struct option_row *row,
                        struct record_writer *w)
{
    size_t size = options_to_text(settings, row, NULL, 0) + 1;
    char *text = malloc(size);
    if (!text) {
        record_give_up(w, ENOMEM);
        return;
    }
    (void)options_to_text(settings, row, text, size);
    if (options_mark(settings, row)->named || strcmp(text, row->default_text) != 0) {
        record_put_text(w, row->key);
        record_put_text(w, text);
    }
    free(text);
}

void upgrade_back_save(const struct upgrade_back *back, const struct settings *settings,
                       struct record_writer *w)
{
    const struct option_row *row;
    if (back->fd < 0)
        return;
    record_begin(w, UPGRADE_BACK);
    record_put_u32(w, (uint32_t)back->fd);
    record_put_text(w, back->path);
    record_end(w);
    record_begin(w, UPGRADE_SETTINGS);
    record_put_text(w, settings->file ? settings->file : "");
    for (size_t i = 0; (row = options_in(settings, i)); i++)
        save_option(settings, row, w);
    record_put_text(w, "");
    record_end(w);
}

bool upgrade_back_restore(struct upgrade_back *back, bool keeps, uint32_t kind,
                          struct record_reader *section)
{
    switch (kind) {
    case UPGRADE_BACK:
        back->fd = (int)record_get_u32(section);
        record_get_text(section, back->path, sizeof(back->path), "a path is too long");
        record_leave(section);
        if (!keeps || !record_ok(section) || fcntl(back->fd, F_SETFD, FD_CLOEXEC) != 0)
            back->fd = -1;
        return record_ok(section);
    case UPGRADE_SETTINGS:
        record_reader_init(&back->settings, section->data, section->len);
        return true;
    default:
        return false;
    }
}

/* --- Sockets --------------------------------------------------------------------------------- */

static void note(struct upgrade_back *back, int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && back->count < ARRAY_SIZE(back->sockets))
        back->sockets[back->count++] = (struct upgrade_back_socket){.fd = fd, .inode = st.st_ino};
}

void upgrade_back_note(struct upgrade_back *back, const struct inherited *inherited,
                       const struct activation *activation)
{
    for (size_t i = 0; i < inherited->count; i++)
        note(back, inherited->at[i].fd);
    for (size_t i = 0; i < activation->count; i++)
        note(back, activation->at[i].fd);
}

void upgrade_back_keep(const struct upgrade_back *back)
{
    for (size_t i = 0; i < back->count; i++) {
        const struct upgrade_back_socket *sock = &back->sockets[i];
        struct stat st;
        if (fstat(sock->fd, &st) == 0 && st.st_ino == sock->inode)
            (void)fcntl(sock->fd, F_SETFD, 0);
    }
}

/* --- Settings -------------------------------------------------------------------------------- */

/* Reads bytes as a text of its own. Returns NULL without memory. */
static char *read_text(struct record_reader *r)
{
    const void *text;
    size_t len = record_get_bytes(r, &text);
    return strndup(text, len);
}

/* Sets one option. Returns false at the end, and on error; reason_r is "" at the end. */
static bool restore_option(struct record_reader *r, struct settings *settings, char *reason_r)
{
    const struct option_row *row = NULL;
    char *key = read_text(r), *value = NULL;
    *reason_r = '\0';
    if (key && *key) {
        snprintf(reason_r, OPTIONS_REASON_SIZE, "no memory");
        value = read_text(r);
        row = value ? options_to_set(settings, key, reason_r) : NULL;
    }
    bool good = row && options_restore(settings, row, value, reason_r);
    free(value);
    free(key);
    return good;
}

bool upgrade_back_settings(struct upgrade_back *back, struct settings *settings, FILE *err)
{
    char reason[OPTIONS_REASON_SIZE] = "";
    struct record_reader *r = &back->settings;
    record_get_text(r, back->file, sizeof(back->file), "a path is too long");
    while (restore_option(r, settings, reason))
        continue;
    record_leave(r);
    if (*reason || !record_ok(r)) {
        options_complain(err, "the settings from before can't be read: %s",
                         *reason ? reason : r->why);
        return false;
    }
    settings->file = *back->file ? back->file : NULL;
    return options_fit(settings, err);
}
