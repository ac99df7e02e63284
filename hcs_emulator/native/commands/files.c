/* cmd's built-in commands for files: dir, type, copy, move, ren, del, md, rd. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"

/* The arguments of a built-in: names, and the letters of /x options. */
struct operands {
    char **names, options[32];
    int count;
};

static struct operands take_operands(const char *rest)
{
    struct operands operands = {.names = keep((strlen(rest) / 2 + 2) * sizeof(char *))};

    for (;;) {
        rest += strspn(rest, " \t,;");
        if (*rest == '\0')
            return operands;
        char *word = take_word(&rest, *rest == '/' ? "" : ",;");
        if (*word == '/') {
            for (char *c = word; c && strlen(operands.options) < sizeof operands.options - 1; c = strchr(c + 1, '/'))
                operands.options[strlen(operands.options)] = (char)(c[1] | 0x20);
        } else {
            operands.names[operands.count++] = unquoted(word);
        }
    }
}

static bool has(const struct operands *operands, char option) { return strchr(operands->options, option) != NULL; }

int by_name(const void *left, const void *right)
{
    return strcasecmp(*(char *const *)left, *(char *const *)right);
}

/* The matching names of a directory, sorted. */
static char **list_directory(const char *path, const char *pattern)
{
    size_t count = 0, capacity = 64;
    char **names = keep(capacity * sizeof *names);
    DIR *directory = opendir(path);
    struct dirent *entry;

    if (strcmp(pattern, "*.*") == 0)
        pattern = "*";
    while (directory && (entry = readdir(directory)) != NULL) {
        if (fnmatch(pattern, entry->d_name, FNM_CASEFOLD | FNM_NOESCAPE) != 0)
            continue;
        if (count + 2 > capacity) {
            char **more = keep((capacity *= 2) * sizeof *more);
            memcpy(more, names, count * sizeof *names);
            names = more;
        }
        names[count++] = keep_text(entry->d_name, strlen(entry->d_name));
    }
    if (directory)
        closedir(directory);
    qsort(names, count, sizeof *names, by_name);
    return names;
}

static bool is_dot(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

char **matching_files(const char *pattern, bool *was_pattern)
{
    const char *base = base_name(pattern);
    char directory[PATH_SIZE], **found = keep(2 * sizeof *found);

    *was_pattern = strpbrk(base, "*?") != NULL;
    found[0] = (char *)pattern;
    if (!*was_pattern)
        return found;
    char *above = keep_text(pattern, (size_t)(base - pattern));
    if (!find_path(*above ? above : ".", directory)) {
        found[0] = NULL;
        return found;
    }
    char **names = list_directory(directory, base);
    size_t kept = 0;
    for (char **name = names; *name; name++)
        if (!is_dot(*name)) {
            char *path = keep(strlen(above) + strlen(*name) + 1);
            sprintf(path, "%s%s", above, *name);
            names[kept++] = path;
        }
    names[kept] = NULL;
    return names;
}

static void with_thousands(unsigned long long number, char *text)
{
    char digits[32];
    int length = sprintf(digits, "%llu", number);
    for (int i = 0; i < length; i++) {
        *text++ = digits[i];
        if ((length - i) % 3 == 1 && i < length - 1)
            *text++ = ',';
    }
    *text = '\0';
}

static void show_entry(const char *name, const struct stat *status)
{
    char when[40], size[40];
    struct tm local;

    localtime_r(&status->st_mtime, &local);
    strftime(when, sizeof when, "%m/%d/%Y  %I:%M %p", &local);
    with_thousands((unsigned long long)status->st_size, size);
    if (S_ISDIR(status->st_mode))
        printf("%s    <DIR>          %s\r\n", when, name);
    else
        printf("%s %17s %s\r\n", when, size, name);
}

static int list(const char *name, bool bare)
{
    char path[PATH_SIZE], bytes[40];
    const char *pattern = "*";
    struct stat status;
    unsigned long long total = 0;
    int files = 0, directories = 0;

    if (!find_path(name, path) || stat(path, &status) < 0 || !S_ISDIR(status.st_mode)) {
        pattern = base_name(name);
        char *above = keep_text(name, (size_t)(pattern - name));
        if (!find_path(*above ? above : ".", path))
            return complain("File Not Found");
    }
    char **names = list_directory(path, pattern);
    if (!bare) {
        char *here = keep_text(".", 1);
        int old = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (chdir(path) == 0)
            here = windows_directory();
        if (old >= 0 && fchdir(old) == 0)
            close(old);
        fputs(" Volume in drive C has no label.\r\n Volume Serial Number is 0000-0000\r\n", stdout);
        printf("\r\n Directory of %s\r\n\r\n", here);
    }
    for (; *names; names++) {
        char *full = keep(strlen(path) + strlen(*names) + 2);
        sprintf(full, "%s/%s", path, *names);
        if (stat(full, &status) < 0 && lstat(full, &status) < 0)
            continue;
        if (bare && !is_dot(*names))
            printf("%s\r\n", *names);
        else if (!bare)
            show_entry(*names, &status);
        files += !S_ISDIR(status.st_mode);
        directories += S_ISDIR(status.st_mode);
        total += S_ISDIR(status.st_mode) ? 0 : (unsigned long long)status.st_size;
    }
    if (files + directories == 0)
        return complain("File Not Found");
    if (!bare) {
        struct statvfs space = {0};
        statvfs(path, &space);
        with_thousands(total, bytes);
        printf("%16d File(s) %14s bytes\r\n", files, bytes);
        with_thousands((unsigned long long)space.f_bavail * space.f_frsize, bytes);
        printf("%16d Dir(s)  %14s bytes free\r\n", directories, bytes);
    }
    return 0;
}

int run_dir(const char *rest)
{
    struct operands operands = take_operands(rest);
    int code = 0;

    if (operands.count == 0)
        return list(".", has(&operands, 'b'));
    for (int i = 0; i < operands.count; i++)
        code |= list(operands.names[i], has(&operands, 'b'));
    return code;
}

static bool pour(int from, int to)
{
    char part[65536];
    ssize_t length;

    while ((length = read(from, part, sizeof part)) > 0)
        for (ssize_t done = 0; done < length;) {
            ssize_t count = write(to, part + done, (size_t)(length - done));
            if (count < 0)
                return false;
            done += count;
        }
    return length == 0;
}

int run_type(const char *rest)
{
    struct operands operands = take_operands(rest);
    bool is_pattern;
    char path[PATH_SIZE];

    if (operands.count == 0)
        return complain("The syntax of the command is incorrect.");
    for (int i = 0; i < operands.count; i++)
        for (char **name = matching_files(operands.names[i], &is_pattern); *name; name++) {
            int file = find_path(*name, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
            if (file < 0)
                return complain(errno == ENOENT ? "The system cannot find the file specified." : "Access is denied.");
            fflush(stdout);
            bool poured = pour(file, 1);
            close(file);
            if (!poured)
                return complain("Access is denied.");
        }
    return 0;
}

/* The destination of `name` when copied or moved to `target`: inside it, if it is a directory. */
static bool destination(const char *name, const char *target, char path[PATH_SIZE])
{
    struct stat status;
    char above[PATH_SIZE];

    if (!find_path(target, path))
        return to_posix_path(target, path);
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        strcpy(above, path);
        return snprintf(path, PATH_SIZE, "%s/%s", above, base_name(name)) < PATH_SIZE;
    }
    return true;
}

static bool copy_file(const char *from, const char *to)
{
    struct stat status;
    int source = open(from, O_RDONLY | O_CLOEXEC), target = -1;

    if (source >= 0 && fstat(source, &status) == 0 && S_ISREG(status.st_mode))
        target = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, status.st_mode & 0777);
    bool copied = target >= 0 && pour(source, target);
    if (source >= 0)
        close(source);
    if (target >= 0)
        close(target);
    return copied;
}

static bool move_file(const char *from, const char *to)
{
    return rename(from, to) == 0 || (errno == EXDEV && copy_file(from, to) && unlink(from) == 0);
}

static int for_each_file(const char *rest, bool (*act)(const char *, const char *), const char *done)
{
    struct operands operands = take_operands(rest);
    char from[PATH_SIZE], to[PATH_SIZE];
    bool is_pattern;
    int count = 0;

    if (operands.count == 0)
        return complain("The syntax of the command is incorrect.");
    const char *target = operands.count > 1 ? operands.names[1] : ".";
    for (char **name = matching_files(operands.names[0], &is_pattern); *name; name++) {
        if (!find_path(*name, from))
            return complain("The system cannot find the file specified.");
        if (!destination(from, target, to) || !act(from, to))
            return complain("Access is denied.");
        count++;
    }
    if (count == 0)
        return complain("The system cannot find the file specified.");
    if (*done)
        printf("%9d %s\r\n", count, done);
    return 0;
}

int run_copy(const char *rest) { return for_each_file(rest, copy_file, "file(s) copied."); }

int run_move(const char *rest) { return for_each_file(rest, move_file, "file(s) moved."); }

int run_ren(const char *rest)
{
    struct operands operands = take_operands(rest);
    char from[PATH_SIZE], to[PATH_SIZE];

    if (operands.count != 2 || strpbrk(operands.names[1], "\\/"))
        return complain("The syntax of the command is incorrect.");
    if (!find_path(operands.names[0], from))
        return complain("The system cannot find the file specified.");
    int above = (int)(base_name(from) - from);
    if (snprintf(to, sizeof to, "%.*s%s", above, from, operands.names[1]) >= PATH_SIZE || rename(from, to) < 0)
        return complain("Access is denied.");
    return 0;
}

int run_del(const char *rest)
{
    struct operands operands = take_operands(rest);
    char path[PATH_SIZE];
    bool is_pattern;
    struct stat status;

    if (operands.count == 0)
        return complain("The syntax of the command is incorrect.");
    for (int i = 0; i < operands.count; i++) {
        char **names = matching_files(operands.names[i], &is_pattern);
        if (*names == NULL || (!is_pattern && !find_path(*names, path)))
            fprintf(stderr, "Could Not Find %s\r\n", operands.names[i]);
        for (; *names; names++)
            if (find_path(*names, path) && stat(path, &status) == 0 && !S_ISDIR(status.st_mode) && unlink(path) < 0)
                return complain("Access is denied.");
    }
    return 0;
}

static bool make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0755) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return mkdir(path, 0755) == 0;
}

int run_mkdir(const char *rest)
{
    struct operands operands = take_operands(rest);
    char path[PATH_SIZE];

    if (operands.count == 0)
        return complain("The syntax of the command is incorrect.");
    for (int i = 0; i < operands.count; i++) {
        if (find_path(operands.names[i], path))
            return complain("A subdirectory or file %s already exists.", operands.names[i]);
        if (!to_posix_path(operands.names[i], path) || !make_directories(path))
            return complain("Access is denied.");
    }
    return 0;
}

static bool remove_tree(const char *path)
{
    struct stat status;

    if (lstat(path, &status) < 0)
        return false;
    if (!S_ISDIR(status.st_mode))
        return unlink(path) == 0;
    for (char **name = list_directory(path, "*"); *name; name++) {
        char *full = keep(strlen(path) + strlen(*name) + 2);
        sprintf(full, "%s/%s", path, *name);
        if (!is_dot(*name) && !remove_tree(full))
            return false;
    }
    return rmdir(path) == 0;
}

int run_rmdir(const char *rest)
{
    struct operands operands = take_operands(rest);
    char path[PATH_SIZE];

    if (operands.count == 0)
        return complain("The syntax of the command is incorrect.");
    for (int i = 0; i < operands.count; i++) {
        if (!find_path(operands.names[i], path))
            return complain("The system cannot find the file specified.");
        if (has(&operands, 's') ? !remove_tree(path) : rmdir(path) < 0)
            return complain(errno == ENOTEMPTY ? "The directory is not empty." : "Access is denied.");
    }
    return 0;
}
