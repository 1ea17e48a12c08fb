/*
 * process.h - what the kernel says of this process, from /proc/self.
 */
#ifndef ADMIN_PROCESS_H
#define ADMIN_PROCESS_H

/* NAN: not to be found out. */
struct process {
    double cpu_seconds; /* user and system */
    double resident_bytes, virtual_bytes;
    double open_fds, max_fds; /* max: INFINITY for no limit */
    double start_seconds;     /* unix time */
};

/* Reads them. Any thread. */
void process_read(struct process *process_r);

#endif
