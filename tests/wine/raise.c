/* Raises exceptions as libraries of Windows do. handled(): as RPC and COM do within a call; unhandled(): as a bug. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static DWORD expected;
static volatile LONG seen;

static LONG CALLBACK handle(EXCEPTION_POINTERS *exception) {
    if (exception->ExceptionRecord->ExceptionCode != expected)
        return EXCEPTION_CONTINUE_SEARCH;
    seen++;
    return EXCEPTION_CONTINUE_EXECUTION;
}

/* How often the handler, the last of all, has seen exactly this code. */
__declspec(dllexport) int handled(DWORD code) {
    expected = code;
    seen = 0;
    void *handler = AddVectoredExceptionHandler(0, handle);
    RaiseException(code, 0, 0, NULL);
    RemoveVectoredExceptionHandler(handler);
    return seen;
}

static DWORD WINAPI crash(void *code) {
    RaiseException((DWORD)(UINT_PTR)code, EXCEPTION_NONCONTINUABLE, 0, NULL);
    return 0;
}

/* In a thread: ctypes handles the exceptions of functions that it calls. */
__declspec(dllexport) void unhandled(DWORD code) {
    WaitForSingleObject(CreateThread(NULL, 0, crash, (void *)(UINT_PTR)code, 0, NULL), INFINITE);
}
