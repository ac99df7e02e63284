/* `start` of a container whose pod has a shim: calls Connect, writes two files and prints the shim's address. */
#include <stdio.h>
#include <string.h>

#include "commands.h"

#define CONNECT_TIMEOUT (CONNECT_TIMEOUT_SECONDS * 1000)

static uint64_t request_pid(HANDLE pipe, const char *id) {
    unsigned char frame[MAX_FRAME], header[FRAME_HEADER], body[MAX_RESPONSE_BODY];
    size_t length = encode_connect_request(id, frame);
    if (!send_all(pipe, frame, length, CONNECT_TIMEOUT) || !receive_all(pipe, header, FRAME_HEADER, CONNECT_TIMEOUT))
        return 0;
    size_t size = response_size(header);
    return size > 0 && receive_all(pipe, body, size, CONNECT_TIMEOUT) ? decode_connect_response(body, size) : 0;
}

bool native_join_pod(const char *address, const char *sandbox) {
    HANDLE pipe = strlen(sandbox) > MAX_CONNECT_ID ? NULL : connect_pipe(address, CONNECT_TIMEOUT);
    uint64_t pid = pipe == NULL ? 0 : request_pid(pipe, sandbox);
    if (pipe != NULL)
        CloseHandle(pipe);
    if (pid == 0)
        return false;
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)pid);
    if (write_file(L"shim.pid", number) && write_file(L"address", address) && write_stdout(address, strlen(address)))
        return true;
    DeleteFileW(L"shim.pid");
    DeleteFileW(L"address");
    return false;
}
