/* Hashes of what two processes must have in common if one does the work of the other: a standby for a `start`, or a shared
   daemon for several pods. */
#include <string.h>
#include <wchar.h>

#include "commands.h"

#define MODULES L"\\containerd-shim-runhcs\\lib\\modules.bin"
#define FNV_BASIS 14695981039346656037ull
#define FNV_PRIME 1099511628211ull

/* In ntdll, which every process has loaded; advapi32 would be another DLL. */
LONG NTAPI NtQueryInformationToken(HANDLE token, TOKEN_INFORMATION_CLASS kind, void *to, ULONG room, ULONG *size);

uint64_t hash_bytes(uint64_t hash, const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t at = 0; at < length; at++)
        hash = (hash ^ bytes[at]) * FNV_PRIME;
    return (hash ^ 0xff) * FNV_PRIME; /* "ab" "c" is not "a" "bc" */
}

static bool hash_file(uint64_t *hash, const wchar_t *path) {
    WIN32_FILE_ATTRIBUTE_DATA found;
    if (!GetFileAttributesExW(path, GetFileExInfoStandard, &found))
        return false;
    *hash = hash_bytes(*hash, path, wcslen(path) * sizeof *path);
    *hash = hash_bytes(*hash, &found.ftLastWriteTime, sizeof found.ftLastWriteTime);
    *hash = hash_bytes(*hash, &found.nFileSizeLow, sizeof found.nFileSizeLow);
    return true;
}

/* Logon session, terminal session, job, priority class. */
static bool hash_process_attributes(uint64_t *hash) {
    HANDLE token = (HANDLE)(LONG_PTR)-4; /* GetCurrentProcessToken() */
    TOKEN_STATISTICS statistics;
    ULONG session = 0, size;
    BOOL is_in_job = FALSE;
    if (NtQueryInformationToken(token, TokenStatistics, &statistics, sizeof statistics, &size) != 0 ||
        NtQueryInformationToken(token, TokenSessionId, &session, sizeof session, &size) != 0 ||
        !IsProcessInJob(GetCurrentProcess(), NULL, &is_in_job))
        return false;
    DWORD priority = GetPriorityClass(GetCurrentProcess());
    *hash = hash_bytes(*hash, &statistics.AuthenticationId, sizeof statistics.AuthenticationId);
    *hash = hash_bytes(*hash, &session, sizeof session);
    *hash = hash_bytes(*hash, &is_in_job, sizeof is_in_job);
    *hash = hash_bytes(*hash, &priority, sizeof priority);
    return true;
}

bool hash_process(uint64_t *hash) {
    wchar_t modules[MAX_PATH_LENGTH + 64];
    wcscpy(modules, program_path);
    wchar_t *slash = wcsrchr(modules, L'\\');
    if (slash == NULL)
        return false;
    wcscpy(slash, MODULES);
    *hash = FNV_BASIS;
    return hash_file(hash, program_path) && hash_file(hash, modules) && hash_process_attributes(hash);
}

/* Those that differ between the calls of one containerd, and that a daemon does not read. */
static bool is_ignored(const wchar_t *variable) {
    return *variable == L'=' /* the current directory of a drive */ || _wcsnicmp(variable, L"NAMESPACE=", 10) == 0;
}

bool hash_environment(uint64_t *hash) {
    wchar_t *variables = GetEnvironmentStringsW();
    uint64_t sum = 0; /* the order does not matter */
    if (variables == NULL)
        return false;
    for (const wchar_t *one = variables; *one != L'\0'; one += wcslen(one) + 1)
        if (!is_ignored(one))
            sum += hash_bytes(FNV_BASIS, one, wcslen(one) * sizeof *one);
    FreeEnvironmentStringsW(variables);
    *hash = hash_bytes(*hash, &sum, sizeof sum);
    return true;
}
