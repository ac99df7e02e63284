/* The client of the standby: a warm spare (shim/commands/standby/windows.py) becomes the daemon, instead of a new process.

   A standby must not cause a failed or wrong start. The spare reports that it is ready before it receives anything. Then it
   receives handles of both pipes and of the panic log, and by message the options, arguments and environment, but no handle of
   containerd's. It reports that it has taken over; a spare that does not is terminated, and a daemon is spawned. If this
   program exits before it reports success, the connection closes and the daemon exits.

   The name of the pipe is a hash of the program files and of all process attributes that a process cannot take over from
   another. So a launcher finds only a spare of the same version with the same attributes. Only administrators can create
   such a name. */
#include <stdio.h>
#include <string.h>

#include "commands.h"

#define PROTOCOL "runhcs-standby-w1"
/* The timeout for a spare to respond. Waiting must not take longer than a cold start. */
#define WAKE_MILLISECONDS 500
#define HANDOVER_MILLISECONDS 2000

bool standby_pipe_name(char name[MAX_PIPE]) {
    uint64_t hash;
    if (!hash_process(&hash))
        return false;
    snprintf(name, MAX_PIPE, PIPES "containerd-shim-runhcs-standby-%016llx", (unsigned long long)hash);
    return true;
}

bool append_bytes(struct handover *handover, const void *data, size_t size) {
    if (handover->length + size > MAX_HANDOVER)
        return false;
    memcpy(handover->data + handover->length, data, size);
    handover->length += size;
    return true;
}

bool append_text(struct handover *handover, const char *text) {
    return text != NULL && append_bytes(handover, text, strlen(text) + 1);
}

static bool append_environment(struct handover *handover) {
    wchar_t *variables = GetEnvironmentStringsW();
    bool fits = variables != NULL;
    for (wchar_t *one = variables; fits && *one != L'\0'; one += wcslen(one) + 1)
        if (*one != L'=') /* the current directory of a drive */
            fits = append_text(handover, to_utf8(one));
    return fits;
}

/* The length of the following; the protocol's name, the handle of the panic log, the number of arguments, the arguments, the
   environment; then, as for a spawned daemon, the options after their length. */
static bool build_handover(struct handover *handover, const struct daemon *daemon, HANDLE panic_log) {
    char number[32];
    uint32_t size = 0;
    int count = 0;
    while (daemon->words[count] != NULL)
        count++;
    snprintf(number, sizeof number, "%llu", (unsigned long long)(uintptr_t)panic_log);
    bool fits = append_bytes(handover, &size, sizeof size) && append_text(handover, PROTOCOL) &&
                append_text(handover, number);
    snprintf(number, sizeof number, "%d", count);
    fits = fits && append_text(handover, number);
    for (int at = 0; fits && at < count; at++)
        fits = append_text(handover, daemon->words[at]);
    if (!fits || !append_environment(handover))
        return false;
    size = (uint32_t)(handover->length - sizeof size);
    memcpy(handover->data, &size, sizeof size);
    size = (uint32_t)daemon->options->length;
    return append_bytes(handover, &size, sizeof size) && append_bytes(handover, daemon->options->data, size);
}

static bool send_handover(HANDLE connection, HANDLE spare, struct daemon *daemon) {
    static struct handover handover;
    HANDLE ours = GetCurrentProcess(), listener, panic_log, log_pipe = NULL;
    char word;
    if (!DuplicateHandle(ours, daemon->listener, spare, &listener, 0, FALSE, DUPLICATE_SAME_ACCESS) ||
        !DuplicateHandle(ours, daemon->panic_log, spare, &panic_log, 0, FALSE, DUPLICATE_SAME_ACCESS) ||
        (daemon->log_pipe != NULL &&
            !DuplicateHandle(ours, daemon->log_pipe, spare, &log_pipe, 0, FALSE, DUPLICATE_SAME_ACCESS)))
        return false;
    set_pipe_arguments(daemon, listener, log_pipe);
    bool is_taken = build_handover(&handover, daemon, panic_log) &&
                    send_all(connection, handover.data, handover.length, HANDOVER_MILLISECONDS) &&
                    receive_all(connection, &word, 1, HANDOVER_MILLISECONDS) && word == 'R';
    set_pipe_arguments(daemon, daemon->listener, daemon->log_pipe);
    return is_taken;
}

bool standby_hand_over(HANDLE connection, struct daemon *daemon, struct child *child) {
    ULONG pid;
    char word;
    bool is_ready = receive_all(connection, &word, 1, WAKE_MILLISECONDS) && word == 'A';
    HANDLE spare = !GetNamedPipeServerProcessId(connection, &pid)
                       ? NULL
                       : OpenProcess(PROCESS_DUP_HANDLE | PROCESS_TERMINATE | SYNCHRONIZE, FALSE, pid);
    if (spare != NULL && is_ready && send_handover(connection, spare, daemon)) {
        *child = (struct child){spare, connection, pid};
        return true;
    }
    CloseHandle(connection);
    if (spare != NULL) {
        /* It hangs, or is another program: it must not keep the handles of this start, and the next start needs another. */
        TerminateProcess(spare, 1);
        WaitForSingleObject(spare, HANDOVER_MILLISECONDS);
        CloseHandle(spare);
    }
    return false;
}
