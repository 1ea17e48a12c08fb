/*
 * pool_verbs.h - the verbs of pools on a connection of the text protocol (proto/pools.md). The
 * service of that protocol calls this for their lines, and when a connection expires, closes or is
 * carried over an upgrade.
 *
 * A connection gets a struct pool_session, and its client in the engine, with its first request
 * that needs them. All others have a pointer that is NULL.
 *
 * Threads: the thread of the connection's worker, except where said.
 */
#ifndef SERVICE_POOL_VERBS_H
#define SERVICE_POOL_VERBS_H

#include "base/bytes.h"
#include "engine/pool.h"
#include "service/service.h"

/* Serves a line (without its end) that has a verb of pools. */
enum served pool_verbs_serve(struct conn *conn, struct bytes line);

/* Continues LIST, SHOW or a TAKE in steps, as `resume` of a row. */
bool pool_verbs_resume(struct conn *conn);
/* There is room for lines between answers, as `room` of a row. */
void pool_verbs_room(struct conn *conn);
/* The wait for a member has lasted as long as it may. */
void pool_verbs_expire(struct conn *conn);
/* The connection closes. */
void pool_verbs_close(struct conn *conn);
/* The same before conn_finish: the client still reads the lines that it was not sent yet, so it has
 * the members that they tell of. */
void pool_verbs_finish(struct conn *conn);
/* Adds what it holds and waits for. */
void pool_verbs_describe(struct conn *conn, struct conn_info *info);

/*
 * The end of the session's record. Nothing if the connection has not used pools; else u8 1 if it
 * has a client, and that (engine/pool.h); then events, and a list in progress (pool_lines.c,
 * pool_list.c).
 */
void pool_verbs_save(struct conn *conn, struct record_writer *w);
bool pool_verbs_restore(struct conn *conn, struct record_reader *r);

#endif
