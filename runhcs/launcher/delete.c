/* `delete` of a container that left nothing behind: what shim/commands/delete.py does when there is nothing to free, no
   last words to show and no socket to look at. That is every delete after an orderly end. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "launcher.h"

#define MAX_LEDGER (64 << 10)
#define MAX_ENTRIES 512
#define UNKNOWN_STATUS 255

struct record {
    uint64_t status, seconds, nanos, pid;
};

static bool is_empty(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 ? errno == ENOENT || errno == ENOTDIR : S_ISREG(status.st_mode) && status.st_size == 0;
}

/* Whether every line that enters something has one that strikes it out. */
static bool is_settled(const char *path) {
    static char ledger[MAX_LEDGER];
    static bool entered[MAX_ENTRIES];
    if (is_empty(path))
        return true;
    ssize_t length = read_file(path, ledger, sizeof ledger);
    if (length <= 0 || strlen(ledger) != (size_t)length || ledger[length - 1] != '\n')
        return false;
    int live = 0;
    for (char *line = ledger, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        unsigned number;
        int after = 0;
        if (end - line < 10 || memcmp(end - 2, "\"}", 2) != 0 || line[6] < '0' || line[6] > '9' ||
            sscanf(line, "{\"n\":\"%3u\",\"%n", &number, &after) != 1 || after == 0 || number >= MAX_ENTRIES)
            return false; /* torn, or not as we write them */
        bool enters = strncmp(line + after, "enter\":\"", 8) == 0;
        if (!enters && strncmp(line + after, "strike\":\"", 9) != 0) {
            if (number != 0 || strncmp(line + after, "hcs\":\"", 6) != 0)
                return false;
        } else if (entered[number] == enters)
            return false;
        else {
            entered[number] = enters;
            live += enters ? 1 : -1;
        }
    }
    return live == 0;
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
static bool read_record(const char *bundle, struct record *record) {
    char path[MAX_PATH], text[100], again[100];
    snprintf(path, sizeof path, "%s/exit", bundle);
    ssize_t length = read_file(path, text, sizeof text);
    if (length < 0) {
        struct timespec now;
        if ((errno != ENOENT && errno != ENOTDIR) || clock_gettime(CLOCK_REALTIME, &now) != 0)
            return false;
        *record = (struct record){UNKNOWN_STATUS, (uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, 0};
        return true;
    }
    unsigned long long status, seconds, nanos, pid;
    if (sscanf(text, "%10llu %18llu %9llu %18llu\n", &status, &seconds, &nanos, &pid) != 4)
        return false;
    snprintf(again, sizeof again, "%llu %llu %llu %llu\n", status, seconds, nanos, pid);
    *record = (struct record){status, seconds, nanos, pid};
    return strcmp(text, again) == 0;
}

static size_t put_field(unsigned char *to, unsigned char tag, uint64_t value) {
    if (value == 0)
        return 0;
    *to = tag;
    return 1 + put_varint(to + 1, value);
}

/* A DeleteResponse: pid, status, the moment. */
static size_t encode(const struct record *record, unsigned char answer[80]) {
    unsigned char moment[40];
    size_t size = put_field(moment, 0x08, record->seconds);
    size += put_field(moment + size, 0x10, record->nanos);
    size_t length = put_field(answer, 0x08, record->pid);
    length += put_field(answer + length, 0x10, record->status);
    answer[length++] = 0x1a;
    answer[length++] = (unsigned char)size;
    memcpy(answer + length, moment, size);
    return length + size;
}

bool native_delete(const struct command *command) {
    char ledger[MAX_PATH], panic_log[MAX_PATH];
    unsigned char answer[80];
    struct record record;
    const char *bundle = command->bundle;
    if (bundle == NULL || *bundle != '/' || strlen(bundle) > MAX_PATH - 64 || strstr(bundle, SANDBOX_CONTROLLER) != NULL)
        return false;
    snprintf(panic_log, sizeof panic_log, "%s/panic.log", bundle);
    snprintf(ledger, sizeof ledger, "%s/ledger.jsonl", bundle);
    if (!is_empty(panic_log) || !is_settled(ledger) || !has_no_socket(command) || !read_record(bundle, &record))
        return false;
    return print(answer, encode(&record, answer));
}
