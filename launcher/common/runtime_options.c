/* Validates what containerd writes to stdin. The daemon reads it (shim/commands/bootstrap.py); this code only decides
   whether it will accept it. Supported are a protobuf Any with the runtime options, and BootstrapParams (containerd 2.3 and
   later, for a binary of another name) with such an Any as an extension. The options are this runtime's own message, or
   TOML text in the generic one, which CRI sends under a runtime type that containerd does not know.

   A new field in proto/runhcs/options.proto has to be added to is_supported(); until then every start that uses it falls
   back to Python. */
#include <string.h>

#include "common.h"

#define OPTIONS_TYPE "containerd.runhcs.v1.Options"
#define GENERIC_TYPE "runtimeoptions.v1.Options"
/* Python's TOML parser fails on text that is nested too deeply. */
#define MAX_BRACKETS 64

enum { VARINT = 0, BYTES = 2 };
enum { DEBUG_TYPE = 2, LOG_LEVEL = 16, ANNOTATIONS = 18 };
enum { GENERIC_TYPE_URL = 1, CONFIG_BODY = 3 };
enum { INSTANCE_ID = 1, NAMESPACE, PARAMS_LOG_LEVEL, BINARY = 7, EXTENSIONS, SOCKET_DIR };

bool decode_varint(const unsigned char **at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift <= 63; shift += 7) {
        if (*at == end)
            return false;
        unsigned char byte = *(*at)++;
        if (shift == 63 && byte > 1)
            return false;
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

static bool equals(const struct field *field, const char *text) {
    return field->wire == BYTES && field->value == strlen(text) && memcmp(field->bytes, text, field->value) == 0;
}

/* An entry of map<string, string>: the default annotations, of which one is the scope. */
static bool is_map_entry(const struct field *entry, enum scope *scope) {
    const unsigned char *at = entry->bytes, *end = at + entry->value;
    struct field field, key = {0};
    while (at < end) {
        if (!read_field(&at, end, &field) || field.wire != BYTES || field.number < 1 || field.number > 2 ||
            !is_text_field(&field))
            return false;
        if (field.number == 1 && key.bytes != NULL)
            return false;
        if (field.number == 1)
            key = field;
        else if (key.bytes == NULL)
            return false;
        else if (equals(&key, SHIM_SCOPE) &&
                 (*scope != NO_SCOPE || !parse_scope((const char *)field.bytes, field.value, scope)))
            return false;
    }
    return true;
}

static bool is_supported(const struct field *field, enum scope *scope) {
    switch (field->number) {
    case DEBUG_TYPE: return field->wire == VARINT && (field->value == 0 || field->value == 2);
    case LOG_LEVEL: return field->wire == BYTES && is_log_level(field);
    case ANNOTATIONS: return field->wire == BYTES && is_map_entry(field, scope);
    case 1: case 6: case 8: case 9: case 11: case 12: case 13: case 14: case 17: case 19: case 20:
        return field->wire == VARINT && field->value <= INT32_MAX;
    case 3: case 4: case 5: case 7: case 10: case 15: return field->wire == BYTES && is_text_field(field);
    default: return false;
    }
}

static char lower(unsigned char byte) { return (char)(byte >= 'A' && byte <= 'Z' ? byte + 'a' - 'A' : byte); }

static bool begins_with(const unsigned char *at, const unsigned char *end, const char *word) {
    while (*word != '\0' && at < end && lower(*at) == *word)
        at++, word++;
    return *word == '\0';
}

/* A whole line `ShimScope = "node"`, as containerd writes it. */
static bool read_toml_scope(const unsigned char *begin, const unsigned char *at, const unsigned char *end, enum scope *scope) {
    static const char key[] = "shimscope = \"";
    if (*scope != NO_SCOPE || (at > begin && at[-1] != '\n') || !begins_with(at, end, key))
        return false;
    const unsigned char *value = at += sizeof key - 1;
    while (at < end && *at != '"')
        at++;
    return at < end && parse_scope((const char *)value, (size_t)(at - value), scope) && (at + 1 == end || at[1] == '\n');
}

/* TOML text that cannot make `start` fail: the only options that can are LogLevel, DebugType and ShimScope. A key may be
   written with escapes. ShimScope is read if it comes before every table and there is no text of several lines. If Create
   will refuse the options, it does not matter. */
static bool is_supported_toml(const struct field *body, enum scope *scope) {
    int brackets = 0;
    bool has_long_text = false;
    for (const unsigned char *begin = body->bytes, *at = begin, *end = at + body->value; at < end; at++) {
        if (*at > 0x7e || (*at < 0x20 && *at != '\n' && *at != '\t'))
            return false;
        if ((*at == '[' || *at == '{') && ++brackets > MAX_BRACKETS)
            return false;
        if (begins_with(at, end, "loglevel") || begins_with(at, end, "debugtype") || begins_with(at, end, "\\u") ||
            begins_with(at, end, "shim-scope"))
            return false;
        has_long_text = has_long_text || begins_with(at, end, "\"\"\"") || begins_with(at, end, "'''");
        if (begins_with(at, end, "shimscope") && (brackets > 0 || !read_toml_scope(begin, at, end, scope)))
            return false;
    }
    return *scope == NO_SCOPE || !has_long_text;
}

static bool is_supported_generic(const struct field *field, enum scope *scope) {
    if (field->wire != BYTES)
        return false;
    if (field->number == GENERIC_TYPE_URL)
        return is_text_field(field);
    return field->number == CONFIG_BODY && is_supported_toml(field, scope);
}

/* An Any with options. */
static bool any_is_supported(const unsigned char *at, const unsigned char *end, enum scope *scope) {
    struct field type, value = {0}, field;
    if (!read_field(&at, end, &type) || type.number != 1)
        return false;
    bool is_generic = equals(&type, GENERIC_TYPE);
    if (!is_generic && !equals(&type, OPTIONS_TYPE))
        return false;
    if (at < end && (!read_field(&at, end, &value) || value.number != 2 || value.wire != BYTES || at != end))
        return false;
    for (at = value.bytes, end = at + value.value; at < end;)
        if (!read_field(&at, end, &field) ||
            !(is_generic ? is_supported_generic(&field, scope) : is_supported(&field, scope)))
            return false;
    return true;
}

static bool extension_is_supported(const struct field *extension, enum scope *scope) {
    const unsigned char *at = extension->bytes, *end = at + extension->value;
    struct field any;
    return extension->wire == BYTES && read_field(&at, end, &any) && any.number == 1 && any.wire == BYTES && at == end &&
           any_is_supported(any.bytes, any.bytes + any.value, scope);
}

/* The fields in the order of their numbers, as containerd writes them. */
static bool params_are_supported(const unsigned char *at, const unsigned char *end, const struct command *command,
    char *socket_dir, enum scope *scope) {
    struct field field;
    uint64_t last = 0;
    bool has_id = false, has_namespace = false;
    while (at < end) {
        if (!read_field(&at, end, &field) || field.number < last || (field.number == last && last != EXTENSIONS))
            return false;
        last = field.number;
        bool is_known = last >= NAMESPACE + 2 && last <= BINARY && field.wire == BYTES && is_text_field(&field);
        if (last == INSTANCE_ID)
            is_known = has_id = equals(&field, command->id);
        else if (last == NAMESPACE)
            is_known = has_namespace = equals(&field, command->namespace);
        else if (last == PARAMS_LOG_LEVEL)
            is_known = field.wire == VARINT;
        else if (last == EXTENSIONS)
            is_known = extension_is_supported(&field, scope);
        else if (last == SOCKET_DIR) {
            is_known = field.wire == BYTES && field.value < MAX_SOCKET_DIR && is_text_field(&field);
            memcpy(socket_dir, field.bytes, is_known ? field.value : 0);
        }
        if (!is_known)
            return false;
    }
    return has_id && has_namespace;
}

bool stdin_is_supported(const unsigned char *data, size_t length, const struct command *command,
    char socket_dir[MAX_SOCKET_DIR], enum scope *scope) {
    memset(socket_dir, 0, MAX_SOCKET_DIR);
    *scope = NO_SCOPE;
    /* Such an id may make an Any look like BootstrapParams, whose first field is the id. */
    if (strcmp(command->id, OPTIONS_TYPE) == 0 || strcmp(command->id, GENERIC_TYPE) == 0)
        return false;
    if (any_is_supported(data, data + length, scope))
        return true;
    *scope = NO_SCOPE;
    return params_are_supported(data, data + length, command, socket_dir, scope);
}
