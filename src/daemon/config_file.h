/*
 * config_file.h - reading a configuration file into settings.
 *
 * A file is lines: `key = value`, nothing, or a comment from # on. Values may stand in double
 * quotes, in which # and blanks are themselves. Lines may end in CR LF, and the first may begin
 * with the byte order mark of UTF-8. Each key is given once. Keys of another program's file that a
 * protocol accepts (struct option_protocol) are collected and otherwise ignored.
 *
 * Threads: as with options.h.
 */
#ifndef DAEMON_CONFIG_FILE_H
#define DAEMON_CONFIG_FILE_H

#include "daemon/options.h"

/* The longest line, without its end; and the largest file. Longer ones are no configuration. */
#define CONFIG_FILE_LINE_MAX  4096
#define CONFIG_FILE_BYTES_MAX 1048576

/* After so many mistakes the rest of a file is not looked at. */
#define CONFIG_FILE_ERRORS_MAX 20

enum config_file_status {
    CONFIG_FILE_READ,
    CONFIG_FILE_MISSING, /* there is none of that name; nothing was said or changed */
    CONFIG_FILE_BAD,     /* it cannot be read or has mistakes; each has been said on `err` */
};

/*
 * Sets what the regular file at `path` sets. Says every mistake as "counterd: PATH:LINE: ...".
 * After CONFIG_FILE_BAD some of the settings may have been set.
 */
enum config_file_status config_file_load(struct settings *settings, const char *path,
                                         FILE *err) MUST_USE;

#endif
