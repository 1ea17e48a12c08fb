/*
 * option.h - tables that describe configuration options, and the structs that hold their values.
 *
 * Each part of the program declares a struct for its settings and a group with one row per field.
 * The daemon lists all groups (option_registry), reads the file and the command line into one
 * struct per group, and hands each struct to its owner. The daemon's own options are such rows too.
 *
 * Types only: this header does not know where the groups are.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* --- Values ---------------------------------------------------------------------------------- */

/* An address to listen on. The port in `sa` is 0; ports are separate options. */
struct option_address {
    struct sockaddr_storage sa;
    socklen_t len;
};

/* Maximum number of addresses in one option. */
#define OPTION_ADDRESSES_MAX 16

/* At least one address, no duplicates. */
struct option_addresses {
    size_t count;
    struct option_address at[OPTION_ADDRESSES_MAX];
};

/* How values are kept, read and written (base/option_value.h). net/access.h has option_networks. */
struct option_type;
extern const struct option_type option_bool, /* bool */
    option_port,                             /* uint16_t */
    option_number,                           /* uint32_t */
    option_size,                             /* uint64_t, bytes */
    option_seconds,   /* int64_t, ns; in text seconds, with or without a fraction */
    option_choice,    /* an enum: the index in `choices` */
    option_string,    /* char *, NULL for the empty string */
    option_mode,      /* uint32_t: permission bits, in octal digits */
    option_addresses; /* struct option_addresses */

/* The longest time of a row with SECONDS, in seconds. */
#define OPTION_SECONDS_MAX UINT32_MAX

/* Size of any reason_r: half a sentence about a wrong value. */
#define OPTIONS_REASON_SIZE 320

/* --- Rows and groups ------------------------------------------------------------------------- */

struct option_row {
    const char *key;   /* below the prefix of its group */
    const char *alias; /* another name of the option, below the prefix, or NULL */
    const struct option_type *type;
    uint64_t min, max;          /* for PORT, NUMBER, SIZE, SECONDS (in s) and MODE, inclusive */
    const char *const *choices; /* for CHOICE, ends with NULL */
    const char *default_text;   /* as written in the file; "" for an empty string */
    const char *unit;           /* "seconds", "bytes", or "" */
    bool reloadable;            /* a reload may change it without harm to clients */
    bool by_l;                  /* -l sets it: addresses that serve clients */
    bool secret;                /* it is never shown */
    bool digest;                /* a token, a string: only a digest is kept */
    const char *help;           /* one line for --help */
    size_t offset;              /* of the field in the owner's struct */
};

/*
 * The offset of a field. Does not compile when the type of the field differs from that of the row.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses */
#define OPTION_FIELD(owner, member, c_type)                                                        \
    (offsetof(owner, member) + 0 * sizeof(char[_Generic(&((owner *)NULL)->member, c_type * : 1)]))
/* NOLINTEND(bugprone-macro-parentheses) */

/* Type and offset of a row, for the field `member` of the struct `owner`. */
#define OPTION_IS_BOOL(owner, member)                                                              \
    .type = &option_bool, .offset = OPTION_FIELD(owner, member, bool)
#define OPTION_IS_PORT(owner, member)                                                              \
    .type = &option_port, .max = UINT16_MAX, .offset = OPTION_FIELD(owner, member, uint16_t)
#define OPTION_IS_NUMBER(owner, member)                                                            \
    .type = &option_number, .offset = OPTION_FIELD(owner, member, uint32_t)
#define OPTION_IS_SIZE(owner, member)                                                              \
    .type = &option_size, .offset = OPTION_FIELD(owner, member, uint64_t)
#define OPTION_IS_SECONDS(owner, member)                                                           \
    .type = &option_seconds, .offset = OPTION_FIELD(owner, member, int64_t)
#define OPTION_IS_CHOICE(owner, member)                                                            \
    .type = &option_choice, .offset = OPTION_FIELD(owner, member, unsigned)
#define OPTION_IS_STRING(owner, member)                                                            \
    .type = &option_string, .offset = OPTION_FIELD(owner, member, char *)
#define OPTION_IS_MODE(owner, member)                                                              \
    .type = &option_mode, .max = 0777, .offset = OPTION_FIELD(owner, member, uint32_t)
#define OPTION_IS_ADDRESSES(owner, member)                                                         \
    .type = &option_addresses, .offset = OPTION_FIELD(owner, member, struct option_addresses)

/* Where an option was set. */
struct options_mark {
    bool named;    /* set by the file or the command line, maybe to its default */
    bool by_alias; /* the file used the alias */
    unsigned line; /* line of the file; 0: not in the file, or changed by the command line */
};

/* Size of the reason of a check, which may have the path of a file. */
#define OPTION_CHECK_REASON 768

/* One call of `check` of a group: what it may look at, and what it says. */
struct option_check {
    const char *name; /* in a family, else NULL */
    size_t number;    /* place of the name in the family, from 0 */
    void *is;         /* the settings */
    const void *beside;
    const struct options_mark *marks; /* of each row */

    /* The first mistake: its row, and what is wrong and would be right, in half a sentence. */
    size_t row;
    char reason[OPTION_CHECK_REASON];
};

/* Maximum length of NAME in a family, in bytes. */
#define OPTION_NAME_MAX 64

/*
 * The options of one owner. Several groups may have the same prefix. In a family, keys have a name
 * in the middle: PREFIX.NAME.KEY. Each NAME (A-Z a-z 0-9 _ -) in the file or on the command line
 * gets a struct of its own, filled with the defaults first.
 */
struct option_group {
    const char *owner;  /* the resource made with this struct, for example "table"; NULL: none */
    const char *prefix; /* "limits": keys are limits.KEY; "": keys have no prefix */
    const struct option_row *rows;
    size_t count;
    size_t size;      /* of the owner's struct */
    size_t names_max; /* family: maximum number of names; 0: not a family */
    /* Another group, no family, whose settings `check` needs; NULL: none. */
    const struct option_group *beside;
    /*
     * Checks that the settings fit together, and loads what they name, such as a file: what is
     * loaded goes into fields that no row has. Called by the main thread before the settings are
     * put in force, also by counterd -t, maybe more than once. Returns false with a mistake. NULL:
     * nothing to check.
     */
    bool (*check)(struct option_check *check);
    /* The daemon opens what the settings name after it gave up root: as root, counterd -t calls
     * `check` again as the daemon's user. */
    bool opened_as_user;
    /* Frees what `check` has loaded. Called when the owner has its settings. NULL: nothing. */
    void (*forget)(void *settings);
    /*
     * Asks the owner, before a reload changes anything, whether the new settings may be put in
     * force. Arguments as in `changed`, but `is` also has new values of options that are not
     * reloadable. The dry run of an upgrade asks the same when the owner has the state of the old
     * process; `was` is NULL then. Returns false with a reason (OPTIONS_REASON_SIZE bytes): then
     * the reload or the upgrade fails. NULL: they may.
     */
    bool (*accepts)(void *services, const char *name, const void *was, const void *is,
                    char *reason_r);
    /* Each reload calls `accepts` and `changed`, also when no option has changed. */
    bool always;
    /*
     * Gives the owner its settings: once before any worker runs, and after each reload that changed
     * them; families come last. Called by the main thread. `name` is the NAME in a family, else
     * NULL. `was` is NULL for a new struct, `is` is NULL for a removed one; both are valid only
     * during the call. Only `is` has what `check` has loaded. `changed` is NULL when the owner does
     * not need it.
     */
    void (*changed)(void *services, const char *name, const void *was, const void *is);
};

/* What a protocol declares to get the options common to all protocols: NAME.port and so on. */
struct option_protocol {
    const char *name;   /* prefix of the keys */
    const char *title;  /* in help: "TCP port of the TITLE protocol" */
    const char *help;   /* of NAME.enable */
    const char *enable; /* default of NAME.enable: "true" or "false" */
    const char *port;   /* default of NAME.port: "7531" */
    /*
     * Shell commands to try it by hand: one prints a request, the other is "" or a pipe that makes
     * the answer readable.
     */
    const char *trial_send, *trial_show;
    /* Serves this protocol when standard input is a listening socket. */
    bool takes_stdin;
    /*
     * Another program whose configuration files are accepted, and the keys ignored there (ends with
     * NULL). NULL: none.
     */
    const char *foreign_program;
    const char *const *foreign_keys;
    /* The protocol's own settings; NULL: none. */
    const struct option_group *own;
};

/* Maximum number of protocols. */
#define OPTION_PROTOCOLS_MAX 16

/* All protocols and groups except the daemon's own options; each list ends with NULL. */
struct option_registry {
    const struct option_protocol *const *protocols; /* in start order */
    const struct option_group *const *groups;       /* of everything that is not a protocol */
};

#endif
