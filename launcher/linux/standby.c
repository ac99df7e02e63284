/* The client of the standby: its spare becomes the daemon, instead of a new process.

   A standby must not cause a failed or wrong start. The spare reports that it is ready before it receives anything; until
   then a daemon can still be spawned. It receives the listening socket, the panic log, arguments and environment, but no
   descriptor of containerd's, so a spare that hangs cannot keep a pipe open that containerd reads. If this program exits
   before it reports success, the connection closes and the daemon exits (shim/commands/adopted.py). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "launcher.h"

#define PROTOCOL "runhcs-standby-3"
/* The timeout for a spare to respond. Waiting must not take longer than a cold start. */
#define WAKE_MILLISECONDS 200
/* A standby that has touched its socket in this time is busy, not hung. */
#define BUSY_SECONDS 3
#define MAX_REQUEST (192 << 10)
/* Space for the command line of a daemon, which replaces the standby's in /proc/PID/cmdline. */
#define PADDING 4000

extern char **environ;

/* Only this user may access the directory. */
static bool directory_is_private(const struct sockaddr_un *address) {
    char directory[sizeof address->sun_path];
    strcpy(directory, address->sun_path);
    *strrchr(directory, '/') = '\0';
    struct stat status;
    return lstat(directory, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_mode & 077) == 0;
}

static int connect_to(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct timeval timeout = {.tv_usec = WAKE_MILLISECONDS * 1000};
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
                       connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 ||
                       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid())) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int standby_connect(const struct sockaddr_un *address) { return directory_is_private(address) ? connect_to(address) : -1; }

/* Removes the socket of a standby that hangs, so that a cold start can start another; not of one that is busy. */
static void remove_if_hung(const struct sockaddr_un *address) {
    struct stat socket;
    struct timespec now;
    if (stat(address->sun_path, &socket) == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
        now.tv_sec - socket.st_mtim.tv_sec > BUSY_SECONDS)
        unlink(address->sun_path);
}

pid_t standby_wait_ready(int connection, const struct sockaddr_un *address) {
    struct pollfd waiting = {.fd = connection, .events = POLLIN};
    char message[32] = "";
    int pid = 0, ready;
    do
        ready = poll(&waiting, 1, WAKE_MILLISECONDS);
    while (ready < 0 && errno == EINTR);
    if (ready != 1)
        remove_if_hung(address);
    else if (recv(connection, message, sizeof message - 1, MSG_DONTWAIT) > 0 && sscanf(message, "A%d", &pid) == 1 && pid > 1)
        return pid;
    return 0;
}

static bool append(char *request, size_t *length, const char *text) {
    size_t size = strlen(text) + 1;
    if (*length + size > MAX_REQUEST)
        return false;
    memcpy(request + *length, text, size);
    *length += size;
    return true;
}

/* Sends one message: the protocol's name, whether it is a sandbox, the bundle, the number of arguments, the arguments,
   the environment; and the descriptors. */
bool standby_hand_over(int connection, const struct daemon *daemon, int argc, char **argv) {
    static char request[MAX_REQUEST];
    size_t length = 0;
    char number[16];
    snprintf(number, sizeof number, "%d", argc - 1);
    bool fits = append(request, &length, PROTOCOL) && append(request, &length, daemon->is_sandbox ? "1" : "0") &&
                append(request, &length, daemon->bundle) && append(request, &length, number);
    for (int at = 1; fits && at < argc; at++)
        fits = append(request, &length, argv[at]);
    for (char **variable = environ; fits && *variable != NULL; variable++)
        fits = append(request, &length, *variable);
    if (!fits)
        return false;
    int descriptors[] = {daemon->listener, daemon->panic_log, daemon->options};
    size_t size = sizeof(int) * (daemon->options < 0 ? 2 : 3);
    union {
        char bytes[CMSG_SPACE(sizeof descriptors)];
        struct cmsghdr aligned;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = request, .iov_len = length};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), descriptors, size);
    return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length;
}

/* Whether any standby listens in the directory: one per machine is enough. */
static bool standby_exists(const struct sockaddr_un *address) {
    char directory[sizeof address->sun_path];
    strcpy(directory, address->sun_path);
    *strrchr(directory, '/') = '\0';
    DIR *listing = opendir(directory);
    bool found = listing == NULL; /* then a standby could not be used either */
    for (struct dirent *entry; !found && (entry = readdir(listing)) != NULL;) {
        struct sockaddr_un other = {.sun_family = AF_UNIX};
        if (strncmp(entry->d_name, "standby-", 8) != 0)
            continue;
        int length = snprintf(other.sun_path, sizeof other.sun_path, "%s/%s", directory, entry->d_name);
        int fd = length < (int)sizeof other.sun_path ? connect_to(&other) : -1;
        found = fd >= 0 || (length < (int)sizeof other.sun_path && errno == EAGAIN); /* a full backlog is a busy standby */
        if (fd >= 0)
            close(fd);
    }
    if (listing != NULL)
        closedir(listing);
    return found;
}

void standby_spawn(const struct settings *settings, const struct sockaddr_un *address) {
    static char padding[PADDING + 1];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || !directory_is_private(address) || standby_exists(address))
        return;
    memset(padding, ' ', PADDING);
    char *own[] = {NULL, "standby", (char *)address->sun_path, padding, NULL}, *words[MAX_ARGUMENTS + 6];
    build_python_arguments(settings, NULL, 4, own, words);
    if (vfork() == 0) {
        setsid();
        for (int fd = 0; fd < 3; fd++)
            dup2(null, fd);
        execv(settings->python, words);
        _exit(1);
    }
}
