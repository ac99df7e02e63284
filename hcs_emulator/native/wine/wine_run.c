/* wine-run.exe PORT SECRET TICKET: starts one process of a container under Wine and reports its exit to the service.

   The service starts this program by `wine`, with the process's streams as its own. Over a loopback connection it
   reads what to start: u32 length and UTF-16 text, three times (command line, working directory, variables that end
   with NUL), u16 width and height of its console (0: none), then u8 commands. It answers with lines: `pid N`, `error
   N`, `exit N`. Commands: K kills the process, C and B are Ctrl-C and Ctrl-Break, R with u16 width and height resizes
   its console. The process is in a job that is terminated with this program. */
#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <windows.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

#define LONGEST (1u << 20)
#define TERMINATED 0xFFFFFFFFu

static SOCKET service;
static HANDLE process;
static DWORD pid;

/* Pseudo consoles. The headers of mingw declare them for newer versions of Windows only. */
#define PSEUDOCONSOLE_ATTRIBUTE 0x20016
typedef HRESULT(WINAPI *CreateConsole)(COORD size, HANDLE input, HANDLE output, DWORD flags, void **console);
typedef HRESULT(WINAPI *ResizeConsole)(void *console, COORD size);
typedef void(WINAPI *CloseConsole)(void *console);

static void *console;

static void *console_function(const char *name) {
    return (void *)GetProcAddress(GetModuleHandleW(L"kernel32.dll"), name);
}

static void tell(const char *what, unsigned long number) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s %lu\n", what, number);
    send(service, line, length, 0);
}

static int receive(void *data, size_t size) {
    for (size_t done = 0; done < size;) {
        int received = recv(service, (char *)data + done, (int)(size - done), 0);
        if (received <= 0)
            return 0;
        done += (size_t)received;
    }
    return 1;
}

static wchar_t *receive_text(void) {
    uint32_t bytes;
    if (!receive(&bytes, sizeof bytes) || bytes > LONGEST)
        return NULL;
    wchar_t *text = calloc(1, bytes + sizeof *text);
    return text != NULL && receive(text, bytes) ? text : NULL;
}

/* Set the variables of the process in this one's environment, which it inherits. Wine itself would replace those that
   it knows, such as COMPUTERNAME, if they came with the environment of Linux. */
static void set_variables(wchar_t *entry) {
    while (*entry != L'\0') {
        size_t length = wcslen(entry);
        wchar_t *equals = wcschr(entry + 1, L'=');
        if (equals != NULL) {
            *equals = L'\0';
            SetEnvironmentVariableW(entry, equals + 1);
        }
        entry += length + 1;
    }
}

static DWORD WINAPI obey(void *argument) {
    (void)argument;
    char command;
    while (receive(&command, 1)) {
        if (command == 'K')
            TerminateProcess(process, TERMINATED);
        else if (command == 'R') {
            COORD size;
            if (receive(&size, sizeof size) && console != NULL)
                ((ResizeConsole)console_function("ResizePseudoConsole"))(console, size);
        }
        else if (!GenerateConsoleCtrlEvent(command == 'C' ? CTRL_C_EVENT : CTRL_BREAK_EVENT, pid))
            /* it has no console: Windows' default handler would exit with this code */
            TerminateProcess(process, 0xC000013A);
    }
    TerminateProcess(process, TERMINATED); /* the service has exited */
    return 0;
}

/* Start the process, in a new console of this size, or without one. */
static BOOL start(wchar_t *command, const wchar_t *directory, COORD size, PROCESS_INFORMATION *made) {
    STARTUPINFOEXW startup = {.StartupInfo.cb = sizeof startup};
    STARTUPINFOW *streams = &startup.StartupInfo;
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE), output = GetStdHandle(STD_OUTPUT_HANDLE), error = GetStdHandle(STD_ERROR_HANDLE);
    DWORD flags = CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED | EXTENDED_STARTUPINFO_PRESENT;
    unsigned char attributes[256];
    SIZE_T attributes_size = sizeof attributes;
    startup.lpAttributeList = (LPPROC_THREAD_ATTRIBUTE_LIST)attributes;
    if (!InitializeProcThreadAttributeList(startup.lpAttributeList, 1, 0, &attributes_size))
        return FALSE;
    if (size.X != 0) {
        HRESULT code = ((CreateConsole)console_function("CreatePseudoConsole"))(size, input, output, 0, &console);
        if (FAILED(code)) {
            SetLastError((DWORD)code);
            return FALSE;
        }
        UpdateProcThreadAttribute(startup.lpAttributeList, 0, PSEUDOCONSOLE_ATTRIBUTE, console, sizeof console, NULL, NULL);
    } else {
        streams->dwFlags = STARTF_USESTDHANDLES;
        streams->hStdInput = input;
        streams->hStdOutput = output;
        streams->hStdError = error;
    }
    BOOL started = CreateProcessW(NULL, command, NULL, NULL, size.X == 0, flags, NULL, directory[0] ? directory : NULL, streams, made);
    DWORD reason = GetLastError();
    /* Only the process, or its console, keeps the streams: they are closed when it exits. */
    CloseHandle(input);
    CloseHandle(output);
    CloseHandle(error);
    SetLastError(reason);
    return started;
}

int wmain(int count, wchar_t **arguments) {
    WSADATA data;
    if (count != 4 || WSAStartup(MAKEWORD(2, 2), &data) != 0)
        return 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)_wtoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    service = socket(AF_INET, SOCK_STREAM, 0);
    char greeting[64 + 8];
    for (int index = 0; index < 64; index++)
        greeting[index] = (char)arguments[2][index];
    uint64_t ticket = _wcstoui64(arguments[3], NULL, 10);
    memcpy(greeting + 64, &ticket, sizeof ticket);
    if (connect(service, (struct sockaddr *)&address, sizeof address) != 0 ||
        send(service, greeting, sizeof greeting, 0) != sizeof greeting)
        return 1;
    SetHandleInformation((HANDLE)service, HANDLE_FLAG_INHERIT, 0);
    wchar_t *command = receive_text(), *directory = receive_text(), *variables = receive_text();
    COORD size;
    if (command == NULL || directory == NULL || variables == NULL || !receive(&size, sizeof size))
        return 1;
    set_variables(variables);
    PROCESS_INFORMATION made;
    if (!start(command, directory, size, &made)) {
        tell("error", GetLastError());
        return 1;
    }
    HANDLE job = CreateJobObjectW(NULL, NULL);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE};
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    AssignProcessToJobObject(job, made.hProcess);
    process = made.hProcess;
    pid = made.dwProcessId;
    tell("pid", pid);
    ResumeThread(made.hThread);
    CreateThread(NULL, 0, obey, NULL, 0, NULL);
    WaitForSingleObject(process, INFINITE);
    DWORD code = TERMINATED;
    GetExitCodeProcess(process, &code);
    if (console != NULL)
        ((CloseConsole)console_function("ClosePseudoConsole"))(console); /* closes its output */
    tell("exit", code);
    shutdown(service, SD_SEND);
    return 0;
}
