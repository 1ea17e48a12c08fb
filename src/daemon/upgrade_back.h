/*
 * upgrade_back.h - the way back to the old program. The old program hands on, with its state, its
 * own file as an open descriptor, its path, and its settings. If the new program cannot read the
 * state, or fails before it serves, it executes that file with the same state.
 *
 * The old program then uses the settings that it had, not the file, which may have options that
 * only the new program knows. It accepts a state with another sum, if it can read it: the other
 * choice would be to lose all. It cannot go back again, so this never loops.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_UPGRADE_BACK_H
#define DAEMON_UPGRADE_BACK_H

#include "base/record.h"
#include "daemon/inherited.h"
#include "daemon/options.h"

#include <limits.h>
#include <sys/types.h>

/* Kinds of section: u32 descriptor, bytes path of the old program; and its settings: bytes path of
 * the file that it has read ("": none), then bytes key and bytes value of each option that was set,
 * and bytes "" at the end. */
#define UPGRADE_BACK     (RECORD_OPTIONAL | UINT32_C(0x0403))
#define UPGRADE_SETTINGS (RECORD_OPTIONAL | UINT32_C(0x0404))

/* An inherited socket. A new one may get the same descriptor, but not the same inode. */
struct upgrade_back_socket {
    int fd;
    ino_t inode;
};

struct upgrade_back {
    int fd;                        /* of the old program; -1: there is no way back */
    char path[PATH_MAX];           /* of the old program */
    struct record_reader settings; /* the section; empty: there is none */
    char file[PATH_MAX];           /* the file of the settings */
    size_t count;
    struct upgrade_back_socket sockets[INHERITED_MAX + ACTIVATION_MAX];
};

/* In the old program: opens the running program. Without success there is no way back. */
void upgrade_back_open(struct upgrade_back *back, const char *path);
/* Closes the descriptor, if it is open. */
void upgrade_back_close(struct upgrade_back *back);
/* Writes both sections. */
void upgrade_back_save(const struct upgrade_back *back, const struct settings *settings,
                       struct record_writer *w);

/* In the new program: reads a section. Returns false when `kind` is another one, or on failure.
 * With `keeps`, the descriptor is open, and becomes close-on-exec. */
bool upgrade_back_restore(struct upgrade_back *back, bool keeps, uint32_t kind,
                          struct record_reader *section) MUST_USE;
/* In the new program: notes the sockets that the old one needs. */
void upgrade_back_note(struct upgrade_back *back, const struct inherited *inherited,
                       const struct activation *activation);
/* Keeps those of them that are still open over execve. */
void upgrade_back_keep(const struct upgrade_back *back);

/* In the old program that goes on again: sets the options as they were. Returns false on error,
 * which is printed to `err`. */
bool upgrade_back_settings(struct upgrade_back *back, struct settings *settings,
                           FILE *err) MUST_USE;

#endif
