/* `delete` of a container that left nothing behind: what shim/commands/delete.py does when there is nothing to free, no
   last words to show and no socket to look at. That is every delete after an orderly end. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "launcher.h"

static bool is_empty(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 ? errno == ENOENT || errno == ENOTDIR : S_ISREG(status.st_mode) && status.st_size == 0;
}

static bool holds_nothing(const char *path) {
    static char ledger[MAX_LEDGER];
    if (is_empty(path))
        return true;
    ssize_t length = read_file(path, ledger, sizeof ledger);
    return length > 0 && is_settled(ledger, (size_t)length);
}

/* The daemon's socket is gone. A pod member's address is its sandbox's, and not ours to look at. */
static bool has_no_socket(const struct command *command) {
    struct sockaddr_un own;
    char path[MAX_PATH], written[MAX_PATH];
    if (!socket_path(command, command->id, &own))
        return false;
    const char *socket = own.sun_path;
    snprintf(path, sizeof path, "%s/address", command->bundle);
    ssize_t length = read_file(path, written, sizeof written);
    if (length < 0 && errno != ENOENT && errno != ENOTDIR)
        return false;
    if (length > 0) {
        const char *name = strrchr(written, '/');
        if (strlen(written) != (size_t)length || !is_printable(written, (size_t)length) || name == NULL ||
            strncmp(written, SCHEME "/", strlen(SCHEME) + 1) != 0)
            return false;
        if (strcmp(name, strrchr(own.sun_path, '/')) == 0)
            socket = written + strlen(SCHEME); /* its directory may have been another when it was started */
    }
    struct stat status;
    return lstat(socket, &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* How it ended: as recorded, or unknown if nothing was. */
static bool read_end(const char *bundle, struct record *record) {
    char path[MAX_PATH], text[MAX_RECORD];
    snprintf(path, sizeof path, "%s/exit", bundle);
    if (read_file(path, text, sizeof text) >= 0)
        return read_record(text, record);
    struct timespec now;
    if ((errno != ENOENT && errno != ENOTDIR) || clock_gettime(CLOCK_REALTIME, &now) != 0)
        return false;
    *record = (struct record){UNKNOWN_STATUS, (uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, 0};
    return true;
}

bool native_delete(const struct command *command) {
    char ledger[MAX_PATH], panic_log[MAX_PATH];
    unsigned char answer[MAX_RESPONSE];
    struct record record;
    const char *bundle = command->bundle;
    if (bundle == NULL || *bundle != '/' || strlen(bundle) > MAX_PATH - 64 || strstr(bundle, SANDBOX_CONTROLLER) != NULL)
        return false;
    snprintf(panic_log, sizeof panic_log, "%s/panic.log", bundle);
    snprintf(ledger, sizeof ledger, "%s/ledger.jsonl", bundle);
    if (!is_empty(panic_log) || !holds_nothing(ledger) || !has_no_socket(command) || !read_end(bundle, &record))
        return false;
    return print(answer, encode_response(&record, answer));
}
