/* libFuzzer: the frames that the emulator's library reads from the service, in pieces of any size. */
#include <stdlib.h>
#include <string.h>

#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct frames frames;
    if (size == 0 || !frames_init(&frames))
        return 0;
    size_t piece = (size_t)data[0] + 1;
    for (size_t at = 1; at < size;) {
        size_t space = 0, left = size - at;
        uint8_t *to = frames_space(&frames, &space);
        if (to == NULL || space == 0)
            break;
        size_t count = left < piece ? left : piece;
        if (count > space)
            count = space;
        memcpy(to, data + at, count);
        frames_received(&frames, count);
        at += count;
        struct message message;
        enum next next;
        while ((next = frames_next(&frames, &message)) == NEXT_MESSAGE) {
            if (message.reply.document != NULL)
                text_length(message.reply.document);
            free(message.reply.document);
        }
        if (next == NEXT_GARBAGE)
            break;
    }
    frames_free(&frames);
    return 0;
}
