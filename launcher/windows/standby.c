/* The standby's client: a warm spare (shim/commands/standby/windows.py) becomes the daemon that a cold start would have made.

   A standby is never a reason for a failed or wrong start. The spare says that it is awake before it gets anything. Then it is
   given the pipe and the log for its last words, and told the rest: options, arguments, environment; nothing of containerd's.
   It says when it has taken all of it, and before that it can be ended and a daemon be made otherwise: one that hangs is ended.
   This program's end before the word that all is done closes the line, and ends the daemon.

   Its pipe's name is a hash of the programs' files and of what a process cannot take over from another, so that only a spare
   of this very version, for callers like this one, is ever found. Only administrators can create such a name. */
#include <stdio.h>
#include <string.h>

#include "commands.h"

#define PROTOCOL "runhcs-standby-w1"
#define MODULES L"\\containerd-shim-runhcs\\lib\\modules.bin"
/* How long a spare may take to wake up; a busy machine is no reason to wait longer than a cold start would take. */
#define WAKE_MILLISECONDS 500
#define CLAIM_MILLISECONDS 2000
#define MAX_CLAIM (192 << 10)

/* As in ntdll, where advapi32, another library to load, gets it from. */
LONG NTAPI NtQueryInformationToken(HANDLE token, TOKEN_INFORMATION_CLASS kind, void *to, ULONG room, ULONG *size);

static uint64_t alike; /* FNV-1a */

static void mix(const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t at = 0; at < length; at++)
        alike = (alike ^ bytes[at]) * 1099511628211ull;
    alike = (alike ^ 0xff) * 1099511628211ull; /* "ab" "c" is not "a" "bc" */
}

static bool mix_file(const wchar_t *path) {
    WIN32_FILE_ATTRIBUTE_DATA found;
    if (!GetFileAttributesExW(path, GetFileExInfoStandard, &found))
        return false;
    mix(path, wcslen(path) * sizeof *path);
    mix(&found.ftLastWriteTime, sizeof found.ftLastWriteTime);
    mix(&found.nFileSizeLow, sizeof found.nFileSizeLow);
    return true;
}

/* In whose name, in which session, in a job or not, how eagerly, with which libraries. */
static bool mix_surroundings(void) {
    wchar_t libraries[LONGEST] = L"";
    HANDLE token = (HANDLE)(LONG_PTR)-4; /* this process's */
    TOKEN_STATISTICS statistics;
    ULONG session = 0, size;
    BOOL is_in_job = FALSE;
    if (NtQueryInformationToken(token, TokenStatistics, &statistics, sizeof statistics, &size) != 0 ||
        NtQueryInformationToken(token, TokenSessionId, &session, sizeof session, &size) != 0 ||
        !IsProcessInJob(GetCurrentProcess(), NULL, &is_in_job))
        return false;
    DWORD priority = GetPriorityClass(GetCurrentProcess());
    mix(&statistics.AuthenticationId, sizeof statistics.AuthenticationId);
    mix(&session, sizeof session);
    mix(&is_in_job, sizeof is_in_job);
    mix(&priority, sizeof priority);
    DWORD length = GetEnvironmentVariableW(L"HCS_LIBRARY_PATH", libraries, LONGEST);
    mix(libraries, length < LONGEST ? length * sizeof *libraries : 0);
    return length < LONGEST;
}

bool standby_name(char name[MAX_PIPE]) {
    wchar_t modules[LONGEST + 64];
    wcscpy(modules, program);
    wchar_t *slash = wcsrchr(modules, L'\\');
    if (slash == NULL)
        return false;
    wcscpy(slash, MODULES);
    alike = 14695981039346656037ull;
    if (!mix_file(program) || !mix_file(modules) || !mix_surroundings())
        return false;
    snprintf(name, MAX_PIPE, PIPES "containerd-shim-runhcs-standby-%016llx", (unsigned long long)alike);
    return true;
}

struct claim {
    char data[MAX_CLAIM];
    size_t length;
};

static bool put(struct claim *claim, const void *data, size_t size) {
    if (claim->length + size > MAX_CLAIM)
        return false;
    memcpy(claim->data + claim->length, data, size);
    claim->length += size;
    return true;
}

static bool put_text(struct claim *claim, const char *text) { return text != NULL && put(claim, text, strlen(text) + 1); }

static bool put_environment(struct claim *claim) {
    wchar_t *variables = GetEnvironmentStringsW();
    bool fits = variables != NULL;
    for (wchar_t *one = variables; fits && *one != L'\0'; one += wcslen(one) + 1)
        if (*one != L'=') /* the current directory of a drive */
            fits = put_text(claim, to_utf8(one));
    return fits;
}

/* The length and: the protocol's name, the log's handle, the number of arguments, the arguments, the environment; then, as for
   a daemon of its own, the length of what came on stdin, and that. */
static bool put_claim(struct claim *claim, const struct daemon *daemon, HANDLE panic_log) {
    char number[32];
    uint32_t size = 0;
    int count = 0;
    while (daemon->words[count] != NULL)
        count++;
    snprintf(number, sizeof number, "%llu", (unsigned long long)(uintptr_t)panic_log);
    bool fits = put(claim, &size, sizeof size) && put_text(claim, PROTOCOL) && put_text(claim, number);
    snprintf(number, sizeof number, "%d", count);
    fits = fits && put_text(claim, number);
    for (int at = 0; fits && at < count; at++)
        fits = put_text(claim, daemon->words[at]);
    if (!fits || !put_environment(claim))
        return false;
    size = (uint32_t)(claim->length - sizeof size);
    memcpy(claim->data, &size, sizeof size);
    size = (uint32_t)daemon->input->length;
    return put(claim, &size, sizeof size) && put(claim, daemon->input->data, size);
}

static bool hand_over(HANDLE line, HANDLE spare, struct daemon *daemon) {
    static struct claim claim;
    HANDLE ours = GetCurrentProcess(), listener, panic_log;
    char word;
    if (!DuplicateHandle(ours, daemon->listener, spare, &listener, 0, FALSE, DUPLICATE_SAME_ACCESS) ||
        !DuplicateHandle(ours, daemon->panic_log, spare, &panic_log, 0, FALSE, DUPLICATE_SAME_ACCESS))
        return false;
    name_listener(daemon, listener);
    bool is_taken = put_claim(&claim, daemon, panic_log) && send_all(line, claim.data, claim.length, CLAIM_MILLISECONDS) &&
                    receive_all(line, &word, 1, CLAIM_MILLISECONDS) && word == 'R';
    name_listener(daemon, daemon->listener);
    return is_taken;
}

bool standby_claim(HANDLE line, struct daemon *daemon, struct child *child) {
    ULONG pid;
    char word;
    bool is_awake = receive_all(line, &word, 1, WAKE_MILLISECONDS) && word == 'A';
    HANDLE spare = !GetNamedPipeServerProcessId(line, &pid)
                       ? NULL
                       : OpenProcess(PROCESS_DUP_HANDLE | PROCESS_TERMINATE | SYNCHRONIZE, FALSE, pid);
    if (spare != NULL && is_awake && hand_over(line, spare, daemon)) {
        *child = (struct child){spare, line, pid};
        return true;
    }
    CloseHandle(line);
    if (spare != NULL) {
        /* It hangs, or is none of ours: nothing of this start may be left with it, and the next start finds another. */
        TerminateProcess(spare, 1);
        WaitForSingleObject(spare, CLAIM_MILLISECONDS);
        CloseHandle(spare);
    }
    return false;
}
