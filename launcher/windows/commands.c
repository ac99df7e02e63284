/* Performs commands of containerd-shim-runhcs-v1.exe without Python.

   Most of the cost of `start` and `delete` in Python is the start of the interpreter. So the common case is performed here,
   with the parsers in launcher/common. Unsupported input and every error are left to Python: launcher.c then runs it in this
   process.

   RUNHCS_NATIVE=0 leaves every command to Python. README.md maps the functions to their Python counterparts. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "commands.h"

wchar_t program_path[MAX_PATH_LENGTH];

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

bool switch_is_on(const wchar_t *variable, bool by_default) {
    wchar_t value[16] = L"";
    DWORD length = GetEnvironmentVariableW(variable, value, 16);
    return length == 0 ? by_default : value[0] == L'1'; /* a value that does not fit is "" */
}

/* The option that passes to Python what pods of one shared daemon have in common, as far as it is hashed here. */
static void set_shared_option(wchar_t **option) {
    static wchar_t text[48];
    uint64_t hash;
    if (!hash_process(&hash) || !hash_environment(&hash))
        return;
    swprintf(text, sizeof text / sizeof *text, L"runhcs_shared=%016llx", (unsigned long long)hash);
    *option = text;
}

/* The name of the standby's pipe for this start, and the option that passes it to Python; "" if the standby is off. */
static void set_standby_option(char standby[MAX_PIPE], wchar_t **option) {
    static wchar_t text[MAX_PIPE + 32];
    *standby = '\0';
    if (!switch_is_on(L"RUNHCS_STANDBY", false) || !standby_pipe_name(standby))
        return;
    swprintf(text, sizeof text / sizeof *text, L"runhcs_standby=%hs", standby);
    *option = text;
}

static bool run_natively(int count, wchar_t **given, struct python_options *options) {
    static char *words[MAX_ARGUMENTS + 1], standby[MAX_PIPE];
    struct command command;
    if (count > MAX_ARGUMENTS)
        return false;
    DWORD length = GetModuleFileNameW(NULL, program_path, MAX_PATH_LENGTH);
    if (length == 0 || length >= MAX_PATH_LENGTH)
        program_path[0] = L'\0';
    if (count > 1 && wcscmp(given[count - 1], L"start") == 0)
        set_standby_option(standby, &options->standby);
    if (!switch_is_on(L"RUNHCS_NATIVE", true))
        return false;
    for (int at = 0; at < count; at++)
        if ((words[at] = to_utf8(given[at])) == NULL)
            return false;
    if (!parse_command_line(count, words, &command))
        return false;
    return strcmp(command.action, "start") == 0 ? native_start(&command, standby) : native_delete(&command);
}

bool run_native_command(int count, wchar_t **given, struct python_options *options) {
    if (run_natively(count, given, options))
        return true;
    if (count > 1 && wcscmp(given[count - 1], L"start") == 0)
        set_shared_option(&options->shared);
    return false;
}
