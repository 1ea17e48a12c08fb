/*
 * option.h - the options that a part of the program brings, as data, and where their values go.
 *
 * A part declares a struct for its settings and a group: a row for each field. The daemon lists all
 * groups (option_registry), reads the file and the command line into one struct for each group, and
 * hands it to its owner. All of the daemon's own options are rows of this kind, too.
 *
 * Only types: nothing here knows where groups come from.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* --- Values ---------------------------------------------------------------------------------- */

/* Where to listen. The port in `sa` is 0: ports are options of their own. */
struct option_address {
    struct sockaddr_storage sa;
    socklen_t len;
};

/* Most addresses of one option. */
#define OPTION_ADDRESSES_MAX 16

/* At least one address, none twice. */
struct option_addresses {
    size_t count;
    struct option_address at[OPTION_ADDRESSES_MAX];
};

enum option_type {
    OPTION_BOOL,      /* bool */
    OPTION_PORT,      /* uint16_t */
    OPTION_NUMBER,    /* uint32_t */
    OPTION_SIZE,      /* uint64_t, bytes */
    OPTION_CHOICE,    /* an enum: the place among `choices` */
    OPTION_STRING,    /* char *, NULL for the empty string */
    OPTION_MODE,      /* uint32_t: permission bits, in octal digits */
    OPTION_ADDRESSES, /* struct option_addresses */
    OPTION_NETWORKS,  /* struct settings_networks (daemon/options.h) */
};

/* --- Rows and groups ------------------------------------------------------------------------- */

struct option_row {
    const char *key;   /* below the prefix of its group */
    const char *alias; /* another name of the same option, below the prefix, or NULL */
    enum option_type type;
    uint64_t min, max;          /* of PORT, NUMBER, SIZE and MODE, both allowed */
    const char *const *choices; /* of CHOICE, ends with NULL */
    const char *default_text;   /* what the file would say; "" for an empty string */
    const char *unit;           /* "seconds", "bytes", or "" */
    bool reloadable;            /* may change in a daemon that runs, without harm to its clients */
    bool by_l;                  /* -l sets it: addresses at which clients are served */
    bool secret;                /* a token: a digest of it is kept, which is shown to nobody */
    const char *help;           /* one line for --help */
    size_t offset;              /* of the field in the owner's struct */
};

/* The place of a field, and a check by the compiler that the field is of the row's type. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses */
#define OPTION_FIELD(owner, member, c_type)                                                        \
    (offsetof(owner, member) + 0 * sizeof(char[_Generic(&((owner *)NULL)->member, c_type * : 1)]))
/* NOLINTEND(bugprone-macro-parentheses) */

/* Type and place of a row, for the field `member` of the struct `owner`. */
#define OPTION_IS_BOOL(owner, member)                                                              \
    .type = OPTION_BOOL, .offset = OPTION_FIELD(owner, member, bool)
#define OPTION_IS_PORT(owner, member)                                                              \
    .type = OPTION_PORT, .max = UINT16_MAX, .offset = OPTION_FIELD(owner, member, uint16_t)
#define OPTION_IS_NUMBER(owner, member)                                                            \
    .type = OPTION_NUMBER, .offset = OPTION_FIELD(owner, member, uint32_t)
#define OPTION_IS_SIZE(owner, member)                                                              \
    .type = OPTION_SIZE, .offset = OPTION_FIELD(owner, member, uint64_t)
#define OPTION_IS_CHOICE(owner, member)                                                            \
    .type = OPTION_CHOICE, .offset = OPTION_FIELD(owner, member, unsigned)
#define OPTION_IS_STRING(owner, member)                                                            \
    .type = OPTION_STRING, .offset = OPTION_FIELD(owner, member, char *)
#define OPTION_IS_MODE(owner, member)                                                              \
    .type = OPTION_MODE, .max = 0777, .offset = OPTION_FIELD(owner, member, uint32_t)
#define OPTION_IS_ADDRESSES(owner, member)                                                         \
    .type = OPTION_ADDRESSES, .offset = OPTION_FIELD(owner, member, struct option_addresses)

/* The longest NAME of a family's struct, in bytes. */
#define OPTION_NAME_MAX 64

/*
 * The options of one owner. Several groups may have one prefix. A family's keys have a name in the
 * middle, PREFIX.NAME.KEY, and each NAME (A-Z a-z 0-9 _ -) that the file or the command line
 * mentions has a struct of its own, with the defaults where nothing else is said.
 */
struct option_group {
    const char *owner;  /* the resource that is made with this struct, "table"; NULL: none is */
    const char *prefix; /* "limits": keys are limits.KEY; "": keys stand as they are */
    const struct option_row *rows;
    size_t count;
    size_t size;      /* of the owner's struct */
    size_t names_max; /* of a family: most names; 0: it is no family */
    /*
     * Tells the owner, in the main thread, what its settings are, before any worker runs, and what
     * they have become after each reload that changed them. `name` is NULL but for a family; `was`
     * NULL: the struct is new; `is` NULL: it is gone. Both end with the call. NULL: the owner does
     * not want to know.
     */
    void (*changed)(void *services, const char *name, const void *was, const void *is);
};

/* What a protocol brings to have the options that all protocols have: NAME.port and so on. */
struct option_protocol {
    const char *name;   /* the prefix of the keys */
    const char *title;  /* in help: "TCP port of the TITLE protocol" */
    const char *help;   /* of NAME.enable */
    const char *enable; /* default of NAME.enable: "true" or "false" */
    const char *port;   /* default of NAME.port: "7531" */
    /* How to try it by hand: what writes a request, and what makes its answer readable ("" or a
     * pipe). */
    const char *trial_send, *trial_show;
    /* A listening socket that is standard input is this protocol's. */
    bool takes_stdin;
    /* Another program whose files are accepted, and the keys, ending with NULL, that are ignored
     * there; NULL: none. */
    const char *foreign_program;
    const char *const *foreign_keys;
    /* Its own settings; NULL: none. */
    const struct option_group *own;
};

/* Most protocols. */
#define OPTION_PROTOCOLS_MAX 16

/* Which there are, besides the daemon's own options; each list ends with NULL. */
struct option_registry {
    const struct option_protocol *const *protocols; /* in the order in which they are started */
    const struct option_group *const *groups;       /* of what is no protocol */
};

#endif
