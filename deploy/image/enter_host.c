/* enter-host PROGRAM ARGUMENT...: run a program in the mount namespace of the node, as a host process container does.

   The entry point of the image for Linux nodes. The pod is privileged and shares the node's processes (hostPID), so the
   parent of this process is the shim that containerd started for the pod. Its mount namespace is containerd's, where
   the runtimes that are installed must be; that of process 1 is another one if containerd has one of its own, and a
   container may lack the right to enter it. This process stays in the container, so that its files can be read from the
   node: below RUNHCS_CONTAINER_ROOT in the environment, and "@/" at the beginning of an argument stands for that
   directory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t child;

static void forward(int number) {
    if (child > 0)
        kill(child, number);
}

static int fail(const char *what) {
    fprintf(stderr, "enter-host: %s: %s: the pod needs hostPID and a privileged container\n", what, strerror(errno));
    return 126;
}

static int run_on_host(char **arguments, pid_t parent, const char *root, pid_t shim) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", shim);
    int host = open(path, O_RDONLY | O_CLOEXEC);
    if (host < 0 || setns(host, CLONE_NEWNS) < 0 || chdir("/") < 0)
        return fail("the mount namespace of containerd");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        return 126; /* the container was stopped meanwhile */
    for (char **word = arguments; *word != NULL; word++) {
        if (strncmp(*word, "@/", 2) == 0 && asprintf(word, "%s%s", root, *word + 1) < 0)
            return 126;
    }
    setenv("RUNHCS_CONTAINER_ROOT", root, 1);
    /* That of the image, if it has one, is not the node's. */
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    execvp(arguments[0], arguments);
    fprintf(stderr, "enter-host: %s: %s: the node needs it\n", arguments[0], strerror(errno));
    return 127;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: enter-host PROGRAM ARGUMENT...\n");
        return 2;
    }
    pid_t parent = getpid(), shim = getppid(); /* 0 if the node's processes are not visible */
    char *root;
    if (asprintf(&root, "/proc/%d/root", parent) < 0)
        return 126;
    child = fork();
    if (child < 0)
        return fail("fork");
    if (child == 0)
        return run_on_host(argv + 1, parent, root, shim);
    struct sigaction action = {.sa_handler = forward};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return fail("wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
