/* `start`: what shim/commands/start.py does, without Python. It gives the daemon a socket that listens already, so that
   containerd's first connection waits there while Python starts.

   The order is Python's, and so is the end of whatever fails: nothing is left behind, and Python is asked to do it again,
   for it knows what to say. A start that is killed leaves a daemon that hears of it and goes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"

#define STDIN_LIMIT (10 << 20) /* as in shim/commands */
#define BACKLOG 128
/* How long a daemon that was killed may take to be gone. */
#define END_MILLISECONDS 1000
/* The daemon's descriptors, after standard input, output and error. */
enum { LISTENER = 3, LINK, OPTIONS };

static enum role read_own_role(const char *id, char *sandbox, size_t size) {
    static char json[MAX_SPEC];
    ssize_t length = read_file("config.json", json, sizeof json);
    return length < 0 ? UNUSUAL : read_role(json, (size_t)length, id, sandbox, size);
}

/* For Python to read. */
static void put_back(int options) {
    if (options < 0)
        return;
    lseek(options, 0, SEEK_SET);
    dup2(options, STDIN_FILENO);
    close(options);
}

/* The options on stdin, in a file of their own; -1 if there are none. What had to be read to see that they are unusual is
   put back. */
static bool read_options(const char *id, int *options) {
    static unsigned char data[SMALL_OPTIONS];
    size_t length = 0, total;
    ssize_t got = 0;
    *options = -1;
    if (isatty(STDIN_FILENO))
        return true;
    while (length < sizeof data && (got = read(STDIN_FILENO, data + length, sizeof data - length)) > 0)
        length += (size_t)got;
    if (got < 0)
        return false;
    if (length == 0)
        return true;
    int file = memfd_create("options", MFD_CLOEXEC);
    if (file < 0 || !write_all(file, (const char *)data, length))
        return false;
    bool is_usual = length < sizeof data && options_are_usual(data, length, id);
    for (total = length; !is_usual && got > 0 && total <= STDIN_LIMIT; total += (size_t)got)
        if ((got = read(STDIN_FILENO, data, sizeof data)) <= 0 || !write_all(file, (const char *)data, (size_t)got))
            break;
    if (is_usual) {
        lseek(file, 0, SEEK_SET);
        *options = file;
    } else
        put_back(file);
    return is_usual;
}

/* A socket that listens, in a directory that is ours alone; -1. */
static int listen_at(const struct sockaddr_un *address) {
    char directory[sizeof address->sun_path];
    strcpy(directory, address->sun_path);
    *strrchr(directory, '/') = '\0';
    struct stat status;
    if (lstat(directory, &status) != 0 && errno == ENOENT)
        mkdir(directory, 0700);
    if (lstat(directory, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 077) != 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    mode_t mask = umask(0177);
    bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)address, sizeof *address) == 0;
    umask(mask);
    if (bound && listen(fd, BACKLOG) == 0)
        return fd;
    if (bound)
        unlink(address->sun_path);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* In the child: nothing of the caller's world. Only system calls, since the parent's memory is shared. */
static bool detach(const int sources[6], int count) {
    setsid();
    if (chdir("/") != 0)
        return false;
    umask(022);
    for (int fd = 0; fd < count; fd++)
        if (dup2(sources[fd], fd) < 0)
            return false;
    struct rlimit limit;
    if (close_range((unsigned)count, ~0u, 0) != 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        for (rlim_t fd = (rlim_t)count; fd < limit.rlim_cur && fd < 65536; fd++)
            close((int)fd);
    return true;
}

/* Python, as the daemon; 0 if it cannot be run. */
static pid_t spawn(const struct settings *settings, const struct daemon *daemon, int link, int argc, char **argv) {
    static char option[MAX_PATH + 64];
    char *words[MAX_ARGUMENTS + 6];
    snprintf(option, sizeof option, "runhcs_daemon=%c%c%s", daemon->is_sandbox ? '1' : '0',
        daemon->options < 0 ? '0' : '1', daemon->bundle);
    python_arguments(settings, option, argc, argv, words);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), sources[6];
    const int wanted[6] = {null, null, daemon->panic_log, daemon->listener, link, daemon->options};
    int count = daemon->options < 0 ? OPTIONS : OPTIONS + 1;
    for (int fd = 0; fd < count; fd++) /* out of the way of the numbers that they get */
        if ((sources[fd] = fcntl(wanted[fd], F_DUPFD_CLOEXEC, 16)) < 0)
            return 0;
    static volatile bool has_failed; /* written by the child: we go on when it has become Python, or is ending */
    has_failed = false;
    pid_t child = vfork();
    if (child == 0) {
        if (detach(sources, count))
            execv(settings->python, words);
        has_failed = true;
        _exit(127);
    }
    if (child > 0 && has_failed) {
        waitpid(child, NULL, 0);
        child = 0;
    }
    for (int fd = 0; fd < count; fd++)
        close(sources[fd]);
    close(null);
    return child < 0 ? 0 : child;
}

/* A daemon, and the line that leads to it: a spare that is awake, or a new process. */
static pid_t make_daemon(const struct settings *settings, const struct daemon *daemon, const struct sockaddr_un *standby,
    int *link, int argc, char **argv, bool *is_spare) {
    *is_spare = false;
    if (*link >= 0) {
        pid_t pid = standby_awake(*link, standby);
        if (pid > 0 && standby_hand_over(*link, daemon, argc, argv)) {
            *is_spare = true;
            return pid;
        }
        close(*link);
        *link = -1;
    }
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return 0;
    *link = pair[0];
    pid_t pid = spawn(settings, daemon, pair[1], argc, argv);
    close(pair[1]);
    return pid;
}

/* It must be gone before Python tries again: it would take the new socket for its own. A child keeps its pid until it is
   waited for. A spare is nobody's child: one that has hung up may be gone, and its pid another's. */
static void end_daemon(pid_t pid, int link, bool is_spare) {
    struct pollfd waiting = {.fd = link, .events = POLLIN};
    char byte;
    if (!is_spare || recv(link, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
        kill(pid, SIGKILL);
    if (is_spare)
        poll(&waiting, 1, END_MILLISECONDS);
    else
        for (int passed = 0; passed < END_MILLISECONDS && waitpid(pid, NULL, WNOHANG) == 0; passed++)
            usleep(1000);
}

static bool launch(const struct settings *settings, struct daemon *daemon, const struct sockaddr_un *address,
    const char *answer, const struct sockaddr_un *standby, int argc, char **argv, bool *is_spare) {
    char text[sizeof address->sun_path + sizeof SCHEME], number[32];
    int link = standby == NULL ? -1 : standby_dial(standby); /* it wakes up while we go on */
    pid_t pid = 0;
    daemon->listener = listen_at(address);
    if (daemon->listener < 0)
        return false;
    snprintf(text, sizeof text, SCHEME "%s", address->sun_path);
    daemon->panic_log = open("panic.log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (daemon->panic_log >= 0 && write_file("address", text))
        pid = make_daemon(settings, daemon, standby, &link, argc, argv, is_spare);
    snprintf(number, sizeof number, "%d", pid);
    if (pid > 0 && write_file("shim.pid", number) && print(answer, strlen(answer))) {
        send(link, "D", 1, MSG_NOSIGNAL);
        return true;
    }
    if (pid > 0)
        end_daemon(pid, link, *is_spare);
    if (link >= 0)
        close(link);
    close(daemon->listener);
    unlink(address->sun_path);
    unlink("panic.log");
    unlink("address");
    unlink("shim.pid");
    return false;
}

bool native_start(const struct settings *settings, const struct command *command, int argc, char **argv) {
    struct daemon daemon = {.options = -1};
    struct sockaddr_un address, standby;
    char bundle[MAX_PATH - 64], sandbox[256] = "", answer[256];
    if (getcwd(bundle, sizeof bundle) == NULL || access(settings->python, X_OK) != 0 || access(settings->file, R_OK) != 0)
        return false;
    bool is_service = is_sandbox_bundle(bundle);
    enum role role = is_service ? SANDBOX : read_own_role(command->id, sandbox, sizeof sandbox);
    if (role == UNUSUAL || !socket_path(command, role == MEMBER ? sandbox : command->id, &address) ||
        !read_options(command->id, &daemon.options))
        return false;
    bool has_standby = settings->standby && standby_address(settings, &standby), is_spare = false, is_done;
    if (role == MEMBER)
        is_done = native_join(&address, sandbox);
    else {
        daemon.bundle = bundle;
        daemon.is_sandbox = role == SANDBOX;
        snprintf(answer, sizeof answer, "%s" SCHEME "%s%s", is_service ? "{\"version\":3,\"address\":\"" : "",
            address.sun_path, is_service ? "\",\"protocol\":\"ttrpc\"}" : "");
        is_done = launch(settings, &daemon, &address, answer, has_standby ? &standby : NULL, argc, argv, &is_spare);
    }
    if (!is_done) {
        put_back(daemon.options);
        return false;
    }
    if (has_standby && !is_spare)
        standby_leave(settings, &standby);
    return true;
}
