/* A stub of containerd's service: it appends a line to a file at each start. `sc create NAME binPath= "service.exe
   FILE"` */
#include <windows.h>

#include <stdio.h>

static SERVICE_STATUS_HANDLE reporter;
static HANDLE stopped;
static const wchar_t *file;

static void report(DWORD state) {
    SERVICE_STATUS status = {.dwServiceType = SERVICE_WIN32_OWN_PROCESS,
                             .dwCurrentState = state,
                             .dwControlsAccepted = state == SERVICE_RUNNING ? SERVICE_ACCEPT_STOP : 0};
    SetServiceStatus(reporter, &status);
}

static DWORD WINAPI control(DWORD code, DWORD type, void *data, void *context) {
    (void)type, (void)data, (void)context;
    if (code == SERVICE_CONTROL_STOP) {
        report(SERVICE_STOP_PENDING);
        SetEvent(stopped);
    }
    return NO_ERROR;
}

static void WINAPI run(DWORD count, wchar_t **arguments) {
    (void)count;
    reporter = RegisterServiceCtrlHandlerExW(arguments[0], control, NULL);
    FILE *starts = _wfopen(file, L"a");
    if (starts != NULL) {
        fputs("started\n", starts);
        fclose(starts);
    }
    report(SERVICE_RUNNING);
    WaitForSingleObject(stopped, INFINITE);
    report(SERVICE_STOPPED);
}

int wmain(int count, wchar_t **arguments) {
    if (count != 2)
        return 2;
    file = arguments[1];
    stopped = CreateEventW(NULL, TRUE, FALSE, NULL);
    SERVICE_TABLE_ENTRYW table[] = {{L"", run}, {NULL, NULL}};
    return StartServiceCtrlDispatcherW(table) ? 0 : 1;
}
