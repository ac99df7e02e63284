/* A logger for `binary://` URIs under Wine: `logger.exe … FILE` copies stdout of the container to FILE and stderr to
   FILE.err. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <wchar.h>

typedef struct {
    HANDLE pipe;
    wchar_t path[1024];
} Stream;

static HANDLE dial(const wchar_t *variable) {
    wchar_t path[512];
    if (GetEnvironmentVariableW(variable, path, 512) == 0)
        return INVALID_HANDLE_VALUE;
    return CreateFileW(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
}

static DWORD WINAPI copy(void *argument) {
    Stream *stream = argument;
    HANDLE file = CreateFileW(stream->path, GENERIC_WRITE, FILE_SHARE_READ, NULL, CREATE_ALWAYS, 0, NULL);
    char data[4096];
    DWORD size, written;
    while (ReadFile(stream->pipe, data, sizeof data, &size, NULL) && size > 0)
        WriteFile(file, data, size, &written, NULL);
    CloseHandle(file);
    return 0;
}

int wmain(int count, wchar_t **arguments) {
    static Stream output, errors;
    output.pipe = dial(L"CONTAINER_STDOUT");
    errors.pipe = dial(L"CONTAINER_STDERR");
    HANDLE ready = dial(L"CONTAINER_WAIT");
    DWORD written;
    if (count < 2 || output.pipe == INVALID_HANDLE_VALUE || errors.pipe == INVALID_HANDLE_VALUE)
        return 1;
    swprintf(output.path, 1024, L"%ls", arguments[count - 1]);
    swprintf(errors.path, 1024, L"%ls.err", arguments[count - 1]);
    WriteFile(ready, "r", 1, &written, NULL); /* reports that the logger is ready */
    CloseHandle(ready);
    HANDLE thread = CreateThread(NULL, 0, copy, &errors, 0, NULL);
    copy(&output);
    WaitForSingleObject(thread, INFINITE);
    return 0;
}
