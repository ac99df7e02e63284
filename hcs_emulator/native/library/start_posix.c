/* Starts the service on demand.

   Of several processes that find no service, the one that gets the lock starts it; the others wait for the socket.
   An intermediate process, forked and later reaped, starts the service and waits until it listens or exits. So the
   service is no child of the caller, has none of its descriptors (containerd waits until a shim's stdout is closed),
   and a service that cannot start is detected at once. */
#define _GNU_SOURCE
#include "transport_posix.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MILLISECONDS 10000
#define AFTER_DEATH_MILLISECONDS 1000 /* it may have exited in favour of one that another process started */

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void pause_briefly(void) {
    struct timespec time = {.tv_nsec = 3000000};
    nanosleep(&time, NULL);
}

static bool listens(const struct sockaddr_un *address) {
    int fd = connect_once(address);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* As hcs_emulator/service/directory.py: files in it are created with the rights of the caller, which may be root. */
static bool is_private(const char *directory) {
    struct stat found;
    return lstat(directory, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
           (found.st_mode & 022) == 0;
}

static bool launcher_path(char path[4096]) {
    Dl_info self;
    if (dladdr((void *)(intptr_t)&start_service, &self) == 0 || self.dli_fname == NULL)
        return false;
    const char *slash = strrchr(self.dli_fname, '/');
    int directory = slash == NULL ? 0 : (int)(slash - self.dli_fname) + 1;
    int length = snprintf(path, 4096, "%.*shcs-emulator-service", directory, self.dli_fname);
    return length > 0 && length < 4096;
}

/* From here to the end of start_detached the code runs in a fork of a process with threads: only async-signal-safe
   calls. */
static void leave_caller(const char *log) {
    setsid();
    long limit = sysconf(_SC_OPEN_MAX);
#ifdef __NR_close_range
    if (syscall(__NR_close_range, 3u, ~0u, 0u) == 0)
        limit = 0;
#endif
    for (int fd = 3; fd < limit; fd++)
        close(fd);
    int null = open("/dev/null", O_RDONLY);
    int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (null < 0 || output < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
        _exit(3);
    close(null);
    close(output);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void start_detached(const char *launcher, const char *directory, const char *log,
                                     const struct sockaddr_un *address) {
    leave_caller(log);
    pid_t service = fork();
    if (service == 0) {
        if (chdir("/") != 0)
            _exit(3);
        execl(launcher, launcher, "--directory", directory, (char *)NULL);
        _exit(127);
    }
    long long deadline = now() + START_MILLISECONDS;
    bool alive = service > 0;
    while (now() < deadline) {
        if (listens(address))
            _exit(0);
        if (alive && waitpid(service, NULL, WNOHANG) == service) {
            alive = false;
            deadline = now() + AFTER_DEATH_MILLISECONDS;
        }
        pause_briefly();
    }
    _exit(alive ? 2 : 1);
}

static bool fork_and_start(const char *launcher, const char *directory, const char *log,
                           const struct sockaddr_un *address) {
    pid_t child = fork();
    if (child == 0)
        start_detached(launcher, directory, log, address);
    if (child < 0)
        return false;
    int status = 0;
    pid_t reaped;
    do
        reaped = waitpid(child, &status, 0);
    while (reaped < 0 && errno == EINTR);
    /* a program that reaps all its children may have taken the status: the socket decides */
    return reaped < 0 || status == 0;
}

bool start_service(const char *directory, const struct sockaddr_un *address, char reason[TRANSPORT_REASON]) {
    char launcher[4096], lock_path[256], log[256], absolute[4096];
    mkdir(directory, 0700);
    if (realpath(directory, absolute) == NULL) {
        snprintf(reason, TRANSPORT_REASON, "cannot make the emulator's directory %.200s: %s", directory,
                 strerror(errno));
        return false;
    }
    if (!is_private(directory)) {
        snprintf(reason, TRANSPORT_REASON,
                 "the emulator's directory %.200s is a link, belongs to another user, or can be written to by others: "
                 "set HCS_EMULATOR_DIR to another",
                 directory);
        return false;
    }
    snprintf(lock_path, sizeof lock_path, "%.200s/start.lock", directory);
    snprintf(log, sizeof log, "%.200s/service.log", absolute);
    if (!launcher_path(launcher) || access(launcher, X_OK) != 0) {
        snprintf(reason, TRANSPORT_REASON,
                 "no emulator service runs for %.200s and the program that starts one is missing beside the library: "
                 "run `make native`, or start it with `runhcs emulator start`",
                 directory);
        return false;
    }
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0) {
        snprintf(reason, TRANSPORT_REASON, "cannot open %s: %s", lock_path, strerror(errno));
        return false;
    }
    long long deadline = now() + START_MILLISECONDS + AFTER_DEATH_MILLISECONDS;
    bool up = false;
    while (!up && now() < deadline) {
        if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
            up = listens(address) || fork_and_start(launcher, absolute, log, address);
            break;
        }
        pause_briefly();
        up = listens(address);
    }
    close(lock);
    if (!up)
        snprintf(reason, TRANSPORT_REASON,
                 "the emulator service did not start: see %s, or try `runhcs emulator start`", log);
    return up;
}
