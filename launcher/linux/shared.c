/* `start` for a pod that joins a shared daemon, as shim/commands/shared/join.py does it. If there is none, or it takes no more
   pods, Python starts one.

   The name of the daemon's control socket is shim/platform/linux/shared.py's; the messages are the standby's, and then the
   daemon reports that it serves the pod. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

#define GREETING_MILLISECONDS 1000
#define READY_MILLISECONDS 5000
#define MAX_KEY (256 << 10)
#define MAX_VARIABLES 4096
#define DIGITS 32

extern char **environ;

struct key {
    char text[MAX_KEY];
    size_t length;
    bool is_complete;
};

/* Each part ends with a NUL, also the last. */
static void append(struct key *key, const char *text, size_t length) {
    if (length >= sizeof key->text - key->length) {
        key->is_complete = false;
        return;
    }
    memcpy(key->text + key->length, text, length);
    key->length += length;
    key->text[key->length++] = '\0';
}

static void append_text(struct key *key, const char *text) { append(key, text, strlen(text)); }

static ssize_t read_once(const char *path, char *buffer, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, buffer, size - 1);
    if (fd >= 0)
        close(fd);
    buffer[length < 0 ? 0 : length] = '\0';
    return length < 0 ? 0 : length;
}

static void append_program(struct key *key, const char *path) {
    struct stat status;
    char text[96];
    if (stat(path, &status) != 0) {
        key->is_complete = false;
        return;
    }
    append_text(key, path);
    snprintf(text, sizeof text, "%llu %lld %lld", (unsigned long long)status.st_ino, (long long)status.st_size,
        (long long)status.st_mtim.tv_sec * 1000000000ll + status.st_mtim.tv_nsec);
    append_text(key, text);
}

static void append_process_attributes(struct key *key) {
    static const char *const namespaces[] = {"cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user",
        "uts"};
    static const char *const files[] = {"limits", "cgroup", "oom_score_adj", "attr/current"};
    static const char *const lines[] = {"Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:",
        "NoNewPrivs:", "Seccomp:", "Cpus_allowed:", "Mems_allowed:"};
    struct stat root;
    char path[64], content[8192];
    if (stat("/", &root) != 0)
        key->is_complete = false;
    snprintf(content, sizeof content, "%llu %llu %d", (unsigned long long)root.st_dev, (unsigned long long)root.st_ino,
        getpriority(PRIO_PROCESS, 0));
    append_text(key, content);
    for (size_t at = 0; at < sizeof namespaces / sizeof *namespaces; at++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[at]);
        ssize_t length = readlink(path, content, sizeof content);
        if (length < 0)
            key->is_complete = false;
        else
            append(key, content, (size_t)length);
    }
    for (size_t at = 0; at < sizeof files / sizeof *files; at++) {
        snprintf(path, sizeof path, "/proc/self/%s", files[at]);
        append(key, content, (size_t)read_once(path, content, sizeof content));
    }
    read_once("/proc/self/status", content, sizeof content);
    for (char *line = content, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        for (size_t at = 0; at < sizeof lines / sizeof *lines; at++)
            if (strncmp(line, lines[at], strlen(lines[at])) == 0)
                append(key, line, (size_t)(end - line));
}

static bool is_ignored(const char *variable) {
    static const char *const names[] = {"NAMESPACE", "RUNHCS_BEGAN", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE",
        "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "SYSTEMD_EXEC_PID",
        "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"};
    const char *equals = strchr(variable, '=');
    for (size_t at = 0; equals != NULL && at < sizeof names / sizeof *names; at++)
        if (strlen(names[at]) == (size_t)(equals - variable) && strncmp(variable, names[at], strlen(names[at])) == 0)
            return true;
    return equals == NULL;
}

static int compare(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

static void append_environment(struct key *key) {
    static char *variables[MAX_VARIABLES];
    size_t count = 0;
    for (char **variable = environ; *variable != NULL; variable++) {
        if (is_ignored(*variable))
            continue;
        if (count == MAX_VARIABLES) {
            key->is_complete = false;
            return;
        }
        variables[count++] = *variable;
    }
    qsort(variables, count, sizeof *variables, compare);
    for (size_t at = 0; at < count; at++)
        append_text(key, variables[at]);
}

bool shared_address(const struct settings *settings, const struct command *command, enum scope scope,
    const struct sockaddr_un *pod, struct sockaddr_un *address) {
    static struct key key;
    key.length = 0;
    key.is_complete = true;
    append_text(&key, "runhcs-shared-1");
    append_text(&key, scope == NODE_SCOPE ? "node" : "namespace");
    append_text(&key, command->address);
    append_text(&key, scope == NODE_SCOPE ? "" : command->namespace);
    append_program(&key, settings->file);
    append_process_attributes(&key);
    append_environment(&key);
    char hex[65];
    sha256_hex(key.text, key.length, hex);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int directory = (int)(strrchr(pod->sun_path, '/') - pod->sun_path);
    int length = snprintf(address->sun_path, sizeof address->sun_path, "%.*s/shared-%.*s", directory, pod->sun_path, DIGITS, hex);
    return key.is_complete && length > 0 && (size_t)length < sizeof address->sun_path;
}

/* The next message; its length, 0 if there is none in time. */
static ssize_t receive(int connection, char *message, size_t size, int milliseconds) {
    struct pollfd waiting = {.fd = connection, .events = POLLIN};
    int ready;
    do
        ready = poll(&waiting, 1, milliseconds);
    while (ready < 0 && errno == EINTR);
    ssize_t length = ready == 1 ? recv(connection, message, size - 1, MSG_DONTWAIT) : 0;
    message[length < 0 ? 0 : length] = '\0';
    return length < 0 ? 0 : length;
}

pid_t shared_join(int connection, const struct daemon *daemon, int argc, char **argv) {
    char message[32];
    int pid = 0;
    bool is_ready = receive(connection, message, sizeof message, GREETING_MILLISECONDS) > 0 &&
                    sscanf(message, "A%d", &pid) == 1 && pid > 1 && standby_hand_over(connection, daemon, argc, argv) &&
                    receive(connection, message, sizeof message, READY_MILLISECONDS) == 1 && *message == 'R';
    return is_ready ? pid : 0;
}
