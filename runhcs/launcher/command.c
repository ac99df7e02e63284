/* The command line, and the address that follows from it: what shim/__main__.py and shim/platform/linux/endpoint.py do,
   for the forms in which containerd writes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

bool is_plain(const char *text, size_t length) {
    for (size_t at = 0; at < length; at++) {
        char c = text[at];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-_.", c) != NULL) ||
            c == '\0')
            return false;
    }
    return length > 0 && !(text[0] == '.' && (length == 1 || (length == 2 && text[1] == '.')));
}

bool is_printable(const char *text, size_t length) {
    for (size_t at = 0; at < length; at++)
        if (text[at] < ' ' || text[at] > '~')
            return false;
    return true;
}

/* What the flag's value goes to; NULL if the flag is not one of those that have a value. */
static const char **place_of(struct command *command, const char *name, size_t length) {
    static const char *const names[] = {"namespace", "address", "publish-binary", "id", "bundle"};
    const char **places[] = {
        &command->namespace, &command->address, &command->publish, &command->id, &command->bundle};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (strlen(names[at]) == length && memcmp(names[at], name, length) == 0)
            return places[at];
    return NULL;
}

bool read_command(int argc, char **argv, struct command *command) {
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
        if (strcmp(name, "debug") == 0)
            continue;
        size_t length = strcspn(name, "=");
        const char **place = place_of(command, name, length);
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
    return *command->action != '\0' && is_plain(command->namespace, strlen(command->namespace)) &&
           is_plain(command->id, strlen(command->id));
}

/* Whether it is what Go's path.Clean makes of it: only then is it hashed as it is. */
static bool is_clean(const char *path) {
    if (path[0] != '/' || path[1] == '\0' || !is_printable(path, strlen(path)))
        return false;
    while (*path == '/') {
        size_t length = strcspn(++path, "/");
        if (length == 0 || (length <= 2 && memcmp(path, "..", length) == 0))
            return false;
        path += length;
    }
    return true;
}

bool socket_path(const struct command *command, const char *id, struct sockaddr_un *address) {
    const char *directory = getenv(DIRECTORY_VARIABLE);
    if (directory == NULL || *directory == '\0')
        directory = DEFAULT_DIRECTORY;
    char joined[MAX_PATH], hex[65];
    int length = snprintf(joined, sizeof joined, "%s/%s/%s", command->address, command->namespace, id);
    if (!is_clean(directory) || !is_clean(command->address) || length >= (int)sizeof joined)
        return false;
    sha256_hex(joined, (size_t)length, hex);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    length = snprintf(address->sun_path, sizeof address->sun_path, "%s/%s", directory, hex);
    return length < (int)sizeof address->sun_path - 1; /* containerd's limit is one below the kernel's */
}
