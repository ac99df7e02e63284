/* The keeper of a job: what a host process container is on Linux.
 *
 * Its processes are processes of the host, with the host's files, pids, names and rights; only the container's own files and mounts show
 * in a mount namespace of its own, as Windows' bind filter shows them in a job, where that is wanted. So no namespace ends them all. Instead whoever loses its
 * parent becomes a child of the keeper, which lives as long as the socket to its shim is open and then ends every child it has, until
 * there is none.
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
    /* What the host mounts later shows here, too; what is bound here shows nowhere else. */
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

void end_job(void)
{
    /* With each child that goes, its own children come. */
    do
        kill_children();
    while (waitpid(-1, NULL, 0) > 0 || errno != ECHILD);
}
