/* `start`, as shim/commands/start.py does it. The daemon inherits a listening socket, so containerd's first connection
   waits in its backlog while Python starts.

   The order of the steps is Python's. When a step fails, all previous steps are undone and Python performs the command
   again and reports the error. If this program is killed, the daemon sees its end of the link close and exits. */
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
/* The timeout for a killed daemon to exit. */
#define KILL_TIMEOUT_MILLISECONDS 1000
/* The daemon's descriptors after stdin, stdout and stderr. */
enum { LISTENER = 3, LINK, OPTIONS };

static enum role read_pod_role(const char *id, char *sandbox, size_t size, enum scope *scope) {
    static char json[MAX_SPEC];
    ssize_t length = read_file("config.json", json, sizeof json);
    return length < 0 ? UNSUPPORTED : parse_pod_role(json, (size_t)length, id, sandbox, size, scope);
}

/* Makes the options available to Python on stdin again. */
static void restore_stdin(int options) {
    if (options < 0)
        return;
    lseek(options, 0, SEEK_SET);
    dup2(options, STDIN_FILENO);
    close(options);
}

/* The content of stdin as a memfd; -1 if it is empty. If it is unsupported, stdin is restored. */
static bool read_options(
    const struct command *command, int *options, char socket_dir[MAX_SOCKET_DIR], enum scope *scope) {
    static unsigned char data[MAX_OPTIONS];
    size_t length = 0, total;
    ssize_t got = 0;
    *options = -1;
    *socket_dir = '\0';
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
    bool is_supported = length < sizeof data && stdin_is_supported(data, length, command, socket_dir, scope);
    for (total = length; !is_supported && got > 0 && total <= STDIN_LIMIT; total += (size_t)got)
        if ((got = read(STDIN_FILENO, data, sizeof data)) <= 0 || !write_all(file, (const char *)data, (size_t)got))
            break;
    if (is_supported) {
        lseek(file, 0, SEEK_SET);
        *options = file;
    } else
        restore_stdin(file);
    return is_supported;
}

/* A listening socket in a directory that only this user may access; -1 if that fails. */
static int create_listener(const struct sockaddr_un *address) {
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

/* In the child: drop what it inherited from the caller. Only system calls: after vfork the memory is the parent's. */
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

/* Execute Python as the daemon; returns its pid, 0 if it cannot be executed. */
static pid_t spawn_daemon(const struct settings *settings, const struct daemon *daemon, int link, int argc, char **argv) {
    static char option[MAX_PATH + 64];
    char *words[MAX_ARGUMENTS + 6];
    snprintf(option, sizeof option, "runhcs_daemon=%c%c%s", daemon->is_sandbox ? '1' : '0',
        daemon->options < 0 ? '0' : '1', daemon->bundle);
    build_python_arguments(settings, option, argc, argv, words);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), sources[6];
    const int inherited[6] = {null, null, daemon->panic_log, daemon->listener, link, daemon->options};
    int count = daemon->options < 0 ? OPTIONS : OPTIONS + 1;
    for (int fd = 0; fd < count; fd++) /* above the target numbers, so that dup2 overwrites none */
        if ((sources[fd] = fcntl(inherited[fd], F_DUPFD_CLOEXEC, 16)) < 0)
            return 0;
    static volatile bool has_failed; /* set by the child; vfork returns after its execv or _exit */
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

/* A daemon and the link to it: a spare that is ready, or a new process. */
static pid_t start_daemon(const struct settings *settings, const struct daemon *daemon, const struct sockaddr_un *standby,
    int *link, int argc, char **argv, bool *is_spare) {
    *is_spare = false;
    if (*link >= 0) {
        pid_t pid = standby_wait_ready(*link, standby);
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
    pid_t pid = spawn_daemon(settings, daemon, pair[1], argc, argv);
    close(pair[1]);
    return pid;
}

/* The daemon must have exited before Python performs the command: it would remove the new socket as its own. The pid of a
   child stays valid until it is waited for. A spare is not a child: if it has closed the link it may have exited, and its
   pid may have been reused. */
static void kill_daemon(pid_t pid, int link, bool is_spare) {
    struct pollfd waiting = {.fd = link, .events = POLLIN};
    char byte;
    if (!is_spare || recv(link, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
        kill(pid, SIGKILL);
    if (is_spare)
        poll(&waiting, 1, KILL_TIMEOUT_MILLISECONDS);
    else
        for (int passed = 0; passed < KILL_TIMEOUT_MILLISECONDS && waitpid(pid, NULL, WNOHANG) == 0; passed++)
            usleep(1000);
}

/* With `shared`, the control socket of a shared daemon, that one must serve the pod. */
static bool launch_daemon(const struct settings *settings, struct daemon *daemon, const struct sockaddr_un *address,
    const char *response, const struct sockaddr_un *standby, const struct sockaddr_un *shared, int argc, char **argv,
    bool *is_spare) {
    char text[sizeof address->sun_path + sizeof SCHEME], number[32];
    const struct sockaddr_un *waiting = shared != NULL ? shared : standby;
    int link = waiting == NULL ? -1 : standby_connect(waiting); /* it wakes up in the meantime */
    pid_t pid = 0;
    if (shared != NULL && link < 0)
        return false;
    daemon->listener = create_listener(address);
    if (daemon->listener < 0)
        return false;
    snprintf(text, sizeof text, SCHEME "%s", address->sun_path);
    daemon->panic_log = open("panic.log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (daemon->panic_log >= 0 && write_file("address", text))
        pid = shared != NULL ? shared_join(link, daemon, argc, argv)
                             : start_daemon(settings, daemon, standby, &link, argc, argv, is_spare);
    snprintf(number, sizeof number, "%d", pid);
    if (pid > 0 && write_file("shim.pid", number) && write_stdout(response, strlen(response))) {
        send(link, "D", 1, MSG_NOSIGNAL);
        return true;
    }
    if (pid > 0 && shared == NULL)
        kill_daemon(pid, link, *is_spare);
    if (link >= 0)
        close(link); /* a shared daemon gives up the pod */
    close(daemon->listener);
    unlink(address->sun_path);
    unlink("panic.log");
    unlink("address");
    unlink("shim.pid");
    if (shared != NULL)
        unlink("daemon-panic.log");
    return false;
}

bool native_start(const struct settings *settings, const struct command *command, int argc, char **argv) {
    struct daemon daemon = {.options = -1};
    struct sockaddr_un address, standby, shared;
    char bundle[MAX_PATH - 64], sandbox[256] = "", socket_dir[MAX_SOCKET_DIR], response[256];
    if (getcwd(bundle, sizeof bundle) == NULL || access(settings->python, X_OK) != 0 || access(settings->file, R_OK) != 0)
        return false;
    bool is_service = is_sandbox_bundle(bundle);
    enum scope annotated = NO_SCOPE, configured = NO_SCOPE;
    enum role role = is_service ? SANDBOX : read_pod_role(command->id, sandbox, sizeof sandbox, &annotated);
    if (role == UNSUPPORTED || !read_options(command, &daemon.options, socket_dir, &configured))
        return false;
    enum scope scope = role == MEMBER ? POD_SCOPE : annotated != NO_SCOPE ? annotated : configured;
    bool is_shared = scope > POD_SCOPE, is_spare = false, is_done;
    bool has_standby = settings->standby && !is_shared && standby_address(settings, &standby);
    if (!socket_path(command, role == MEMBER ? sandbox : command->id, socket_dir, &address) ||
        (is_shared && !shared_address(settings, command, scope, &address, &shared)))
        is_done = false;
    else if (role == MEMBER)
        is_done = native_join_pod(&address, sandbox);
    else {
        daemon.bundle = bundle;
        daemon.is_sandbox = role == SANDBOX;
        snprintf(response, sizeof response, "%s" SCHEME "%s%s", is_service ? "{\"version\":3,\"address\":\"" : "",
            address.sun_path, is_service ? "\",\"protocol\":\"ttrpc\"}" : "");
        is_done = launch_daemon(settings, &daemon, &address, response, has_standby ? &standby : NULL,
            is_shared ? &shared : NULL, argc, argv, &is_spare);
    }
    if (!is_done) {
        restore_stdin(daemon.options);
        return false;
    }
    if (has_standby && !is_spare)
        standby_spawn(settings, &standby);
    return true;
}
