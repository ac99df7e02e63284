/* Declarations of the Linux launcher. launcher.c describes the program, common.h what it shares with Windows. */
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

/* -- settings, written by `runhcs install`: launcher.c ------------------------------------------------------------ */

struct settings {
    const char *python; /* the interpreter */
    const char *file;   /* the program that it runs */
    bool standby;       /* whether commands may use a standby */
};

/* The arguments of Python: those of the launcher, and `-X option` if it is not NULL. `words` holds MAX_ARGUMENTS + 6. */
void build_python_arguments(const struct settings *settings, char *option, int argc, char **argv, char **words);

/* -- the shim's address: address.c -------------------------------------------------------------------------------- */

/* The path of the socket of the shim that serves this id; false if it is unsupported. An empty directory is the default. */
bool socket_path(const struct command *command, const char *id, const char *directory, struct sockaddr_un *address);
void sha256_hex(const void *data, size_t length, char hex[65]);

/* -- files: files.c ----------------------------------------------------------------------------------------------- */

/* Reads a regular file; -1 with errno if there is none, it is of another type, or it does not fit. */
ssize_t read_file(const char *path, char *buffer, size_t size);
bool write_all(int fd, const char *data, size_t length);
/* Without SIGPIPE if the reader has closed stdout. */
bool write_stdout(const void *data, size_t length);
/* Replaces a file in the current directory atomically. */
bool write_file(const char *name, const char *content);

/* -- commands: start.c, join.c, delete.c -------------------------------------------------------------------------- */

struct daemon {
    int listener, panic_log, options; /* options: -1 if there are none */
    bool is_sandbox;
    const char *bundle;
};

/* Each performs the whole command, or changes nothing and returns false: Python performs it. */
bool native_start(const struct settings *settings, const struct command *command, int argc, char **argv);
bool native_join_pod(const struct sockaddr_un *address, const char *sandbox);
bool native_delete(const struct command *command);

/* -- the standby: standby.c, standby_key.c ------------------------------------------------------------------------ */

/* The socket of a standby that this process may use; false if there can be none. */
bool standby_address(const struct settings *settings, struct sockaddr_un *address);
/* A connection to a spare, which may or may not respond; -1 if there is none. */
int standby_connect(const struct sockaddr_un *address);
/* The pid of the spare that responded; 0 if none did. */
pid_t standby_wait_ready(int connection, const struct sockaddr_un *address);
/* Make the spare the daemon. */
bool standby_hand_over(int connection, const struct daemon *daemon, int argc, char **argv);
/* Start a standby for the next command, if there is none. */
void standby_spawn(const struct settings *settings, const struct sockaddr_un *address);

/* -- shared daemons: shared.c ------------------------------------------------------------------------------------- */

/* The control socket of the daemon that may serve a pod with this address; false if it is unsupported. */
bool shared_address(const struct settings *settings, const struct command *command, enum scope scope,
    const struct sockaddr_un *pod, struct sockaddr_un *address);
/* Hand the pod over. The pid of the daemon that serves it; 0 if it does not. */
pid_t shared_join(int connection, const struct daemon *daemon, int argc, char **argv);

#endif
