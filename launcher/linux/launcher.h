/* What the files of the launcher share; launcher.c says what the whole is for, common.h what it has in common with the
   launcher of Windows. */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "common.h"

#define DEFAULT_DIRECTORY "/run/containerd/s"
#define DIRECTORY_VARIABLE "RUNHCS_SOCKET_DIR"
#define SCHEME "unix://"
#define MAX_PATH 4096

/* -- settings, written by `runhcs install`: launcher.c ------------------------------------------------------------- */

struct settings {
    const char *python; /* the interpreter */
    const char *file;   /* what it runs */
    bool standby;       /* whether commands may use a standby */
};

/* What Python is told beside the command line; `option` may be NULL. Room for MAX_ARGUMENTS + 6. */
void python_arguments(const struct settings *settings, char *option, int argc, char **argv, char **words);

/* -- the address: address.c ----------------------------------------------------------------------------------------- */

/* The path of the socket of the shim that serves this id; false if it is unusual. */
bool socket_path(const struct command *command, const char *id, struct sockaddr_un *address);
void sha256_hex(const void *data, size_t length, char hex[65]);

/* -- small files: files.c ------------------------------------------------------------------------------------------ */

/* A regular file's content; -1 with errno if there is none, it is something else, or has no room. */
ssize_t read_file(const char *path, char *buffer, size_t size);
bool write_all(int fd, const char *data, size_t length);
/* To stdout; a reader that is gone is an error like others. */
bool print(const void *data, size_t length);
/* The whole file or none of it, in the current directory. */
bool write_file(const char *name, const char *content);

/* -- commands: start.c, join.c, delete.c ----------------------------------------------------------------------------- */

struct daemon {
    int listener, panic_log, options; /* options: -1 if there are none */
    bool is_sandbox;
    const char *bundle;
};

/* Each does the whole command; or nothing, and gives false: it is left to Python. */
bool native_start(const struct settings *settings, const struct command *command, int argc, char **argv);
bool native_join(const struct sockaddr_un *address, const char *sandbox);
bool native_delete(const struct command *command);

/* -- the standby: standby.c, standby_key.c -------------------------------------------------------------------------- */

/* The socket of a standby that would do; false if there can be none. */
bool standby_address(const struct settings *settings, struct sockaddr_un *address);
/* A connection to a spare, which may or may not wake up; -1. */
int standby_dial(const struct sockaddr_un *address);
/* The pid of the spare that woke up; 0 if none did. */
pid_t standby_awake(int connection, const struct sockaddr_un *address);
/* Let it become the daemon. */
bool standby_hand_over(int connection, const struct daemon *daemon, int argc, char **argv);
/* Start a standby for the next command, if there is none. */
void standby_leave(const struct settings *settings, const struct sockaddr_un *address);

#endif
