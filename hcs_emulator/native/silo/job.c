/* The job keeper: a host process container on Linux.
 *
 * Its processes are processes of the host, with the host's files, pids, names and rights. On request, the
 * container's own files and mounts are visible only in a mount namespace of its own, as Windows' bind filter shows
 * them in a job. No pid namespace kills the processes with their container. Instead the keeper adopts every process
 * that loses its parent, runs as long as the socket to its shim is open, and then kills its children until there is
 * none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "silo.h"

struct failure prepare_job(bool binds)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return (struct failure){AT_NAMESPACES, errno};
    if (!binds)
        return (struct failure){AT_NOTHING, 0};
    if (unshare(CLONE_NEWNS) < 0)
        return (struct failure){AT_NAMESPACES, errno};
    /* Later mounts of the host appear here, too; binds made here appear nowhere else. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return (struct failure){AT_NAMESPACES, errno};
    return (struct failure){AT_NOTHING, 0};
}

static void kill_children(void)
{
    FILE *list = fopen("/proc/thread-self/children", "re");
    int child;

    while (list != NULL && fscanf(list, "%d", &child) == 1)
        kill(child, SIGKILL);
    if (list != NULL)
        fclose(list);
}

void kill_job(void)
{
    /* Each killed child leaves its own children to the keeper. */
    do
        kill_children();
    while (waitpid(-1, NULL, 0) > 0 || errno != ECHILD);
}
