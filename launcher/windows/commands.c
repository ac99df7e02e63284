/* Commands of containerd-shim-runhcs-v1.exe without Python.

   Most of what `start` and `delete` cost in Python is Python's own start. So the commands as they usually come are done
   here, with the readers that the launcher of Linux uses too (launcher/common). Whatever is unusual in any way, and every error, is
   left to Python, which knows all of it and what to say: launcher.c then runs it in this process.

   RUNHCS_NATIVE=0 leaves every command to Python. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "commands.h"

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

/* The name of a standby's pipe for this start, and the option that tells Python of it; "" if none is wanted. */
static void find_standby(char standby[MAX_PIPE], wchar_t **option) {
    static wchar_t text[MAX_PIPE + 32];
    *standby = '\0';
    if (!is_on(L"RUNHCS_STANDBY", false) || !standby_name(standby))
        return;
    swprintf(text, sizeof text / sizeof *text, L"runhcs_standby=%hs", standby);
    *option = text;
}

bool run_natively(int count, wchar_t **given, wchar_t **option) {
    static char *words[MAX_ARGUMENTS + 1], standby[MAX_PIPE];
    struct command command;
    if (count > MAX_ARGUMENTS)
        return false;
    DWORD length = GetModuleFileNameW(NULL, program, LONGEST);
    if (length == 0 || length >= LONGEST)
        program[0] = L'\0';
    if (count > 1 && wcscmp(given[count - 1], L"start") == 0)
        find_standby(standby, option);
    if (!is_on(L"RUNHCS_NATIVE", true))
        return false;
    for (int at = 0; at < count; at++)
        if ((words[at] = to_utf8(given[at])) == NULL)
            return false;
    if (!read_command(count, words, &command))
        return false;
    return strcmp(command.action, "start") == 0 ? native_start(&command, standby) : native_delete(&command);
}
