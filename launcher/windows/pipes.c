/* Named pipes: what shim/platform/windows/endpoint.py and pipe.py do, where `start` needs it. */
#include <stdio.h>
#include <string.h>

#include "commands.h"

#define BUFFER (64 << 10)
#define NEVER_TAKEN 1 /* ms: how long is waited for a free instance of a name that should not exist */

/* D:P(A;;GA;;;BA)(A;;GA;;;SY), as shim/platform/windows/security.py has it, in the form that the kernel reads: to have it made
   of text would mean another library to load. */
static const unsigned char administrators_only[] = {
    1, 0, 0x04, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,             /* a protected list, at 20; no more */
    2, 0, 52, 0, 2, 0, 0, 0,                                                      /* 52 bytes, two entries */
    0, 0, 24, 0, 0, 0, 0, 0x10, 1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0, /* all for S-1-5-32-544 */
    0, 0, 20, 0, 0, 0, 0, 0x10, 1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0,              /* all for S-1-5-18 */
};

bool pipe_name(const struct command *command, const char *id, char name[MAX_PIPE]) {
    int length = snprintf(name, MAX_PIPE, PIPES "containerd-shim-%s-%s-pipe", command->namespace, id);
    return length > 0 && length <= 256 + 9; /* the limit is for what is behind \\.\pipe\ */
}

static HANDLE valid(HANDLE handle) { return handle == INVALID_HANDLE_VALUE ? NULL : handle; }

HANDLE listen_at(const char *name) {
    SECURITY_ATTRIBUTES security = {sizeof security, (void *)administrators_only, TRUE};
    /* Wine creates a second first instance without a word. */
    if (WaitNamedPipeA(name, NEVER_TAKEN) || GetLastError() != ERROR_FILE_NOT_FOUND)
        return NULL;
    return valid(CreateNamedPipeA(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
        PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS, PIPE_UNLIMITED_INSTANCES, BUFFER, BUFFER, 50, &security));
}

static HANDLE open_pipe(const char *name) {
    /* The server must not act in our name. */
    return valid(CreateFileA(name, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING,
        FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_ANONYMOUS, NULL));
}

HANDLE dial(const char *name, DWORD patience) {
    HANDLE pipe = open_pipe(name);
    if (pipe == NULL && patience > 0 && GetLastError() == ERROR_PIPE_BUSY && WaitNamedPipeA(name, patience))
        pipe = open_pipe(name);
    return pipe;
}

/* The end of an operation that was begun; how many bytes it moved, 0 if it failed or took too long. */
static DWORD finish(HANDLE pipe, BOOL is_done, OVERLAPPED *begun, DWORD patience) {
    DWORD moved = 0;
    if (!is_done && GetLastError() != ERROR_IO_PENDING)
        return 0;
    if (!is_done && WaitForSingleObject(begun->hEvent, patience) != WAIT_OBJECT_0)
        CancelIoEx(pipe, begun); /* the system may be at it still: that is waited for */
    return GetOverlappedResult(pipe, begun, &moved, TRUE) ? moved : 0;
}

static bool transfer(HANDLE pipe, bool sends, char *data, size_t length, DWORD patience) {
    static HANDLE event;
    if (event == NULL && (event = CreateEventW(NULL, TRUE, FALSE, NULL)) == NULL)
        return false;
    while (length > 0) {
        OVERLAPPED begun = {.hEvent = event};
        BOOL is_done = sends ? WriteFile(pipe, data, (DWORD)length, NULL, &begun)
                             : ReadFile(pipe, data, (DWORD)length, NULL, &begun);
        DWORD moved = finish(pipe, is_done, &begun, patience);
        if (moved == 0)
            return false;
        data += moved;
        length -= moved;
    }
    return true;
}

bool send_all(HANDLE pipe, const void *data, size_t length, DWORD patience) {
    return transfer(pipe, true, (char *)data, length, patience);
}

bool receive_all(HANDLE pipe, void *data, size_t length, DWORD patience) {
    return transfer(pipe, false, data, length, patience);
}
