/* What the files of the shim's launcher share. native.c says what the whole is for, common.h (runhcs/launcher) what it has
   in common with the launcher of Linux, and what "unusual" means. */
#ifndef NATIVE_H
#define NATIVE_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "common.h"

/* As long as CreateFile takes without a prefix, with some room for names: longer paths are unusual. */
#define LONGEST 240

/* Whether Python need not be asked: the command is done. */
bool run_natively(int count, wchar_t **given);

/* -- texts: native.c -------------------------------------------------------------------------------------------------- */

/* A copy in UTF-8, or in UTF-16; NULL if there is no such text, as half a surrogate pair is none. */
char *to_utf8(const wchar_t *text);
wchar_t *to_wide(const char *text);
/* A switch in the environment, or else what holds without it. */
bool is_on(const wchar_t *variable, bool by_default);

/* -- small files: files.c --------------------------------------------------------------------------------------------- */

/* A regular file's content, with a NUL behind it; -1 if there is none, it is something else, or has no room. */
ptrdiff_t read_file(const wchar_t *path, char *buffer, size_t size);
/* Whether the last call failed since there is no such file. */
bool was_absent(void);
/* Nothing in it, or not there. */
bool is_empty(const wchar_t *path);
/* To stdout. */
bool print(const void *data, size_t length);

/* -- commands: delete.c ------------------------------------------------------------------------------------------------ */

/* Does the whole command; or nothing, and gives false: it is left to Python. */
bool native_delete(const struct command *command);

#endif
