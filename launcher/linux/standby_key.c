/* The name of the standby's socket: a hash of all process attributes that a process cannot take over from another
   (namespaces, limits, groups, cgroup, ignored signals …). So a launcher finds only a standby with the same attributes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

static uint64_t hash; /* FNV-1a */

static void hash_bytes(const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t at = 0; at < length; at++)
        hash = (hash ^ bytes[at]) * 1099511628211ull;
    hash = (hash ^ 0xff) * 1099511628211ull; /* "ab" "c" is not "a" "bc" */
}

static void hash_text(const char *text) { hash_bytes(text == NULL ? "" : text, text == NULL ? 0 : strlen(text)); }

static ssize_t read_proc_file(const char *path, char *buffer, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, buffer, size - 1);
    close(fd);
    buffer[length < 0 ? 0 : length] = '\0';
    return length;
}

/* Identity, privileges, signals and CPUs. Not the umask: a daemon sets its own. */
static bool hash_proc_status(void) {
    static const char *const lines[] = {"Uid:", "Gid:", "Groups:", "SigBlk:", "SigIgn:", "CapInh:", "CapPrm:", "CapEff:",
        "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Cpus_allowed:", "Mems_allowed:"};
    char status[8192];
    if (read_proc_file("/proc/self/status", status, sizeof status) <= 0)
        return false;
    for (char *line = status, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        for (size_t at = 0; at < sizeof lines / sizeof *lines; at++)
            if (strncmp(line, lines[at], strlen(lines[at])) == 0)
                hash_bytes(line, (size_t)(end - line));
    }
    return true;
}

static bool hash_process_attributes(void) {
    static const char *const variables[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES", "HCS_LIBRARY_PATH", "LANG",
        "LC_ALL", "LC_CTYPE", "TZ"};
    static const char *const namespaces[] = {"cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user",
        "uts"};
    static const char *const files[] = {"/proc/self/limits", "/proc/self/cgroup", "/proc/self/oom_score_adj",
        "/proc/self/attr/current"};
    for (size_t at = 0; at < sizeof variables / sizeof *variables; at++)
        hash_text(getenv(variables[at]));
    for (size_t at = 0; at < sizeof namespaces / sizeof *namespaces; at++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[at]);
        ssize_t length = readlink(path, target, sizeof target);
        hash_bytes(target, length < 0 ? 0 : (size_t)length);
    }
    for (size_t at = 0; at < sizeof files / sizeof *files; at++) {
        char content[8192];
        ssize_t length = read_proc_file(files[at], content, sizeof content);
        hash_bytes(content, length < 0 ? 0 : (size_t)length);
    }
    struct stat root;
    if (stat("/", &root) != 0 || !hash_proc_status())
        return false;
    hash_bytes(&root.st_dev, sizeof root.st_dev);
    hash_bytes(&root.st_ino, sizeof root.st_ino);
    int nice = getpriority(PRIO_PROCESS, 0);
    hash_bytes(&nice, sizeof nice);
    return true;
}

bool standby_address(const struct settings *settings, struct sockaddr_un *address) {
    const char *directory = getenv(DIRECTORY_VARIABLE);
    if (directory == NULL || *directory == '\0')
        directory = DEFAULT_DIRECTORY;
    hash = 14695981039346656037ull;
    hash_text(settings->python);
    hash_text(settings->file);
    if (*directory != '/' || !hash_process_attributes())
        return false;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(
        address->sun_path, sizeof address->sun_path, "%s/standby-%016llx", directory, (unsigned long long)hash);
    return length > 0 && (size_t)length < sizeof address->sun_path;
}
