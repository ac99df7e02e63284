/* The few PowerShell statements that `powershell -Command "Write-Output x; Start-Sleep 5; exit 3"` needs. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "commands.h"

static bool ending;
static int ending_code;

static int run_statements(const char *script);

static bool is_one_of(const char *word, const char *one, const char *other, const char *third)
{
    return strcasecmp(word, one) == 0 || strcasecmp(word, other) == 0 || strcasecmp(word, third) == 0;
}

/* The value of a word: quotes removed, $env:NAME replaced. */
static char *value_of(const char *word)
{
    struct buffer value = {0};
    bool single = *word == '\'';

    append(&value, "", 0);
    for (; *word; word++) {
        if (*word == '\'' || *word == '"')
            continue;
        if (!single && strncasecmp(word, "$env:", 5) == 0) {
            size_t length = 5;
            while (isalnum((unsigned char)word[length]) || word[length] == '_')
                length++;
            const char *found = get_variable(keep_text(word + 5, length - 5));
            append_text(&value, found ? found : "");
            word += length - 1;
        } else {
            append(&value, word, 1);
        }
    }
    return value.text;
}

/* The words of a statement; both kinds of quotes group. */
static char **words_of(const char *statement, int *count)
{
    char **words = keep((strlen(statement) / 2 + 2) * sizeof *words);

    *count = 0;
    for (;;) {
        struct buffer word = {0};
        char quote = '\0';
        statement += strspn(statement, " \t\r\n");
        if (*statement == '\0')
            return words;
        for (; *statement && (quote || !isspace((unsigned char)*statement)); statement++) {
            if (quote == *statement)
                quote = '\0';
            else if (!quote && (*statement == '\'' || *statement == '"'))
                quote = *statement;
            append(&word, statement, 1);
        }
        words[(*count)++] = word.text;
    }
}

static int sleep_for(char **words, int count)
{
    double seconds = 0;

    for (int i = 1; i < count; i++) {
        if (is_option(words[i], "milliseconds") && i + 1 < count)
            seconds = atof(words[++i]) / 1000;
        else if (*words[i] != '-')
            seconds = atof(words[i]);
    }
    pass_seconds(seconds);
    return 0;
}

static int run_statement(const char *text)
{
    int count;
    char *statement = trimmed(text), **words = words_of(statement, &count);

    if (count == 0)
        return 0;
    if (strcasecmp(words[0], "exit") == 0 || strncasecmp(statement, "[Environment]::Exit(", 20) == 0) {
        ending = true;
        ending_code = (int)strtoll(statement[0] == '[' ? statement + 20 : count > 1 ? words[1] : "0", NULL, 0);
        return ending_code;
    }
    if (strncasecmp(statement, "while", 5) == 0 && strchr(statement, '{')) {
        char *body = keep_text(strchr(statement, '{') + 1, strlen(strchr(statement, '{') + 1));
        char *end = strrchr(body, '}');
        if (end)
            *end = '\0';
        while (!ending)
            run_statements(body);
        return 0;
    }
    if (is_one_of(words[0], "Write-Output", "Write-Host", "echo")) {
        for (int i = 1; i < count; i++)
            printf("%s%s", i > 1 ? " " : "", value_of(words[i]));
        printf("\r\n");
        return 0;
    }
    if (strcasecmp(words[0], "Write-Error") == 0)
        return complain("%s", value_of(count > 1 ? words[1] : ""));
    if (strcasecmp(words[0], "Start-Sleep") == 0 || strcasecmp(words[0], "sleep") == 0)
        return sleep_for(words, count);
    if (strcasecmp(words[0], "Get-Content") == 0 || strcasecmp(words[0], "cat") == 0)
        return run_type(count > 1 ? value_of(words[1]) : "");
    if (*statement == '"' || *statement == '\'' || *statement == '$') {
        printf("%s\r\n", value_of(statement));
        return 0;
    }
    return run_line(statement);
}

/* Separated by ; outside quotes and braces. */
static int run_statements(const char *script)
{
    struct buffer statement = {0};
    char quote = '\0';
    int depth = 0, code = 0;

    append(&statement, "", 0);
    for (; !ending; script++) {
        if (*script == '\0' || ((*script == ';' || *script == '\n') && !quote && depth == 0)) {
            code = run_statement(statement.text);
            if (*script == '\0')
                return code;
            statement = (struct buffer){0};
            append(&statement, "", 0);
            continue;
        }
        if (quote == *script)
            quote = '\0';
        else if (!quote && (*script == '\'' || *script == '"'))
            quote = *script;
        else if (!quote)
            depth += (*script == '{') - (*script == '}');
        append(&statement, script, 1);
    }
    return code;
}

int run_powershell(int count, char **arguments)
{
    struct buffer script = {0};
    bool interactive = true;
    int at = 1;

    append(&script, "", 0);
    for (; at < count; at++) {
        if (is_option(arguments[at], "command") || is_option(arguments[at], "c")) {
            interactive = false;
            at++;
            break;
        }
        if (*arguments[at] == '-' && is_one_of(arguments[at] + 1, "executionpolicy", "ep", "version"))
            at++;
        else if (*arguments[at] != '-' && *arguments[at] != '/')
            break;
    }
    for (; at < count; at++) {
        interactive = false;
        append_text(&script, script.length ? " " : "");
        append_text(&script, arguments[at]);
    }
    char *line = NULL;
    size_t capacity = 0;
    while (interactive && !ending && getline(&line, &capacity, stdin) >= 0)
        ending_code = run_statements(line);
    free(line);
    if (interactive)
        return ending_code;
    int code = run_statements(script.text);
    return ending ? ending_code : code ? 1 : 0;
}
