/*
 * option_value.h - the types of options (base/option.h): each says how its values are kept, and how
 * they are read from and written as text. Other parts may add types: access.c has lists of
 * networks, and the daemon tokens.
 *
 * `value` points to a field of the row's type. reason_r (OPTIONS_REASON_SIZE bytes) gets half a
 * sentence about a wrong text, and may hold bytes of that text.
 *
 * Threads: any, as long as no other thread uses the same value.
 */
#ifndef BASE_OPTION_VALUE_H
#define BASE_OPTION_VALUE_H

#include "base/check.h"
#include "base/option.h"

/* Text that grows in a buffer of `size` bytes; `len` counts also what did not fit. */
struct option_text {
    char *to;
    size_t size;
    size_t len;
};
void option_text_add(struct option_text *text, const char *format, ...) PRINTF_LIKE(2, 3);
/* Adds "a, b or c"; NULL ends the words. */
void option_text_add_words(struct option_text *text, const char *const *words);

/* A list is a size_t, the number of its elements, and then these, without duplicates. */
struct option_list {
    size_t size, max; /* of an element, and number of elements */
    /* Reads an element into bytes that are 0, among them those between fields. */
    bool (*read)(const char *text, size_t len, void *element_r);
    void (*write)(const void *element, char *to, size_t size);
    const char *plural;  /* of the element, for messages */
    const char *is_not;  /* follows a text that is no element: "is not an address, such as ..." */
    const char *missing; /* the reason why an empty list is wrong; NULL: it may be empty */
};

struct option_type {
    size_t size;                    /* of a field */
    const struct option_list *list; /* of its elements; NULL: it is no list */
    bool is_string;                 /* the field is a char *, and owns the string */
    /* The reason of a wrong text: "is not a number from", then the range, then `after`. `after`
     * NULL: without the range. `is_not` NULL: `assign` writes the reason. */
    const char *is_not, *after;
    /* As option_value_assign, but for the reason. */
    bool (*assign)(void *value, const struct option_row *row, const char *text, char *reason_r);
    /* Adds a value as text that option_value_assign reads as the same value. */
    void (*add)(struct option_text *text, const void *value, const struct option_row *row);
    /* The valid values, for people: of all rows, or what a function adds for one. */
    const char *range;
    void (*add_range)(struct option_text *text, const struct option_row *row);
};

/* For the types of lists. */
bool option_list_assign(void *value, const struct option_row *row, const char *text,
                        char *reason_r);
void option_list_add(struct option_text *text, const void *value, const struct option_row *row);

/*
 * Adds an element (`len` bytes of text) to a list, unless it is there. Returns false with the
 * reason if it is none, or the list is full.
 */
bool option_list_extend(void *value, const struct option_list *list, const char *text, size_t len,
                        char *reason_r) MUST_USE;
/* The addresses of option_addresses. IPv6 may be in brackets. */
extern const struct option_list option_address_list;

/* Parses `text` into an initialised value. Returns false with the reason, and no change, if the
 * text is wrong or memory is short. */
bool option_value_assign(void *value, const struct option_row *row, const char *text,
                         char *reason_r) MUST_USE;

/* True if both values are the same. */
bool option_value_equal(const void *a, const void *b, const struct option_row *row);

/* Copies a value. Returns false without memory; `to` has not changed then. */
bool option_value_copy(void *to, const void *from, const struct option_row *row) MUST_USE;

/* Frees the memory that a value owns. */
void option_value_clear(void *value, const struct option_row *row);

/* Adds the valid values of a row for people: "true or false", "0 to 65535", "16M to 32G", "error,
 * warning, info or debug". */
void option_value_add_range(struct option_text *text, const struct option_row *row);

/* Writes a reason, and returns false. */
bool option_say(char *reason_r, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
