/* Selects the program of a command line: a Linux program, a batch file, a Windows program for Wine, or a stand-in
 * command. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "silo.h"

/* Programs of System32 that `commands/` implements, and `ver`, which is often used like one. */
static const char *const stand_ins[] = {"cmd",  "powershell", "pwsh", "ping",    "hostname", "whoami", "timeout",
                                        "find", "findstr",    "more", "sort",    "tasklist", "ver",    NULL};
static const char *const wine_programs[] = {"/usr/bin/wine", "/usr/lib/wine/wine64", "/usr/local/bin/wine", NULL};

static const char *stand_in_for(const char *program)
{
    const char *base = base_name(program);
    size_t length = strlen(base) - (has_suffix(base, ".exe") ? 4 : 0);

    for (const char *const *name = stand_ins; *name; name++)
        if (strncasecmp(*name, base, length) == 0 && (*name)[length] == '\0')
            return *name;
    return NULL;
}

/* `timeout /t 5`, `ping -t host`, `ping -n 3 host`: options that the Linux programs of the same names do not have. */
static bool has_windows_options(const char *name, char **arguments)
{
    for (char **argument = arguments + 1; arguments[0] && *argument; argument++) {
        const char *text = *argument;
        if (text[0] == '/' && (isalpha((unsigned char)text[1]) || text[1] == '?') && !strchr(text + 1, '/'))
            return true;
        if (strcmp(name, "ping") == 0 && (strcmp(text, "-t") == 0 || strcmp(text, "-n") == 0))
            return true;
    }
    return false;
}

/* Returns only on failure. `tail` is the command line after the program: cmd parses it by its own rules. */
static void run_stand_in(const char *name, const struct spawn *spawn, const char *tail)
{
    char *raw[] = {(char *)name, "--raw", (char *)tail, NULL};
    char **arguments = strcmp(name, "cmd") == 0 ? raw : spawn->arguments;

    if (arguments == spawn->arguments && spawn->arguments[0])
        spawn->arguments[0] = (char *)name;
    execveat(SILO_COMMANDS, "", arguments, spawn->variables, AT_EMPTY_PATH);
}

static void run_batch_file(const char *path, const struct spawn *spawn, const char *tail)
{
    size_t capacity = strlen(path) + strlen(tail) + 16;
    char *line = malloc(capacity);

    if (line == NULL)
        return;
    snprintf(line, capacity, "/c \"\"%s\" %s\"", path, tail); /* cmd removes the outer quotes */
    run_stand_in("cmd", spawn, line);
}

/* Wine is installed on the host: a container with a root file system of its own cannot reach it. */
static void run_windows_program(const char *path, const struct spawn *spawn)
{
    size_t count = 0;

    while (spawn->arguments[count])
        count++;
    char **arguments = calloc(count + 3, sizeof *arguments);
    if (arguments == NULL)
        return;
    arguments[0] = "wine";
    arguments[1] = (char *)path;
    for (size_t i = 1; i < count; i++)
        arguments[i + 1] = spawn->arguments[i];
    for (const char *const *wine = wine_programs; spawn->private_root && *wine; wine++)
        execve(*wine, arguments, spawn->variables);
    free(arguments);
    errno = ENOEXEC;
}

static bool is_windows_program(const char *path)
{
    char magic[2] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return false;
    bool is = read(file, magic, 2) == 2 && magic[0] == 'M' && magic[1] == 'Z';
    close(file);
    return is;
}

static void run_file(const char *path, const struct spawn *spawn, const char *tail)
{
    if (has_suffix(path, ".bat") || has_suffix(path, ".cmd")) {
        run_batch_file(path, spawn, tail);
    } else if (is_windows_program(path)) {
        run_windows_program(path, spawn);
        const char *stand_in = stand_in_for(path);
        if (stand_in)
            run_stand_in(stand_in, spawn, tail);
        errno = ENOEXEC;
    } else {
        execve(path, spawn->arguments, spawn->variables);
    }
}

/* The tail after a program whose name has blanks: the given tail starts within the name. */
static const char *tail_behind(const struct spawn *spawn, const char *program)
{
    size_t first = strlen(spawn->programs[0]);
    const char *rest = strlen(program) > first ? program + first : "";

    rest += strspn(rest, " \t");
    if (strncmp(spawn->tail, rest, strlen(rest)) != 0)
        return spawn->tail;
    const char *tail = spawn->tail + strlen(rest);
    return tail + strspn(tail, " \t");
}

static const char *search_path(char **variables)
{
    for (; *variables; variables++)
        if (strncasecmp(*variables, "PATH=", 5) == 0)
            return *variables + 5;
    return "";
}

static int enter_directory(const char *directory)
{
    char found[PATH_SIZE];

    if (*directory == '\0')
        directory = "/";
    if (!find_path(directory, found))
        return errno;
    return chdir(found) < 0 ? errno : 0;
}

struct failure execute(const struct spawn *spawn)
{
    char found[PATH_SIZE];
    int error = ENOENT;

    if (!spawn->on_host)
        drop_capabilities();
    if ((errno = become_user(spawn->user)) != 0)
        return (struct failure){AT_USER, errno};
    /* For the case that the keeper is killed. After become_user, which resets it. */
    if (spawn->on_host)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((errno = enter_directory(spawn->directory)) != 0)
        return (struct failure){AT_DIRECTORY, errno};
    for (char **program = spawn->programs; *program; program++) {
        const char *stand_in = stand_in_for(*program);
        bool windows = stand_in && (has_suffix(*program, ".exe") || has_windows_options(stand_in, spawn->arguments));
        if (windows && !(base_name(*program) != *program && find_path(*program, found))) {
            run_stand_in(stand_in, spawn, spawn->tail);
            return (struct failure){AT_EXEC, errno};
        }
        if (find_program(*program, search_path(spawn->variables), found)) {
            run_file(found, spawn, tail_behind(spawn, *program));
            return (struct failure){AT_EXEC, errno};
        }
        if (errno != ENOENT)
            error = errno;
        if (stand_in) {
            run_stand_in(stand_in, spawn, spawn->tail);
            return (struct failure){AT_EXEC, errno};
        }
    }
    return (struct failure){AT_LOOKUP, error};
}
