/*
 * protocol_codecs.h - requests of counterd's own protocols, for those that send the same to other
 * servers.
 */
#ifndef COUNTERBENCH_PROTOCOL_CODECS_H
#define COUNTERBENCH_PROTOCOL_CODECS_H

#include "bench/counterbench/protocol.h"

/* As `compose` of struct protocol. */
size_t text_compose(const struct request *request, uint8_t *to, size_t room);
size_t binary_compose(const struct request *request, uint8_t *to, size_t room);

#endif
