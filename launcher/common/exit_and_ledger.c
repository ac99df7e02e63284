/* What a container left in its bundle: the ledger of what it held and the record of its end, as shim/container/ledger.py
   and shim/task/exit_record.py write them, and what `delete` says of it. */
#include <stdio.h>
#include <string.h>

#include "common.h"

#define MAX_ENTRIES 512

bool is_settled(const char *ledger, size_t length) {
    static bool entered[MAX_ENTRIES];
    if (length == 0 || strlen(ledger) != length || ledger[length - 1] != '\n')
        return length == 0;
    int live = 0;
    for (const char *line = ledger, *end; *line != '\0'; line = end + 1) {
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

bool read_record(const char *text, struct record *record) {
    char again[MAX_RECORD];
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

/* Pid, status, the moment. */
size_t encode_response(const struct record *record, unsigned char answer[MAX_RESPONSE]) {
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
