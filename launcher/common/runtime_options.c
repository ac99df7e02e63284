/* Validates runtime options on stdin. The daemon reads them (shim/commands/bootstrap.py); this code only decides whether
   it will accept them. Supported is a protobuf Any with this runtime's options.

   A new field in proto/runhcs/options.proto has to be added to is_supported(); until then every start that uses it falls
   back to Python. */
#include <string.h>

#include "common.h"

#define OPTIONS_TYPE "containerd.runhcs.v1.Options"

enum { VARINT = 0, BYTES = 2 };
enum { DEBUG_TYPE = 2, LOG_LEVEL = 16, ANNOTATIONS = 18 };

bool decode_varint(const unsigned char **at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 63; shift += 7) { /* a tenth byte is for negative numbers, which are unsupported */
        if (*at == end)
            return false;
        unsigned char byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

size_t encode_varint(unsigned char *to, uint64_t value) {
    size_t length = 0;
    for (; value > 0x7f; value >>= 7)
        to[length++] = (unsigned char)(value | 0x80);
    to[length++] = (unsigned char)value;
    return length;
}

struct field {
    uint64_t number, value; /* value: of a varint, or the length of bytes */
    unsigned wire;
    const unsigned char *bytes;
};

static bool read_field(const unsigned char **at, const unsigned char *end, struct field *field) {
    uint64_t tag;
    if (!decode_varint(at, end, &tag) || tag > 0xffff || !decode_varint(at, end, &field->value))
        return false;
    field->number = tag >> 3;
    field->wire = tag & 7;
    field->bytes = *at;
    if (field->wire == VARINT)
        return true;
    if (field->wire != BYTES || field->value > (uint64_t)(end - *at))
        return false;
    *at += field->value;
    return true;
}

static bool is_text_field(const struct field *field) { return is_printable_ascii((const char *)field->bytes, field->value); }

static bool is_log_level(const struct field *field) {
    static const char *const levels[] = {"", "panic", "fatal", "error", "warning", "warn", "info", "debug", "trace"};
    for (size_t at = 0; at < sizeof levels / sizeof *levels; at++)
        if (strlen(levels[at]) == field->value && memcmp(levels[at], field->bytes, field->value) == 0)
            return true;
    return false;
}

/* An entry of map<string, string>. */
static bool is_map_entry(const struct field *entry) {
    const unsigned char *at = entry->bytes, *end = at + entry->value;
    struct field field;
    while (at < end)
        if (!read_field(&at, end, &field) || field.wire != BYTES || field.number < 1 || field.number > 2 ||
            !is_text_field(&field))
            return false;
    return true;
}

static bool is_supported(const struct field *field) {
    switch (field->number) {
    case DEBUG_TYPE: return field->wire == VARINT && (field->value == 0 || field->value == 2);
    case LOG_LEVEL: return field->wire == BYTES && is_log_level(field);
    case ANNOTATIONS: return field->wire == BYTES && is_map_entry(field);
    case 1: case 6: case 8: case 9: case 11: case 12: case 13: case 14: case 17: case 19: case 20:
        return field->wire == VARINT && field->value <= INT32_MAX;
    case 3: case 4: case 5: case 7: case 10: case 15: return field->wire == BYTES && is_text_field(field);
    default: return false;
    }
}

bool options_are_supported(const unsigned char *data, size_t length, const char *id) {
    const unsigned char *at = data, *end = data + length;
    struct field type, value = {0}, field;
    if (!read_field(&at, end, &type) || type.number != 1 || type.wire != BYTES || type.value != strlen(OPTIONS_TYPE) ||
        memcmp(type.bytes, OPTIONS_TYPE, type.value) != 0)
        return false;
    if (strcmp(id, OPTIONS_TYPE) == 0) /* it may be BootstrapParams, whose first field is the id */
        return false;
    if (at < end && (!read_field(&at, end, &value) || value.number != 2 || value.wire != BYTES || at != end))
        return false;
    for (at = value.bytes, end = at + value.value; at < end;)
        if (!read_field(&at, end, &field) || !is_supported(&field))
            return false;
    return true;
}
