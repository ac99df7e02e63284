/* powershell.exe of the stand-in images: Wine's own does nothing. It runs the few statements that critest's specs use:

     powershell -c echo hello                      powershell -c "start-sleep 4321"
     powershell -c "ls" C:\path                    powershell /c "$env:computername"
     powershell -c "get-process | findstr sleep; exit 0"
     powershell -c "while($true) { echo 'hello World'; sleep 1; }"

   Any other statement is the command line of a program. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <ctype.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tlhelp32.h>

#define MOST_WORDS 32

static int failed;         /* whether the last statement failed */
static const char *filter; /* the text of `| findstr TEXT` */

static void run_statements(const char *script);

static void print_line(const char *line) {
    if (filter == NULL || strstr(line, filter) != NULL)
        printf("%s\r\n", line);
    fflush(stdout);
}

static char *copy_part(const char *text, size_t length) {
    char *copy = calloc(1, length + 1);
    if (copy == NULL)
        exit(1);
    return memcpy(copy, text, length);
}

/* The words of a statement, without quotes. */
static int split_words(const char *statement, char **words) {
    int count = 0;
    while (count < MOST_WORDS) {
        while (isspace((unsigned char)*statement))
            statement++;
        if (*statement == '\0')
            break;
        char *word = copy_part(statement, strlen(statement)), *end = word, quote = '\0';
        for (; *statement && (quote || !isspace((unsigned char)*statement)); statement++) {
            if (quote == *statement)
                quote = '\0';
            else if (!quote && (*statement == '\'' || *statement == '"'))
                quote = *statement;
            else
                *end++ = *statement;
        }
        *end = '\0';
        words[count++] = word;
    }
    return count;
}

static int is_named(const char *word, const char *name, const char *alias) {
    return _stricmp(word, name) == 0 || _stricmp(word, alias) == 0;
}

static void list_directory(const char *path) {
    char pattern[MAX_PATH];
    WIN32_FIND_DATAA found;
    snprintf(pattern, sizeof pattern, "%s\\*", path);
    HANDLE search = FindFirstFileA(pattern, &found);
    if (search == INVALID_HANDLE_VALUE) {
        fprintf(stderr, "ls : Cannot find path '%s' because it does not exist.\r\n", path);
        failed = 1;
        return;
    }
    do {
        if (strcmp(found.cFileName, ".") != 0 && strcmp(found.cFileName, "..") != 0)
            print_line(found.cFileName);
    } while (FindNextFileA(search, &found));
    FindClose(search);
}

static void list_processes(void) {
    HANDLE processes = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    PROCESSENTRY32 entry = {.dwSize = sizeof entry};
    for (BOOL more = Process32First(processes, &entry); more; more = Process32Next(processes, &entry)) {
        char *suffix = strrchr(entry.szExeFile, '.');
        if (suffix != NULL)
            *suffix = '\0';
        print_line(entry.szExeFile);
    }
    CloseHandle(processes);
}

static void run_program(const char *statement) {
    STARTUPINFOA startup = {.cb = sizeof startup};
    PROCESS_INFORMATION created;
    char *command = copy_part(statement, strlen(statement));
    DWORD code = 1;
    if (filter != NULL || !CreateProcessA(NULL, command, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &created)) {
        fprintf(stderr, "%s : The term is not recognized as the name of a cmdlet or program.\r\n", statement);
    } else {
        WaitForSingleObject(created.hProcess, INFINITE);
        GetExitCodeProcess(created.hProcess, &code);
    }
    failed = code != 0;
}

static void run_command(const char *statement) {
    char *words[MOST_WORDS] = {NULL};
    int count = split_words(statement, words);
    failed = 0;
    if (count == 0)
        return;
    if (is_named(words[0], "Write-Output", "echo"))
        for (int index = 1; index < count; index++)
            print_line(words[index]);
    else if (is_named(words[0], "Start-Sleep", "sleep"))
        Sleep(count > 1 ? (DWORD)(atof(words[1]) * 1000) : 0);
    else if (is_named(words[0], "Get-ChildItem", "ls"))
        list_directory(count > 1 ? words[1] : ".");
    else if (is_named(words[0], "Get-Process", "ps"))
        list_processes();
    else if (is_named(words[0], "exit", "exit"))
        exit(count > 1 ? atoi(words[1]) : failed);
    else if (_strnicmp(words[0], "$env:", 5) == 0)
        print_line(getenv(words[0] + 5) == NULL ? "" : getenv(words[0] + 5));
    else
        run_program(statement);
}

/* `COMMAND` or `COMMAND | findstr TEXT` */
static void run_pipeline(char *statement) {
    char *bar = strchr(statement, '|'), *words[MOST_WORDS] = {NULL};
    if (bar != NULL) {
        *bar = '\0';
        if (split_words(bar + 1, words) != 2 || _stricmp(words[0], "findstr") != 0) {
            fprintf(stderr, "%s : only findstr with one word may follow |\r\n", bar + 1);
            exit(1);
        }
        filter = words[1];
    }
    run_command(statement);
    filter = NULL;
}

static void run_statement(char *statement) {
    statement += strspn(statement, " \t\r\n");
    char *opening = strchr(statement, '{'), *closing = strrchr(statement, '}');
    if (_strnicmp(statement, "while($true)", 12) != 0 || opening == NULL || closing == NULL) {
        run_pipeline(statement);
        return;
    }
    *closing = '\0';
    for (;;)
        run_statements(opening + 1);
}

/* Split at semicolons outside quotes and braces. */
static void run_statements(const char *script) {
    const char *start = script;
    char quote = '\0';
    int depth = 0;
    for (;; script++) {
        if (*script == '\0' || (*script == ';' && !quote && depth == 0)) {
            run_statement(copy_part(start, (size_t)(script - start)));
            if (*script == '\0')
                return;
            start = script + 1;
        } else if (quote) {
            quote = *script == quote ? '\0' : quote;
        } else if (*script == '\'' || *script == '"') {
            quote = *script;
        } else {
            depth += (*script == '{') - (*script == '}');
        }
    }
}

int main(int count, char **arguments) {
    char script[8192] = "";
    if (count < 3 || (arguments[1][0] != '-' && arguments[1][0] != '/') || tolower(arguments[1][1]) != 'c') {
        fprintf(stderr, "usage: powershell -c SCRIPT\n");
        return 1;
    }
    /* The runtime would write CR CR LF. */
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stderr), _O_BINARY);
    for (int index = 2; index < count; index++)
        if (strlen(script) + strlen(arguments[index]) + 2 < sizeof script)
            strcat(strcat(script, index > 2 ? " " : ""), arguments[index]);
    run_statements(script);
    return failed;
}
