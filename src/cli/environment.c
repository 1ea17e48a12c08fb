/*
 * environment.c - variables for a command (environment.h).
 */
#include "cli/environment.h"

#include "cli/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The place of the variable in the list; the end of the list when it is not there. */
static size_t find(const struct environment *environment, const char *name, size_t len)
{
    size_t i = 0;
    while (i < environment->count && (strcspn(environment->list[i], "=") != len ||
                                      strncmp(environment->list[i], name, len) != 0))
        i++;
    return i;
}

/* Puts an entry at its place, and takes it over. */
static void put(struct environment *environment, size_t at, struct text *entry)
{
    size_t len;
    if (at < environment->count) {
        free(environment->list[at]);
        environment->list[at] = text_take(entry, &len);
        return;
    }
    if (environment->count + 1 >= environment->room) { /* one more for the NULL */
        environment->room = environment->room ? 2 * environment->room : 16;
        environment->list =
            reallocarray(environment->list, environment->room, sizeof *environment->list);
        if (!environment->list)
            out_of_memory();
    }
    environment->list[environment->count++] = text_take(entry, &len);
    environment->list[environment->count] = NULL;
}

void environment_add(struct environment *environment, const char *name, struct bytes value)
{
    struct text entry = {0};
    text_addf(&entry, "%s=", name);
    text_add(&entry, value.data, value.len);
    put(environment, find(environment, name, strlen(name)), &entry);
}

void environment_leave_out(struct environment *environment, const char *prefix)
{
    for (char *const *at = environ; at && *at; at++) {
        size_t len = strcspn(*at, "=");
        struct text entry = {0};
        if (strncmp(*at, prefix, strlen(prefix)) != 0 ||
            find(environment, *at, len) < environment->count)
            continue;
        text_add(&entry, *at, len);
        put(environment, environment->count, &entry);
    }
}

void environment_free(struct environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->list[i]);
    free(environment->list);
    *environment = (struct environment){0};
}
