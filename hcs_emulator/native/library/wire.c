#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER 16        /* size, kind, zeros, id */
#define REQUEST_FIXED 24 /* call, zero, handle, number, count */
#define REPLY_FIXED 20   /* result, handle, pid, streams */
#define KIND_REQUEST 1
#define NO_STRING UINT32_MAX
#define ROOM (64u << 10)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers and UTF-16 go to the wire as they are in memory");

static uint8_t *put(uint8_t *at, const void *value, size_t size) {
    if (size > 0)
        memcpy(at, value, size);
    return at + size;
}

static uint32_t get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t get64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

size_t text_length(PCWSTR text) {
    size_t length = 0;
    while (text[length] != 0)
        length++;
    return length;
}

PWSTR text_copy(PCWSTR text, size_t length) {
    PWSTR copy = malloc((length + 1) * sizeof *copy);
    if (copy == NULL)
        return NULL;
    if (length > 0)
        memcpy(copy, text, length * sizeof *copy);
    copy[length] = 0;
    return copy;
}

PWSTR text_from_ascii(const char *text) {
    size_t length = strlen(text);
    PWSTR copy = malloc((length + 1) * sizeof *copy);
    for (size_t index = 0; copy != NULL && index <= length; index++)
        copy[index] = (unsigned char)text[index] < 128 ? (char16_t)text[index] : u'?';
    return copy;
}

PWSTR error_document(HRESULT code, const char *message) {
    char escaped[1024], document[2400];
    size_t length = 0;
    for (; *message != '\0' && length < sizeof escaped - 2; message++) {
        if (*message == '"' || *message == '\\')
            escaped[length++] = '\\';
        escaped[length++] = (unsigned char)*message < ' ' ? ' ' : *message;
    }
    escaped[length] = '\0';
    snprintf(document, sizeof document,
             "{\"Error\": %d, \"ErrorMessage\": \"%s\", \"ErrorEvents\": "
             "[{\"Message\": \"%s\", \"Source\": \"emulator\"}]}",
             (int)code,
             escaped, escaped);
    return text_from_ascii(document);
}

uint8_t *wire_encode(const struct request *request, size_t *size) {
    size_t total = HEADER + REQUEST_FIXED;
    for (uint32_t index = 0; index < request->count; index++) {
        total += 4;
        if (request->strings[index] != NULL)
            total += text_length(request->strings[index]) * sizeof(char16_t);
        if (total > WIRE_MAX_FRAME)
            return NULL;
    }
    uint8_t *frame = calloc(1, total);
    if (frame == NULL)
        return NULL;
    uint32_t after_size = (uint32_t)total - 4;
    uint16_t call = (uint16_t)request->call;
    put(frame, &after_size, 4);
    frame[4] = KIND_REQUEST;
    put(frame + HEADER, &call, 2);
    put(frame + HEADER + 4, &request->handle, 8);
    put(frame + HEADER + 12, &request->number, 8);
    uint8_t *at = put(frame + HEADER + 20, &request->count, 4);
    for (uint32_t index = 0; index < request->count; index++) {
        PCWSTR text = request->strings[index];
        uint32_t bytes = text == NULL ? NO_STRING : (uint32_t)(text_length(text) * sizeof *text);
        at = put(at, &bytes, 4);
        if (text != NULL)
            at = put(at, text, bytes);
    }
    *size = total;
    return frame;
}

void wire_set_id(uint8_t *frame, uint64_t id) { put(frame + 8, &id, 8); }

bool frames_init(struct frames *frames) {
    *frames = (struct frames){.data = malloc(ROOM), .capacity = ROOM};
    return frames->data != NULL;
}

void frames_free(struct frames *frames) { free(frames->data); }

static bool frames_resize(struct frames *frames, size_t capacity) {
    uint8_t *data = realloc(frames->data, capacity);
    if (data == NULL)
        return false;
    frames->data = data;
    frames->capacity = capacity;
    return true;
}

uint8_t *frames_space(struct frames *frames, size_t *size) {
    size_t held = frames->end - frames->start;
    if (frames->start > 0 && held > 0)
        memmove(frames->data, frames->data + frames->start, held);
    frames->start = 0;
    frames->end = held;
    size_t wanted = ROOM;
    if (held >= 4) {
        uint32_t after_size = get32(frames->data);
        if (after_size > WIRE_MAX_FRAME)
            return NULL;
        if (after_size + 4 > wanted)
            wanted = after_size + 4;
    }
    if (wanted != frames->capacity && wanted >= held && !frames_resize(frames, wanted))
        return NULL;
    *size = frames->capacity - held;
    return frames->data + held;
}

void frames_received(struct frames *frames, size_t size) { frames->end += size; }

/* Takes the string at the end of the frame; false if it does not fit. */
static bool take_document(const uint8_t *at, size_t size, PWSTR *document) {
    if (size < 4)
        return false;
    uint32_t bytes = get32(at);
    if (bytes == NO_STRING) {
        *document = NULL;
        return size == 4;
    }
    if (bytes != size - 4 || bytes % sizeof(char16_t) != 0)
        return false;
    PWSTR copy = malloc(bytes + sizeof *copy);
    if (copy == NULL)
        return false;
    put((uint8_t *)copy, at + 4, bytes);
    copy[bytes / sizeof *copy] = 0;
    *document = copy;
    return true;
}

enum next frames_next(struct frames *frames, struct message *message) {
    const uint8_t *at = frames->data + frames->start;
    size_t held = frames->end - frames->start;
    if (held < 4)
        return NEXT_NONE;
    size_t size = (size_t)get32(at) + 4;
    if (size < HEADER || size - 4 > WIRE_MAX_FRAME)
        return NEXT_GARBAGE;
    if (held < size)
        return NEXT_NONE;
    *message = (struct message){.kind = at[4], .id = get64(at + 8)};
    const uint8_t *body = at + HEADER;
    size_t left = size - HEADER;
    size_t fixed = message->kind == MESSAGE_REPLY ? REPLY_FIXED : 4;
    if ((message->kind != MESSAGE_REPLY && message->kind != MESSAGE_EVENT) || left < fixed ||
        !take_document(body + fixed, left - fixed, &message->reply.document))
        return NEXT_GARBAGE;
    if (message->kind == MESSAGE_EVENT) {
        message->event_type = get32(body);
    } else {
        message->reply.result = (HRESULT)get32(body);
        message->reply.handle = get64(body + 4);
        message->reply.pid = get32(body + 12);
        message->stream_bits = get32(body + 16) & 7;
    }
    frames->start += size;
    return NEXT_MESSAGE;
}
