/*
 * protocol_codecs.h - requests of counterd's own protocols, for protocols that send the same bytes
 * to other servers.
 */
#ifndef COUNTERBENCH_PROTOCOL_CODECS_H
#define COUNTERBENCH_PROTOCOL_CODECS_H

#include "bench/counterbench/protocol.h"

/* Like `compose` of struct protocol. */
size_t text_compose(const struct request *request, uint8_t *to, size_t room);
size_t binary_compose(const struct request *request, uint8_t *to, size_t room);

#endif
