/* `delete` of a container that has no resources left, as shim/commands/delete.py does it: the ledger is released, the panic
   logs are empty. That is every delete after a regular exit. A named pipe needs no cleanup: it is removed with its process.
   Without a ledger a host process container may have left its user; Python removes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "commands.h"

#define EPOCH 116444736000000000ull /* 1970-01-01 as FILETIME, in units of 100 ns */
#define STEPS 10000000ull
#define MAX_USER_NAME 20 /* of a local user */
#define USER_NOT_FOUND 2221 /* NERR_UserNotFound */

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

typedef DWORD(WINAPI *GetUser)(const wchar_t *server, const wchar_t *name, DWORD level, BYTE **buffer);
typedef DWORD(WINAPI *FreeBuffer)(void *buffer);

/* Whether there may be an account that is named as the user of this container. */
static bool user_may_exist(const char *id) {
    wchar_t *name = to_wide(id);
    HMODULE library = LoadLibraryExW(L"netapi32.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    GetUser get_user = library == NULL ? NULL : (GetUser)(void *)GetProcAddress(library, "NetUserGetInfo");
    FreeBuffer free_buffer = library == NULL ? NULL : (FreeBuffer)(void *)GetProcAddress(library, "NetApiBufferFree");
    if (name == NULL || get_user == NULL || free_buffer == NULL)
        return true;
    if (wcslen(name) > MAX_USER_NAME)
        name[MAX_USER_NAME] = L'\0';
    BYTE *buffer = NULL;
    DWORD result = get_user(NULL, name, 0, &buffer);
    if (buffer != NULL)
        free_buffer(buffer);
    return result != USER_NOT_FOUND;
}

static bool ledger_file_is_released(const wchar_t *bundle, const char *id) {
    static char ledger[MAX_LEDGER];
    const wchar_t *path = bundle_file(bundle, L"ledger.jsonl");
    if (is_missing_or_empty(path))
        return !user_may_exist(id);
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

static bool daemon_is_running(const wchar_t *bundle) {
    char text[32];
    if (read_file(bundle_file(bundle, L"shim.pid"), text, sizeof text) <= 0)
        return false;
    HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)strtoul(text, NULL, 10));
    bool is_running = process != NULL && WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
    if (process != NULL)
        CloseHandle(process);
    return is_running;
}

/* Whether nothing is left of a shared daemon. In its bundles daemon-panic.log has the path of what it wrote in a crash. That
   file is removed when it exits; Python prints it, or removes an empty one after a crash. */
static bool crash_log_is_done(const wchar_t *bundle) {
    char text[4 * MAX_PATH_LENGTH];
    ptrdiff_t length = read_file(bundle_file(bundle, L"daemon-panic.log"), text, sizeof text);
    if (length < 0)
        return last_error_is_not_found(); /* a pod with a daemon of its own */
    wchar_t *path = to_wide(text);
    if (path == NULL || *path == L'\0' || !is_missing_or_empty(path))
        return false;
    return GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES || daemon_is_running(bundle);
}

bool native_delete(const struct command *command) {
    unsigned char response[MAX_DELETE_RESPONSE];
    struct exit_record record;
    const char *given = command->bundle;
    if (given == NULL || !is_drive_path(given) || strstr(given, SANDBOX_CONTROLLER) != NULL)
        return false;
    const wchar_t *bundle = to_wide(given);
    if (bundle == NULL || wcslen(bundle) > MAX_PATH_LENGTH - 16 || !is_missing_or_empty(bundle_file(bundle, L"panic.log")) ||
        !crash_log_is_done(bundle) || !ledger_file_is_released(bundle, command->id) || !read_exit_record(bundle, &record))
        return false;
    return write_stdout(response, encode_delete_response(&record, response));
}
