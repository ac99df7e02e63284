/* `start`: what shim/commands/start.py and spawn.py do, without Python. It gives the daemon a pipe that listens already, so
   that containerd's first connection waits there while Python starts.

   The order is Python's, and so is the end of whatever fails: nothing is left behind, and Python is asked to do it again,
   for it knows what to say. A start that is killed leaves a daemon that hears of it and goes. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "commands.h"

#define MAX_COMMAND_LINE 32767
#define DONE_MILLISECONDS 2000

static enum role read_own_role(const char *id, char *sandbox, size_t size) {
    static char json[MAX_SPEC];
    ptrdiff_t length = read_file(L"config.json", json, sizeof json);
    return length < 0 ? UNUSUAL : read_role(json, (size_t)length, id, sandbox, size);
}

/* A word of a command line, by the C runtime's rules; false if it has no room. */
static bool put_word(wchar_t *line, size_t *length, const wchar_t *word) {
    bool is_quoted = *word == L'\0' || wcspbrk(word, L" \t\"") != NULL;
    size_t slashes = 0;
    if (*length + 2 * wcslen(word) + 4 > MAX_COMMAND_LINE)
        return false;
    if (*length > 0)
        line[(*length)++] = L' ';
    if (is_quoted)
        line[(*length)++] = L'"';
    for (; *word != L'\0'; word++) {
        size_t more = *word == L'"' ? slashes + 1 : 0; /* each backslash before a quote twice, and one for the quote */
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

static wchar_t *command_line(char **words) {
    static wchar_t line[MAX_COMMAND_LINE + 1];
    size_t length = 0;
    bool fits = put_word(line, &length, program);
    for (; fits && *words != NULL; words++) {
        wchar_t *word = to_wide(*words);
        fits = word != NULL && put_word(line, &length, word);
    }
    return fits ? line : NULL;
}

/* This program again, detached, with nothing of ours but what it is given. */
static bool create_process(wchar_t *line, HANDLE *given, size_t count, PROCESS_INFORMATION *made) {
    static union {
        char bytes[256];
        void *aligned;
    } room;
    wchar_t directory[LONGEST]; /* not the bundle, which could not be removed */
    STARTUPINFOEXW startup = {.StartupInfo = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES}};
    SIZE_T size = sizeof room;
    startup.lpAttributeList = (LPPROC_THREAD_ATTRIBUTE_LIST)&room;
    startup.StartupInfo.hStdInput = given[0];
    startup.StartupInfo.hStdError = given[1];
    UINT length = GetSystemWindowsDirectoryW(directory, LONGEST);
    return length > 0 && length < LONGEST &&
           InitializeProcThreadAttributeList(startup.lpAttributeList, 1, 0, &size) &&
           UpdateProcThreadAttribute(startup.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, given,
               count * sizeof *given, NULL, NULL) &&
           CreateProcessW(program, line, NULL, NULL, TRUE,
               DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP | EXTENDED_STARTUPINFO_PRESENT, NULL, directory,
               &startup.StartupInfo, made);
}

/* What came on stdin, with its length before it: as Python's `start` gives it to its daemon. */
static bool send_input(HANDLE link, const struct input *input) {
    DWORD length = (DWORD)input->length, wrote;
    return WriteFile(link, &length, sizeof length, &wrote, NULL) && wrote == sizeof length &&
           (length == 0 || (WriteFile(link, input->data, length, &wrote, NULL) && wrote == length));
}

static bool spawn(const struct daemon *daemon, struct child *child) {
    PROCESS_INFORMATION made;
    HANDLE given[] = {NULL, daemon->panic_log, daemon->listener};
    wchar_t *line = command_line((char **)daemon->words);
    /* With room for all that is written before it reads. */
    if (line == NULL || !CreatePipe(&given[0], &child->link, NULL, (DWORD)daemon->input->length + 64))
        return false;
    bool is_made = true;
    for (int at = 0; at < 3; at++)
        is_made = is_made && SetHandleInformation(given[at], HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    is_made = is_made && send_input(child->link, daemon->input) && create_process(line, given, 3, &made);
    CloseHandle(given[0]);
    if (is_made) {
        CloseHandle(made.hThread);
        child->process = made.hProcess;
        child->pid = made.dwProcessId;
    } else
        CloseHandle(child->link);
    return is_made;
}

/* It must be gone before Python tries again: the name would be taken. */
static void end(struct child *child) {
    TerminateProcess(child->process, 1);
    WaitForSingleObject(child->process, 5000);
    CloseHandle(child->link);
}

static bool launch(struct daemon *daemon, const char *address, const char *answer, HANDLE spare) {
    char number[32];
    struct child child;
    bool is_made = false;
    daemon->panic_log = create_file(L"panic.log");
    if (daemon->panic_log != INVALID_HANDLE_VALUE && write_file(L"address", address))
        is_made = (spare != NULL && standby_claim(spare, daemon, &child)) || spawn(daemon, &child);
    if (is_made) {
        snprintf(number, sizeof number, "%lu", child.pid);
        if (write_file(L"shim.pid", number) && print(answer, strlen(answer))) {
            send_all(child.link, "D", 1, DONE_MILLISECONDS);
            return true;
        }
        end(&child);
    }
    CloseHandle(daemon->panic_log);
    DeleteFileW(L"panic.log");
    DeleteFileW(L"address");
    DeleteFileW(L"shim.pid");
    return false;
}

void name_listener(struct daemon *daemon, HANDLE listener) {
    snprintf(daemon->number, sizeof daemon->number, "%llu", (unsigned long long)(uintptr_t)listener);
}

/* As shim/commands/spawned.py writes them, and the pipe. */
static void put_words(struct daemon *daemon, const struct command *command, const char *bundle, const char *address,
    bool is_sandbox, char *standby) {
    const char *words[] = {"-namespace", command->namespace, "-address", command->address, "-publish-binary",
        command->publish, "-id", command->id, "-bundle", bundle, "-socket", address, "-spawned", "-listener",
        daemon->number};
    size_t count = sizeof words / sizeof *words;
    memcpy(daemon->words, words, sizeof words);
    if (*standby != '\0') {
        daemon->words[count++] = "-standby";
        daemon->words[count++] = standby;
    }
    if (command->debug)
        daemon->words[count++] = "-debug";
    if (is_sandbox)
        daemon->words[count++] = "-is-sandbox";
    daemon->words[count++] = "serve";
    daemon->words[count] = NULL;
}

/* The answer for a shim that serves the Sandbox service: JSON, in which a backslash is two. */
static void put_answer(char *answer, const char *address) {
    answer += sprintf(answer, "{\"version\":3,\"address\":\"");
    for (; *address != '\0'; address++) {
        if (*address == '\\')
            *answer++ = '\\';
        *answer++ = *address;
    }
    strcpy(answer, "\",\"protocol\":\"ttrpc\"}");
}

bool native_start(const struct command *command, char *standby) {
    static struct input input;
    static struct daemon daemon = {.input = &input};
    wchar_t current[LONGEST];
    char *bundle, sandbox[256] = "", address[MAX_PIPE], answer[2 * MAX_PIPE + 64];
    DWORD length = GetCurrentDirectoryW(LONGEST, current);
    if (*program == L'\0' || length == 0 || length > LONGEST - 16 || (bundle = to_utf8(current)) == NULL)
        return false;
    bool is_service = is_sandbox_bundle(bundle);
    enum role role = is_service ? SANDBOX : read_own_role(command->id, sandbox, sizeof sandbox);
    if (role == UNUSUAL || !pipe_name(command, role == MEMBER ? sandbox : command->id, address))
        return false;
    bool is_done = false;
    if (!read_input(command->id, &input))
        ;
    else if (role == MEMBER)
        is_done = native_join(address, sandbox);
    else if ((daemon.listener = listen_at(address)) != NULL) {
        HANDLE spare = *standby == '\0' ? NULL : dial(standby, 0); /* it wakes up while we go on */
        name_listener(&daemon, daemon.listener);
        put_words(&daemon, command, bundle, address, role == SANDBOX, standby);
        if (is_service)
            put_answer(answer, address);
        else
            strcpy(answer, address);
        is_done = launch(&daemon, address, answer, spare);
        if (!is_done)
            CloseHandle(daemon.listener);
    }
    if (!is_done)
        put_back(&input);
    return is_done;
}
