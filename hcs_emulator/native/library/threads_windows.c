/* Threads on Windows. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "threads.h"

_Static_assert(sizeof(Mutex) == sizeof(SRWLOCK), "as declared in threads.h");
_Static_assert(sizeof(Condition) == sizeof(CONDITION_VARIABLE), "as declared in threads.h");

void mutex_init(Mutex *mutex) { InitializeSRWLock((SRWLOCK *)mutex); }
void mutex_lock(Mutex *mutex) { AcquireSRWLockExclusive((SRWLOCK *)mutex); }
void mutex_unlock(Mutex *mutex) { ReleaseSRWLockExclusive((SRWLOCK *)mutex); }
void mutex_destroy(Mutex *mutex) { (void)mutex; }

uint64_t deadline_in(uint32_t milliseconds) {
    return milliseconds == UINT32_MAX ? NEVER : GetTickCount64() + milliseconds;
}

void condition_init(Condition *condition) { InitializeConditionVariable((CONDITION_VARIABLE *)condition); }
void condition_broadcast(Condition *condition) { WakeAllConditionVariable((CONDITION_VARIABLE *)condition); }
void condition_destroy(Condition *condition) { (void)condition; }

bool condition_wait(Condition *condition, Mutex *mutex, uint64_t deadline) {
    DWORD wait = INFINITE;
    if (deadline != NEVER) {
        uint64_t now = GetTickCount64();
        if (now >= deadline)
            return false;
        wait = deadline - now < INFINITE ? (DWORD)(deadline - now) : INFINITE - 1;
    }
    return SleepConditionVariableSRW((CONDITION_VARIABLE *)condition, (SRWLOCK *)mutex, wait, 0) != 0;
}

struct start {
    void (*run)(void *argument);
    void *argument;
};

static DWORD WINAPI started(void *argument) {
    struct start start = *(struct start *)argument;
    HeapFree(GetProcessHeap(), 0, argument);
    start.run(start.argument);
    return 0;
}

bool thread_start(void (*run)(void *argument), void *argument) {
    struct start *start = HeapAlloc(GetProcessHeap(), 0, sizeof *start);
    if (start == NULL)
        return false;
    *start = (struct start){run, argument};
    HANDLE thread = CreateThread(NULL, 0, started, start, 0, NULL);
    if (thread == NULL) {
        HeapFree(GetProcessHeap(), 0, start);
        return false;
    }
    CloseHandle(thread);
    return true;
}

ThreadId thread_self(void) { return GetCurrentThreadId(); }
bool thread_same(ThreadId one, ThreadId other) { return one == other; }

/* On Windows a thread that is ended inside body ends with its process. */
void run_finally(void (*body)(void *argument), void (*finally)(void *argument), void *argument) {
    body(argument);
    finally(argument);
}

void at_fork_in_child(void (*run)(void)) { (void)run; /* there is no fork */ }
