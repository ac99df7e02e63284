/* Runs the tree of parse.c: built-in commands in this process, other programs in a process of their own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"

enum { CONTROL_C_EXIT = (int)0xC000013A, ACCESS_VIOLATION = (int)0xC0000005 };

int error_level;
bool leaving;

void leave(int code)
{
    char name[16];

    fflush(NULL);
    if ((unsigned)code > 255) {
        snprintf(name, sizeof name, "exit:%x", (unsigned)code);
        prctl(PR_SET_NAME, name);
    }
    _exit(code & 255);
}

int wait_for(int pid)
{
    siginfo_t info = {.si_pid = 0};
    char path[40], name[32] = "";
    unsigned full;

    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, name, sizeof name - 1) < 0)
            *name = '\0';
        close(file);
    }
    waitpid(pid, NULL, 0);
    if (info.si_code != CLD_EXITED)
        return info.si_status == SIGSEGV ? ACCESS_VIOLATION : info.si_status == SIGKILL ? -1 : CONTROL_C_EXIT;
    if (sscanf(name, "exit:%x", &full) == 1 && (int)(full & 255) == info.si_status)
        return (int)full;
    return info.si_status;
}

/* -- redirections: applied to the descriptors of this process; the old ones are saved and restored */

enum { SAVED = 20 };

static bool redirect(const struct redirection *redirection)
{
    char path[PATH_SIZE];
    int opened = -1, flags = O_CLOEXEC;

    fflush(NULL);
    for (; redirection; redirection = redirection->next) {
        int descriptor = redirection->descriptor;
        if (fcntl(descriptor + SAVED, F_GETFD) < 0 && fcntl(descriptor, F_GETFD) >= 0)
            dup3(descriptor, descriptor + SAVED, O_CLOEXEC);
        if (redirection->kind == SAME_AS) {
            if (dup2(atoi(redirection->target), descriptor) < 0)
                return !complain("The handle could not be duplicated\r\nduring redirection of handle %d.", descriptor);
            continue;
        }
        if (redirection->kind == READ_FROM)
            flags = O_RDONLY | O_CLOEXEC;
        else
            flags = O_WRONLY | O_CREAT | O_CLOEXEC | (redirection->kind == APPEND_TO ? O_APPEND : O_TRUNC);
        if (strcasecmp(redirection->target, "nul") == 0)
            opened = open("/dev/null", O_RDWR | O_CLOEXEC);
        else if (find_path(redirection->target, path) || to_posix_path(redirection->target, path))
            opened = open(path, flags, 0644);
        if (opened < 0) {
            complain(errno == ENOENT ? "The system cannot find the file specified." : "Access is denied.");
            return false;
        }
        dup2(opened, descriptor);
        close(opened);
    }
    return true;
}

static void restore(const struct redirection *redirection)
{
    fflush(NULL);
    for (; redirection; redirection = redirection->next) {
        int descriptor = redirection->descriptor;
        if (fcntl(descriptor + SAVED, F_GETFD) >= 0) {
            dup2(descriptor + SAVED, descriptor);
            close(descriptor + SAVED);
        }
    }
}

/* -- programs */

/* In the child. A Linux program gets its arguments split as a Windows program splits them. */
static _Noreturn void become_program(const char *name, const char *tail, const char *path)
{
    int count;
    char **rest = split_arguments(tail, &count);
    char **arguments = keep((size_t)(count + 2) * sizeof *arguments);

    signal(SIGINT, SIG_DFL);
    arguments[0] = (char *)name;
    memcpy(arguments + 1, rest, (size_t)count * sizeof *rest);
    if (path == NULL) {
        char comm[16];
        snprintf(comm, sizeof comm, "%s%s", name, has_suffix(name, ".exe") ? "" : ".exe");
        prctl(PR_SET_NAME, comm);
        if (find_applet(name) == run_cmd) { /* it parses its line by its own rules */
            char *raw[] = {"cmd", "--raw", (char *)tail, NULL};
            leave(run_cmd(3, raw));
        }
        leave(find_applet(name)(count + 1, arguments));
    }
    execv(path, arguments);
    if (errno == ENOEXEC)
        complain("This program cannot run here: %s", name);
    else
        complain("Access is denied.");
    leave(errno == ENOEXEC ? 193 : 5);
}

static int run_program(const char *name, const char *tail)
{
    char path[PATH_SIZE];
    const char *search = get_variable("PATH");
    bool applet = find_applet(name) != NULL && !strpbrk(name, "\\/");

    if (!applet && !find_program(name, search ? search : "", path)) {
        if (find_applet(name) == NULL) {
            complain("'%s' is not recognized as an internal or external command,\r\n"
                     "operable program or batch file.",
                     name);
            return NOT_RECOGNIZED;
        }
        applet = true;
    }
    if (!applet && (has_suffix(path, ".bat") || has_suffix(path, ".cmd")))
        return run_batch_file(path, tail);
    fflush(NULL);
    int pid = fork();
    if (pid == 0)
        become_program(name, tail, applet ? NULL : path);
    if (pid < 0)
        return complain("Not enough memory resources are available to process this command.");
    return wait_for(pid);
}

static int run_command(const char *text)
{
    const char *rest = text;

    while (*rest == ' ' || *rest == '\t' || *rest == ',' || *rest == ';' || *rest == '=')
        rest++;
    if (*rest == '\0')
        return error_level;
    char *name = take_word(&rest, *rest == '"' ? "" : "=,;");
    built_in *command = find_built_in(name);
    /* `echo.` `cd..` `cd\x` `md/x`: the name of a built-in ends at the first other character. */
    for (size_t length = strlen(name); command == NULL && length > 1; length--)
        if (strchr(".\\/:([+", name[length - 1])) {
            char *shorter = keep_text(name, length - 1);
            command = find_built_in(shorter);
            if (command)
                rest -= strlen(name) - length + 1;
        }
    if (command)
        return command(rest);
    while (*rest == ' ' || *rest == '\t')
        rest++;
    return run_program(unquoted(name), rest);
}

/* -- the language */

static int run_pipe(const struct node *node)
{
    int ends[2];

    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return complain("The process tried to write to a nonexistent pipe.");
    int writer = fork();
    if (writer == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        leave(run(node->left));
    }
    int reader = fork();
    if (reader == 0) {
        dup2(ends[0], 0);
        close(ends[0]);
        close(ends[1]); /* otherwise it would wait for its own end of file */
        leave(run(node->right));
    }
    close(ends[0]);
    close(ends[1]);
    if (writer < 0 || reader < 0)
        return complain("Not enough memory resources are available to process this command.");
    int code = wait_for(reader);
    wait_for(writer);
    return code;
}

static bool is_number(const char *text)
{
    char *end;
    strtol(text, &end, 0);
    return end != text && *end == '\0';
}

static bool compare(const struct condition *condition)
{
    const char *left = condition->left, *right = condition->right, *relation = condition->relation;
    long order;

    if (is_number(left) && is_number(right))
        order = strtol(left, NULL, 0) - strtol(right, NULL, 0);
    else
        order = condition->any_case ? strcasecmp(left, right) : strcmp(left, right);
    switch (relation[0]) {
    case 'E':
        return order == 0;
    case 'N':
        return order != 0;
    case 'L':
        return relation[1] == 'S' ? order < 0 : order <= 0;
    default:
        return relation[1] == 'T' ? order > 0 : order >= 0;
    }
}

static bool holds(const struct condition *condition)
{
    bool is_pattern, result;
    char path[PATH_SIZE];

    switch (condition->kind) {
    case EXISTS:
        result = matching_files(condition->left, &is_pattern)[0] != NULL;
        result = result && (is_pattern || find_path(condition->left, path));
        break;
    case DEFINED:
        result = get_variable(condition->left) != NULL;
        break;
    case ERRORLEVEL:
        result = error_level >= atoi(condition->left);
        break;
    default:
        result = compare(condition);
    }
    return result != condition->negated;
}

/* A copy of the tree with the loop's variable replaced. */
static struct node *with_value(const struct node *node, char variable, const char *value)
{
    if (node == NULL)
        return NULL;
    struct node *copy = keep(sizeof *copy);
    *copy = *node;
    copy->left = with_value(node->left, variable, value);
    copy->right = with_value(node->right, variable, value);
    if (node->text)
        copy->text = expand_loop_variable(node->text, variable, value);
    if (node->condition) {
        copy->condition = keep(sizeof *copy->condition);
        *copy->condition = *node->condition;
        copy->condition->left = expand_loop_variable(node->condition->left, variable, value);
        if (node->condition->right)
            copy->condition->right = expand_loop_variable(node->condition->right, variable, value);
    }
    struct redirection **next = &copy->redirections;
    for (const struct redirection *old = node->redirections; old; old = old->next, next = &(*next)->next) {
        *next = keep(sizeof **next);
        **next = *old;
        (*next)->target = expand_loop_variable(old->target, variable, value);
    }
    return copy;
}

static int run_for(const struct node *node)
{
    if (node->counting) {
        long from = 0, step = 0, to = 0;
        sscanf(node->text, "%ld%*[ ,]%ld%*[ ,]%ld", &from, &step, &to);
        for (long i = from; step && !leaving && !jump_target && (step > 0 ? i <= to : i >= to); i += step) {
            char value[24];
            snprintf(value, sizeof value, "%ld", i);
            error_level = run(with_value(node->left, node->variable, value));
        }
        return error_level;
    }
    const char *at = node->text;
    for (;;) {
        while (*at && strchr(",; \t\r\n", *at))
            at++;
        if (*at == '\0' || leaving || jump_target)
            return error_level;
        bool is_pattern;
        for (char **file = matching_files(take_word(&at, ",;"), &is_pattern); *file && !leaving && !jump_target; file++)
            error_level = run(with_value(node->left, node->variable, *file));
    }
}

static int run_redirected(const struct node *node)
{
    if (!redirect(node->redirections)) {
        restore(node->redirections);
        return 1;
    }
    int code = node->kind == GROUP ? run(node->left) : run_command(node->text);
    restore(node->redirections);
    return code;
}

int run(const struct node *node)
{
    if (node == NULL || leaving || jump_target)
        return error_level;
    switch (node->kind) {
    case SEQUENCE:
        run(node->left);
        run(node->right);
        break;
    case AND:
        if (run(node->left) == 0)
            run(node->right);
        break;
    case OR:
        if (run(node->left) != 0)
            run(node->right);
        break;
    case PIPE:
        error_level = run_pipe(node);
        break;
    case IF:
        run(holds(node->condition) ? node->left : node->right);
        break;
    case FOR:
        error_level = run_for(node);
        break;
    default:
        error_level = run_redirected(node);
    }
    return error_level;
}

int run_line(const char *line)
{
    struct node *node = parse(expand(line, batch_arguments));

    if (node == NULL)
        return error_level = 255;
    return run(node);
}
