/* containerd-shim-runhcs-v1: what containerd executes.

   Most of what `start` and `delete` cost in Python is Python's own start. So the commands as they usually come are done
   here: `start` makes the socket and has Python serve it, which containerd need not wait for; `delete` of what left nothing
   behind says so. Whatever is unusual in any way, and every error, is left to Python, which knows all of it and what to
   say: this program then becomes Python. tests/emulated/commands/test_start.py and its neighbours run with and without it.

   If there is a standby (shim/commands/standby/command.py), the daemon is a process that has everything loaded already.

   RUNHCS_NATIVE=0 leaves every command to Python. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

/* `runhcs install` writes after the mark, each with a NUL: the path of python, the file to run, "1" if the standby is on by
   default, and, if there is a linked interpreter (embedded/interpreter.c), its path and the time and size that python
   had when it was made. */
__attribute__((used)) static char written[4096] = "RUNHCS-LAUNCHER-SETTINGS:";
#define MARK_LENGTH 25

/* A switch in the environment, or else what was installed. */
static bool is_on(const char *variable, const char *by_default) {
    const char *asked = getenv(variable);
    return (asked == NULL || *asked == '\0' ? by_default : asked)[0] == '1';
}

static const char *after(const char *text) { return text + strlen(text) + 1; }

/* Whether python is what it was: one that was upgraded has libraries that the linked interpreter may not fit. */
static bool is_same(const char *python, const char *stamp) {
    struct stat status;
    char now[64];
    if (stat(python, &status) != 0)
        return false;
    snprintf(now, sizeof now, "%lld.%09ld %lld", (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
        (long long)status.st_size);
    return strcmp(now, stamp) == 0;
}

static struct settings read_settings(void) {
    const char *python = written + MARK_LENGTH;
    __asm__("" : "+r"(python)); /* the compiler must not think that it knows what is there */
    const char *file = after(python), *standby = after(file), *interpreter = after(standby);
    if (*interpreter != '\0' && access(interpreter, X_OK) == 0 && is_same(python, after(interpreter)))
        python = interpreter;
    return (struct settings){python, file, is_on("RUNHCS_STANDBY", standby)};
}

void python_arguments(const struct settings *settings, char *option, int argc, char **argv, char **words) {
    *words++ = (char *)settings->python;
    *words++ = "-IS";
    if (option != NULL) {
        *words++ = "-X";
        *words++ = option;
    }
    *words++ = (char *)settings->file;
    for (int at = 1; at < argc; at++)
        *words++ = argv[at];
    *words = NULL;
}

static bool run_natively(const struct settings *settings, int argc, char **argv) {
    struct command command;
    if (!is_on("RUNHCS_NATIVE", "1") || !read_command(argc, argv, &command))
        return false;
    if (strcmp(command.action, "start") == 0)
        return native_start(settings, &command, argc, argv);
    return strcmp(command.action, "delete") == 0 && native_delete(&command);
}

/* A standard stream that is closed would become the next file that somebody opens. */
static void open_streams(void) {
    int fd = 0;
    while (fd >= 0 && fd < 3)
        fd = fcntl(fd, F_GETFD) < 0 ? open("/dev/null", O_RDWR) : fd + 1;
}

int main(int argc, char **argv) {
    open_streams();
    struct settings settings = read_settings();
    if (*settings.python == '\0' || argc < 1 || argc > MAX_ARGUMENTS) {
        fprintf(stderr, NAME ": %s\n",
            *settings.python == '\0' ? "this launcher was not installed: use `runhcs install`" : "too many arguments");
        return 1;
    }
    if (run_natively(&settings, argc, argv))
        _exit(0);
    struct sockaddr_un standby;
    char option[sizeof standby.sun_path + 32], *words[MAX_ARGUMENTS + 6];
    /* A cold start leaves a standby for the next one. */
    bool leaves = argc > 1 && strcmp(argv[argc - 1], "start") == 0 && settings.standby && standby_address(&settings, &standby);
    if (leaves)
        snprintf(option, sizeof option, "runhcs_standby=%s", standby.sun_path);
    python_arguments(&settings, leaves ? option : NULL, argc, argv, words);
    execv(settings.python, words);
    fprintf(stderr, NAME ": cannot run %s: %s; use `runhcs install` again\n", settings.python, strerror(errno));
    return 1;
}
