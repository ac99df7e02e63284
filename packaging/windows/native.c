/* Commands of containerd-shim-runhcs-v1.exe without Python.

   Most of what `start` and `delete` cost in Python is Python's own start. So the commands as they usually come are done
   here, with the readers of the launcher of Linux (runhcs/launcher). Whatever is unusual in any way, and every error, is
   left to Python, which knows all of it and what to say: launcher.c then runs it in this process.

   RUNHCS_NATIVE=0 leaves every command to Python. */
#include <string.h>

#include "native.h"

wchar_t program[LONGEST];

static void *allocate(size_t size) { return HeapAlloc(GetProcessHeap(), 0, size); }

char *to_utf8(const wchar_t *text) {
    int size = WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text, -1, NULL, 0, NULL, NULL);
    char *copy = size > 0 ? allocate((size_t)size) : NULL;
    if (copy != NULL)
        WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text, -1, copy, size, NULL, NULL);
    return copy;
}

wchar_t *to_wide(const char *text) {
    int size = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *copy = size > 0 ? allocate((size_t)size * sizeof *copy) : NULL;
    if (copy != NULL)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, copy, size);
    return copy;
}

bool is_on(const wchar_t *variable, bool by_default) {
    wchar_t asked[16] = L"";
    DWORD length = GetEnvironmentVariableW(variable, asked, 16);
    return length == 0 ? by_default : asked[0] == L'1'; /* what has no room is not there */
}

bool run_natively(int count, wchar_t **given) {
    static char *words[MAX_ARGUMENTS + 1];
    struct command command;
    if (!is_on(L"RUNHCS_NATIVE", true) || count > MAX_ARGUMENTS)
        return false;
    for (int at = 0; at < count; at++)
        if ((words[at] = to_utf8(given[at])) == NULL)
            return false;
    if (!read_command(count, words, &command))
        return false;
    DWORD length = GetModuleFileNameW(NULL, program, LONGEST);
    if (length == 0 || length >= LONGEST)
        program[0] = L'\0';
    return strcmp(command.action, "start") == 0 ? native_start(&command) : native_delete(&command);
}
