/* `start`, as shim/commands/start.py and spawned.py do it. The daemon inherits a listening pipe, so containerd's first
   connection waits there while Python starts. It also inherits the log pipe: containerd connects to it while `start` runs
   and gives up after 5 seconds without it.

   The order of the steps is Python's. When a step fails, all previous steps are undone and Python performs the command
   again and reports the error. If this program is terminated, the daemon sees its end of the link close and exits. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "commands.h"

#define MAX_COMMAND_LINE 32767
#define DONE_MILLISECONDS 2000

static enum role read_pod_role(const char *id, char *sandbox, size_t size, enum scope *scope) {
    static char json[MAX_SPEC];
    ptrdiff_t length = read_file(L"config.json", json, sizeof json);
    return length < 0 ? UNSUPPORTED : parse_pod_role(json, (size_t)length, id, sandbox, size, scope);
}

/* Appends an argument, quoted by the rules of the C runtime; false if it does not fit. */
static bool append_argument(wchar_t *line, size_t *length, const wchar_t *word) {
    bool is_quoted = *word == L'\0' || wcspbrk(word, L" \t\"") != NULL;
    size_t slashes = 0;
    if (*length + 2 * wcslen(word) + 4 > MAX_COMMAND_LINE)
        return false;
    if (*length > 0)
        line[(*length)++] = L' ';
    if (is_quoted)
        line[(*length)++] = L'"';
    for (; *word != L'\0'; word++) {
        size_t more = *word == L'"' ? slashes + 1 : 0; /* double each backslash before a quote, and escape the quote */
        slashes = *word == L'\\' ? slashes + 1 : 0;
        while (more-- > 0)
            line[(*length)++] = L'\\';
        line[(*length)++] = *word;
    }
    while (is_quoted && slashes-- > 0)
        line[(*length)++] = L'\\';
    if (is_quoted)
        line[(*length)++] = L'"';
    line[*length] = L'\0';
    return true;
}

static wchar_t *build_command_line(char **words) {
    static wchar_t line[MAX_COMMAND_LINE + 1];
    size_t length = 0;
    bool fits = append_argument(line, &length, program_path);
    for (; fits && *words != NULL; words++) {
        wchar_t *word = to_wide(*words);
        fits = word != NULL && append_argument(line, &length, word);
    }
    return fits ? line : NULL;
}

/* Executes this program again, detached, with only the given handles inherited. */
static bool create_daemon_process(wchar_t *line, HANDLE *given, size_t count, PROCESS_INFORMATION *made) {
    static union {
        char bytes[256];
        void *aligned;
    } room;
    wchar_t directory[MAX_PATH_LENGTH]; /* not the bundle: a current directory cannot be removed */
    STARTUPINFOEXW startup = {.StartupInfo = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES}};
    SIZE_T size = sizeof room;
    startup.lpAttributeList = (LPPROC_THREAD_ATTRIBUTE_LIST)&room;
    startup.StartupInfo.hStdInput = given[0];
    startup.StartupInfo.hStdError = given[1];
    UINT length = GetSystemWindowsDirectoryW(directory, MAX_PATH_LENGTH);
    return length > 0 && length < MAX_PATH_LENGTH &&
           InitializeProcThreadAttributeList(startup.lpAttributeList, 1, 0, &size) &&
           UpdateProcThreadAttribute(startup.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, given,
               count * sizeof *given, NULL, NULL) &&
           CreateProcessW(program_path, line, NULL, NULL, TRUE,
               DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP | EXTENDED_STARTUPINFO_PRESENT, NULL, directory,
               &startup.StartupInfo, made);
}

/* Sends the options after their length, as Python's `start` does. */
static bool send_options(HANDLE link, const struct stdin_options *options) {
    DWORD length = (DWORD)options->length, wrote;
    return WriteFile(link, &length, sizeof length, &wrote, NULL) && wrote == sizeof length &&
           (length == 0 || (WriteFile(link, options->data, length, &wrote, NULL) && wrote == length));
}

static bool spawn_daemon(const struct daemon *daemon, struct child *child) {
    PROCESS_INFORMATION made;
    HANDLE given[] = {NULL, daemon->panic_log, daemon->listener, daemon->log_pipe};
    size_t count = daemon->log_pipe == NULL ? 3 : 4;
    wchar_t *line = build_command_line((char **)daemon->words);
    /* The pipe's buffer holds all that is written before the daemon reads. */
    if (line == NULL || !CreatePipe(&given[0], &child->link, NULL, (DWORD)daemon->options->length + 64))
        return false;
    bool is_made = true;
    for (size_t at = 0; at < count; at++)
        is_made = is_made && SetHandleInformation(given[at], HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    is_made = is_made && send_options(child->link, daemon->options) && create_daemon_process(line, given, count, &made);
    CloseHandle(given[0]);
    if (is_made) {
        CloseHandle(made.hThread);
        child->process = made.hProcess;
        child->pid = made.dwProcessId;
    } else
        CloseHandle(child->link);
    return is_made;
}

/* The daemon must have exited before Python performs the command: it holds the name of the pipe. */
static void terminate_daemon(struct child *child) {
    TerminateProcess(child->process, 1);
    WaitForSingleObject(child->process, 5000);
    CloseHandle(child->link);
}

static bool launch_daemon(struct daemon *daemon, const char *address, const char *response, HANDLE spare) {
    char number[32];
    struct child child;
    bool is_made = false;
    daemon->panic_log = create_log_file(L"panic.log");
    if (daemon->panic_log != INVALID_HANDLE_VALUE && write_file(L"address", address))
        is_made = (spare != NULL && standby_hand_over(spare, daemon, &child)) || spawn_daemon(daemon, &child);
    if (is_made) {
        snprintf(number, sizeof number, "%lu", child.pid);
        if (write_file(L"shim.pid", number) && write_stdout(response, strlen(response))) {
            send_all(child.link, "D", 1, DONE_MILLISECONDS);
            return true;
        }
        terminate_daemon(&child);
    }
    CloseHandle(daemon->panic_log);
    DeleteFileW(L"panic.log");
    DeleteFileW(L"address");
    DeleteFileW(L"shim.pid");
    return false;
}

static void format_handle(char number[32], HANDLE handle) {
    snprintf(number, 32, "%llu", (unsigned long long)(uintptr_t)handle);
}

void set_pipe_arguments(struct daemon *daemon, HANDLE listener, HANDLE log_pipe) {
    format_handle(daemon->listener_number, listener);
    format_handle(daemon->log_number, log_pipe);
}

/* The arguments that shim/commands/spawned.py uses, and the handles of the pipes. */
static void build_daemon_arguments(struct daemon *daemon, const struct command *command, const struct pod *pod,
    char *standby) {
    const char *words[] = {"-namespace", command->namespace, "-address", command->address, "-publish-binary",
        command->publish, "-id", command->id, "-bundle", pod->bundle, "-socket", pod->address, "-spawned", "-listener",
        daemon->listener_number, "-log-pipe", daemon->log_number};
    size_t count = sizeof words / sizeof *words;
    memcpy(daemon->words, words, sizeof words);
    if (*standby != '\0') {
        daemon->words[count++] = "-standby";
        daemon->words[count++] = standby;
    }
    if (command->debug)
        daemon->words[count++] = "-debug";
    if (pod->is_sandbox)
        daemon->words[count++] = "-is-sandbox";
    daemon->words[count++] = "serve";
    daemon->words[count] = NULL;
}

/* The response for a shim that serves the Sandbox service: JSON, with backslashes escaped. */
static void format_bootstrap_json(char *response, const char *address) {
    response += sprintf(response, "{\"version\":3,\"address\":\"");
    for (; *address != '\0'; address++) {
        if (*address == '\\')
            *response++ = '\\';
        *response++ = *address;
    }
    strcpy(response, "\",\"protocol\":\"ttrpc\"}");
}

/* A daemon for this pod alone. */
static bool start_daemon(const struct command *command, const struct pod *pod, char *standby) {
    static struct daemon daemon;
    char log_name[MAX_PIPE];
    daemon.options = pod->options;
    daemon.listener = create_listener(pod->address);
    if (daemon.listener == NULL)
        return false;
    HANDLE spare = *standby == '\0' ? NULL : connect_pipe(standby, 0); /* the spare wakes up in the meantime */
    daemon.log_pipe = log_pipe_name(command, log_name) ? create_listener(log_name) : NULL; /* a log is not required */
    set_pipe_arguments(&daemon, daemon.listener, daemon.log_pipe);
    build_daemon_arguments(&daemon, command, pod, standby);
    if (launch_daemon(&daemon, pod->address, pod->response, spare))
        return true;
    CloseHandle(daemon.listener);
    if (daemon.log_pipe != NULL)
        CloseHandle(daemon.log_pipe);
    return false;
}

bool native_start(const struct command *command, char *standby) {
    static struct stdin_options options;
    wchar_t current[MAX_PATH_LENGTH];
    char *bundle, sandbox[256] = "", address[MAX_PIPE], response[2 * MAX_PIPE + 64];
    enum scope annotated = NO_SCOPE, configured = NO_SCOPE;
    DWORD length = GetCurrentDirectoryW(MAX_PATH_LENGTH, current);
    if (*program_path == L'\0' || length == 0 || length > MAX_PATH_LENGTH - 16 || (bundle = to_utf8(current)) == NULL)
        return false;
    bool is_service = is_sandbox_bundle(bundle);
    enum role role = is_service ? SANDBOX : read_pod_role(command->id, sandbox, sizeof sandbox, &annotated);
    if (role == UNSUPPORTED || !pipe_name(command, role == MEMBER ? sandbox : command->id, address))
        return false;
    if (is_service)
        format_bootstrap_json(response, address);
    else
        strcpy(response, address);
    struct pod pod = {bundle, address, response, &options, role == SANDBOX, NULL};
    bool is_done = false;
    if (read_stdin_options(command, &options, &configured)) {
        enum scope scope = annotated != NO_SCOPE ? annotated : configured;
        if (role == MEMBER)
            is_done = native_join_pod(address, sandbox);
        else if (scope > POD_SCOPE)
            is_done = native_join_shared(command, scope, &pod);
        else
            is_done = start_daemon(command, &pod, standby);
    }
    if (!is_done)
        restore_stdin(&options);
    return is_done;
}
