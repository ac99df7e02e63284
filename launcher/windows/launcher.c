/* containerd-shim-runhcs-v1.exe and runhcs.exe: load Python from the folder beside the program and run one module.

   The DLL is loaded by its full path, so no import library is needed and no DLL on PATH can replace it. python3xx._pth
   beside the DLL fixes sys.path; with it Python reads no environment variables, no registry and no site-packages (-I -S).
   build.py defines PROGRAM, the text that Python runs (boot.py and the call of our command), and EARLY_MODULES, the modules
   that Python imports before that text, as frozen modules: searching for files costs time.

   With WITH_COMMANDS, which the shim's launcher has, it performs commands without Python (commands.c), and passes the
   security descriptor of its pipes to Python. */
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

int _dowildcard = 0; /* no wildcard expansion of arguments */

typedef int(__cdecl *Main)(int count, wchar_t **arguments);

struct frozen { /* as in Python's cpython/import.h */
    const char *name;
    const unsigned char *code;
    int size;
    int is_package;
#ifdef PYTHON_3_12
    void *get_code; /* only for modules of deep-frozen code */
#endif
};

static const struct frozen early[] = {EARLY_MODULES{0}};
static wchar_t path[PLACES];

static int fail(const wchar_t *what) {
    fwprintf(stderr, L"cannot run: %ls (error %lu); unpack the whole distribution again\n", what, GetLastError());
    return 1;
}

int wmain(int count, wchar_t **given) {
    enum { STANDBY = 7, SECURITY = 9, SHARED = 11 };
    static wchar_t *fixed[] = {L"", L"-I", L"-S", L"-B", L"-X", L"utf8", L"-X", [STANDBY] = L"runhcs_standby=", L"-X",
        [SECURITY] = L"runhcs_security=", L"-X", [SHARED] = L"runhcs_shared=", L"-c", PROGRAM};
    enum { FIXED = sizeof fixed / sizeof *fixed };
    /* No dialogs: after a crash the process must exit at once, so that its handles, and with them containers, are released,
       and in session 0 no user could answer. Children inherit the mode. */
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    /* A DLL that somebody loads by its name comes neither from the current directory, which is a bundle, nor from PATH.
       SetDllDirectory(L"") would do the first, but for children, such as a logging binary, too. */
    if (!SetDefaultDllDirectories(LOAD_LIBRARY_SEARCH_DEFAULT_DIRS))
        return fail(L"the search path of DLLs cannot be set");
#ifdef WITH_COMMANDS
    struct python_options options = {fixed[STANDBY], fixed[SHARED]};
    if (run_native_command(count, given, &options))
        ExitProcess(0);
    fixed[STANDBY] = options.standby;
    fixed[SHARED] = options.shared;
#endif
    DWORD length = GetModuleFileNameW(NULL, path, PLACES);
    wchar_t *slash = length == 0 || length == PLACES ? NULL : wcsrchr(path, L'\\');
    if (slash == NULL || (size_t)(slash - path) + wcslen(FOLDER PYTHON_DLL) >= PLACES)
        return fail(L"the path of this program is unknown");
    wcscpy(slash, FOLDER PYTHON_DLL);
    HMODULE python = LoadLibraryExW(path, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32);
    if (python == NULL)
        return fail(path);
    Main py_main = (Main)(void *)GetProcAddress(python, "Py_Main");
    wchar_t **arguments = HeapAlloc(GetProcessHeap(), 0, (FIXED + (size_t)count) * sizeof *arguments);
    const struct frozen **modules = (const struct frozen **)(void *)GetProcAddress(python, "PyImport_FrozenModules");
    if (py_main == NULL || modules == NULL || arguments == NULL)
        return fail(path);
    *modules = early;
#ifdef WITH_COMMANDS
    static wchar_t security[64];
    swprintf(security, sizeof security / sizeof *security, L"runhcs_security=%llu", (unsigned long long)(uintptr_t)&pipe_security);
    fixed[SECURITY] = security;
#endif
    memcpy(arguments, fixed, sizeof fixed);
    arguments[0] = given[0];
    memcpy(arguments + FIXED, given + 1, (size_t)count * sizeof *arguments); /* with the final NULL */
    return py_main(FIXED + count - 1, arguments);
}
