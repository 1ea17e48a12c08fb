/* file.h - opens files that an operator names. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/check.h"

/*
 * Opens a regular file to read it. Never waits, not even for the writer of a pipe. Returns a
 * descriptor; -1 with errno, which is 0 for a special file.
 */
int file_open_regular(const char *path) MUST_USE;

/* What is wrong, from the errno of file_open_regular. */
const char *file_open_reason(int error);

#endif
