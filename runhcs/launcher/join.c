/* `start` of a container whose pod has a shim: one Connect to that shim, two files and its address. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher.h"

/* An answer comes at once or Python has the patience. */
#define PATIENCE_SECONDS 1
#define SERVICE "containerd.task.v2.Task"
#define METHOD "Connect"
#define HEADER 10
#define RESPONSE 2
#define MAX_ANSWER 4096

static size_t put_text(unsigned char *to, unsigned char tag, const void *text, size_t length) {
    size_t head = 1 + put_varint(to + 1, length);
    *to = tag;
    memcpy(to + head, text, length);
    return head + length;
}

/* A ttrpc request: a frame of stream 1 with service, method, payload and timeout. */
static size_t encode_request(const char *id, unsigned char *frame) {
    unsigned char payload[300];
    size_t size = put_text(payload, 0x0a, id, strlen(id)), length = HEADER;
    length += put_text(frame + length, 0x0a, SERVICE, strlen(SERVICE));
    length += put_text(frame + length, 0x12, METHOD, strlen(METHOD));
    length += put_text(frame + length, 0x1a, payload, size);
    frame[length++] = 0x20;
    length += put_varint(frame + length, PATIENCE_SECONDS * 1000000000ull);
    size_t body = length - HEADER;
    const unsigned char header[HEADER] = {0, 0, (unsigned char)(body >> 8), (unsigned char)body, 0, 0, 0, 1, 1, 0};
    memcpy(frame, header, HEADER);
    return length;
}

static bool receive(int fd, unsigned char *data, size_t length) {
    for (size_t got = 0; got < length;) {
        ssize_t part = recv(fd, data + got, length - got, 0);
        if (part <= 0)
            return false;
        got += (size_t)part;
    }
    return true;
}

/* The pid in a ttrpc response without a status: payload, in it the first field. 0 if it is anything else. */
static uint64_t decode_pid(const unsigned char *body, size_t length) {
    const unsigned char *at = body, *end = body + length;
    uint64_t size, pid;
    if (at == end || *at++ != 0x12 || !read_varint(&at, end, &size) || size != (uint64_t)(end - at) || at == end)
        return 0;
    return *at++ == 0x08 && read_varint(&at, end, &pid) && pid <= INT32_MAX ? pid : 0;
}

static uint64_t ask_pid(int fd, const struct sockaddr_un *address, const char *id) {
    unsigned char frame[1024], header[HEADER], body[MAX_ANSWER];
    struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    size_t length = encode_request(id, frame);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
        connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 ||
        send(fd, frame, length, MSG_NOSIGNAL) != (ssize_t)length || !receive(fd, header, HEADER))
        return 0;
    size_t size = (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
    if (header[8] != RESPONSE || size > sizeof body || !receive(fd, body, size))
        return 0;
    return decode_pid(body, size);
}

bool native_join(const struct sockaddr_un *address, const char *sandbox) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t pid = fd < 0 || strlen(sandbox) > 255 ? 0 : ask_pid(fd, address, sandbox);
    if (fd >= 0)
        close(fd);
    if (pid == 0)
        return false;
    char number[32], text[sizeof address->sun_path + sizeof SCHEME];
    snprintf(number, sizeof number, "%llu", (unsigned long long)pid);
    snprintf(text, sizeof text, SCHEME "%s", address->sun_path);
    if (write_file("shim.pid", number) && write_file("address", text) && print(text, strlen(text)))
        return true;
    unlink("shim.pid");
    unlink("address");
    return false;
}
