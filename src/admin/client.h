/*
 * client.h - connections as the API shows them: looked up in their workers, in bounded pieces.
 */
#ifndef ADMIN_CLIENT_H
#define ADMIN_CLIENT_H

#include "admin/admin_internal.h"

/* So many connections or holders are asked of a worker at once. Four names or waits of theirs that
 * are counted for it count as one more. */
#define CLIENT_PIECE 256

/* Describes a connection, in its worker's thread. Adds to *looks_r, for CLIENT_PIECE, what that
 * took. */
void client_describe(struct conn *conn, struct conn_info *info_r, unsigned *looks_r);

/* Adds the connection, its protocol, client and transport to an object. */
void client_add(struct json_text *to, const struct conn_info *info);

#endif
