/* The silo program: pid 1 of a compute system's namespaces.
 *
 * usage: silo HOSTNAME ROOT, with the service's socket as descriptor 3 and the stand-in commands as descriptor 4.
 *        silo --job binds|plain is the keeper of a host process container's job (job.c); its socket leads to a shim.
 *
 * The launcher creates the namespaces, leaves their pid 1 as a child of the *service* (CLONE_PARENT), reports its
 * pid and exits. Pid 1 prepares the root, then serves requests, one at a time, and reaps. Its only state is the list
 * of processes that it has started. It exits at end of file on the socket, and the kernel then kills all processes
 * inside.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "silo.h"

enum { MOST_DESCRIPTORS = 4 };

struct child {
    pid_t pid;
    uint32_t serial;
};

static struct child *children;
static size_t child_count, child_capacity;
static int thaw_file = -1;
static bool private_root, on_host;
static char packet[LARGEST_REQUEST + 1] __attribute__((aligned(8)));

static void send_reply(const struct reply *reply, pid_t about, int descriptor)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    struct iovec content = {.iov_base = (void *)reply, .iov_len = sizeof *reply};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1};
    size_t used = 0;

    memset(&control, 0, sizeof control);
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (about > 0) { /* the kernel translates the pid for the service's namespace */
        struct ucred credentials = {.pid = about, .uid = 0, .gid = 0};
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_CREDENTIALS;
        header->cmsg_len = CMSG_LEN(sizeof credentials);
        memcpy(CMSG_DATA(header), &credentials, sizeof credentials);
        used += CMSG_SPACE(sizeof credentials);
        header = CMSG_NXTHDR(&message, header);
    }
    if (descriptor >= 0) {
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
        used += CMSG_SPACE(sizeof descriptor);
    }
    message.msg_controllen = used;
    if (used == 0)
        message.msg_control = NULL;
    while (sendmsg(SILO_SOCKET, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

static void send_failure(enum reply_kind kind, uint32_t serial, struct failure failure)
{
    struct reply reply = {.kind = kind, .serial = serial, .error = failure.error, .stage = failure.stage};
    send_reply(&reply, 0, -1);
}

/* Linux keeps eight bits of an exit code. A stand-in command with a larger code stores it in its process name, which
 * a zombie still has. */
static uint32_t exit_code_of(pid_t pid, int code)
{
    char path[40], name[32] = "";
    unsigned full;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return (uint32_t)code;
    ssize_t length = read(file, name, sizeof name - 1);
    close(file);
    if (length > 0 && sscanf(name, "exit:%x", &full) == 1 && (full & 0xff) == (unsigned)code)
        return full;
    return (uint32_t)code;
}

static void reap(void)
{
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        size_t i = 0;
        while (i < child_count && children[i].pid != info.si_pid)
            i++;
        struct reply reply = {.kind = EXITED};
        if (i < child_count && info.si_code == CLD_EXITED)
            reply.exit_code = exit_code_of(info.si_pid, info.si_status);
        int status = 0;
        struct rusage usage = {.ru_maxrss = 0};
        wait4(info.si_pid, &status, 0, &usage);
        if (i < child_count) {
            reply.serial = children[i].serial;
            reply.number = (uint32_t)status;
            reply.peak_memory = (uint32_t)usage.ru_maxrss;
            children[i] = children[--child_count];
            send_reply(&reply, 0, -1);
        }
    }
}

static bool remember_child(pid_t pid, uint32_t serial)
{
    if (child_count == child_capacity) {
        size_t capacity = child_capacity ? child_capacity * 2 : 8;
        struct child *larger = realloc(children, capacity * sizeof *larger);
        if (larger == NULL)
            return false;
        children = larger;
        child_capacity = capacity;
    }
    children[child_count++] = (struct child){pid, serial};
    return true;
}

/* A NULL-terminated list of `count` strings from *at on, which point into the packet. */
static char **take_strings(char **at, char *end, uint32_t count)
{
    char **list = calloc((size_t)count + 1, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        if (*at >= end) {
            free(list);
            return NULL;
        }
        list[i] = *at;
        *at += strlen(*at) + 1;
    }
    return list;
}

static void serve_spawn(const struct request *request, char *at, char *end, const int *descriptors, int count)
{
    struct spawn spawn = {.request = request, .streams = {-1, -1, -1}};
    spawn.private_root = private_root;
    spawn.on_host = on_host;
    struct failure failure = {AT_FORK, EINVAL};
    pid_t pid = 0;
    int master = -1, next = 0;

    for (int i = 0; i < 3; i++)
        if ((request->flags & (1u << i)) && next < count)
            spawn.streams[i] = descriptors[next++];
    char **texts = take_strings(&at, end, 3);
    if (request->programs < 64 && request->arguments < 65536 && request->variables < 65536) {
        spawn.programs = take_strings(&at, end, request->programs);
        spawn.arguments = take_strings(&at, end, request->arguments);
        spawn.variables = take_strings(&at, end, request->variables);
    }
    if (texts && spawn.programs && spawn.arguments && spawn.variables) {
        spawn.directory = texts[0];
        spawn.user = texts[1];
        spawn.tail = texts[2];
        failure = spawn_process(&spawn, &pid, &master);
    }
    if (failure.stage == AT_NOTHING && !remember_child(pid, request->serial)) {
        kill(pid, SIGKILL);
        failure = (struct failure){AT_FORK, ENOMEM};
    }
    struct reply reply = {.kind = DONE, .serial = request->serial, .error = failure.error, .stage = failure.stage};
    bool started = failure.stage == AT_NOTHING;
    send_reply(&reply, started ? pid : 0, started ? master : -1);
    if (master >= 0)
        close(master);
    free(texts);
    free(spawn.programs);
    free(spawn.arguments);
    free(spawn.variables);
}

static void serve_signal(const struct request *request)
{
    for (size_t i = 0; i < child_count; i++)
        if (children[i].serial == request->serial) {
            /* A console event goes to all processes of the console; a kill only to the process itself. */
            bool one = request->number == SIGKILL || kill(-children[i].pid, (int)request->number) < 0;
            if (one)
                kill(children[i].pid, (int)request->number);
            return;
        }
}

static void serve(struct request *request, char *at, char *end, int *descriptors, int count)
{
    struct failure failure = {AT_NOTHING, 0};

    switch (request->kind) {
    case SPAWN:
        serve_spawn(request, at, end, descriptors, count);
        return;
    case SIGNAL:
        serve_signal(request);
        return;
    case THAW:
        if (count == 1) {
            if (thaw_file >= 0)
                close(thaw_file);
            thaw_file = fcntl(descriptors[0], F_DUPFD_CLOEXEC, 5);
        }
        return;
    case BIND:
        failure.error = count == 1 && at < end ? attach_bind(descriptors[0], at, request->flags & READ_ONLY) : EINVAL;
        break;
    case UNBIND:
        failure.error = at < end ? detach_bind(at) : EINVAL;
        break;
    default:
        failure.error = ENOSYS;
    }
    if (failure.error)
        failure.stage = AT_BIND;
    send_failure(DONE, request->serial, failure);
}

/* Reads and serves one request; false when the service has closed the socket. */
static bool serve_next(void)
{
    union {
        char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec content = {.iov_base = packet, .iov_len = LARGEST_REQUEST};
    struct msghdr message = {
        .msg_iov = &content, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    int descriptors[MOST_DESCRIPTORS], count = 0;

    ssize_t length = recvmsg(SILO_SOCKET, &message, MSG_CMSG_CLOEXEC);
    if (length < 0)
        return errno == EINTR || errno == EAGAIN;
    if (length == 0)
        return false;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
            count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(descriptors, CMSG_DATA(header), (size_t)count * sizeof(int));
        }
    packet[length] = '\0';
    if ((size_t)length >= sizeof(struct request))
        serve((struct request *)packet, packet + sizeof(struct request), packet + length, descriptors, count);
    for (int i = 0; i < count; i++)
        close(descriptors[i]);
    return true;
}

/* Sends READY, or the failure; then serves until the other side closes the socket. */
static int serve_all(struct failure failure, int ended)
{
    send_failure(READY, 0, failure);
    if (failure.stage != AT_NOTHING)
        return 1;
    remember_oom_score();

    struct pollfd waits[] = {{.fd = SILO_SOCKET, .events = POLLIN}, {.fd = ended, .events = POLLIN}};
    for (;;) {
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (waits[1].revents & POLLIN) {
            struct signalfd_siginfo ignored;
            while (read(ended, &ignored, sizeof ignored) > 0)
                ;
            reap();
        }
        if (waits[0].revents && !serve_next())
            return 0;
    }
}

static int prepare(const char *name)
{
    sigset_t reaped;

    prctl(PR_SET_NAME, name);
    sigemptyset(&reaped);
    sigaddset(&reaped, SIGCHLD);
    sigprocmask(SIG_BLOCK, &reaped, NULL);
    fcntl(SILO_SOCKET, F_SETFD, FD_CLOEXEC);
    fcntl(SILO_COMMANDS, F_SETFD, FD_CLOEXEC);
    return signalfd(-1, &reaped, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run_init(const char *hostname, const char *root)
{
    struct failure failure = {AT_NOTHING, 0};
    int ended = prepare("silo");

    private_root = *root == '\0';
    if (sethostname(hostname, strnlen(hostname, 64)) < 0)
        failure = (struct failure){AT_HOSTNAME, errno};
    else
        failure = prepare_root(private_root ? NULL : root);
    if (serve_all(failure, ended) != 0)
        return 1;
    if (thaw_file >= 0 && write(thaw_file, "THAWED", 6) < 0)
        return 1;
    return 0;
}

static int run_job(bool binds)
{
    int ended = prepare("job");

    private_root = on_host = true; /* everything of the host, its Wine included, is accessible */
    int code = serve_all(prepare_job(binds), ended);
    kill_job();
    return code;
}

int main(int argc, char **argv)
{
    struct clone_args arguments = {
        .flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_PARENT,
    };

    if (argc == 3 && strcmp(argv[1], "--job") == 0)
        return run_job(strcmp(argv[2], "binds") == 0);
    if (argc != 3) {
        fprintf(stderr, "usage: silo HOSTNAME ROOT (started by the emulator's service)\n");
        return 2;
    }
    /* With CLONE_PARENT the exit signal cannot be set: it is inherited. */
    long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0)
        return run_init(argv[1], argv[2]);
    struct reply hello = {.kind = HELLO, .number = pid > 0 ? (uint32_t)pid : 0};
    if (pid < 0) {
        hello.error = errno;
        hello.stage = AT_NAMESPACES;
    }
    send_reply(&hello, 0, -1);
    return pid < 0;
}
