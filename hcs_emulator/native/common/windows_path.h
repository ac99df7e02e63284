/* Windows path names resolved in a Linux file tree. Shared by the silo program and the stand-in commands. */
#ifndef WINDOWS_PATH_H
#define WINDOWS_PATH_H

#include <stdbool.h>

enum { PATH_SIZE = 4096 };

/* Both return false and set errno when there is no such file. */
bool find_path(const char *name, char found[PATH_SIZE]);
bool find_program(const char *name, const char *search_path, char found[PATH_SIZE]);
/* Converts "C:\a\b" to "/a/b" without checking that it exists; false if it is too long. */
bool to_posix_path(const char *name, char posix[PATH_SIZE]);
/* The part after the last separator of either kind. */
const char *base_name(const char *name);
bool has_suffix(const char *name, const char *suffix);

#endif
