/* Reads the runtime options on stdin: a protobuf Any, BootstrapParams, or nothing. */
#include "commands.h"

static struct stdin_options *consumed;
static HANDLE source, refill_end;

/* A thread: writes what was read, then copies the rest of stdin. It ends with the process. */
static DWORD WINAPI refill_stdin(void *unused) {
    static char more[MAX_OPTIONS];
    DWORD got = 0, wrote;
    BOOL is_taken = WriteFile(refill_end, consumed->data, (DWORD)consumed->length, &wrote, NULL);
    while (is_taken && ReadFile(source, more, sizeof more, &got, NULL) && got > 0)
        is_taken = WriteFile(refill_end, more, got, &wrote, NULL);
    CloseHandle(refill_end);
    return (DWORD)(size_t)unused;
}

/* Python's DLL has not been loaded yet: it will use the new standard handle. */
void restore_stdin(struct stdin_options *options) {
    HANDLE reading;
    consumed = options;
    if (options->length == 0 || !CreatePipe(&reading, &refill_end, NULL, 0))
        return;
    SetStdHandle(STD_INPUT_HANDLE, reading);
    HANDLE thread = CreateThread(NULL, 0, refill_stdin, NULL, 0, NULL);
    if (thread != NULL)
        CloseHandle(thread);
}

bool read_stdin_options(const struct command *command, struct stdin_options *options, enum scope *scope) {
    source = GetStdHandle(STD_INPUT_HANDLE);
    options->length = 0;
    DWORD kind = source == NULL || source == INVALID_HANDLE_VALUE ? FILE_TYPE_CHAR : GetFileType(source);
    if (kind == FILE_TYPE_CHAR) /* a console or NUL has no options */
        return true;
    DWORD got = 1;
    while (got > 0 && options->length < sizeof options->data) {
        DWORD space = (DWORD)(sizeof options->data - options->length);
        if (!ReadFile(source, options->data + options->length, space, &got, NULL))
            got = 0; /* the end of a pipe is an error; Python treats other errors as the end, too */
        options->length += got;
    }
    char unused[MAX_SOCKET_DIR]; /* pipes are in no directory */
    return options->length == 0 || (options->length < sizeof options->data &&
                                       stdin_is_supported(options->data, options->length, command, unused, scope));
}
