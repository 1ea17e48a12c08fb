/*
 * later.h - a protocol whose answers come later: what pending answers cost, without anything else.
 *
 * A request is LATER_LEN bytes and is answered with the same bytes, by a letter of another thread:
 * later_answer posts the letters, and the program stands in for that thread.
 */
#ifndef COUNTS_LATER_H
#define COUNTS_LATER_H

#include "net/protocol.h"
#include "net/worker.h"

#define LATER_LEN     8
#define LATER_PENDING 32

extern struct protocol later_protocol;

/* Posts the answers of all requests served so far, in their order. Returns how many. */
unsigned later_answer(struct worker *worker);

#endif
