/* Parses the command line as shim/__main__.py does, in the forms that containerd uses. */
#include <string.h>

#include "common.h"

bool is_valid_id(const char *text, size_t length) {
    for (size_t at = 0; at < length; at++) {
        char c = text[at];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-_.", c) != NULL) ||
            c == '\0')
            return false;
    }
    return length > 0 && !(text[0] == '.' && (length == 1 || (length == 2 && text[1] == '.')));
}

bool is_printable_ascii(const char *text, size_t length) {
    for (size_t at = 0; at < length; at++)
        if (text[at] < ' ' || text[at] > '~')
            return false;
    return true;
}

/* Where the value of a flag is stored; NULL if no flag with a value has this name. */
static const char **flag_target(struct command *command, const char *name, size_t length) {
    static const char *const names[] = {"namespace", "address", "publish-binary", "id", "bundle"};
    const char **places[] = {
        &command->namespace, &command->address, &command->publish, &command->id, &command->bundle};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (strlen(names[at]) == length && memcmp(names[at], name, length) == 0)
            return places[at];
    return NULL;
}

bool parse_command_line(int argc, char **argv, struct command *command) {
    *command = (struct command){.action = ""};
    for (int at = 1; at < argc; at++) {
        const char *word = argv[at];
        if (word[0] != '-') {
            if (*command->action != '\0' || (strcmp(word, "start") != 0 && strcmp(word, "delete") != 0))
                return false;
            command->action = word;
            continue;
        }
        const char *name = word + (word[1] == '-' ? 2 : 1);
        if (strcmp(name, "debug") == 0) {
            command->debug = true;
            continue;
        }
        size_t length = strcspn(name, "=");
        const char **place = flag_target(command, name, length);
        if (place == NULL)
            return false;
        if (name[length] == '=')
            *place = name + length + 1;
        else if (++at < argc)
            *place = argv[at];
        else
            return false;
    }
    const char *needed[] = {command->namespace, command->address, command->publish, command->id};
    for (size_t at = 0; at < sizeof needed / sizeof *needed; at++)
        if (needed[at] == NULL || *needed[at] == '\0')
            return false;
    return *command->action != '\0' && is_valid_id(command->namespace, strlen(command->namespace)) &&
           is_valid_id(command->id, strlen(command->id));
}

bool is_sandbox_bundle(const char *bundle) {
    const char *end = bundle + strlen(bundle), *plugin = "/" SANDBOX_CONTROLLER;
    for (int parts = 0; parts < 2; parts++)
        for (end -= end > bundle; end > bundle && *end != '/' && *end != '\\'; end--)
            continue;
    size_t length = strlen(plugin);
    return (size_t)(end - bundle) >= length && (end[-(ptrdiff_t)length] == '/' || end[-(ptrdiff_t)length] == '\\') &&
           memcmp(end - length + 1, plugin + 1, length - 1) == 0;
}
