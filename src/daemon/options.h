/*
 * options.h - what an operator may set: the options, their values, and the command line.
 *
 * Every option is one row of a group (base/option.h). The row drives the parsing of the file and of
 * -o, --help, printing the values in force, and the tests that compare the sample file and the
 * manual with it. The daemon's own options are rows of options.c, and their values fields of
 * `struct settings`; protocols and resources bring theirs (option_registry), so that a new one
 * needs no change here. The options that all protocols have are made for each from what it brings.
 *
 * Threads: set-up is the main thread's. Settings that no one changes any more may be read by all.
 */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include "base/check.h"
#include "base/log.h"
#include "base/option.h"
#include "net/access.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- Values ---------------------------------------------------------------------------------- */

/* Most networks one list may have. */
#define SETTINGS_NETWORKS_MAX 256

/* Networks, none twice; may be none. */
struct settings_networks {
    size_t count;
    struct access_network at[SETTINGS_NETWORKS_MAX];
};

/* Where one protocol is served, and to how many. */
struct settings_protocol {
    bool enable;
    bool plain;                     /* the address of `port` is served, without TLS */
    uint16_t port;                  /* 0: any free port */
    uint16_t tls_port;              /* 0: none */
    struct option_addresses listen; /* of both ports */
    char *socket;                   /* path, or @name of an abstract one; NULL: none */
    uint32_t socket_mode;           /* permission bits */
    uint32_t max_connections;       /* 0: no limit */

    /*
     * Keys in the file that belong to the protocol's foreign program and mean nothing here, "port,
     * repl_port, workers", in the order met; "" when there were none. To be told to the operator in
     * one line. Not copied with a value.
     */
    char ignored_keys[512];
};

struct settings_group;

/* The values in force. Strings are owned by the struct; NULL is the empty string. */
struct settings {
    struct settings_group *groups; /* what protocols and resources bring; settings.c */

    uint32_t threads;   /* 0: one per core */
    uint32_t busy_poll; /* µs */

    char *tls_cert; /* NULL: no TLS */
    char *tls_key;  /* NULL: it is in tls_cert */
    char *tls_ca;   /* NULL: none */
    enum tls_verify tls_verify_client;
    enum tls_version tls_min_version;
    uint32_t tls_handshake_timeout; /* s */
    uint32_t tls_max_handshakes;    /* at once */

    struct settings_networks access_allow; /* none: everybody */
    uint32_t access_max_per_source;        /* 0: no limit */

    uint32_t limits_request_timeout; /* s */
    uint32_t limits_write_timeout;   /* s */
    uint64_t limits_output_buffer;   /* bytes */
    uint64_t limits_unfinished;      /* bytes, of all connections together */

    uint16_t admin_port; /* 0: no interface */
    struct option_addresses admin_listen;
    char *admin_token; /* its digest; NULL: nothing may be changed, if there is no file either */
    char *admin_token_file; /* goes over admin_token */
    char *admin_hosts;      /* NULL: no names but those that always hold */

    uint32_t shutdown_drain; /* s; 0: SIGTERM ends at once */

    uint32_t upgrade_timeout; /* s */

    enum log_level log_level;
    enum log_output log_output;
    enum log_format log_format;

    char *user;     /* NULL: stay who we are */
    char *group;    /* NULL: the user's own */
    char *pid_file; /* NULL: none */

    bool security_sandbox;

    /* The file that was read, or NULL; points into argv or is static. Not copied with a value. */
    const char *file;
    bool file_has_token; /* it sets admin.token. The same */
};

/* Fills in the defaults, whatever was there before. False: no memory, and there is nothing to free.
 */
bool settings_init(struct settings *settings) MUST_USE;
/* Frees what the struct owns. Harmless for one of zeros, which it leaves. */
void settings_free(struct settings *settings);

/* What there is, besides the daemon's own: the services'. A test may link another. */
extern const struct option_registry option_registry;
/* Protocol `i`, in the order in which they are started; NULL past the last. */
const struct option_protocol *options_protocol_at(size_t i);
/* The settings of protocol `i`. */
struct settings_protocol *settings_protocol(const struct settings *settings, size_t i);
/* The settings of a group that is no family: its owner's struct, which ends with `settings`. */
const void *settings_own(const struct settings *settings, const struct option_group *group);

/* --- The table ------------------------------------------------------------------------------- */

/*
 * Rows of the table have whole keys and aliases, and know where their values are: all functions
 * take only rows that one of these four gave.
 *
 * Row `index`, in the order to show them: by prefix, the daemon's own last; NULL past the last.
 * Those of a family stand for all its names, "pool.NAME.order", and have no value.
 */
const struct option_row *options_row_at(size_t index);
/* The row of that key or alias there; NULL when there is none. */
const struct option_row *options_find(const char *key);
/* The same of the rows that have a value in `settings`: for those of a family, the ones of its
 * names, which end with `settings`. */
const struct option_row *options_in(const struct settings *settings, size_t index);
/* The row of a key that is to be set; makes what a new name of a family needs. NULL: reason_r
 * (OPTIONS_REASON_SIZE bytes) says why, with the nearest key. It may hold bytes of `key`. */
const struct option_row *options_to_set(struct settings *settings, const char *key,
                                        char *reason_r) MUST_USE;
/* Whether a row has a value in `settings`: false for one of a family's names that these lack. */
bool options_has(const struct settings *settings, const struct option_row *row);

/* Where an option was set. */
struct options_mark {
    bool named;    /* the file or the command line has set it, if only to its default */
    bool by_alias; /* in the file */
    unsigned line; /* of the file; 0: not there */
};
/* That of an option which has a value. Not copied with it. */
struct options_mark *options_mark(const struct settings *settings, const struct option_row *row);

/* Room for any reason that options_assign gives. */
#define OPTIONS_REASON_SIZE 320

/*
 * Sets one option to the value that `text` spells, without quotes or comments around it.
 *
 * False when it is no value of that option, or memory is short: the setting is as it was, and
 * reason_r (OPTIONS_REASON_SIZE bytes) says what is wrong and what would be right, in half a
 * sentence. It may hold bytes of `text`: print it with options_complain.
 */
bool options_assign(struct settings *settings, const struct option_row *row, const char *text,
                    char *reason_r) MUST_USE;

/*
 * Adds one address, `len` bytes of text without a 0, to a list; one that it has is not added again.
 * IPv6 may stand in brackets. False with the reason, as with options_assign, when it is no address
 * or the list is full.
 */
bool options_add_address(struct option_addresses *list, const char *text, size_t len,
                         char *reason_r) MUST_USE;

/* Room for the text of any address. */
#define OPTIONS_ADDRESS_TEXT 48
/* Writes an address without its port, in digits, into `size` bytes. */
void options_address_text(const struct option_address *address, char *to, size_t size);

/* Serves clients on these addresses and no others. The admin interface stays where it is. */
void options_listen(struct settings *settings, const struct option_addresses *list);

/*
 * Writes the value of an option that is in force as text that options_assign reads back as the same
 * value. As snprintf does: at most `size` bytes with the ending 0, answering the length of the
 * whole text.
 */
size_t options_to_text(const struct settings *settings, const struct option_row *row, char *to,
                       size_t size);

/* Whether an option has the same value in both; neither has it, is the same, too. */
bool options_equal(const struct settings *a, const struct settings *b,
                   const struct option_row *row);

/* Gives an option in `to` the value it has in `from`. False: no memory, and `to` is as it was. */
bool options_copy(struct settings *to, const struct settings *from,
                  const struct option_row *row) MUST_USE;

/* A difference of one struct of settings: those of a group, or one of a family's names. */
struct settings_difference {
    const struct option_group *group;
    const char *name;     /* NULL but for a family */
    const void *was, *is; /* NULL: it was not there, is gone */
};
/*
 * Calls `found` for each struct of protocols and resources that differs; those of a family in the
 * order of their names. Without `was` (NULL) all of them are new.
 */
void settings_compare(const struct settings *was, const struct settings *is,
                      void (*found)(void *arg, const struct settings_difference *difference),
                      void *arg);
/* Tells the owner of one (struct option_group); `services` is the struct services. */
void settings_tell(void *services, const struct settings_difference *difference);

/* The longest token of the admin interface, in bytes. */
#define OPTIONS_TOKEN_MAX 255
/* Whether `len` bytes can be one: printable ASCII without blanks, and not empty. */
bool options_is_token(const char *text, size_t len);

/*
 * Whether options fit together, as far as the settings alone tell: something is served, what needs
 * another option has it, no two listeners want one port or path. Says every mistake on `err`.
 */
bool options_fit(const struct settings *settings, FILE *err) MUST_USE;

/*
 * Writes what an option may be set to, for people: "true or false", "0 to 65535", "16M to 32G",
 * "error, warning, info or debug". As snprintf does, like the above.
 */
size_t options_range_text(const struct option_row *row, char *to, size_t size);

enum options_unquoted {
    OPTIONS_UNQUOTED,    /* all is well */
    OPTIONS_NOT_CLOSED,  /* one quote only */
    OPTIONS_STRAY_QUOTE, /* a quote that is neither the first byte nor the end */
    OPTIONS_TRAILING,    /* text after the closing quote */
};

/*
 * Finds the value in the text right of the `=`: without the blanks around it, and without its
 * quotes if it has them. With `comments`, a # outside quotes ends it. Changes `text`, into which
 * *value_r points. Not every value is well-formed: *value_r is set only with OPTIONS_UNQUOTED.
 */
enum options_unquoted options_unquote(char *text, bool comments, char **value_r) MUST_USE;

/*
 * Writes the notice for an operator whose file has keys that are ignored for protocol `i`. As
 * snprintf does, like the above. Only where there are any.
 */
size_t options_ignored_text(const struct settings *settings, size_t i, char *to, size_t size);

/* What options_unquote's answer means, in half a sentence, for all but OPTIONS_UNQUOTED. */
const char *options_unquote_reason(enum options_unquoted answer);

/* --- The command line ------------------------------------------------------------------------ */

/* One flag of the command line. */
struct options_flag {
    char letter;
    const char *name;     /* the long form without its dashes, or NULL */
    const char *argument; /* what --help calls its argument, or NULL when it takes none */
    const char *help;
};

/* Flag `index`, in the order to show them; NULL past the last. */
const struct options_flag *options_flag_at(size_t index);

/* The file that is read when none is named, if it exists. */
const char *options_default_file(void);

enum options_action {
    OPTIONS_RUN,     /* serve */
    OPTIONS_CHECK,   /* -t, and all is well: say so and end with status 0 */
    OPTIONS_HELP,    /* -h: options_print_help, and end with status 0 */
    OPTIONS_VERSION, /* -V: print the version, and end with status 0 */
    OPTIONS_ERROR,   /* something is wrong and has been said: end with exit_status */
};

struct options_request {
    enum options_action action;
    int exit_status; /* for OPTIONS_ERROR: 1 for a -l that is no good, 2 for all else */
};

/*
 * Reads the command line, then the file it names (or the default one, if it exists), and sets
 * `settings`, which settings_init has filled, accordingly: the file over the defaults, -o and -l
 * over the file in the order given. `had_file`: a daemon that runs has read a file before, so that
 * the default one must exist, too. Each mistake becomes a line on `err`, and so does what
 * options_fit finds. Whatever it answers, the settings are to be freed; after OPTIONS_ERROR they
 * are good for nothing else. May be called again with the same arguments. Main thread only.
 */
struct options_request options_command_line(int argc, char **argv, bool had_file,
                                            struct settings *settings, FILE *err) MUST_USE;

/* Prints how the daemon is called, and every flag and option with its default and range. */
void options_print_help(FILE *to);

/*
 * Prints "counterd: ", the message and a newline, with bytes outside of printable ASCII as \xNN and
 * what is overlong cut: the one way in which text from files and arguments gets into messages.
 */
void options_complain(FILE *err, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
