/* containerd-shim-runhcs-v1.exe and runhcs.exe: Python, found in the folder beside the program, and one module to run in it.

   The DLL is loaded by its full path and asked for one function, so no import library is needed and nothing on PATH can take its place.
   python3xx._pth beside the DLL fixes sys.path; with it Python reads no environment, no registry and no site-packages (-I -S).
   PROGRAM is the text it runs: boot.py, and what calls our command. What Python loads before that text is in this program, too
   (EARLY_MODULES and its parts, as scripts/dist_windows.py writes them): every file that is not looked for is time.

   With WITH_COMMANDS, which the shim's has, the usual commands are done without Python: commands.c. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <wchar.h>

#ifdef WITH_COMMANDS
#include "commands.h"
#endif

#ifndef PROGRAM
#error "PROGRAM is the text that Python runs"
#endif
#define FOLDER L"\\containerd-shim-runhcs\\"
#define PLACES 32768

int _dowildcard = 0; /* an argument with a star in it is an argument */

typedef int(__cdecl *Main)(int count, wchar_t **arguments);

struct frozen { /* as in Python's cpython/import.h */
    const char *name;
    const unsigned char *code;
    int size;
    int is_package;
};

static const struct frozen early[] = {EARLY_MODULES{NULL, NULL, 0, 0}};
static wchar_t path[PLACES];

static int fail(const wchar_t *what) {
    fwprintf(stderr, L"cannot run: %ls (error %lu); unpack the whole distribution again\n", what, GetLastError());
    return 1;
}

int wmain(int count, wchar_t **given) {
    enum { STANDBY = 7 };
    static wchar_t *fixed[] = {
        L"", L"-I", L"-S", L"-B", L"-X", L"utf8", L"-X", [STANDBY] = L"runhcs_standby=", L"-c", PROGRAM};
    enum { FIXED = sizeof fixed / sizeof *fixed };
#ifdef WITH_COMMANDS
    if (run_natively(count, given, &fixed[STANDBY]))
        ExitProcess(0);
#endif
    DWORD length = GetModuleFileNameW(NULL, path, PLACES);
    wchar_t *slash = length == 0 || length == PLACES ? NULL : wcsrchr(path, L'\\');
    if (slash == NULL || (size_t)(slash - path) + wcslen(FOLDER PYTHON_DLL) >= PLACES)
        return fail(L"where this program is cannot be told");
    wcscpy(slash, FOLDER PYTHON_DLL);
    HMODULE python = LoadLibraryExW(path, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (python == NULL)
        return fail(path);
    Main py_main = (Main)(void *)GetProcAddress(python, "Py_Main");
    wchar_t **arguments = HeapAlloc(GetProcessHeap(), 0, (FIXED + (size_t)count) * sizeof *arguments);
    const struct frozen **modules = (const struct frozen **)(void *)GetProcAddress(python, "PyImport_FrozenModules");
    if (py_main == NULL || modules == NULL || arguments == NULL)
        return fail(path);
    *modules = early;
    memcpy(arguments, fixed, sizeof fixed);
    arguments[0] = given[0];
    memcpy(arguments + FIXED, given + 1, (size_t)count * sizeof *arguments); /* with the NULL at their end */
    return py_main(FIXED + count - 1, arguments);
}
