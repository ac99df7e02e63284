/* Limits Python's faulthandler to crashes.

   faulthandler's vectored handler runs before all other handlers and dumps the stacks for every exception with an error
   code, whether or not it is handled afterwards. RPC and COM, which the libraries of HCS use, raise exceptions whose code is
   an HRESULT (0x80010108, say) and handle them. panic.log must be empty then: `delete` takes it for a crash.

   So a handler before faulthandler's hides such codes, and one behind it restores them. If nothing handles the exception, it
   is raised once more, visible, for the dump. Hardware faults, C++ exceptions and all other NTSTATUS codes are unchanged. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define ERROR_BIT 0x80000000u
#define RESERVED_BIT 0x10000000u /* RaiseException clears it, so no other exception has it */

static volatile LONG reporting_thread;

static BOOL is_reporting(void) { return reporting_thread == (LONG)GetCurrentThreadId(); }

/* Warnings of NTSTATUS with facility 0 are breakpoints, single steps and guard pages. */
static BOOL is_hresult(DWORD code) { return (code & 0xF0000000u) == ERROR_BIT && (code & 0x0FFF0000u) != 0; }

static LONG CALLBACK hide(EXCEPTION_POINTERS *exception) {
    DWORD *code = &exception->ExceptionRecord->ExceptionCode;
    if (is_hresult(*code) && !is_reporting())
        *code ^= ERROR_BIT | RESERVED_BIT;
    return EXCEPTION_CONTINUE_SEARCH;
}

static LONG CALLBACK restore(EXCEPTION_POINTERS *exception) {
    DWORD *code = &exception->ExceptionRecord->ExceptionCode;
    if (is_hresult(*code) && is_reporting())
        return EXCEPTION_CONTINUE_EXECUTION; /* faulthandler has dumped: back to report_unhandled() */
    if ((*code & (ERROR_BIT | RESERVED_BIT)) == RESERVED_BIT)
        *code ^= ERROR_BIT | RESERVED_BIT;
    return EXCEPTION_CONTINUE_SEARCH;
}

static LONG WINAPI report_unhandled(EXCEPTION_POINTERS *exception) {
    DWORD code = exception->ExceptionRecord->ExceptionCode;
    if (is_hresult(code) && InterlockedCompareExchange(&reporting_thread, (LONG)GetCurrentThreadId(), 0) == 0)
        RaiseException(code, 0, 0, NULL);
    return EXCEPTION_CONTINUE_SEARCH; /* the process is terminated */
}

/* Called once, after faulthandler.enable(): shim/platform/windows/daemon.py. */
__declspec(dllexport) void report_unhandled_exceptions_only(void) {
    AddVectoredExceptionHandler(1, hide);
    AddVectoredExceptionHandler(0, restore);
    SetUnhandledExceptionFilter(report_unhandled);
}
