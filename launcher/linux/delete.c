/* `delete` of a container that has no resources left, as shim/commands/delete.py does it: the ledger is released, the panic
   log is empty, the socket is removed. That is every delete after a regular exit. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "launcher.h"

static bool is_missing_or_empty(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 ? errno == ENOENT || errno == ENOTDIR : S_ISREG(status.st_mode) && status.st_size == 0;
}

static bool ledger_file_is_released(const char *path) {
    static char ledger[MAX_LEDGER];
    if (is_missing_or_empty(path))
        return true;
    ssize_t length = read_file(path, ledger, sizeof ledger);
    return length > 0 && ledger_is_released(ledger, (size_t)length);
}

/* Whether the daemon's socket is removed. The socket of a pod member belongs to its sandbox and may exist. */
static bool socket_is_removed(const struct command *command) {
    struct sockaddr_un own;
    char path[MAX_PATH], written[MAX_PATH];
    if (!socket_path(command, command->id, "", &own))
        return false;
    const char *socket = own.sun_path;
    snprintf(path, sizeof path, "%s/address", command->bundle);
    ssize_t length = read_file(path, written, sizeof written);
    if (length < 0 && errno != ENOENT && errno != ENOTDIR)
        return false;
    if (length > 0) {
        const char *name = strrchr(written, '/');
        if (strlen(written) != (size_t)length || !is_printable_ascii(written, (size_t)length) || name == NULL ||
            strncmp(written, SCHEME "/", strlen(SCHEME) + 1) != 0)
            return false;
        if (strcmp(name, strrchr(own.sun_path, '/')) == 0)
            socket = written + strlen(SCHEME); /* RUNHCS_SOCKET_DIR may have been different at `start` */
    }
    struct stat status;
    return lstat(socket, &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* The recorded exit, or an unknown status if there is no record. */
static bool read_exit_record(const char *bundle, struct exit_record *record) {
    char path[MAX_PATH], text[MAX_EXIT_RECORD];
    snprintf(path, sizeof path, "%s/exit", bundle);
    if (read_file(path, text, sizeof text) >= 0)
        return parse_exit_record(text, record);
    struct timespec now;
    if ((errno != ENOENT && errno != ENOTDIR) || clock_gettime(CLOCK_REALTIME, &now) != 0)
        return false;
    *record = (struct exit_record){UNKNOWN_STATUS, (uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, 0};
    return true;
}

/* If a shared daemon was killed, Python removes its control socket. */
static bool daemon_runs_if_shared(const char *bundle, const char *daemon_panic_log) {
    struct stat status;
    char path[MAX_PATH], text[32];
    if (lstat(daemon_panic_log, &status) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    snprintf(path, sizeof path, "%s/shim.pid", bundle);
    ssize_t length = read_file(path, text, sizeof text);
    int pid = length > 0 ? atoi(text) : 0;
    return pid > 1 && kill(pid, 0) == 0;
}

bool native_delete(const struct command *command) {
    char ledger[MAX_PATH], panic_log[MAX_PATH], daemon_panic_log[MAX_PATH];
    unsigned char response[MAX_DELETE_RESPONSE];
    struct exit_record record;
    const char *bundle = command->bundle;
    if (bundle == NULL || *bundle != '/' || strlen(bundle) > MAX_PATH - 64 || strstr(bundle, SANDBOX_CONTROLLER) != NULL)
        return false;
    snprintf(panic_log, sizeof panic_log, "%s/panic.log", bundle);
    snprintf(daemon_panic_log, sizeof daemon_panic_log, "%s/daemon-panic.log", bundle);
    snprintf(ledger, sizeof ledger, "%s/ledger.jsonl", bundle);
    if (!is_missing_or_empty(panic_log) || !is_missing_or_empty(daemon_panic_log) ||
        !daemon_runs_if_shared(bundle, daemon_panic_log) || !ledger_file_is_released(ledger) || !socket_is_removed(command) ||
        !read_exit_record(bundle, &record))
        return false;
    return write_stdout(response, encode_delete_response(&record, response));
}
