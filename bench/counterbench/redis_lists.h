/*
 * redis_lists.h - what pools and queues on Redis's lists have in common: BLMOVE (once BRPOPLPUSH)
 * moves the oldest entry of a list to the client's own list, so that it is not lost with the
 * client.
 *
 * Somebody must look through the lists of clients that have gone; that is not measured.
 */
#ifndef COUNTERBENCH_REDIS_LISTS_H
#define COUNTERBENCH_REDIS_LISTS_H

#include "bench/counterbench/protocol.h"

/* The longest name of a client's list. */
#define REDIS_LIST_MAX 512

/* Writes the name of the client's list. Returns false if it is too long. */
bool redis_list_of_client(const struct request *request, char list[REDIS_LIST_MAX]) MUST_USE;

/* BLMOVE of the request's name, with its timeout. 0: it does not fit. */
size_t redis_compose_move(const struct request *request, uint8_t *to, size_t room);

/* Judges the answer, like `hear` of struct protocol. `said` is the entry. */
enum heard redis_hear_move(const uint8_t *data, size_t len, size_t *used_r, char *said);

#endif
