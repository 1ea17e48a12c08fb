/*
 * options.h - the operator's options, their values, and the command line.
 *
 * Every option is one row of a group (base/option.h). The row drives the parsing of the file and of
 * -o, --help, the printing of values, and tests of the sample file and the manual. The daemon's own
 * options are rows in options.c with fields in `struct settings`. Protocols and resources bring
 * their own rows (option_registry), so a new one needs no change here. The options that every
 * protocol has are made from its struct option_protocol.
 *
 * Threads: the main thread makes and changes settings. Settings that do not change any more may be
 * read by any thread.
 */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include "base/check.h"
#include "base/log.h"
#include "base/option_value.h"
#include "net/access.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- Values ---------------------------------------------------------------------------------- */

/* The options that every protocol has. */
struct settings_protocol {
    bool enable;
    bool plain;                     /* serve without TLS on `port` */
    uint16_t port;                  /* 0: any free port */
    uint16_t tls_port;              /* 0: none */
    struct option_addresses listen; /* of both ports */
    char *socket;                   /* path, or @name of an abstract one; NULL: none */
    uint32_t socket_mode;           /* permission bits */
    uint32_t max_connections;       /* 0: no limit */

    /*
     * Keys in the file that only the protocol's foreign program uses, in the order of the file:
     * "port, repl_port, workers". "": none. counterd ignores them and logs them in one line.
     * options_copy does not copy this field.
     */
    char ignored_keys[512];
};

struct settings_group;

/* The values of all options. The struct owns its strings; NULL is the empty string. */
struct settings {
    struct settings_group *groups; /* options of protocols and resources; see settings.c */

    uint32_t threads;   /* 0: one per core */
    uint32_t busy_poll; /* µs */

    char *tls_cert; /* NULL: no TLS */
    char *tls_key;  /* NULL: it is in tls_cert */
    char *tls_ca;   /* NULL: none */
    enum tls_verify tls_verify_client;
    enum tls_version tls_min_version;
    uint32_t tls_handshake_timeout; /* s */
    uint32_t tls_max_handshakes;    /* at once */

    struct access_networks access_allow; /* empty: all clients */
    uint32_t access_max_per_source;      /* 0: no limit */

    uint32_t limits_request_timeout; /* s */
    uint32_t limits_write_timeout;   /* s */
    uint64_t limits_output_buffer;   /* bytes */
    uint64_t limits_unfinished;      /* bytes, of all connections together */

    uint16_t admin_port; /* 0: no interface */
    struct option_addresses admin_listen;
    char *admin_token;      /* its digest; NULL, and no file either: no changes allowed */
    char *admin_token_file; /* overrides admin_token */
    char *admin_hosts;      /* NULL: only the names that are always accepted */

    uint32_t shutdown_drain; /* s; 0: SIGTERM ends at once */

    uint32_t upgrade_timeout; /* s */

    enum log_level log_level;
    enum log_output log_output;
    enum log_format log_format;

    char *user;     /* NULL: do not change the user */
    char *group;    /* NULL: the user's own */
    char *pid_file; /* NULL: none */

    bool security_sandbox;

    /* The file that was read, or NULL; points into argv or is static. options_copy copies neither
     * of these two. */
    const char *file;
    const char *file_secret; /* the first option of the file that is secret; NULL: none */
};

/* Fills in the defaults; does not free old values. Returns false without memory; there is nothing
 * to free then. Else the caller calls settings_free. */
bool settings_init(struct settings *settings) MUST_USE;
/* Frees the values and zeroes the struct. Does nothing for a struct of zeros. */
void settings_free(struct settings *settings);

/* The options of the services. A test may link its own registry. */
extern const struct option_registry option_registry;
/* Protocol `i`, in the order of their start; NULL past the last. */
const struct option_protocol *options_protocol_at(size_t i);
/* The settings of protocol `i`, owned by `settings`. */
struct settings_protocol *settings_protocol(const struct settings *settings, size_t i);
/* The struct of a group that is not a family; `settings` owns it. */
const void *settings_own(const struct settings *settings, const struct option_group *group);

/* --- The table ------------------------------------------------------------------------------- */

/*
 * Rows of the table have whole keys and aliases ("limits.write_timeout") and know the place of
 * their values. All functions accept only rows from the next four.
 *
 * Returns row `index` in the order of --help: by prefix, the daemon's own last. NULL past the last.
 * A row of a family stands for all its names, "pool.NAME.order", and has no value. Rows stay valid
 * until the process ends.
 */
const struct option_row *options_row_at(size_t index);
/* Finds the row of a key or alias in that list; NULL: none. */
const struct option_row *options_find(const char *key);
/* Returns row `index` of those that have a value in `settings`; NULL past the last. A family has
 * rows for each of its names; `settings` owns those. */
const struct option_row *options_in(const struct settings *settings, size_t index);
/* Finds the row of a key to set; adds a new name to a family. Returns NULL on error: reason_r
 * (OPTIONS_REASON_SIZE bytes) says why, with the nearest key. It may hold bytes of `key`. */
const struct option_row *options_to_set(struct settings *settings, const char *key,
                                        char *reason_r) MUST_USE;
/* True if a row has a value in `settings`; false for a name of a family that is not there. */
bool options_has(const struct settings *settings, const struct option_row *row);

/* The mark of an option that has a value. options_copy does not copy it. */
struct options_mark *options_mark(const struct settings *settings, const struct option_row *row);

/*
 * Sets one option to the value in `text`, without quotes and comments.
 *
 * Returns false, without a change, if the text is no valid value or memory is short. reason_r
 * (OPTIONS_REASON_SIZE bytes) says then in half a sentence what is wrong and what is valid. It may
 * hold bytes of `text`: print it with options_complain.
 */
bool options_assign(struct settings *settings, const struct option_row *row, const char *text,
                    char *reason_r) MUST_USE;

/* The same of a text of options_to_text, which of a token has the digest. */
bool options_restore(struct settings *settings, const struct option_row *row, const char *text,
                     char *reason_r) MUST_USE;

/* Sets the addresses of every protocol, but not those of the admin interface. */
void options_listen(struct settings *settings, const struct option_addresses *list);

/*
 * Writes the value of an option as text that options_restore, and but for tokens options_assign,
 * reads as the same value. As in
 * snprintf: writes at most `size` bytes with the NUL, and returns the length of the whole text.
 */
size_t options_to_text(const struct settings *settings, const struct option_row *row, char *to,
                       size_t size);

/* True if an option has the same value in both, or neither has it. */
bool options_equal(const struct settings *a, const struct settings *b,
                   const struct option_row *row);

/* Copies the value of an option. Returns false without memory; the value in `to` has not changed
 * then. */
bool options_copy(struct settings *to, const struct settings *from,
                  const struct option_row *row) MUST_USE;

/* A struct of settings that differs: of a group, or of one name of a family. */
struct settings_difference {
    const struct option_group *group;
    const char *name;     /* of a family, else NULL */
    const void *was, *is; /* was NULL: the struct is new; is NULL: it is gone */
};
/*
 * Calls `found` for each struct of protocols and resources that differs, or of which each reload
 * tells its owner (`always`); families come last, and their structs are ordered by name. With `was`
 * NULL all structs count as new.
 */
void settings_compare(const struct settings *was, const struct settings *is,
                      void (*found)(void *arg, const struct settings_difference *difference),
                      void *arg);
/* Calls `changed` of the group (struct option_group). `services`: the struct services. A callback
 * for settings_compare. */
void settings_tell(void *services, const struct settings_difference *difference);

/*
 * Calls `check` of all groups, which loads files that the settings name. Prints mistakes to `err`,
 * and returns false then.
 */
bool settings_check(struct settings *settings, FILE *err) MUST_USE;
/* The same for the groups alone whose files the daemon opens as its user; this process is that. */
bool settings_check_as_user(struct settings *settings, FILE *err) MUST_USE;
/* Calls `forget` of all groups. */
void settings_forget(struct settings *settings);

/* The longest token of the admin interface, in bytes. */
#define OPTIONS_TOKEN_MAX 255
/* True if `len` bytes are a valid token: printable ASCII without blanks, and not empty. */
bool options_is_token(const char *text, size_t len);

/*
 * Checks that options fit together: a protocol is enabled, options that need another one have it,
 * no two listeners use one port or path. Then calls settings_check. Prints each mistake to `err`,
 * and returns false then.
 */
bool options_fit(struct settings *settings, FILE *err) MUST_USE;

/*
 * Finds the value in the text after the `=`, without blanks and quotes around it. With `comments`,
 * a # outside quotes ends the value. Changes `text`, and returns the value in it. NULL: a quote is
 * wrong; *why_r says how, in half a sentence.
 */
char *options_unquote(char *text, bool comments, const char **why_r) MUST_USE;

/*
 * Writes the notice about the ignored keys of protocol `i`. Size and return value as in snprintf;
 * 0: there are none.
 */
size_t options_ignored_text(const struct settings *settings, size_t i, char *to, size_t size);

/* --- The command line ------------------------------------------------------------------------ */

enum options_action {
    OPTIONS_RUN,     /* serve */
    OPTIONS_CHECK,   /* -t, and the settings are valid: run the other checks and exit */
    OPTIONS_HELP,    /* -h: call options_print_help and exit with status 0 */
    OPTIONS_VERSION, /* -V: print the version and exit with status 0 */
    OPTIONS_ERROR,   /* an error was printed: exit with exit_status */
};

struct options_request {
    enum options_action action;
    int exit_status; /* for OPTIONS_ERROR: PROCESS_EXIT_ADDRESS or PROCESS_EXIT_SETUP */
};

/*
 * Reads the command line, then the file that it names (else the default one, if it exists), and
 * sets options: the file overrides the defaults; -o and -l override the file, in their order. The
 * caller has called settings_init. `had_file`: the running daemon has read a file before, so the
 * default one must exist, too. Prints each mistake, also those of options_fit, to `err`. In every
 * case the caller frees the settings; after OPTIONS_ERROR they have no other use. May be called
 * again with the same arguments. Main thread only.
 */
struct options_request options_command_line(int argc, char **argv, bool had_file,
                                            struct settings *settings, FILE *err) MUST_USE;

/* Prints the usage, and every flag and option with its default and range. */
void options_print_help(FILE *to);

/*
 * Prints "counterd: ", the message and a newline. Prints bytes outside printable ASCII as \xNN and
 * cuts a long message. All messages with text from files and arguments go through here.
 */
void options_complain(FILE *err, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
