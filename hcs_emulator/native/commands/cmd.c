/* Selects the stand-in command by argv[0]; and cmd itself, with /c, /k, batch files and interactive lines. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "commands.h"

bool echoing = true;
char *const *batch_arguments;
char *jump_target;

static const struct {
    const char *name;
    program *run;
} applets[] = {
    {"cmd", run_cmd},   {"powershell", run_powershell}, {"pwsh", run_powershell}, {"ping", run_ping},
    {"hostname", run_hostname}, {"whoami", run_whoami},  {"timeout", run_timeout}, {"find", run_find},
    {"findstr", run_findstr},   {"more", run_more},      {"sort", run_sort},       {"tasklist", run_tasklist},
    {"ver", run_ver},
};

program *find_applet(const char *name)
{
    const char *base = base_name(name);
    size_t length = strlen(base) - (has_suffix(base, ".exe") ? 4 : 0);

    for (size_t i = 0; i < sizeof applets / sizeof *applets; i++)
        if (strncasecmp(applets[i].name, base, length) == 0 && applets[i].name[length] == '\0')
            return applets[i].run;
    return NULL;
}

int complain(const char *format, ...)
{
    va_list values;

    fflush(stdout);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputs("\r\n", stderr);
    return 1;
}

bool is_option(const char *argument, const char *name)
{
    return (*argument == '/' || *argument == '-') && strcasecmp(argument + 1, name) == 0;
}

/* Byte by byte: the input after the line may belong to a program that the line starts. */
static char *read_line(int file, bool *end)
{
    struct buffer line = {0};
    char c;

    append(&line, "", 0);
    for (;;) {
        ssize_t count = read(file, &c, 1);
        if (count < 0 && errno == EINTR)
            return keep_text("", 0);
        if (count <= 0) {
            *end = line.length == 0;
            return line.text;
        }
        if (c == '\n')
            return line.text;
        if (c != '\r')
            append(&line, &c, 1);
    }
}

/* A group may span lines: reads more until its parentheses match. */
static bool is_open(const char *line)
{
    int depth = 0;
    bool quoted = false;

    for (; *line; line++) {
        if (*line == '"')
            quoted = !quoted;
        else if (!quoted && *line == '^' && line[1])
            line++;
        else if (!quoted)
            depth += (*line == '(') - (*line == ')');
    }
    return depth > 0;
}

static char *batch_line(char **lines, int *position)
{
    struct buffer line = {0};

    append_text(&line, lines[(*position)++]);
    while (is_open(line.text) && lines[*position] && strncasecmp(trimmed(line.text), "echo", 4) != 0) {
        append_text(&line, "\n");
        append_text(&line, lines[(*position)++]);
    }
    return line.text;
}

/* False if the batch file must end. */
static bool jump(char **lines, int *position)
{
    for (int i = 0; lines[i]; i++) {
        char *line = trimmed(lines[i]);
        const char *at = line + 1;
        if (*line == ':' && strcasecmp(take_word(&at, ":"), jump_target) == 0) {
            *position = i + 1;
            jump_target = NULL;
            return true;
        }
    }
    if (strcasecmp(jump_target, ":eof") != 0)
        complain("The system cannot find the batch label specified - %s", jump_target);
    jump_target = NULL;
    return false;
}

static char **read_lines(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC), count = 0, capacity = 64;
    char **lines = keep((size_t)capacity * sizeof *lines);

    for (bool end = false; file >= 0 && !end;) {
        char *line = read_line(file, &end);
        if (count + 2 > capacity) {
            char **more = keep((size_t)(capacity *= 2) * sizeof *more);
            memcpy(more, lines, (size_t)count * sizeof *lines);
            lines = more;
        }
        if (!end)
            lines[count++] = line;
    }
    if (file >= 0)
        close(file);
    return lines;
}

int run_batch_file(const char *path, const char *tail)
{
    char *const *outer = batch_arguments;
    bool outer_echo = echoing;
    char **lines = read_lines(path);
    int position = 0, count;
    char **rest = split_arguments(tail, &count), **arguments = keep((size_t)(count + 2) * sizeof *arguments);

    arguments[0] = (char *)path;
    memcpy(arguments + 1, rest, (size_t)count * sizeof *rest);
    batch_arguments = arguments;
    while (lines[position] && !leaving) {
        char *line = batch_line(lines, &position), *shown = trimmed(line);
        if (*shown == ':' || *shown == '\0')
            continue;
        if (echoing && *shown != '@')
            printf("\r\n%s>%s\r\n", windows_directory(), expand(shown, batch_arguments));
        run_line(line);
        if (jump_target && !jump(lines, &position))
            break;
    }
    batch_arguments = outer;
    echoing = outer_echo;
    return error_level;
}

static void note_interrupt(int number) { (void)number; }

static int run_typed_lines(bool quiet)
{
    bool end = false, terminal = isatty(0);
    struct sigaction interrupted = {.sa_handler = note_interrupt}; /* interrupts the read, not the program */

    if (terminal)
        sigaction(SIGINT, &interrupted, NULL);
    if (!quiet) {
        run_ver(0, NULL);
        fputs("(stand-in commands of the HCS emulator)\r\n", stdout);
    }
    while (!end && !leaving) {
        if (!quiet && echoing)
            printf("\r\n%s>", windows_directory());
        fflush(stdout);
        char *line = read_line(0, &end);
        if (!quiet && echoing && !terminal && !end)
            printf("%s\r\n", line);
        run_line(line);
        forget_all();
    }
    return error_level;
}

/* The outer quotes of a command are removed, unless they are the only ones and enclose the name of a program. */
static char *without_outer_quotes(char *command)
{
    int quotes = 0;
    char path[PATH_SIZE];
    const char *search = get_variable("PATH");

    for (char *c = command; *c; c++)
        quotes += *c == '"';
    if (*command != '"')
        return command;
    if (quotes == 2 && !strpbrk(command, "&<>()@^|") && find_program(unquoted(command), search ? search : "", path))
        return command;
    char *last = strrchr(command, '"');
    if (last > command)
        memmove(last, last + 1, strlen(last));
    return command + 1;
}

int run_cmd(int count, char **arguments)
{
    const char *tail = "";
    bool quiet = false;

    if (count == 3 && strcmp(arguments[1], "--raw") == 0)
        tail = arguments[2];
    for (;;) {
        while (*tail == ' ' || *tail == '\t')
            tail++;
        if (*tail != '/' || tail[1] == '\0')
            break;
        char option = tail[1];
        tail += 2;
        if (strchr("cCkKrR", option)) {
            run_line(without_outer_quotes(trimmed(tail)));
            if (strchr("kK", option) && !leaving)
                run_typed_lines(quiet);
            return error_level == NOT_RECOGNIZED ? 1 : error_level;
        }
        if (option == 'q' || option == 'Q')
            quiet = true;
        if (option == '?') {
            fputs("cmd [/q] [/c command | /k command]: runs Windows' command language (a stand-in)\r\n", stdout);
            return 0;
        }
        while (*tail && *tail != ' ' && *tail != '/') /* the rest of an option such as /v:on */
            tail++;
    }
    return run_typed_lines(quiet);
}

int main(int argc, char **argv)
{
    const char *name = argc > 0 ? base_name(argv[0]) : "cmd";
    program *applet = find_applet(name);
    char comm[16];

    if (applet == NULL) {
        complain("'%s' is none of the stand-in commands.", name);
        return 1;
    }
    snprintf(comm, sizeof comm, "%s%s", name, has_suffix(name, ".exe") ? "" : ".exe");
    prctl(PR_SET_NAME, comm);
    leave(applet(argc, argv));
}
