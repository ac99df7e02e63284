/* `delete` of a container that left nothing behind: what shim/commands/delete.py does when there is nothing to free and no
   last words to show. That is every delete after an orderly end. A pipe needs no removal: it goes with its process. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "commands.h"

#define EPOCH 116444736000000000ull /* 1970, in the system's steps of 100 ns */
#define STEPS 10000000ull

/* C:\…: not a share, not a verbatim path, not relative to anything. */
static bool is_on_drive(const char *path) {
    char letter = path[0] | 0x20;
    return letter >= 'a' && letter <= 'z' && path[1] == ':' && (path[2] == '\\' || path[2] == '/');
}

static const wchar_t *file_in(const wchar_t *bundle, const wchar_t *name) {
    static wchar_t path[LONGEST + 32];
    swprintf(path, sizeof path / sizeof *path, L"%ls\\%ls", bundle, name);
    return path;
}

static bool holds_nothing(const wchar_t *bundle) {
    static char ledger[MAX_LEDGER];
    const wchar_t *path = file_in(bundle, L"ledger.jsonl");
    if (is_empty(path))
        return true;
    ptrdiff_t length = read_file(path, ledger, sizeof ledger);
    return length > 0 && is_settled(ledger, (size_t)length);
}

/* How it ended: as recorded, or unknown if nothing was. */
static bool read_end(const wchar_t *bundle, struct record *record) {
    char text[MAX_RECORD];
    if (read_file(file_in(bundle, L"exit"), text, sizeof text) >= 0)
        return read_record(text, record);
    if (!was_absent())
        return false;
    FILETIME now;
    GetSystemTimePreciseAsFileTime(&now);
    uint64_t steps = ((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime) - EPOCH;
    *record = (struct record){UNKNOWN_STATUS, steps / STEPS, steps % STEPS * 100, 0};
    return true;
}

bool native_delete(const struct command *command) {
    unsigned char answer[MAX_RESPONSE];
    struct record record;
    const char *given = command->bundle;
    if (given == NULL || !is_on_drive(given) || strstr(given, SANDBOX_CONTROLLER) != NULL)
        return false;
    const wchar_t *bundle = to_wide(given);
    if (bundle == NULL || wcslen(bundle) > LONGEST - 16 || !is_empty(file_in(bundle, L"panic.log")) ||
        !holds_nothing(bundle) || !read_end(bundle, &record))
        return false;
    return print(answer, encode_response(&record, answer));
}
