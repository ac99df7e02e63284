/* The Connect call to the shim of a pod: a ttrpc request and its response. */
#include <string.h>

#include "common.h"

#define SERVICE "containerd.task.v2.Task"
#define METHOD "Connect"
#define RESPONSE 2

static size_t encode_bytes_field(unsigned char *to, unsigned char tag, const void *text, size_t length) {
    size_t head = 1 + encode_varint(to + 1, length);
    *to = tag;
    memcpy(to + head, text, length);
    return head + length;
}

/* One frame of stream 1 with service, method, payload and timeout. */
size_t encode_connect_request(const char *id, unsigned char frame[MAX_FRAME]) {
    unsigned char payload[MAX_CONNECT_ID + 8];
    size_t size = encode_bytes_field(payload, 0x0a, id, strlen(id)), length = FRAME_HEADER;
    length += encode_bytes_field(frame + length, 0x0a, SERVICE, strlen(SERVICE));
    length += encode_bytes_field(frame + length, 0x12, METHOD, strlen(METHOD));
    length += encode_bytes_field(frame + length, 0x1a, payload, size);
    frame[length++] = 0x20;
    length += encode_varint(frame + length, CONNECT_TIMEOUT_SECONDS * 1000000000ull);
    size_t body = length - FRAME_HEADER;
    const unsigned char header[FRAME_HEADER] = {0, 0, (unsigned char)(body >> 8), (unsigned char)body, 0, 0, 0, 1, 1, 0};
    memcpy(frame, header, FRAME_HEADER);
    return length;
}

size_t response_size(const unsigned char header[FRAME_HEADER]) {
    size_t size = (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
    return header[8] == RESPONSE && size <= MAX_RESPONSE_BODY ? size : 0;
}

/* shim_pid, the first field of the payload, in a response without a status. */
uint64_t decode_connect_response(const unsigned char *body, size_t length) {
    const unsigned char *at = body, *end = body + length;
    uint64_t size, pid;
    if (at == end || *at++ != 0x12 || !decode_varint(&at, end, &size) || size != (uint64_t)(end - at) || at == end)
        return 0;
    return *at++ == 0x08 && decode_varint(&at, end, &pid) && pid <= INT32_MAX ? pid : 0;
}
