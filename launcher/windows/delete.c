/* `delete` of a container that has no resources left, as shim/commands/delete.py does it: the ledger is released, the panic
   log is empty. That is every delete after a regular exit. A named pipe needs no cleanup: it is removed with its process. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "commands.h"

#define EPOCH 116444736000000000ull /* 1970-01-01 as FILETIME, in units of 100 ns */
#define STEPS 10000000ull

/* C:\…: not a share, not a \\?\ path, not relative. */
static bool is_drive_path(const char *path) {
    char letter = path[0] | 0x20;
    return letter >= 'a' && letter <= 'z' && path[1] == ':' && (path[2] == '\\' || path[2] == '/');
}

static const wchar_t *bundle_file(const wchar_t *bundle, const wchar_t *name) {
    static wchar_t path[MAX_PATH_LENGTH + 32];
    swprintf(path, sizeof path / sizeof *path, L"%ls\\%ls", bundle, name);
    return path;
}

static bool ledger_file_is_released(const wchar_t *bundle) {
    static char ledger[MAX_LEDGER];
    const wchar_t *path = bundle_file(bundle, L"ledger.jsonl");
    if (is_missing_or_empty(path))
        return true;
    ptrdiff_t length = read_file(path, ledger, sizeof ledger);
    return length > 0 && ledger_is_released(ledger, (size_t)length);
}

/* The recorded exit, or an unknown status if there is no record. */
static bool read_exit_record(const wchar_t *bundle, struct exit_record *record) {
    char text[MAX_EXIT_RECORD];
    if (read_file(bundle_file(bundle, L"exit"), text, sizeof text) >= 0)
        return parse_exit_record(text, record);
    if (!last_error_is_not_found())
        return false;
    FILETIME now;
    GetSystemTimePreciseAsFileTime(&now);
    uint64_t steps = ((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime) - EPOCH;
    *record = (struct exit_record){UNKNOWN_STATUS, steps / STEPS, steps % STEPS * 100, 0};
    return true;
}

bool native_delete(const struct command *command) {
    unsigned char response[MAX_DELETE_RESPONSE];
    struct exit_record record;
    const char *given = command->bundle;
    if (given == NULL || !is_drive_path(given) || strstr(given, SANDBOX_CONTROLLER) != NULL)
        return false;
    const wchar_t *bundle = to_wide(given);
    if (bundle == NULL || wcslen(bundle) > MAX_PATH_LENGTH - 16 || !is_missing_or_empty(bundle_file(bundle, L"panic.log")) ||
        !ledger_file_is_released(bundle) || !read_exit_record(bundle, &record))
        return false;
    return write_stdout(response, encode_delete_response(&record, response));
}
