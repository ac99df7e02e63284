/* `start` for a pod that joins a shared daemon, as shim/commands/shared/join.py does it. If there is none, or it takes no more
   pods, Python starts one.

   shim/platform/windows/shared.py describes the control pipe: its name and the messages. */
#include <stdio.h>
#include <string.h>

#include "commands.h"

#define PROTOCOL "runhcs-shared-w1"
#define NUMBERS 4 /* of daemons of one name, all but the last of which hang */
#define GREETING 5 /* A and the pid */
#define GREETING_MILLISECONDS 1000
#define HANDOVER_MILLISECONDS 30000 /* it has accepted the connection: this is for an overloaded machine */
#define DONE_MILLISECONDS 2000
#define END_MILLISECONDS 10000 /* for the daemon to give up a pod */

static bool control_pipe_name(const struct command *command, enum scope scope, char name[MAX_PIPE]) {
    const char *texts[] = {scope == NODE_SCOPE ? "node" : "namespace", command->address,
        scope == NODE_SCOPE ? "" : command->namespace};
    uint64_t hash;
    if (!hash_process(&hash) || !hash_environment(&hash))
        return false;
    for (size_t at = 0; at < sizeof texts / sizeof *texts; at++)
        hash = hash_bytes(hash, texts[at], strlen(texts[at]));
    int number = NUMBERS;
    do
        snprintf(name, MAX_PIPE, PIPES "containerd-shim-runhcs-shared-%016llx-%d", (unsigned long long)hash, --number);
    while (number > 0 && !pipe_exists(name));
    return true;
}

static bool build_shared_handover(struct handover *handover, const struct command *command, const struct pod *pod,
    HANDLE panic_log) {
    char listener_number[32], log_number[32], count[32];
    const char *words[] = {"-namespace", command->namespace, "-address", command->address, "-publish-binary",
        command->publish, "-id", command->id, command->debug ? "-debug" : "start", "start"};
    int words_count = command->debug ? 10 : 9;
    snprintf(listener_number, sizeof listener_number, "%llu", (unsigned long long)(uintptr_t)pod->listener);
    snprintf(log_number, sizeof log_number, "%llu", (unsigned long long)(uintptr_t)panic_log);
    snprintf(count, sizeof count, "%d", words_count);
    const char *head[] = {PROTOCOL, pod->is_sandbox ? "1" : "0", pod->bundle, pod->address, listener_number, log_number, count};
    uint32_t size = 0;
    bool fits = append_bytes(handover, &size, sizeof size);
    for (size_t at = 0; fits && at < sizeof head / sizeof *head; at++)
        fits = append_text(handover, head[at]);
    for (int at = 0; fits && at < words_count; at++)
        fits = append_text(handover, words[at]);
    if (!fits)
        return false;
    size = (uint32_t)(handover->length - sizeof size);
    memcpy(handover->data, &size, sizeof size);
    size = (uint32_t)pod->options->length;
    return append_bytes(handover, &size, sizeof size) && append_bytes(handover, pod->options->data, size);
}

/* The pid of the daemon, which serves the pod from now on; 0 if it does not. It duplicates the handles that are named in the
   message: they stay open here until it has reported. */
static uint32_t join(HANDLE connection, const struct command *command, const struct pod *pod, HANDLE panic_log) {
    static struct handover handover;
    unsigned char greeting[GREETING];
    uint32_t pid = 0;
    char word;
    if (!receive_all(connection, greeting, GREETING, GREETING_MILLISECONDS) || greeting[0] != 'A' ||
        !build_shared_handover(&handover, command, pod, panic_log) ||
        !send_all(connection, handover.data, handover.length, HANDOVER_MILLISECONDS) ||
        !receive_all(connection, &word, 1, HANDOVER_MILLISECONDS) || word != 'R')
        return 0;
    memcpy(&pid, greeting + 1, sizeof pid);
    return pid;
}

static bool join_with_files(HANDLE connection, const struct command *command, const struct pod *pod) {
    char number[32];
    uint32_t pid = 0;
    HANDLE panic_log = create_log_file(L"panic.log");
    if (panic_log != INVALID_HANDLE_VALUE && write_file(L"address", pod->address))
        pid = join(connection, command, pod, panic_log);
    snprintf(number, sizeof number, "%lu", (unsigned long)pid);
    if (pid != 0 && write_file(L"shim.pid", number) && write_stdout(pod->response, strlen(pod->response))) {
        send_all(connection, "D", 1, DONE_MILLISECONDS);
        return true;
    }
    if (panic_log != INVALID_HANDLE_VALUE)
        CloseHandle(panic_log);
    return false;
}

/* Python uses the same names: it must not begin before the daemon has given up the pod. */
static void undo(HANDLE connection, const struct pod *pod) {
    CloseHandle(connection);
    CloseHandle(pod->listener);
    for (int waited = 0; waited < END_MILLISECONDS && pipe_exists(pod->address); waited += 10)
        Sleep(10);
    DeleteFileW(L"panic.log");
    DeleteFileW(L"daemon-panic.log");
    DeleteFileW(L"address");
    DeleteFileW(L"shim.pid");
}

bool native_join_shared(const struct command *command, enum scope scope, struct pod *pod) {
    char control[MAX_PIPE];
    HANDLE connection = control_pipe_name(command, scope, control) ? connect_pipe(control, GREETING_MILLISECONDS) : NULL;
    if (connection == NULL)
        return false;
    pod->listener = create_listener(pod->address);
    if (pod->listener == NULL) {
        CloseHandle(connection);
        return false;
    }
    if (join_with_files(connection, command, pod))
        return true;
    undo(connection, pod);
    return false;
}
