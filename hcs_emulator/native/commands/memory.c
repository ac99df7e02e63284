/* Memory of the stand-in commands: allocated piecewise, released all at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

struct block {
    struct block *next;
    max_align_t content[];
};

static struct block *blocks;

void *keep(size_t size)
{
    struct block *block = calloc(1, sizeof *block + size);
    if (block == NULL) {
        fputs("Not enough memory resources are available to process this command.\r\n", stderr);
        exit(8);
    }
    block->next = blocks;
    blocks = block;
    return block->content;
}

char *keep_text(const char *text, size_t length)
{
    char *copy = keep(length + 1);
    memcpy(copy, text, length);
    return copy;
}

void forget_all(void)
{
    while (blocks) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

void append(struct buffer *buffer, const char *text, size_t length)
{
    if (buffer->length + length + 1 > buffer->capacity) {
        size_t capacity = (buffer->length + length + 1) * 2;
        char *larger = keep(capacity);
        if (buffer->length)
            memcpy(larger, buffer->text, buffer->length);
        buffer->text = larger;
        buffer->capacity = capacity;
    }
    memcpy(buffer->text + buffer->length, text, length);
    buffer->length += length;
    buffer->text[buffer->length] = '\0';
}

void append_text(struct buffer *buffer, const char *text) { append(buffer, text, strlen(text)); }
