/* cmd's built-in commands for cmd itself: echo, set, cd, exit, call, goto … */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"

static int run_echo(const char *rest)
{
    char *word = trimmed(rest);

    if (*rest && strchr(".:([+/\\", *rest)) {
        printf("%s\r\n", rest + 1);
        return error_level;
    }
    if (*word == '\0') {
        printf("ECHO is %s.\r\n", echoing ? "on" : "off");
    } else if (strcasecmp(word, "on") == 0 || strcasecmp(word, "off") == 0) {
        echoing = strcasecmp(word, "on") == 0;
    } else {
        printf("%s\r\n", rest + 1); /* blanks after the first one belong to the text */
    }
    return 0;
}

static int list_variables(const char *prefix)
{
    size_t count = 0, shown = 0, length = strlen(prefix);

    while (environ[count])
        count++;
    char **sorted = keep((count + 1) * sizeof *sorted);
    memcpy(sorted, environ, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0; i < count; i++)
        if (strncasecmp(sorted[i], prefix, length) == 0) {
            printf("%s\r\n", sorted[i]);
            shown++;
        }
    return shown || *prefix == '\0' ? 0 : complain("Environment variable %s not defined", prefix);
}

/* Arithmetic for `set /a`: + - * / %, parentheses, numbers and variables. */
static const char *sum_cursor;
static long sum(void);

static long factor(void)
{
    while (*sum_cursor == ' ')
        sum_cursor++;
    if (*sum_cursor == '-') {
        sum_cursor++;
        return -factor();
    }
    if (*sum_cursor == '(') {
        sum_cursor++;
        long value = sum();
        sum_cursor += *sum_cursor == ')';
        return value;
    }
    char *word = take_word(&sum_cursor, "+-*/%() ");
    const char *value = *word >= '0' && *word <= '9' ? word : get_variable(word);
    return value ? strtol(value, NULL, 0) : 0;
}

static long product(void)
{
    long value = factor();
    for (;;) {
        while (*sum_cursor == ' ')
            sum_cursor++;
        char sign = *sum_cursor;
        if (sign == '\0' || !strchr("*/%", sign))
            return value;
        sum_cursor++;
        long other = factor();
        if (sign == '*')
            value *= other;
        else if (other == 0)
            complain("Divide by zero error.");
        else
            value = sign == '/' ? value / other : value % other;
    }
}

static long sum(void)
{
    long value = product();
    while (*sum_cursor == '+' || *sum_cursor == '-')
        value = *sum_cursor++ == '+' ? value + product() : value - product();
    return value;
}

static int set_sum(const char *expression)
{
    char *text = unquoted(expression), *equals = strchr(text, '='), number[24];

    sum_cursor = equals ? equals + 1 : text;
    snprintf(number, sizeof number, "%d", (int)sum());
    if (equals == NULL) {
        printf("%s", number);
    } else {
        *equals = '\0';
        set_variable(trimmed(text), number);
    }
    return 0;
}

static int run_set(const char *rest)
{
    char *text = trimmed(rest);

    if (strncasecmp(text, "/a", 2) == 0)
        return set_sum(text + 2);
    if (*text == '"') { /* set "name=value": the text after the last quote is ignored */
        char *last = strrchr(text, '"');
        text = last > text ? keep_text(text + 1, (size_t)(last - text - 1)) : text + 1;
    } else if (*rest) {
        /* trailing blanks are significant */
        text = keep_text(rest + strspn(rest, " \t"), strlen(rest) - strspn(rest, " \t"));
    }
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return list_variables(trimmed(text));
    *equals = '\0';
    set_variable(text, equals + 1);
    return 0;
}

static int run_cd(const char *rest)
{
    char *name = trimmed(rest), path[PATH_SIZE];

    if (strncasecmp(name, "/d", 2) == 0)
        name = trimmed(name + 2);
    name = unquoted(name);
    if (*name == '\0') {
        printf("%s\r\n", windows_directory());
        return 0;
    }
    if (!find_path(name, path) || chdir(path) < 0)
        return complain("The system cannot find the path specified.");
    return 0;
}

static int run_exit(const char *rest)
{
    char *text = trimmed(rest);

    if (strncasecmp(text, "/b", 2) == 0) {
        text = trimmed(text + 2);
        if (batch_arguments)
            jump_target = keep_text(":eof", 4);
        else
            leaving = true;
    } else {
        leaving = true;
    }
    return *text ? (int)strtoll(text, NULL, 0) : error_level;
}

static int run_goto(const char *rest)
{
    char *label = trimmed(rest);

    if (!batch_arguments)
        return 1;
    jump_target = *label == ':' && strcasecmp(label, ":eof") != 0 ? label + 1 : label;
    return error_level;
}

static int run_call(const char *rest) { return run_line(rest); }

static int run_start(const char *rest)
{
    char *text = trimmed(rest);
    const char *at = text;

    if (*text == '"') /* the window's title */
        take_word(&at, "");
    at += strspn(at, " \t");
    while (*at == '/')
        take_word(&at, ""), at += strspn(at, " \t");
    fflush(NULL);
    int pid = fork();
    if (pid == 0)
        leave(run_line(at));
    return pid < 0 ? 1 : 0;
}

static int run_nothing(const char *rest)
{
    (void)rest;
    return error_level;
}

static int run_pause(const char *rest)
{
    char c;

    (void)rest;
    fputs("Press any key to continue . . . ", stdout);
    fflush(stdout);
    if (read(0, &c, 1) < 0)
        return 1;
    fputs("\r\n", stdout);
    return 0;
}

static int run_built_in_ver(const char *rest)
{
    (void)rest;
    return run_ver(0, NULL);
}

static const struct {
    const char *name;
    built_in *run;
} built_ins[] = {
    {"echo", run_echo},      {"set", run_set},          {"cd", run_cd},        {"chdir", run_cd},
    {"exit", run_exit},      {"goto", run_goto},        {"call", run_call},    {"start", run_start},
    {"rem", run_nothing},    {"title", run_nothing},    {"cls", run_nothing},  {"color", run_nothing},
    {"chcp", run_nothing},   {"prompt", run_nothing},   {"pause", run_pause},  {"setlocal", run_nothing},
    {"dir", run_dir},        {"endlocal", run_nothing}, {"type", run_type},    {"ver", run_built_in_ver},
    {"copy", run_copy},      {"move", run_move},        {"ren", run_ren},      {"rename", run_ren},
    {"del", run_del},        {"erase", run_del},        {"md", run_mkdir},     {"mkdir", run_mkdir},
    {"rd", run_rmdir},       {"rmdir", run_rmdir},
};

built_in *find_built_in(const char *name)
{
    for (size_t i = 0; i < sizeof built_ins / sizeof *built_ins; i++)
        if (strcasecmp(built_ins[i].name, name) == 0)
            return built_ins[i].run;
    return NULL;
}
