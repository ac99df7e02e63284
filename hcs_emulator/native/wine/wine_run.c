/* wine-run.exe PORT SECRET TICKET: starts one process of a container under Wine and reports its exit to the service.

   The service starts this program by `wine`, with the process's streams as its own. Over a loopback connection it
   reads what to start: u32 length and UTF-16 text, twice (command line, working directory), then u8 commands. It
   answers with lines: `pid N`, `error N`, `exit N`. Commands: K kills the process, C and B are Ctrl-C and
   Ctrl-Break. The process is in a job that is terminated with this program. */
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

static DWORD WINAPI obey(void *argument) {
    (void)argument;
    char command;
    while (receive(&command, 1)) {
        if (command == 'K')
            TerminateProcess(process, TERMINATED);
        else if (!GenerateConsoleCtrlEvent(command == 'C' ? CTRL_C_EVENT : CTRL_BREAK_EVENT, pid))
            /* it has no console: Windows' default handler would exit with this code */
            TerminateProcess(process, 0xC000013A);
    }
    TerminateProcess(process, TERMINATED); /* the service has exited */
    return 0;
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
    wchar_t *command = receive_text(), *directory = receive_text();
    if (command == NULL || directory == NULL)
        return 1;
    STARTUPINFOW startup = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES,
                            .hStdInput = GetStdHandle(STD_INPUT_HANDLE),
                            .hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE), .hStdError = GetStdHandle(STD_ERROR_HANDLE)};
    PROCESS_INFORMATION made;
    if (!CreateProcessW(NULL, command, NULL, NULL, TRUE, CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED, NULL,
                        directory[0] ? directory : NULL, &startup, &made)) {
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
    /* Only the process keeps the streams: they are closed when it exits. */
    CloseHandle(startup.hStdInput);
    CloseHandle(startup.hStdOutput);
    CloseHandle(startup.hStdError);
    CreateThread(NULL, 0, obey, NULL, 0, NULL);
    WaitForSingleObject(process, INFINITE);
    DWORD code = TERMINATED;
    GetExitCodeProcess(process, &code);
    tell("exit", code);
    shutdown(service, SD_SEND);
    return 0;
}
