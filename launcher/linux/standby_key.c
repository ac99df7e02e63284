/* What a standby must have in common with whoever uses it: everything that a process cannot take over from another
   (namespaces, limits, groups, control group, signals that are ignored ...). A hash of it is the name of the standby's
   socket, so that only one that is alike is ever found. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

static uint64_t alike; /* FNV-1a */

static void mix(const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t at = 0; at < length; at++)
        alike = (alike ^ bytes[at]) * 1099511628211ull;
    alike = (alike ^ 0xff) * 1099511628211ull; /* "ab" "c" is not "a" "bc" */
}

static void mix_text(const char *text) { mix(text == NULL ? "" : text, text == NULL ? 0 : strlen(text)); }

static ssize_t read_small(const char *path, char *buffer, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, buffer, size - 1);
    close(fd);
    buffer[length < 0 ? 0 : length] = '\0';
    return length;
}

/* Identity, privileges, signals and processors from /proc/self/status; a daemon has a file mode mask of its own. */
static bool mix_status(void) {
    static const char *const lines[] = {"Uid:", "Gid:", "Groups:", "SigBlk:", "SigIgn:", "CapInh:", "CapPrm:", "CapEff:",
        "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Cpus_allowed:", "Mems_allowed:"};
    char status[8192];
    if (read_small("/proc/self/status", status, sizeof status) <= 0)
        return false;
    for (char *line = status, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        for (size_t at = 0; at < sizeof lines / sizeof *lines; at++)
            if (strncmp(line, lines[at], strlen(lines[at])) == 0)
                mix(line, (size_t)(end - line));
    }
    return true;
}

static bool mix_surroundings(void) {
    static const char *const variables[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES", "HCS_LIBRARY_PATH", "LANG",
        "LC_ALL", "LC_CTYPE", "TZ"};
    static const char *const namespaces[] = {"cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user",
        "uts"};
    static const char *const files[] = {"/proc/self/limits", "/proc/self/cgroup", "/proc/self/oom_score_adj",
        "/proc/self/attr/current"};
    for (size_t at = 0; at < sizeof variables / sizeof *variables; at++)
        mix_text(getenv(variables[at]));
    for (size_t at = 0; at < sizeof namespaces / sizeof *namespaces; at++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[at]);
        ssize_t length = readlink(path, target, sizeof target);
        mix(target, length < 0 ? 0 : (size_t)length);
    }
    for (size_t at = 0; at < sizeof files / sizeof *files; at++) {
        char content[8192];
        ssize_t length = read_small(files[at], content, sizeof content);
        mix(content, length < 0 ? 0 : (size_t)length);
    }
    struct stat root;
    if (stat("/", &root) != 0 || !mix_status())
        return false;
    mix(&root.st_dev, sizeof root.st_dev);
    mix(&root.st_ino, sizeof root.st_ino);
    int nice = getpriority(PRIO_PROCESS, 0);
    mix(&nice, sizeof nice);
    return true;
}

bool standby_address(const struct settings *settings, struct sockaddr_un *address) {
    const char *directory = getenv(DIRECTORY_VARIABLE);
    if (directory == NULL || *directory == '\0')
        directory = DEFAULT_DIRECTORY;
    alike = 14695981039346656037ull;
    mix_text(settings->python);
    mix_text(settings->file);
    if (*directory != '/' || !mix_surroundings())
        return false;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(
        address->sun_path, sizeof address->sun_path, "%s/standby-%016llx", directory, (unsigned long long)alike);
    return length > 0 && (size_t)length < sizeof address->sun_path;
}
