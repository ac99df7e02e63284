/* Programs for text: find, findstr, sort, more. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "commands.h"

enum { MOST_PATTERNS = 64 };

struct search {
    bool any_case, inverted, numbered, counted, names_only, literal, whole, at_start, at_end;
    char *patterns[MOST_PATTERNS];
    regex_t compiled[MOST_PATTERNS];
    int count;
};

static char *next_line(FILE *file)
{
    static char *line;
    static size_t capacity;
    ssize_t length = getline(&line, &capacity, file);

    if (length < 0)
        return NULL;
    while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        line[--length] = '\0';
    return line;
}

static FILE *open_file(const char *name)
{
    char path[PATH_SIZE];
    FILE *file = find_path(name, path) ? fopen(path, "re") : NULL;

    if (file == NULL)
        complain("File not found - %s", name);
    return file;
}

static bool fits(const struct search *search, const char *line)
{
    size_t length = strlen(line);

    for (int i = 0; i < search->count; i++) {
        const char *pattern = search->patterns[i];
        size_t wanted = strlen(pattern);
        bool found;
        if (!search->literal) {
            found = regexec(&search->compiled[i], line, 0, NULL, 0) == 0;
        } else if (search->whole || search->at_start || search->at_end) {
            const char *at = search->at_end && length >= wanted ? line + length - wanted : line;
            int order = search->any_case ? strncasecmp(at, pattern, wanted) : strncmp(at, pattern, wanted);
            found = order == 0 && (!search->whole || length == wanted) && length >= wanted;
        } else {
            found = (search->any_case ? strcasestr(line, pattern) : strstr(line, pattern)) != NULL;
        }
        if (found)
            return true;
    }
    return false;
}

/* Returns the number of matching lines. `heading` is what find prints before a file's lines, findstr before each
 * line. */
static int search_file(const struct search *search, FILE *file, const char *name, bool heading, bool each)
{
    int count = 0, number = 0;
    char *line;

    if (heading && !each)
        printf("\r\n---------- %s%s", name, search->counted ? ": " : "\r\n");
    while ((line = next_line(file)) != NULL) {
        number++;
        if (fits(search, line) == search->inverted)
            continue;
        count++;
        if (search->counted || (search->names_only && count > 1))
            continue;
        if (search->names_only) {
            printf("%s\r\n", name);
            continue;
        }
        if (heading && each)
            printf("%s:", name);
        if (search->numbered)
            printf(each ? "%d:" : "[%d]", number);
        printf("%s\r\n", line);
    }
    if (search->counted)
        printf("%d\r\n", count);
    return count;
}

static int search_files(const struct search *search, char **names, int count, bool each)
{
    int found = 0;

    if (count == 0)
        found = search_file(search, stdin, "", false, each);
    for (int i = 0; i < count; i++) {
        bool is_pattern;
        char **files = matching_files(names[i], &is_pattern);
        for (char **name = files; *name; name++) {
            FILE *file = open_file(*name);
            if (file == NULL)
                continue;
            found += search_file(search, file, *name, !each || count > 1 || is_pattern, each);
            fclose(file);
        }
    }
    return found ? 0 : 1;
}

int run_find(int count, char **arguments)
{
    struct search search = {.literal = true};
    int at = 1;

    for (; at < count && *arguments[at] == '/'; at++) {
        search.any_case |= is_option(arguments[at], "i");
        search.inverted |= is_option(arguments[at], "v");
        search.numbered |= is_option(arguments[at], "n");
        search.counted |= is_option(arguments[at], "c");
    }
    if (at == count) {
        complain("FIND: Parameter format not correct");
        return 2;
    }
    search.patterns[search.count++] = arguments[at++];
    return search_files(&search, arguments + at, count - at, false);
}

static void add_words(struct search *search, char *words)
{
    for (char *rest = words, *word; (word = strsep(&rest, " ")) != NULL;)
        if (*word && search->count < MOST_PATTERNS)
            search->patterns[search->count++] = word;
}

int run_findstr(int count, char **arguments)
{
    struct search search = {0};
    bool as_given = false, is_regex = false;
    int at = 1;

    for (; at < count && *arguments[at] == '/'; at++) {
        if (strncasecmp(arguments[at], "/c:", 3) == 0) {
            if (search.count < MOST_PATTERNS)
                search.patterns[search.count++] = arguments[at] + 3;
            as_given = true;
            continue;
        }
        for (char *letter = arguments[at] + 1; *letter; letter++) {
            search.any_case |= (*letter | 0x20) == 'i';
            search.inverted |= (*letter | 0x20) == 'v';
            search.numbered |= (*letter | 0x20) == 'n';
            search.names_only |= (*letter | 0x20) == 'm';
            search.literal |= (*letter | 0x20) == 'l';
            search.whole |= (*letter | 0x20) == 'x';
            search.at_start |= (*letter | 0x20) == 'b';
            search.at_end |= (*letter | 0x20) == 'e';
            is_regex |= (*letter | 0x20) == 'r';
        }
    }
    if (search.count == 0 && at < count)
        add_words(&search, arguments[at++]);
    if (search.count == 0) {
        complain("FINDSTR: Bad command line");
        return 2;
    }
    search.literal |= (as_given && !is_regex) || search.whole || search.at_start || search.at_end;
    for (int i = 0; !search.literal && i < search.count; i++)
        if (regcomp(&search.compiled[i], search.patterns[i], REG_NOSUB | (search.any_case ? REG_ICASE : 0)) != 0) {
            complain("FINDSTR: Bad search string");
            return 2;
        }
    return search_files(&search, arguments + at, count - at, true);
}

static int descending(const void *left, const void *right) { return by_name(right, left); }

int run_sort(int count, char **arguments)
{
    FILE *file = stdin;
    bool reversed = false;
    size_t used = 0, capacity = 256;
    char **lines = keep(capacity * sizeof *lines), *line;

    for (int i = 1; i < count; i++) {
        if (is_option(arguments[i], "r") || is_option(arguments[i], "reverse"))
            reversed = true;
        else if (*arguments[i] != '/' && (file = open_file(arguments[i])) == NULL)
            return 1;
    }
    while ((line = next_line(file)) != NULL) {
        if (used == capacity) {
            char **more = keep((capacity *= 2) * sizeof *more);
            memcpy(more, lines, used * sizeof *lines);
            lines = more;
        }
        lines[used++] = keep_text(line, strlen(line));
    }
    qsort(lines, used, sizeof *lines, reversed ? descending : by_name);
    for (size_t i = 0; i < used; i++)
        printf("%s\r\n", lines[i]);
    return 0;
}

/* Without pages: it prints everything. */
int run_more(int count, char **arguments)
{
    char *line;

    for (int i = 1; i < count || i == 1; i++) {
        FILE *file = i < count ? open_file(arguments[i]) : stdin;
        if (file == NULL)
            return 1;
        while ((line = next_line(file)) != NULL)
            printf("%s\r\n", line);
    }
    return 0;
}
