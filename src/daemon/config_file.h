/*
 * config_file.h - reads a configuration file into settings.
 *
 * A line is `key = value`, empty, or a comment that starts with #. A value may be in double quotes;
 * # and blanks are plain characters there. Lines may end in CR LF, and the file may start with a
 * UTF-8 byte order mark. A key may appear once. Keys of another program that a protocol accepts
 * (struct option_protocol) are listed in ignored_keys and have no effect.
 *
 * Threads: as in options.h.
 */
#ifndef DAEMON_CONFIG_FILE_H
#define DAEMON_CONFIG_FILE_H

#include "daemon/options.h"

/* Limits of a line, without its end, and of a file. */
#define CONFIG_FILE_LINE_MAX  4096
#define CONFIG_FILE_BYTES_MAX 1048576

/* Reading stops after this many mistakes. */
#define CONFIG_FILE_ERRORS_MAX 20

enum config_file_status {
    CONFIG_FILE_READ,
    CONFIG_FILE_MISSING, /* no such file; nothing was printed or changed */
    CONFIG_FILE_BAD,     /* unreadable, or with mistakes; each was printed to `err` */
};

/*
 * Sets the options in the file at `path`: a regular one, or /dev/null. Prints each mistake to `err`
 * as "counterd: PATH:LINE: ...". After CONFIG_FILE_BAD some options may have been set.
 */
enum config_file_status config_file_load(struct settings *settings, const char *path,
                                         FILE *err) MUST_USE;

#endif
