/* Environment variables of cmd: names in any case, %NAME% in a line. */
#define _GNU_SOURCE
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "commands.h"

static char **find_variable(const char *name)
{
    size_t length = strlen(name);
    for (char **entry = environ; *entry; entry++)
        if (strncasecmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return entry;
    return NULL;
}

const char *get_variable(const char *name)
{
    static char number[16];
    char **entry = find_variable(name);

    if (entry)
        return strchr(*entry, '=') + 1;
    if (strcasecmp(name, "ERRORLEVEL") == 0) {
        snprintf(number, sizeof number, "%d", error_level);
        return number;
    }
    if (strcasecmp(name, "CD") == 0)
        return windows_directory();
    if (strcasecmp(name, "RANDOM") == 0) {
        snprintf(number, sizeof number, "%d", rand() % 32768);
        return number;
    }
    return NULL;
}

void set_variable(const char *name, const char *value)
{
    char **entry = find_variable(name);
    const char *spelled = entry ? keep_text(*entry, strlen(name)) : name;

    if (value == NULL || *value == '\0')
        unsetenv(spelled);
    else
        setenv(spelled, value, 1);
}

/* At a % in a batch file: %%, %1 or %*. Returns its length in characters, 0 if it is none of these. */
static size_t expand_batch_argument(const char *at, char *const *arguments, struct buffer *line)
{
    if (at[1] == '%') {
        append(line, "%", 1);
        return 2;
    }
    if (at[1] == '*') {
        for (int i = 1; arguments[0] && arguments[i]; i++) {
            append_text(line, i > 1 ? " " : "");
            append_text(line, arguments[i]);
        }
        return 2;
    }
    if (!isdigit((unsigned char)at[1]))
        return 0;
    for (int i = 0; arguments[i]; i++)
        if (i == at[1] - '0')
            append_text(line, arguments[i]);
    return 2;
}

char *expand(const char *text, char *const *arguments)
{
    struct buffer line = {0};

    append(&line, "", 0);
    while (*text) {
        if (*text != '%') {
            append(&line, text++, 1);
            continue;
        }
        size_t taken = arguments ? expand_batch_argument(text, arguments, &line) : 0;
        const char *end = strchr(text + 1, '%');
        if (taken == 0 && end && end > text + 1) {
            const char *value = get_variable(keep_text(text + 1, (size_t)(end - text - 1)));
            if (value || arguments) {
                append_text(&line, value ? value : "");
                taken = (size_t)(end - text) + 1;
            }
        }
        if (taken == 0) {
            append(&line, text, 1);
            taken = 1;
        }
        text += taken;
    }
    return line.text;
}

char *expand_loop_variable(const char *text, char variable, const char *value)
{
    struct buffer line = {0};

    append(&line, "", 0);
    for (; *text; text++) {
        if (text[0] == '%' && text[1] == variable) {
            append_text(&line, value);
            text++;
        } else {
            append(&line, text, 1);
        }
    }
    return line.text;
}

char *windows_directory(void)
{
    char path[PATH_MAX];
    struct buffer name = {0};

    if (getcwd(path, sizeof path) == NULL)
        strcpy(path, "/");
    append_text(&name, "C:");
    for (char *c = path; *c; c++)
        append(&name, *c == '/' ? "\\" : c, 1);
    return name.text;
}
