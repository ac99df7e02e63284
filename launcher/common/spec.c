/* Finds the two annotations in config.json that assign a container to a pod.

   Python parses the whole document and rejects invalid JSON. So does this parser, more strictly: whatever Python might
   reject or read differently (names with escapes, duplicate names, numbers of a hundred digits) is unsupported. */
#include <string.h>

#include "common.h"

#define CONTAINER_TYPE "io.kubernetes.cri.container-type"
#define SANDBOX_ID "io.kubernetes.cri.sandbox-id"
#define MAX_DEPTH 100
#define MAX_DIGITS 100

struct text {
    const char *at;
    size_t length;
    bool has_escapes;
};

struct scanner {
    const char *at, *end;
    int depth;
    bool has_annotations;
    struct text kind, sandbox, scope; /* the values of the annotations; at is NULL until they are found */
};

static bool is_utf8(const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    while (at < end) {
        unsigned first = *at++, more = first < 0x80 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        if (more == 0)
            continue;
        if (first < 0xc2 || first > 0xf4 || (size_t)(end - at) < more)
            return false;
        unsigned lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        unsigned highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (*at < lowest || *at > highest)
            return false;
        for (at++; --more > 0; at++)
            if ((*at & 0xc0) != 0x80)
                return false;
    }
    return true;
}

static char peek(const struct scanner *s) { return s->at < s->end ? *s->at : '\0'; }

static void skip_space(struct scanner *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static bool take(struct scanner *s, char expected) {
    skip_space(s);
    if (peek(s) != expected)
        return false;
    s->at++;
    skip_space(s);
    return true;
}

static bool take_word(struct scanner *s, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
        return false;
    s->at += length;
    return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

static bool take_string(struct scanner *s, struct text *text) {
    if (peek(s) != '"')
        return false;
    *text = (struct text){.at = ++s->at};
    for (; s->at < s->end && *s->at != '"'; s->at++) {
        if ((unsigned char)*s->at < ' ')
            return false;
        if (*s->at != '\\')
            continue;
        text->has_escapes = true;
        if (++s->at == s->end || *s->at == '\0' || strchr("\"\\/bfnrtu", *s->at) == NULL)
            return false;
        if (*s->at == 'u')
            for (int digit = 0; digit < 4; digit++)
                if (++s->at == s->end || !is_hex(*s->at))
                    return false;
    }
    if (s->at == s->end)
        return false;
    text->length = (size_t)(s->at++ - text->at);
    return true;
}

static bool take_digits(struct scanner *s) {
    const char *begin = s->at;
    while (is_digit(peek(s)))
        s->at++;
    return s->at > begin && s->at - begin <= MAX_DIGITS;
}

static bool take_number(struct scanner *s) {
    if (peek(s) == '-')
        s->at++;
    if (peek(s) == '0')
        s->at++;
    else if (!take_digits(s))
        return false;
    if (peek(s) == '.') {
        s->at++;
        if (!take_digits(s))
            return false;
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-')
            s->at++;
        return take_digits(s);
    }
    return true;
}

static bool equals(const struct text *text, const char *other) {
    return text->at != NULL && text->length == strlen(other) && memcmp(text->at, other, text->length) == 0;
}

static bool take_value(struct scanner *s, bool is_annotations);

/* A member of an object. The values of the three annotations are stored. */
static bool take_member(struct scanner *s, bool is_top, bool is_annotations) {
    struct text name, value;
    if (!take_string(s, &name) || !take(s, ':') || ((is_top || is_annotations) && name.has_escapes))
        return false;
    if (is_top && equals(&name, "annotations")) {
        if (s->has_annotations || peek(s) != '{')
            return false;
        s->has_annotations = true;
        return take_value(s, true);
    }
    struct text *target = NULL;
    if (is_annotations)
        target = equals(&name, CONTAINER_TYPE) ? &s->kind
                 : equals(&name, SANDBOX_ID)   ? &s->sandbox
                 : equals(&name, SHIM_SCOPE)   ? &s->scope
                                               : NULL;
    if (target == NULL)
        return take_value(s, false);
    if (target->at != NULL || !take_string(s, &value) || !is_valid_id(value.at, value.length))
        return false;
    *target = value;
    return true;
}

static bool take_object(struct scanner *s, bool is_annotations) {
    bool is_top = s->depth == 1;
    if (!take(s, '{'))
        return false;
    if (peek(s) == '}')
        return take_word(s, "}");
    do
        if (!take_member(s, is_top, is_annotations))
            return false;
    while (take(s, ','));
    return take_word(s, "}");
}

static bool take_array(struct scanner *s) {
    if (!take(s, '['))
        return false;
    if (peek(s) == ']')
        return take_word(s, "]");
    do
        if (!take_value(s, false))
            return false;
    while (take(s, ','));
    return take_word(s, "]");
}

static bool take_value(struct scanner *s, bool is_annotations) {
    struct text ignored;
    if (s->depth == MAX_DEPTH)
        return false;
    s->depth++;
    bool taken;
    switch (peek(s)) {
    case '{': taken = take_object(s, is_annotations); break;
    case '[': taken = take_array(s); break;
    case '"': taken = take_string(s, &ignored); break;
    case 't': taken = take_word(s, "true"); break;
    case 'f': taken = take_word(s, "false"); break;
    case 'n': taken = take_word(s, "null"); break;
    default: taken = take_number(s);
    }
    s->depth--;
    return taken;
}

bool parse_scope(const char *text, size_t length, enum scope *scope) {
    static const char *const names[] = {[POD_SCOPE] = "pod", [NAMESPACE_SCOPE] = "namespace", [NODE_SCOPE] = "node"};
    for (enum scope at = POD_SCOPE; at <= NODE_SCOPE; at++)
        if (strlen(names[at]) == length && memcmp(names[at], text, length) == 0) {
            *scope = at;
            return true;
        }
    return false;
}

enum role parse_pod_role(const char *json, size_t length, const char *id, char *sandbox, size_t size, enum scope *scope) {
    struct scanner s = {.at = json, .end = json + length};
    skip_space(&s);
    if (!is_utf8(json, length) || peek(&s) != '{' || !take_value(&s, false))
        return UNSUPPORTED;
    skip_space(&s);
    if (s.at != s.end)
        return UNSUPPORTED;
    *scope = NO_SCOPE;
    if (s.scope.at != NULL && !parse_scope(s.scope.at, s.scope.length, scope))
        return UNSUPPORTED;
    if (s.kind.at == NULL && s.sandbox.at == NULL)
        return STANDALONE;
    if (s.sandbox.at == NULL || s.sandbox.length >= size)
        return UNSUPPORTED;
    memcpy(sandbox, s.sandbox.at, s.sandbox.length);
    sandbox[s.sandbox.length] = '\0';
    bool is_own = strcmp(sandbox, id) == 0;
    if (equals(&s.kind, "sandbox") && is_own)
        return SANDBOX;
    return equals(&s.kind, "container") && !is_own ? MEMBER : UNSUPPORTED;
}
