/* parallel.h - several threads do pieces of work that do not depend on each other. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

/*
 * Calls `piece` with each number below `pieces` once, in any order, in up to `threads` threads; the
 * calling thread is one of them. Returns when all calls have returned and the other threads have
 * ended. These block all signals. If the kernel refuses a thread, the others do its work.
 */
void run_parallel(unsigned threads, unsigned pieces, void (*piece)(void *arg, unsigned number),
                  void *arg);

#endif
