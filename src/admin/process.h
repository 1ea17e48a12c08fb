/*
 * process.h - what the kernel says of this process, from /proc/self.
 *
 * The files are opened once and kept: the thread that reads them may open none (daemon/sandbox.h).
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

/* Opens what process_read reads, unless it is open. Before there are threads that do. */
void process_open(void);
/* Closes it. When nobody reads any more. */
void process_close(void);

/* Reads them; what was not opened, or can't be read, is NAN. One thread at a time. */
void process_read(struct process *process_r);

#endif
