/*
 * bad_disk.h - a disk below SQLite that fails and loses power: a VFS over the usual one.
 *
 * Writes go to the real files, so that SQLite reads what it wrote. What would be on the disk after
 * a power cut is kept apart: a sync brings a file there, and of what was not synced the power cut
 * keeps a random part, in any order, cut at sectors of 512 bytes. A sync that fails does the same,
 * and what it has lost is not written by a later one: so do kernels.
 */
#ifndef BAD_DISK_H
#define BAD_DISK_H

#include "t/unit/rng.h"

#include <stdbool.h>
#include <stdint.h>

enum bad_disk_fault { BAD_DISK_EIO, BAD_DISK_FULL, BAD_DISK_SHORT, BAD_DISK_FAULTS };

struct bad_disk {
    struct rng rng;
    enum bad_disk_fault fault;
    int64_t fails_at;   /* number of the call that fails; -1: none */
    uint32_t one_in;    /* calls fail at random; 0: none */
    bool reads_fail;    /* of the database, not of the log */
    int64_t cut_at;     /* number of the call that fails, and all after it; -1: none */
    int64_t calls;      /* writes, syncs, truncations so far */
    uint64_t faults;    /* of these, failed */
    int64_t capacity;   /* bytes of all files together; 0: no end */
    const char *beside; /* a file that counts, too; NULL: none */
    bool is_cut;
};
extern struct bad_disk bad_disk;

/* Makes it the VFS of all that is opened, and begins anew. */
void bad_disk_start(uint64_t seed);
/* The power is gone: everything fails. After closing what is open, call bad_disk_restart. */
void bad_disk_cut(void);
/* Makes the files what is on the disk after a power cut, and lets everything work again. */
void bad_disk_restart(void);
/* Back to the usual VFS. */
void bad_disk_end(void);

#endif
