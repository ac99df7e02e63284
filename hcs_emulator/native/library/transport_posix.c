/* The transport on Linux: a Unix stream socket in the emulator's directory. */
#define _GNU_SOURCE
#include "transport_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define SEND_SECONDS 60 /* a service that reads nothing for this long counts as disconnected */

struct transport {
    int fd;
};

/* For the child of a fork, which cannot read data that another thread may have been changing. */
static _Atomic int live_fd = -1;

int connect_once(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int outcome;
    do
        outcome = connect(fd, (const struct sockaddr *)address, sizeof *address);
    while (outcome != 0 && errno == EINTR);
    if (outcome == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool peer_is_trusted(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

struct transport *transport_connect(char reason[TRANSPORT_REASON]) {
    const char *directory = getenv("HCS_EMULATOR_DIR");
    if (directory == NULL || directory[0] == '\0')
        directory = "/run/hcs-emulator";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/hcs.sock", directory);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) {
        snprintf(reason, TRANSPORT_REASON,
                 "the path of HCS_EMULATOR_DIR is too long for a socket: choose a shorter one");
        return NULL;
    }
    int fd = connect_once(&address);
    if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED)) {
        if (!start_service(directory, &address, reason))
            return NULL;
        fd = connect_once(&address);
    }
    if (fd < 0) {
        snprintf(reason, TRANSPORT_REASON, "cannot connect to %s: %s", address.sun_path, strerror(errno));
        return NULL;
    }
    struct transport *transport = malloc(sizeof *transport);
    if (transport == NULL || !peer_is_trusted(fd)) {
        snprintf(reason, TRANSPORT_REASON,
                 "%s belongs to another user: set HCS_EMULATOR_DIR to a directory of your own", address.sun_path);
        free(transport);
        close(fd);
        return NULL;
    }
    struct timeval limit = {.tv_sec = SEND_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    transport->fd = fd;
    atomic_store(&live_fd, fd);
    return transport;
}

bool transport_send(struct transport *transport, const void *data, size_t size) {
    const char *position = data;
    while (size > 0) {
        ssize_t sent = send(transport->fd, position, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        position += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* A HANDLE of 0 means none, and descriptors 0 to 2 are the program's stdio: keep received ones above. */
static int above_stdio(int fd) {
    if (fd > 2)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return moved;
}

static void take_descriptors(const struct cmsghdr *control, HANDLE handles[TRANSPORT_HANDLES], unsigned *count,
                             bool *truncated) {
    size_t number = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t index = 0; index < number; index++) {
        int fd;
        memcpy(&fd, CMSG_DATA(control) + index * sizeof fd, sizeof fd);
        fd = above_stdio(fd);
        if (fd >= 0 && *count < TRANSPORT_HANDLES)
            handles[(*count)++] = (HANDLE)(intptr_t)fd;
        else
            *truncated = true;
    }
}

size_t transport_receive(struct transport *transport, void *data, size_t size, HANDLE handles[TRANSPORT_HANDLES],
                         unsigned *count, bool *truncated) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t received;
    do
        received = recvmsg(transport->fd, &message, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    if (received <= 0)
        return 0;
    if (message.msg_flags & MSG_CTRUNC)
        *truncated = true;
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one != NULL; one = CMSG_NXTHDR(&message, one))
        if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS)
            take_descriptors(one, handles, count, truncated);
    return (size_t)received;
}

bool transport_is_alive(struct transport *transport) {
    struct pollfd state = {.fd = transport->fd, .events = POLLRDHUP};
    return poll(&state, 1, 0) == 0;
}

void transport_end(struct transport *transport) { shutdown(transport->fd, SHUT_RDWR); }

void transport_close(struct transport *transport) {
    int fd = transport->fd;
    atomic_compare_exchange_strong(&live_fd, &fd, -1);
    close(transport->fd);
    free(transport);
}

void transport_close_handle(HANDLE handle) { close((int)(intptr_t)handle); }

void transport_abandon(void) {
    int fd = atomic_exchange(&live_fd, -1);
    if (fd >= 0)
        close(fd);
}
