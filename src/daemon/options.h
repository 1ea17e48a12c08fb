/*
 * options.h - what an operator may set: the table of options, their values, and the command line.
 *
 * Every option is one row of one table. The row drives the parsing of the file and of -o, --help,
 * printing the values in force, and the tests that compare the sample file and the manual with it.
 * Values of the file and of -o end in the fields of `struct settings`, which the daemon reads.
 * To add an option: a field here, a row in options.c, a passage in the manual and in the sample.
 *
 * Threads: set-up is the main thread's. Settings that no one changes any more may be read by all.
 */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include "base/check.h"
#include "base/log.h"
#include "net/access.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

/* --- Values ---------------------------------------------------------------------------------- */

/* Most addresses one listener may be given. */
#define SETTINGS_ADDRESSES_MAX 16

/* Where to listen. The port in `sa` is 0: ports are settings of their own. */
struct settings_address {
    struct sockaddr_storage sa;
    socklen_t len;
};

/* At least one address, none twice. */
struct settings_addresses {
    size_t count;
    struct settings_address at[SETTINGS_ADDRESSES_MAX];
};

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
    bool plain;                       /* the address of `port` is served, without TLS */
    uint16_t port;                    /* 0: any free port */
    uint16_t tls_port;                /* 0: none */
    struct settings_addresses listen; /* of both ports */
    char *socket;                     /* path, or @name of an abstract one; NULL: none */
    uint32_t socket_mode;             /* permission bits */
    uint32_t max_connections;         /* 0: no limit */
};

/* The values in force. Strings are owned by the struct; NULL is the empty string. */
struct settings {
    struct settings_protocol counter, poolcounter;

    uint32_t counter_buckets;
    uint32_t counter_stats_interval; /* s */
    uint64_t counter_memory_limit;   /* bytes */
    uint32_t counter_threads;        /* 0: one per core */
    uint32_t counter_busy_poll;      /* µs */

    uint32_t poolcounter_max_locks;
    uint32_t poolcounter_max_line; /* bytes */

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

    uint16_t admin_port; /* 0: no interface */
    struct settings_addresses admin_listen;
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

    /* The options that were set, whatever to: bit i is row i. Not copied with a value. */
    uint64_t named;

    /* The file that was read, or NULL; points into argv or is static. Not copied with a value. */
    const char *file;
    bool file_has_token; /* it sets admin.token. The same */

    /*
     * Keys in the file that belong to yrmcds and mean nothing here, "port, repl_port, workers", in
     * the order met; "" when there were none. To be told to the operator in one line.
     */
    char ignored_keys[512];
};

/* How many protocols can be served. */
#define SETTINGS_PROTOCOLS 2
/* The name of protocol `i`, as in its keys; and its settings. */
const char *settings_protocol_name(size_t i);
const struct settings_protocol *settings_protocol(const struct settings *settings, size_t i);

/* Fills in the defaults, whatever was there before. Cannot fail, and owns nothing yet. */
void settings_init(struct settings *settings);

/* Frees what the struct owns and puts the defaults back. NULL is harmless. */
void settings_free(struct settings *settings);

/* --- The table ------------------------------------------------------------------------------- */

enum options_type {
    OPTIONS_BOOL,      /* bool */
    OPTIONS_PORT,      /* uint16_t */
    OPTIONS_NUMBER,    /* uint32_t */
    OPTIONS_SIZE,      /* uint64_t, bytes */
    OPTIONS_CHOICE,    /* an enum: the place among `choices` */
    OPTIONS_STRING,    /* char * */
    OPTIONS_MODE,      /* uint32_t: permission bits, in octal digits */
    OPTIONS_ADDRESSES, /* struct settings_addresses */
    OPTIONS_NETWORKS,  /* struct settings_networks */
};

struct options_row {
    const char *key;
    const char *alias; /* another name of the same option, or NULL */
    enum options_type type;
    uint64_t min, max;          /* of PORT, NUMBER, SIZE and MODE, both allowed */
    const char *const *choices; /* of CHOICE, ends with NULL */
    const char *default_text;   /* what the file would say; "" for an empty string */
    const char *unit;           /* "seconds", "bytes", or "" */
    bool reloadable;            /* may change in a daemon that runs, without harm to its clients */
    bool by_l;                  /* -l sets it: addresses at which clients are served */
    bool secret;                /* a token: a digest of it is kept, which is shown to nobody */
    const char *help;           /* one line for --help */
    size_t offset;              /* of the field in struct settings */
};

/* The table has no more rows than this. */
#define OPTIONS_MAX 64

/* Row `index` of the table, in the order to show them; NULL past the last. */
const struct options_row *options_row_at(size_t index);

/* The row of an option by its key or its alias; NULL when there is none. */
const struct options_row *options_find(const char *key);

/* Room for any reason that options_assign gives. */
#define OPTIONS_REASON_SIZE 320

/*
 * Sets one option to the value that `text` spells, without quotes or comments around it.
 *
 * False when it is no value of that option, or memory is short: the setting is as it was, and
 * reason_r (OPTIONS_REASON_SIZE bytes) says what is wrong and what would be right, in half a
 * sentence. It may hold bytes of `text`: print it with options_complain.
 */
bool options_assign(struct settings *settings, const struct options_row *row, const char *text,
                    char *reason_r) MUST_USE;

/*
 * Adds one address, `len` bytes of text without a 0, to a list; one that it has is not added again.
 * IPv6 may stand in brackets. False with the reason, as with options_assign, when it is no address
 * or the list is full.
 */
bool options_add_address(struct settings_addresses *list, const char *text, size_t len,
                         char *reason_r) MUST_USE;

/* Room for the text of any address. */
#define OPTIONS_ADDRESS_TEXT 48
/* Writes an address without its port, in digits, into `size` bytes. */
void options_address_text(const struct settings_address *address, char *to, size_t size);

/* Serves clients on these addresses and no others. The admin interface stays where it is. */
void options_listen(struct settings *settings, const struct settings_addresses *list);

/*
 * Says in reason_r (OPTIONS_REASON_SIZE bytes) that `key` is none, and the nearest that is one, or
 * all that have it after their dot. As with options_assign, it may hold bytes of `key`.
 */
void options_unknown_key(const char *key, char *reason_r);

/*
 * Writes the value of an option that is in force as text that options_assign reads back as the same
 * value. As snprintf does: at most `size` bytes with the ending 0, answering the length of the
 * whole text.
 */
size_t options_to_text(const struct settings *settings, const struct options_row *row, char *to,
                       size_t size);

/* Whether an option has the same value in both. */
bool options_equal(const struct settings *a, const struct settings *b,
                   const struct options_row *row);

/* Whether the file or the command line has set an option, if only to its default. */
bool options_is_named(const struct settings *settings, const struct options_row *row);

/* Gives an option in `to` the value it has in `from`. False: no memory, and `to` is as it was. */
bool options_copy(struct settings *to, const struct settings *from,
                  const struct options_row *row) MUST_USE;

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
size_t options_range_text(const struct options_row *row, char *to, size_t size);

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
 * Writes the notice for an operator whose file has keys that are ignored. As snprintf does, like
 * the above. Only where there are any.
 */
size_t options_ignored_text(const struct settings *settings, char *to, size_t size);

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
