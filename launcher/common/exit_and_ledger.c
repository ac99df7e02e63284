/* The ledger and the exit record in the bundle, as shim/container/ledger.py and shim/task/exit_record.py write them, and
   the response of `delete`. */
#include <stdio.h>
#include <string.h>

#include "common.h"

#define MAX_ENTRIES 512

bool ledger_is_released(const char *ledger, size_t length) {
    bool entered[MAX_ENTRIES] = {false};
    if (length == 0 || strlen(ledger) != length || ledger[length - 1] != '\n')
        return length == 0;
    int unreleased = 0;
    for (const char *line = ledger, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        unsigned number;
        int after = 0;
        if (end - line < 10 || memcmp(end - 2, "\"}", 2) != 0 || line[6] < '0' || line[6] > '9' ||
            sscanf(line, "{\"n\":\"%3u\",\"%n", &number, &after) != 1 || after == 0 || number >= MAX_ENTRIES)
            return false; /* torn, or of another form */
        bool enters = strncmp(line + after, "enter\":\"", 8) == 0;
        if (!enters && strncmp(line + after, "strike\":\"", 9) != 0) {
            if (number != 0 || strncmp(line + after, "hcs\":\"", 6) != 0)
                return false;
        } else if (entered[number] == enters)
            return false;
        else {
            entered[number] = enters;
            unreleased += enters ? 1 : -1;
        }
    }
    return unreleased == 0;
}

bool parse_exit_record(const char *text, struct exit_record *record) {
    char formatted[MAX_EXIT_RECORD];
    unsigned long long status, seconds, nanos, pid;
    if (sscanf(text, "%10llu %18llu %9llu %18llu\n", &status, &seconds, &nanos, &pid) != 4)
        return false;
    snprintf(formatted, sizeof formatted, "%llu %llu %llu %llu\n", status, seconds, nanos, pid);
    *record = (struct exit_record){status, seconds, nanos, pid};
    return strcmp(text, formatted) == 0;
}

static size_t encode_varint_field(unsigned char *to, unsigned char tag, uint64_t value) {
    if (value == 0)
        return 0;
    *to = tag;
    return 1 + encode_varint(to + 1, value);
}

/* pid, exit_status and exited_at of containerd.task.v2.DeleteResponse. */
size_t encode_delete_response(const struct exit_record *record, unsigned char response[MAX_DELETE_RESPONSE]) {
    unsigned char timestamp[40];
    size_t size = encode_varint_field(timestamp, 0x08, record->seconds);
    size += encode_varint_field(timestamp + size, 0x10, record->nanos);
    size_t length = encode_varint_field(response, 0x08, record->pid);
    length += encode_varint_field(response + length, 0x10, record->status);
    response[length++] = 0x1a;
    response[length++] = (unsigned char)size;
    memcpy(response + length, timestamp, size);
    return length + size;
}
