/* Frames to and from the service: see WIRE.md. */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>

#include "hcs.h"

enum call {
#define CALL(number, name, handle, argument, strings) CALL_##name = number,
#include "calls.def"
#undef CALL
};

#define WIRE_MAX_FRAME (64u << 20)

struct request {
    enum call call;
    uint64_t handle, number;
    uint32_t count;
    const PCWSTR *strings; /* any of them may be NULL */
};

/* The response to a request. document is allocated; the holder of the reply owns it and the handles. */
struct reply {
    HRESULT result;
    uint64_t connection; /* the number of the connection it was received on */
    uint64_t handle;
    uint32_t pid;
    HANDLE streams[3];
    PWSTR document;
};

struct message {
    enum { MESSAGE_REPLY = 2, MESSAGE_EVENT = 3 } kind;
    uint64_t id; /* of the request, or the handle that an event is for */
    uint32_t event_type;
    uint32_t stream_bits;
    struct reply reply; /* an event has only the document */
};

/* Returns an allocated frame, or NULL if it would be too large or there is no memory. */
uint8_t *wire_encode(const struct request *request, size_t *size);
void wire_set_id(uint8_t *frame, uint64_t id);

/* Collects received bytes until a frame is complete. */
struct frames {
    uint8_t *data;
    size_t start, end, capacity;
};

bool frames_init(struct frames *frames);
/* Where the next bytes go; NULL: no memory or not a frame. */
uint8_t *frames_space(struct frames *frames, size_t *size);
void frames_received(struct frames *frames, size_t size);
enum next { NEXT_MESSAGE, NEXT_NONE, NEXT_GARBAGE } frames_next(struct frames *frames, struct message *message);
void frames_free(struct frames *frames);

size_t text_length(PCWSTR text);
PWSTR text_copy(PCWSTR text, size_t length);
PWSTR text_from_ascii(const char *text);

/* The document of an error that the library itself detects, in HCS's format. */
PWSTR error_document(HRESULT code, const char *message);

#endif
