/* Declarations of the shim's launcher on Windows. commands.c describes it, common.h what it shares with Linux and what
   "unsupported" means. */
#ifndef COMMANDS_H
#define COMMANDS_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "common.h"

/* CreateFile accepts this much without the prefix \\?\, with space for file names. Longer paths are unsupported. */
#define MAX_PATH_LENGTH 240

/* Options for Python, which may be replaced by others. */
struct python_options {
    wchar_t *standby, *shared;
};

/* Whether the command is done. If not, Python runs it, with these options. */
bool run_native_command(int count, wchar_t **given, struct python_options *options);

/* The path of this program; "" if it is unknown. */
extern wchar_t program_path[MAX_PATH_LENGTH];

/* -- text and switches: commands.c -------------------------------------------------------------------------------- */

/* A copy in the other encoding; NULL if the text is invalid, as half a surrogate pair is. */
char *to_utf8(const wchar_t *text);
wchar_t *to_wide(const char *text);
/* A switch in the environment, or the default. */
bool switch_is_on(const wchar_t *variable, bool by_default);

/* -- files: files.c ----------------------------------------------------------------------------------------------- */

/* Reads a regular file and appends a NUL; -1 if there is none, it is of another type, or it does not fit. */
ptrdiff_t read_file(const wchar_t *path, char *buffer, size_t size);
/* Whether the last call failed because there is no such file. */
bool last_error_is_not_found(void);
bool is_missing_or_empty(const wchar_t *path);
/* Replaces a file in the current directory atomically. */
bool write_file(const wchar_t *name, const char *content);
/* An empty file, opened for appending, that others can delete. */
HANDLE create_log_file(const wchar_t *name);
bool write_stdout(const void *data, size_t length);

/* -- named pipes: pipes.c ----------------------------------------------------------------------------------------- */

#define PIPES "\\\\.\\pipe\\ProtectedPrefix\\Administrators\\"
#define MAX_PIPE (256 + 16)

/* Only SYSTEM and Administrators can open what is created with it. shim/platform/windows/security.py gets its address. */
extern const SECURITY_ATTRIBUTES pipe_security;
/* The pipe of the shim that serves this id; false if it is unsupported. */
bool pipe_name(const struct command *command, const char *id, char name[MAX_PIPE]);
/* The pipe from which containerd reads the log of the shim of this id; false if the name is too long. */
bool log_pipe_name(const struct command *command, char name[MAX_PIPE]);
/* Whether a process has the name. */
bool pipe_exists(const char *name);
/* The first instance of a pipe that only SYSTEM and Administrators can open; NULL if the name is in use. */
HANDLE create_listener(const char *name);
/* A connection to a pipe that has a free instance within the timeout in milliseconds; NULL if there is none. */
HANDLE connect_pipe(const char *name, DWORD timeout);
/* All of it, within the timeout in milliseconds. */
bool send_all(HANDLE pipe, const void *data, size_t length, DWORD timeout);
bool receive_all(HANDLE pipe, void *data, size_t length, DWORD timeout);

/* -- runtime options on stdin: stdin_options.c -------------------------------------------------------------------- */

struct stdin_options {
    unsigned char data[MAX_OPTIONS];
    size_t length;
};

/* False if they are unsupported. `scope` receives which pods share a daemon, if they say so. */
bool read_stdin_options(const struct command *command, struct stdin_options *options, enum scope *scope);
/* Makes what was read available to Python on stdin again. */
void restore_stdin(struct stdin_options *options);

/* -- commands: start.c, join.c, shared.c, delete.c ----------------------------------------------------------------- */

#define MAX_WORDS 32

/* What a daemon receives. */
struct daemon {
    HANDLE listener, log_pipe, panic_log; /* no log pipe: NULL */
    char listener_number[32], log_number[32]; /* the handles of both pipes, as arguments; no log pipe: 0 */
    char *words[MAX_WORDS]; /* its arguments; the last is NULL */
    const struct stdin_options *options;
};

/* A running daemon: its process, and the pipe to it. */
struct child {
    HANDLE process, link;
    DWORD pid;
};

/* A pod that joins a shared daemon. */
struct pod {
    const char *bundle, *address, *response;
    const struct stdin_options *options;
    bool is_sandbox;
    HANDLE listener;
};

/* Sets the arguments that tell the daemon its handles of the pipes. */
void set_pipe_arguments(struct daemon *daemon, HANDLE listener, HANDLE log_pipe);

/* Each performs the whole command, or changes nothing and returns false: Python performs it. `standby` is the name of the
   standby's pipe; "" if the standby is off. */
bool native_start(const struct command *command, char *standby);
bool native_join_pod(const char *address, const char *sandbox);
bool native_join_shared(const struct command *command, enum scope scope, struct pod *pod);
bool native_delete(const struct command *command);

/* -- what processes must have in common: process_key.c ------------------------------------------------------------ */

/* Continues a hash (FNV-1a) with these bytes. */
uint64_t hash_bytes(uint64_t hash, const void *data, size_t length);
/* A hash of the program's files and of all process attributes that a process cannot take over from another. */
bool hash_process(uint64_t *hash);
/* Continues a hash with the environment. */
bool hash_environment(uint64_t *hash);

/* -- messages for the standby and for a shared daemon: standby.c --------------------------------------------------- */

#define MAX_HANDOVER (192 << 10)

struct handover {
    char data[MAX_HANDOVER];
    size_t length;
};

/* False if there is no space left. */
bool append_bytes(struct handover *handover, const void *data, size_t size);
/* With its NUL. */
bool append_text(struct handover *handover, const char *text);

/* -- the standby: standby.c --------------------------------------------------------------------------------------- */

/* The pipe of a standby that this process may use; false if there can be none. */
bool standby_pipe_name(char name[MAX_PIPE]);
/* Make the connected spare the daemon. If that fails, the spare is terminated and the connection closed. */
bool standby_hand_over(HANDLE connection, struct daemon *daemon, struct child *child);

#endif
