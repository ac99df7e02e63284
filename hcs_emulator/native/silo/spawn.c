/* Starts one process in the silo: streams or a console, then exec.c. A pipe reports a failure. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "silo.h"

static char oom_score[16];

static void write_oom_score(const char *score)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    if (write(file, score, strlen(score)) < 0) { /* not permitted: pid 1 keeps the default score */
    }
    close(file);
}

/* The OOM killer must kill a process inside, not pid 1, which would stop the whole silo. */
void remember_oom_score(void)
{
    int file = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, oom_score, sizeof oom_score - 1);
    if (file >= 0)
        close(file);
    if (length <= 0)
        strcpy(oom_score, "0");
    write_oom_score("-1000");
}

static int open_console(const struct request *request, int *master)
{
    struct winsize size = {.ws_row = request->height, .ws_col = request->width};
    int locked = 0, terminal = -1;

    *master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*master < 0)
        return -1;
    if (ioctl(*master, TIOCSPTLCK, &locked) == 0 && ioctl(*master, TIOCSWINSZ, &size) == 0)
        terminal = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0) {
        int error = errno;
        close(*master);
        *master = -1;
        errno = error;
    }
    return terminal;
}

static struct failure become(const struct spawn *spawn, int terminal)
{
    sigset_t none;
    int nothing = -1;

    setsid();
    if (terminal >= 0 && ioctl(terminal, TIOCSCTTY, 0) < 0)
        return (struct failure){AT_CONSOLE, errno};
    for (int i = 0; i < 3; i++) {
        int stream = terminal >= 0 ? terminal : spawn->streams[i];
        if (stream < 0 && nothing < 0)
            nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (dup2(stream < 0 ? nothing : stream, i) < 0)
            return (struct failure){AT_CONSOLE, errno};
    }
    write_oom_score(oom_score);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    return execute(spawn);
}

struct failure spawn_process(const struct spawn *spawn, pid_t *pid, int *master)
{
    struct failure failure = {AT_NOTHING, 0};
    int terminal = -1, report[2];

    if (pipe2(report, O_CLOEXEC) < 0)
        return (struct failure){AT_FORK, errno};
    if (spawn->request->flags & WITH_CONSOLE) {
        terminal = open_console(spawn->request, master);
        if (terminal < 0) {
            failure = (struct failure){AT_CONSOLE, errno};
            close(report[0]);
            close(report[1]);
            return failure;
        }
    }
    *pid = fork();
    if (*pid == 0) {
        failure = become(spawn, terminal);
        if (write(report[1], &failure, sizeof failure) < 0)
            _exit(126);
        _exit(127);
    }
    if (*pid < 0)
        failure = (struct failure){AT_FORK, errno};
    close(report[1]);
    if (terminal >= 0)
        close(terminal);
    /* Reads a report, or nothing when exec closes the pipe. */
    while (*pid > 0 && read(report[0], &failure, sizeof failure) < 0 && errno == EINTR)
        ;
    close(report[0]);
    if (failure.stage != AT_NOTHING) {
        if (*pid > 0)
            waitpid(*pid, NULL, 0);
        if (*master >= 0)
            close(*master);
        *master = -1;
    }
    return failure;
}
