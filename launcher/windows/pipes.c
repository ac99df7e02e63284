/* Named pipes, as shim/platform/windows/endpoint.py and pipe.py use them, as far as `start` needs them. */
#include <stdio.h>
#include <string.h>

#include "commands.h"

#define BUFFER (64 << 10)
#define FREE_INSTANCE_MILLISECONDS 1 /* for a free instance, whose absence does not matter */

/* D:P(A;;GA;;;BA)(A;;GA;;;SY), as in shim/platform/windows/security.py, in binary form: converting the text would load
   another DLL, and Python would load cffi for it. */
static const unsigned char administrators_only[] = {
    1, 0, 0x04, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,             /* a protected DACL at offset 20 */
    2, 0, 52, 0, 2, 0, 0, 0,                                                      /* 52 bytes, two entries */
    0, 0, 24, 0, 0, 0, 0, 0x10, 1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0, /* GENERIC_ALL for S-1-5-32-544 */
    0, 0, 20, 0, 0, 0, 0, 0x10, 1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0,              /* GENERIC_ALL for S-1-5-18 */
};

const SECURITY_ATTRIBUTES pipe_security = {sizeof pipe_security, (void *)administrators_only, FALSE};

bool pipe_name(const struct command *command, const char *id, char name[MAX_PIPE]) {
    int length = snprintf(name, MAX_PIPE, PIPES "containerd-shim-%s-%s-pipe", command->namespace, id);
    return length > 0 && length <= 256 + 9; /* the limit applies to what follows \\.\pipe\ */
}

bool log_pipe_name(const struct command *command, char name[MAX_PIPE]) {
    int length = snprintf(name, MAX_PIPE, "\\\\.\\pipe\\containerd-shim-%s-%s-log", command->namespace, command->id);
    return length > 0 && length <= 256 + 9;
}

static HANDLE null_if_invalid(HANDLE handle) { return handle == INVALID_HANDLE_VALUE ? NULL : handle; }

bool pipe_exists(const char *name) {
    return WaitNamedPipeA(name, FREE_INSTANCE_MILLISECONDS) || GetLastError() != ERROR_FILE_NOT_FOUND;
}

HANDLE create_listener(const char *name) {
    SECURITY_ATTRIBUTES security = {sizeof security, (void *)administrators_only, TRUE};
    if (pipe_exists(name))
        return NULL; /* Python reports who may hold it, where CreateNamedPipe only says that access is denied */
    return null_if_invalid(CreateNamedPipeA(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
        PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS, PIPE_UNLIMITED_INSTANCES, BUFFER, BUFFER, 50, &security));
}

static HANDLE open_pipe(const char *name) {
    /* The server must not impersonate this process. */
    return null_if_invalid(CreateFileA(name, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING,
        FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_ANONYMOUS, NULL));
}

HANDLE connect_pipe(const char *name, DWORD timeout) {
    HANDLE pipe = open_pipe(name);
    if (pipe == NULL && timeout > 0 && GetLastError() == ERROR_PIPE_BUSY && WaitNamedPipeA(name, timeout))
        pipe = open_pipe(name);
    return pipe;
}

/* Waits for a pending operation; returns the bytes transferred, 0 if it failed or timed out. */
static DWORD wait_for_io(HANDLE pipe, BOOL is_done, OVERLAPPED *begun, DWORD timeout) {
    DWORD moved = 0;
    if (!is_done && GetLastError() != ERROR_IO_PENDING)
        return 0;
    if (!is_done && WaitForSingleObject(begun->hEvent, timeout) != WAIT_OBJECT_0)
        CancelIoEx(pipe, begun); /* GetOverlappedResult waits for the cancellation */
    return GetOverlappedResult(pipe, begun, &moved, TRUE) ? moved : 0;
}

static bool transfer(HANDLE pipe, bool sends, char *data, size_t length, DWORD timeout) {
    static HANDLE event;
    if (event == NULL && (event = CreateEventW(NULL, TRUE, FALSE, NULL)) == NULL)
        return false;
    while (length > 0) {
        OVERLAPPED begun = {.hEvent = event};
        BOOL is_done = sends ? WriteFile(pipe, data, (DWORD)length, NULL, &begun)
                             : ReadFile(pipe, data, (DWORD)length, NULL, &begun);
        DWORD moved = wait_for_io(pipe, is_done, &begun, timeout);
        if (moved == 0)
            return false;
        data += moved;
        length -= moved;
    }
    return true;
}

bool send_all(HANDLE pipe, const void *data, size_t length, DWORD timeout) {
    return transfer(pipe, true, (char *)data, length, timeout);
}

bool receive_all(HANDLE pipe, void *data, size_t length, DWORD timeout) {
    return transfer(pipe, false, data, length, timeout);
}
