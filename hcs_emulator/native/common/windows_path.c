/* Windows path names resolved in a Linux file tree: backslashes, drive letter, any case, with or without .exe. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "windows_path.h"

static const char posix_search_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
static const char *const program_suffixes[] = {".exe", ".com", ".bat", ".cmd", NULL};

bool has_suffix(const char *name, const char *suffix)
{
    size_t length = strlen(name), wanted = strlen(suffix);
    return length >= wanted && strcasecmp(name + length - wanted, suffix) == 0;
}

const char *base_name(const char *name)
{
    const char *base = name;
    for (const char *c = name; *c; c++)
        if (*c == '/' || *c == '\\')
            base = c + 1;
    return base;
}

static bool starts_with_drive(const char *name) { return isalpha((unsigned char)name[0]) && name[1] == ':'; }

bool to_posix_path(const char *name, char posix[PATH_SIZE])
{
    size_t used = 0;

    if (strncmp(name, "\\\\?\\", 4) == 0 || strncmp(name, "\\\\.\\", 4) == 0)
        name += 4;
    if (starts_with_drive(name)) {
        name += 2;
        if (*name != '/' && *name != '\\')
            posix[used++] = '/';
    }
    for (; *name; name++) {
        if (used + 1 >= PATH_SIZE) {
            errno = ENAMETOOLONG;
            return false;
        }
        char c = *name == '\\' ? '/' : *name;
        if (c != '/' || used == 0 || posix[used - 1] != '/')
            posix[used++] = c;
    }
    while (used > 1 && posix[used - 1] == '/')
        used--;
    posix[used] = '\0';
    return true;
}

/* Looks up `part` in the directory `path` (whose buffer has space for it), in any case; appends the name found. */
static bool append_any_case(char *path, const char *part, size_t length)
{
    size_t used = strlen(path);
    DIR *directory = opendir(used ? path : ".");
    struct dirent *entry;
    bool found = false;

    if (directory == NULL)
        return false;
    while (!found && (entry = readdir(directory)) != NULL)
        if (strncasecmp(entry->d_name, part, length) == 0 && entry->d_name[length] == '\0') {
            snprintf(path + used, PATH_SIZE - used, "%s%s", used && path[used - 1] != '/' ? "/" : "", entry->d_name);
            found = true;
        }
    closedir(directory);
    return found;
}

/* Component by component: the exact name if it exists, else in any case. */
static bool find_any_case(const char *posix, char found[PATH_SIZE])
{
    struct stat status;
    const char *part = posix;

    snprintf(found, PATH_SIZE, "%s", *posix == '/' ? "/" : "");
    while (*part == '/')
        part++;
    while (*part) {
        size_t length = strcspn(part, "/"), used = strlen(found);
        if (used + length + 2 > PATH_SIZE)
            return false;
        const char *slash = used && found[used - 1] != '/' ? "/" : "";
        snprintf(found + used, PATH_SIZE - used, "%s%.*s", slash, (int)length, part);
        if (lstat(found, &status) < 0) {
            found[used] = '\0';
            if (!append_any_case(found, part, length))
                return false;
        }
        part += length;
        while (*part == '/')
            part++;
    }
    return true;
}

bool find_path(const char *name, char found[PATH_SIZE])
{
    char posix[PATH_SIZE];
    struct stat status;

    if (strlen(name) < PATH_SIZE && stat(name, &status) == 0) {
        strcpy(found, name);
        return true;
    }
    if (!to_posix_path(name, posix))
        return false;
    if (*posix && stat(posix, &status) == 0) {
        strcpy(found, posix);
        return true;
    }
    if (find_any_case(posix, found) && *found && stat(found, &status) == 0)
        return true;
    errno = ENOENT;
    return false;
}

/* A file that may be executed. `denied` is set for one that may not. */
static bool is_program(const char *path, char found[PATH_SIZE], bool *denied)
{
    struct stat status;

    if (!find_path(path, found) || stat(found, &status) < 0 || S_ISDIR(status.st_mode))
        return false;
    if (access(found, X_OK) == 0 || has_suffix(found, ".bat") || has_suffix(found, ".cmd"))
        return true;
    *denied = true;
    return false;
}

/* The name itself; then with the suffixes that Windows tries; then without one, as Linux programs are named. */
static bool find_with_suffixes(const char *path, char found[PATH_SIZE], bool *denied)
{
    char other[PATH_SIZE];

    if (is_program(path, found, denied))
        return true;
    for (const char *const *suffix = program_suffixes; *suffix; suffix++) {
        bool has = has_suffix(path, *suffix);
        int kept = (int)(strlen(path) - (has ? strlen(*suffix) : 0));
        int length = snprintf(other, sizeof other, "%.*s%s", kept, path, has ? "" : *suffix);
        if (length > 0 && length < PATH_SIZE && is_program(other, found, denied))
            return true;
    }
    return false;
}

static bool search(const char *directories, const char *separators, const char *name, char found[PATH_SIZE],
                   bool *denied)
{
    char path[PATH_SIZE];

    while (*directories) {
        size_t length = strcspn(directories, separators);
        if (length > 0 && snprintf(path, sizeof path, "%.*s/%s", (int)length, directories, name) < PATH_SIZE &&
            find_with_suffixes(path, found, denied))
            return true;
        directories += length;
        directories += strspn(directories, separators);
    }
    return false;
}

bool find_program(const char *name, const char *search_path, char found[PATH_SIZE])
{
    bool denied = false, windows = strchr(search_path, ';') || starts_with_drive(search_path);

    if (base_name(name) != name || starts_with_drive(name)) {
        if (find_with_suffixes(name, found, &denied))
            return true;
    } else if (*name) {
        char here[PATH_SIZE];
        if (search(search_path, windows ? ";" : ":", name, found, &denied) ||
            (windows && search(posix_search_path, ":", name, found, &denied)))
            return true;
        if (snprintf(here, sizeof here, "./%s", name) < PATH_SIZE && find_with_suffixes(here, found, &denied))
            return true;
    }
    errno = denied ? EACCES : ENOENT;
    return false;
}
