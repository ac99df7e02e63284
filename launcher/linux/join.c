/* `start` of a container whose pod has a shim: calls Connect, writes two files and prints the shim's address. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher.h"

static bool receive_all(int fd, unsigned char *data, size_t length) {
    for (size_t got = 0; got < length;) {
        ssize_t part = recv(fd, data + got, length - got, 0);
        if (part <= 0)
            return false;
        got += (size_t)part;
    }
    return true;
}

static uint64_t request_pid(int fd, const struct sockaddr_un *address, const char *id) {
    unsigned char frame[MAX_FRAME], header[FRAME_HEADER], body[MAX_RESPONSE_BODY];
    struct timeval timeout = {.tv_sec = CONNECT_TIMEOUT_SECONDS};
    size_t length = encode_connect_request(id, frame);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
        connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 ||
        send(fd, frame, length, MSG_NOSIGNAL) != (ssize_t)length || !receive_all(fd, header, FRAME_HEADER))
        return 0;
    size_t size = response_size(header);
    return size > 0 && receive_all(fd, body, size) ? decode_connect_response(body, size) : 0;
}

bool native_join_pod(const struct sockaddr_un *address, const char *sandbox) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t pid = fd < 0 || strlen(sandbox) > MAX_CONNECT_ID ? 0 : request_pid(fd, address, sandbox);
    if (fd >= 0)
        close(fd);
    if (pid == 0)
        return false;
    char number[32], text[sizeof address->sun_path + sizeof SCHEME];
    snprintf(number, sizeof number, "%llu", (unsigned long long)pid);
    snprintf(text, sizeof text, SCHEME "%s", address->sun_path);
    if (write_file("shim.pid", number) && write_file("address", text) && write_stdout(text, strlen(text)))
        return true;
    unlink("shim.pid");
    unlink("address");
    return false;
}
