/* Derives the address from the command line, as shim/platform/linux/endpoint.py does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

/* Whether Go's path.Clean would leave it unchanged: containerd hashes the cleaned path. */
static bool is_clean_path(const char *path) {
    if (path[0] != '/' || path[1] == '\0' || !is_printable_ascii(path, strlen(path)))
        return false;
    while (*path == '/') {
        size_t length = strcspn(++path, "/");
        if (length == 0 || (length <= 2 && memcmp(path, "..", length) == 0))
            return false;
        path += length;
    }
    return true;
}

bool socket_path(const struct command *command, const char *id, const char *directory, struct sockaddr_un *address) {
    if (*directory == '\0')
        directory = getenv(DIRECTORY_VARIABLE);
    if (directory == NULL || *directory == '\0')
        directory = DEFAULT_DIRECTORY;
    char joined[MAX_PATH], hex[65];
    int length = snprintf(joined, sizeof joined, "%s/%s/%s", command->address, command->namespace, id);
    if (!is_clean_path(directory) || !is_clean_path(command->address) || length >= (int)sizeof joined)
        return false;
    sha256_hex(joined, (size_t)length, hex);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    length = snprintf(address->sun_path, sizeof address->sun_path, "%s/%s", directory, hex);
    return length < (int)sizeof address->sun_path - 1; /* containerd's limit is one below the kernel's */
}
