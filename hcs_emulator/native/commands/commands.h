/* Stand-in Windows commands: declarations shared by their files.
 *
 * One static program under many names (argv[0]): `cmd` with its language and built-in commands, and the small programs
 * in the table of cmd.c. A silo runs them when a command line names one of these Windows commands and the container's
 * root has no such program (silo/exec.c).
 *
 * Purpose: command lines of tests, of the demo and of Windows container examples (`cmd /c echo`, `ping -t localhost`,
 * batch files, a pipe into findstr) run on the emulator without Wine and without Windows programs.
 *
 * Scope: frozen. The commands, options and built-ins listed in cmd.c and built_in.c are the whole set. Fix defects in
 * them. Do not add: further commands, options or cmd features (delayed expansion, functions, `for /f`), more
 * PowerShell than the statements of powershell.c, registry or service commands, or output closer to Windows' than a
 * script needs. Containers that need real Windows programs run them under Wine.
 */
#ifndef COMMANDS_H
#define COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/windows_path.h"

enum { NOT_RECOGNIZED = 9009 };

/* -- memory.c: memory that is released at the next interactive line; exits when there is none left */
void *keep(size_t size);
char *keep_text(const char *text, size_t length);
void forget_all(void);

struct buffer {
    char *text;
    size_t length, capacity;
};
void append(struct buffer *buffer, const char *text, size_t length);
void append_text(struct buffer *buffer, const char *text);

/* -- parse.c: parses a line of cmd's language */
struct redirection {
    int descriptor;
    enum { READ_FROM, WRITE_TO, APPEND_TO, SAME_AS } kind;
    char *target; /* a file, or for SAME_AS a descriptor's number */
    struct redirection *next;
};

struct condition {
    enum { EXISTS, DEFINED, ERRORLEVEL, COMPARED } kind;
    bool negated, any_case;
    char *left, *right, relation[4]; /* EQU NEQ LSS LEQ GTR GEQ; == is EQU */
};

struct node {
    enum { COMMAND, SEQUENCE, AND, OR, PIPE, GROUP, IF, FOR } kind;
    struct node *left, *right; /* GROUP, FOR: left; IF: then, else */
    char *text;                /* COMMAND: without its redirections; FOR: the set */
    char variable;             /* FOR */
    bool counting;             /* FOR /L */
    struct condition *condition;
    struct redirection *redirections;
};

/* NULL, with a message on stderr, for a syntax error; an empty line is a COMMAND with empty text. */
struct node *parse(const char *line);
/* The next word at *at, with its quotes, up to a blank or one of `stops`; advances *at. */
char *take_word(const char **at, const char *stops);
/* The same text without its quotes. */
char *unquoted(const char *text);
/* Arguments by the rules of CommandLineToArgvW; the list ends with NULL. */
char **split_arguments(const char *text, int *count);
char *trimmed(const char *text);

/* -- variables.c */
const char *get_variable(const char *name);
void set_variable(const char *name, const char *value); /* NULL or "" removes it */
/* Replaces %NAME%; in a batch file also %1, %* and %%, and unknown names by nothing. */
char *expand(const char *line, char *const *batch_arguments);
/* Replaces %v by a value, for `for`. */
char *expand_loop_variable(const char *text, char variable, const char *value);
/* The working directory as Windows writes it. */
char *windows_directory(void);

/* -- run.c */
extern int error_level;
extern bool leaving; /* `exit` was run; error_level is the exit code */
extern bool echoing;
extern char *const *batch_arguments; /* of the running batch file, or NULL */
extern char *jump_target;            /* the label of a `goto`, until it is reached */
int run(const struct node *node);
int run_line(const char *line);
int run_batch_file(const char *path, const char *tail);
/* Exits with a 32-bit code: the kernel keeps eight bits, the silo reads all of them from the process name. */
_Noreturn void leave(int code);
int wait_for(int pid);

/* -- the commands: each returns an exit code. Built-in ones get the rest of the line, programs get arguments. */
typedef int built_in(const char *rest);
typedef int program(int count, char **arguments);
built_in *find_built_in(const char *name);
program *find_applet(const char *name);

built_in run_dir, run_type, run_copy, run_move, run_del, run_mkdir, run_rmdir, run_ren;
program run_cmd, run_ping, run_timeout, run_hostname, run_whoami, run_find, run_findstr, run_sort, run_more;
program run_tasklist, run_powershell, run_ver;

/* The files that match a name with * or ? in its last part; the name itself if it has none. Ends with NULL. */
char **matching_files(const char *pattern, bool *was_pattern);
/* Prints a message to stderr with Windows' line end; returns 1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* For qsort: case-insensitive alphabetical order. */
int by_name(const void *left, const void *right);
void pass_seconds(double seconds);
/* True if the argument is this option, with / or -. */
bool is_option(const char *argument, const char *name);

#endif
