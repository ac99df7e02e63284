/* What the files of the shim's launcher share. commands.c says what the whole is for, common.h what it has
   in common with the launcher of Linux, and what "unusual" means. */
#ifndef COMMANDS_H
#define COMMANDS_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "common.h"

/* As long as CreateFile takes without a prefix, with some room for names: longer paths are unusual. */
#define LONGEST 240

/* Whether Python need not be asked: the command is done. If not, `option` may be another for Python. */
bool run_natively(int count, wchar_t **given, wchar_t **option);

/* The path of this program; "" if it cannot be told. */
extern wchar_t program[LONGEST];

/* -- texts: commands.c -------------------------------------------------------------------------------------------------- */

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
/* The whole file or none of it, in the current directory. */
bool write_file(const wchar_t *name, const char *content);
/* An empty file, open for appending; others may still delete it. */
HANDLE create_file(const wchar_t *name);
/* To stdout. */
bool print(const void *data, size_t length);

/* -- named pipes: pipes.c ---------------------------------------------------------------------------------------------- */

#define PIPES "\\\\.\\pipe\\ProtectedPrefix\\Administrators\\"
#define MAX_PIPE (256 + 16)

/* The pipe of the shim that serves this id; false if it is unusual. */
bool pipe_name(const struct command *command, const char *id, char name[MAX_PIPE]);
/* The first instance of a pipe, which SYSTEM and Administrators may open, and nobody else; NULL if the name is taken. */
HANDLE listen_at(const char *name);
/* A connection to somebody who listens, and is free for us within so many milliseconds; NULL. */
HANDLE dial(const char *name, DWORD patience);
/* All of it, within so many milliseconds. */
bool send_all(HANDLE pipe, const void *data, size_t length, DWORD patience);
bool receive_all(HANDLE pipe, void *data, size_t length, DWORD patience);

/* -- what came on stdin: stdin_options.c ----------------------------------------------------------------------------------------- */

struct input {
    unsigned char data[SMALL_OPTIONS];
    size_t length;
};

/* The options; false if they are unusual. */
bool read_input(const char *id, struct input *input);
/* For Python to read. */
void put_back(struct input *input);

/* -- commands: start.c, join.c, delete.c ----------------------------------------------------------------------------------- */

#define MAX_WORDS 32

/* A daemon that is to be. */
struct daemon {
    HANDLE listener, panic_log;
    char number[32];        /* the listener, as one of the words */
    char *words[MAX_WORDS]; /* its command line, NULL behind the last */
    const struct input *input;
};

/* One that is: its process, and the pipe that leads to it. */
struct child {
    HANDLE process, link;
    DWORD pid;
};

/* The handle that the pipe has in the daemon. */
void name_listener(struct daemon *daemon, HANDLE listener);

/* Each does the whole command; or nothing, and gives false: it is left to Python. `standby`: the name of a standby's pipe;
   "" where none is wanted. */
bool native_start(const struct command *command, char *standby);
bool native_join(const char *address, const char *sandbox);
bool native_delete(const struct command *command);

/* -- the standby: standby.c --------------------------------------------------------------------------------------------------- */

/* The pipe of a standby that would do; false if there can be none. */
bool standby_name(char name[MAX_PIPE]);
/* Let the spare that was dialled become the daemon. If it cannot, it has ended and the line is closed. */
bool standby_claim(HANDLE line, struct daemon *daemon, struct child *child);

#endif
