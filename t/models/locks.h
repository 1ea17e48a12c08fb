/*
 * locks.h - a model of what a client of the text protocol has: locks, one wait, and the words of
 * the answers to it, above the model of the table (table.h).
 */
#ifndef MODELS_LOCKS_H
#define MODELS_LOCKS_H

#include "proto/poolcounter.h"
#include "t/models/table.h"

#define MODEL_LOCKS  4           /* most locks of a client */
#define MODEL_NEWEST MODEL_NAMES /* no name given */

/* A connection of any protocol. Zero-initialise: it has nothing. */
struct model_client {
    struct model_holder holder;
    unsigned lock_count;
    uint8_t locks[MODEL_LOCKS]; /* their names, oldest first */
    struct model_wait wait;
};

/* ACQ4*, with `a->units` 1. PC_REPLY_COUNT: the client waits. */
enum pc_reply model_lock(struct model *m, struct model_client *c, const struct model_acquire *a);

/* The answer to a RELEASE. The notice of a wait that is over may come before it. */
struct model_words {
    unsigned count;
    enum pc_reply word[2];
};
struct model_words model_unlock_name(struct model *m, struct model_client *c, unsigned name);

/* The client is told of its result. Returns the word. */
enum pc_reply model_note_word(struct model *m, struct model_client *c);

/* The connection ends. */
void model_client_close(struct model *m, struct model_client *c);
/* QUIT: ends the wait, and gives the locks back, newest first, as releases do. */
void model_quit(struct model *m, struct model_client *c);

#endif
