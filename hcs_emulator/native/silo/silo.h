/* What the parts of the silo program offer each other. */
#ifndef SILO_H
#define SILO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../common/windows_path.h"
#include "protocol.h"

/* A failure: where, and errno. stage AT_NOTHING means success. */
struct failure {
    uint32_t stage;
    int32_t error;
};

/* root.c: becomes the root of the silo; `root` NULL for a private one over the host's programs. */
struct failure prepare_root(const char *root);
/* job.c: the place of a job among the host's own files; and its end, with all that runs in it. */
struct failure prepare_job(bool binds);
void end_job(void);
/* bind.c: attaches the detached mount `tree` at `target`, and takes it away. Answers errno. */
int attach_bind(int tree, const char *target, bool read_only);
int detach_bind(const char *target);

/* spawn.c */
struct spawn {
    const struct request *request;
    const char *directory, *user;
    const char *tail; /* the command line after the program, as it was written */
    char **programs, **arguments, **variables; /* NULL-terminated */
    int streams[3];                            /* -1 where none was given */
    bool private_root;
    bool on_host; /* a process of the machine itself: nothing is taken from it */
};
/* Starts the process; on success sets `pid` and, with a console, `master`. */
struct failure spawn_process(const struct spawn *spawn, pid_t *pid, int *master);
void remember_oom_score(void);

/* exec.c: replaces the calling process by what was asked for, or answers why not. */
struct failure execute(const struct spawn *spawn);
/* user.c: becomes the user of this name in the root's passwd file; "" stays root. Answers errno. */
int become_user(const char *name);
void drop_capabilities(void);

#endif
