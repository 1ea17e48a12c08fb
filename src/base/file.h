/* file.h - opens files that an operator names, and the standard descriptors. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/check.h"

#include <stdbool.h>

/*
 * Opens a regular file to read it, or /dev/null, which is an empty one. Never waits, not even for
 * the writer of a pipe: a reload could not read one again. Returns a descriptor; -1 with errno,
 * which is 0 for another special file.
 */
int file_open_regular(const char *path) MUST_USE;

/* What is wrong, from the errno of file_open_regular. */
const char *file_open_reason(int error);

/*
 * Opens /dev/null in place of standard input, output or error where these are closed, so that no
 * other file and no socket gets their numbers. With `fails`, reading or writing there still is an
 * error. To be called before anything else is opened. Returns false with errno if that fails.
 */
bool file_open_standard(bool fails) MUST_USE;

/* Warns in the log if other users of the machine can read or write a file with a secret. `key` is
 * the option that names it, `remedy` what to do. NULL as the path is harmless. */
void file_warn_of_others(const char *key, const char *path, const char *remedy);
#define FILE_FORBID_OTHERS "forbid that with chmod o="

#endif
