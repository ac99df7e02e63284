/* containerd-shim-runhcs-v1: the program that containerd executes.

   Most of the cost of `start` and `delete` in Python is the start of the interpreter. So this program performs the common
   case itself: `start` creates the socket and starts a daemon in Python, for which containerd does not wait; `delete` prints
   the recorded exit if no resources are left. Unsupported input and every error are left to Python: the program executes
   it with the same arguments. tests/emulated/commands/test_start.py and test_delete.py run with and without this code.

   If there is a standby (shim/commands/standby/command.py), the daemon is a process that has imported all modules already.

   RUNHCS_NATIVE=0 leaves every command to Python. README.md maps the functions to their Python counterparts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "launcher.h"

/* `runhcs install` writes after the mark, each with a NUL: the path of python, the file to run, "1" if the standby is on by
   default, and, if there is a linked interpreter (embedded/interpreter.c), its path and the time and size of python when
   it was linked. */
__attribute__((used)) static char settings_data[4096] = "RUNHCS-LAUNCHER-SETTINGS:";
#define MARK_LENGTH 25

/* A switch in the environment, or the installed default. */
static bool switch_is_on(const char *variable, const char *by_default) {
    const char *value = getenv(variable);
    return (value == NULL || *value == '\0' ? by_default : value)[0] == '1';
}

static const char *next_setting(const char *text) { return text + strlen(text) + 1; }

/* The extension modules of an upgraded Python may not fit the linked interpreter. */
static bool python_is_unchanged(const char *python, const char *expected) {
    struct stat status;
    char now[64];
    if (stat(python, &status) != 0)
        return false;
    snprintf(now, sizeof now, "%lld.%09ld %lld", (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
        (long long)status.st_size);
    return strcmp(now, expected) == 0;
}

static struct settings read_settings(void) {
    const char *python = settings_data + MARK_LENGTH;
    __asm__("" : "+r"(python)); /* hides the initial value from the optimizer */
    const char *file = next_setting(python), *standby = next_setting(file), *interpreter = next_setting(standby);
    if (*interpreter != '\0' && access(interpreter, X_OK) == 0 && python_is_unchanged(python, next_setting(interpreter)))
        python = interpreter;
    return (struct settings){python, file, switch_is_on("RUNHCS_STANDBY", standby)};
}

void build_python_arguments(const struct settings *settings, char *option, int argc, char **argv, char **words) {
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

static bool run_native_command(const struct settings *settings, int argc, char **argv) {
    struct command command;
    if (!switch_is_on("RUNHCS_NATIVE", "1") || !parse_command_line(argc, argv, &command))
        return false;
    if (strcmp(command.action, "start") == 0)
        return native_start(settings, &command, argc, argv);
    return strcmp(command.action, "delete") == 0 && native_delete(&command);
}

/* The next file that is opened would get the number of a closed standard stream. */
static void open_closed_streams(void) {
    int fd = 0;
    while (fd >= 0 && fd < 3)
        fd = fcntl(fd, F_GETFD) < 0 ? open("/dev/null", O_RDWR) : fd + 1;
}

/* For the metrics of the node agent: the daemon reports the duration of `start`. */
static void note_beginning(void) {
    struct timespec now;
    char text[32];
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, "%lld%09ld", (long long)now.tv_sec, now.tv_nsec);
    setenv("RUNHCS_BEGAN", text, 1);
}

int main(int argc, char **argv) {
    open_closed_streams();
    if (argc > 1 && strcmp(argv[argc - 1], "start") == 0)
        note_beginning();
    struct settings settings = read_settings();
    if (*settings.python == '\0' || argc < 1 || argc > MAX_ARGUMENTS) {
        fprintf(stderr, NAME ": %s\n",
            *settings.python == '\0' ? "this launcher was not installed: use `runhcs install`" : "too many arguments");
        return 1;
    }
    if (run_native_command(&settings, argc, argv))
        _exit(0);
    struct sockaddr_un standby;
    char option[sizeof standby.sun_path + 32], *words[MAX_ARGUMENTS + 6];
    /* A cold start starts a standby for the next one. */
    bool starts_standby = argc > 1 && strcmp(argv[argc - 1], "start") == 0 && settings.standby &&
                          standby_address(&settings, &standby);
    if (starts_standby)
        snprintf(option, sizeof option, "runhcs_standby=%s", standby.sun_path);
    build_python_arguments(&settings, starts_standby ? option : NULL, argc, argv, words);
    execv(settings.python, words);
    fprintf(stderr, NAME ": cannot run %s: %s; use `runhcs install` again\n", settings.python, strerror(errno));
    return 1;
}
