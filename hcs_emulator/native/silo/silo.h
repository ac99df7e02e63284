/* Declarations shared by the files of the silo program. */
#ifndef SILO_H
#define SILO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../common/windows_path.h"
#include "protocol.h"

/* A failure: its stage, and errno. AT_NOTHING means success. */
struct failure {
    uint32_t stage;
    int32_t error;
};

/* root.c: changes to the root of the silo; `root` NULL for a private one over the host's programs. */
struct failure prepare_root(const char *root);
/* job.c: prepares the job keeper; kills every process of the job. */
struct failure prepare_job(bool binds);
void kill_job(void);
/* bind.c: attaches the detached mount `tree` at `target`, and detaches it. Return errno. */
int attach_bind(int tree, const char *target, bool read_only);
int detach_bind(const char *target);
/* mount_point.c: creates a directory or file to mount at; the second one in a read-only directory, which it covers. */
bool make_mount_point(const char *path, bool is_directory);
bool make_read_only_mount_point(const char *path, bool is_directory);

/* spawn.c */
struct spawn {
    const struct request *request;
    const char *directory, *user;
    const char *tail; /* the command line after the program, unchanged */
    char **programs, **arguments, **variables; /* NULL-terminated */
    int streams[3];                            /* -1 for none */
    bool private_root;
    bool on_host; /* a process of the host itself: it keeps all its rights */
};
/* Starts the process; on success sets `pid` and, with a console, `master`. */
struct failure spawn_process(const struct spawn *spawn, pid_t *pid, int *master);
void remember_oom_score(void);

/* exec.c: executes the requested program, or returns why not. */
struct failure execute(const struct spawn *spawn);
/* user.c: changes to the user of this name in the root's passwd file; "" stays root. Returns errno. */
int become_user(const char *name);
void drop_capabilities(void);

#endif
