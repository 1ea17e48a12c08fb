/* upgrade_internal.h - what both sides of an upgrade use: upgrade.c and upgrade_take.c alone. */
#ifndef DAEMON_UPGRADE_INTERNAL_H
#define DAEMON_UPGRADE_INTERNAL_H

#include "daemon/upgrade.h"

/* Sections of the state (upgrade.c). */
#define UPGRADE_PROCESS 0x0401u
#define UPGRADE_FILE    (RECORD_OPTIONAL | 0x0402u)
#define UPGRADE_COUNTS  (RECORD_OPTIONAL | 0x0405u)

/* The words of the roles, in the variable and in answers. */
extern const char *const upgrade_roles[];

/* Adds a line to the log and to the report: an error, unless the upgrade is done (`history.good`).
 */
void upgrade_say(struct upgrade *upgrade, const char *format, ...) PRINTF_LIKE(2, 3);

/* A copy of the environment with the variable added. The caller calls upgrade_free_environment,
 * which takes NULL, too. NULL: no memory. */
char **upgrade_environment(enum upgrade_role role, int fd);
void upgrade_free_environment(char **with);

/* A list of all listening sockets, with room for the state. */
struct upgrade_sockets {
    size_t count;
    int fds[LISTENERS_MAX + ACTIVATION_MAX + 1];
};
struct upgrade_sockets upgrade_sockets(const struct upgrade_parts *parts);

/* Counts what the parts have. */
struct upgrade_counts upgrade_count(const struct upgrade_parts *parts);
bool upgrade_same_counts(const struct upgrade_counts *a, const struct upgrade_counts *b);

#endif
