/*
 * client.h - connections as the API shows them: looked up in their workers, in bounded pieces.
 */
#ifndef ADMIN_CLIENT_H
#define ADMIN_CLIENT_H

#include "admin/private.h"

/* So many connections or holders are asked of a worker at once. */
#define CLIENT_PIECE 256

/* Adds the connection, its protocol, client and transport to *object, as json_add does. */
void client_add(json_t **object, const struct conn_info *info);

#endif
