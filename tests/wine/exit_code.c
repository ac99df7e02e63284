/* exit-code.exe PROGRAM ARGUMENTS…: runs a program, with the same streams, and exits with its exit code. A program that
   Wine has deadlocked at its exit must be killed (scripts/wine_exits.py). Then only Wine knows its exit code. The
   program is terminated with this one; its children are not. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <wchar.h>

#define NOT_STARTED 126

int wmain(void) {
    wchar_t *command = wcschr(GetCommandLineW(), L' '); /* this program has no space in its path */
    STARTUPINFOW startup = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES};
    startup.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    startup.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    startup.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    PROCESS_INFORMATION made;
    if (command == NULL || job == NULL ||
        !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits) ||
        !CreateProcessW(NULL, command + 1, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &startup, &made))
        return NOT_STARTED;
    AssignProcessToJobObject(job, made.hProcess);
    ResumeThread(made.hThread);
    /* Only the program keeps the streams: they are closed when it exits. */
    CloseHandle(startup.hStdInput);
    CloseHandle(startup.hStdOutput);
    CloseHandle(startup.hStdError);
    DWORD code = NOT_STARTED;
    WaitForSingleObject(made.hProcess, INFINITE);
    GetExitCodeProcess(made.hProcess, &code);
    return (int)code;
}
