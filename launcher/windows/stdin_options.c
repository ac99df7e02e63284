/* The runtime options on stdin: a protobuf Any, or nothing. */
#include "commands.h"

static struct input *unread;
static HANDLE source, refilled;

/* What was read, and what has not been. It ends with the process. */
static DWORD WINAPI feed(void *unused) {
    static char more[SMALL_OPTIONS];
    DWORD got = 0, wrote;
    BOOL is_taken = WriteFile(refilled, unread->data, (DWORD)unread->length, &wrote, NULL);
    while (is_taken && ReadFile(source, more, sizeof more, &got, NULL) && got > 0)
        is_taken = WriteFile(refilled, more, got, &wrote, NULL);
    CloseHandle(refilled);
    return (DWORD)(size_t)unused;
}

/* Python, whose library has not been loaded yet, will find another stdin in the place of this one. */
void put_back(struct input *input) {
    HANDLE reading;
    unread = input;
    if (input->length == 0 || !CreatePipe(&reading, &refilled, NULL, 0))
        return;
    SetStdHandle(STD_INPUT_HANDLE, reading);
    HANDLE thread = CreateThread(NULL, 0, feed, NULL, 0, NULL);
    if (thread != NULL)
        CloseHandle(thread);
}

bool read_input(const char *id, struct input *input) {
    source = GetStdHandle(STD_INPUT_HANDLE);
    input->length = 0;
    DWORD kind = source == NULL || source == INVALID_HANDLE_VALUE ? FILE_TYPE_CHAR : GetFileType(source);
    if (kind == FILE_TYPE_CHAR) /* a console, or NUL: nobody is about to type protobuf */
        return true;
    DWORD got = 1;
    while (got > 0 && input->length < sizeof input->data) {
        if (!ReadFile(source, input->data + input->length, (DWORD)(sizeof input->data - input->length), &got, NULL))
            got = 0; /* the end of a pipe is an error; any other is the end for Python, too */
        input->length += got;
    }
    if (input->length == 0 || (input->length < sizeof input->data && options_are_usual(input->data, input->length, id)))
        return true;
    return false;
}
