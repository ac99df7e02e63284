/* Many threads use all of the native library at once, also incorrectly. Built together with the library's sources under
   a sanitizer. The test passes if the sanitizer reports nothing, no thread hangs, and results match their calls. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hcs.h"
#include "threads.h"

#define THREADS 8
#define ROUNDS 60

HCS_OPERATION HcsCreateOperation(const void *, HCS_OPERATION_COMPLETION);
void HcsCloseOperation(HCS_OPERATION);
HRESULT HcsGetOperationResult(HCS_OPERATION, PWSTR *);
HRESULT HcsWaitForOperationResult(HCS_OPERATION, DWORD, PWSTR *);
HRESULT HcsWaitForOperationResultAndProcessInfo(HCS_OPERATION, DWORD, HCS_PROCESS_INFORMATION *, PWSTR *);
HRESULT HcsOpenComputeSystem(PCWSTR, DWORD, HCS_SYSTEM *);
HRESULT HcsCreateComputeSystem(PCWSTR, PCWSTR, HCS_OPERATION, const void *, HCS_SYSTEM *);
void HcsCloseComputeSystem(HCS_SYSTEM);
HRESULT HcsStartComputeSystem(HCS_SYSTEM, HCS_OPERATION, PCWSTR);
HRESULT HcsGetComputeSystemProperties(HCS_SYSTEM, HCS_OPERATION, PCWSTR);
HRESULT HcsSetComputeSystemCallback(HCS_SYSTEM, int32_t, const void *, HCS_EVENT_CALLBACK);
HRESULT HcsCreateProcess(HCS_SYSTEM, PCWSTR, HCS_OPERATION, const void *, HCS_PROCESS *);
HRESULT HcsWaitForProcessExit(HCS_PROCESS, DWORD, PWSTR *);
void HcsCloseProcess(HCS_PROCESS);
HRESULT HcsGetServiceProperties(PCWSTR, PWSTR *);
void *LocalFree(void *);

static HCS_SYSTEM shared; /* threads use it while others close it */
static Mutex lock;
static int events_seen;
static char16_t large[200000];

static void on_event(HCS_EVENT *event, void *context) {
    if (event->EventData != NULL)
        assert(event->EventData[0] == u'{');
    mutex_lock(&lock);
    events_seen++;
    if (context != NULL)
        *(int *)context += 1;
    mutex_unlock(&lock);
}

static void on_completion(HCS_OPERATION operation, void *context) {
    PWSTR document = NULL;
    (void)context;
    HcsGetOperationResult(operation, &document);
    LocalFree(document);
    HcsCloseOperation(operation);
}

static void echo(HCS_SYSTEM system, PCWSTR text, size_t length) {
    PWSTR document = NULL;
    HCS_OPERATION operation = HcsCreateOperation(NULL, NULL);
    if (!FAILED(HcsGetComputeSystemProperties(system, operation, text)) &&
        !FAILED(HcsWaitForOperationResult(operation, HCS_INFINITE, &document))) {
        assert(document != NULL);
        assert(memcmp(document, text, (length + 1) * sizeof *text) == 0);
    }
    LocalFree(document);
    HcsCloseOperation(operation);
}

static void run_process(HCS_SYSTEM system) {
    HCS_PROCESS process = NULL;
    HCS_PROCESS_INFORMATION info;
    PWSTR document = NULL;
    char text[8] = "";
    HCS_OPERATION operation = HcsCreateOperation(NULL, NULL);
    if (!FAILED(HcsCreateProcess(system, u"{}", operation, NULL, &process)) &&
        !FAILED(HcsWaitForOperationResultAndProcessInfo(operation, 30000, &info, &document))) {
        int output = (int)(intptr_t)info.StdOutput;
        assert(info.ProcessId == 77 && output > 2 && info.StdInput == NULL && info.StdError == NULL);
        assert(read(output, text, sizeof text) == 5 && memcmp(text, "hello", 5) == 0);
        close(output);
        PWSTR status = NULL;
        HcsWaitForProcessExit(process, 20, &status);
        LocalFree(status);
    }
    LocalFree(document);
    HcsCloseProcess(process);
    HcsCloseOperation(operation);
    HcsCloseProcess(process);
}

static void abandon(HCS_SYSTEM system) {
    PWSTR document = NULL;
    HCS_SYSTEM created = NULL;
    HCS_OPERATION operation = HcsCreateOperation(NULL, NULL);
    HcsStartComputeSystem(system, operation, NULL);
    HcsWaitForOperationResult(operation, 0, &document);
    LocalFree(document);
    HcsCloseOperation(operation);
    HcsCloseOperation(operation);
    /* The operation closes itself if the call is accepted. */
    HcsStartComputeSystem(system, HcsCreateOperation(NULL, on_completion), NULL);
    operation = HcsCreateOperation(NULL, NULL);
    HcsCreateComputeSystem(u"x", u"{}", operation, NULL, &created);
    HcsCloseComputeSystem(created);
    HcsCloseOperation(operation);
}

static void use_shared(void) {
    mutex_lock(&lock);
    HCS_SYSTEM system = shared;
    mutex_unlock(&lock);
    echo(system, u"shared", 6);
    if (rand() % 4 != 0)
        return;
    HCS_SYSTEM fresh = NULL;
    HcsOpenComputeSystem(u"shared", GENERIC_ALL, &fresh);
    HcsSetComputeSystemCallback(fresh, 0, NULL, on_event);
    mutex_lock(&lock);
    HCS_SYSTEM old = shared;
    shared = fresh;
    mutex_unlock(&lock);
    HcsCloseComputeSystem(old);
}

static void one_round(int number) {
    HCS_SYSTEM system = NULL;
    if (FAILED(HcsOpenComputeSystem(u"web", GENERIC_ALL, &system)))
        return;
    int *mine = calloc(1, sizeof *mine);
    HcsSetComputeSystemCallback(system, 0, mine, on_event);
    echo(system, u"{\"small\": 1}", 12);
    run_process(system);
    abandon(system);
    use_shared();
    if (number % 10 == 3)
        echo(system, large, sizeof large / sizeof *large - 1);
    if (number % 20 == 7)
        HcsGetServiceProperties(u"disconnect", NULL);
    echo((HCS_SYSTEM)(uintptr_t)((uintptr_t)system ^ (uintptr_t)(1u << (number % 30))), u"nobody", 6);
    HcsCloseComputeSystem(system);
    free(mine); /* no callback uses it any more */
    HcsCloseComputeSystem(system);
}

#ifndef __SANITIZE_THREAD__ /* which does not support threads in the child of a process with threads */
static void fork_once(void) {
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        echo(shared, u"not ours", 8);
        _exit(FAILED(HcsGetServiceProperties(u"{}", NULL)) ? 1 : 0);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
}
#endif

static int running = THREADS;
static Condition ended;

static void work(void *argument) {
    for (int number = 0; number < ROUNDS; number++) {
        one_round(number);
#ifndef __SANITIZE_THREAD__
        if (argument == NULL && number % 20 == 10)
            fork_once();
#endif
    }
    (void)argument;
    mutex_lock(&lock);
    running--;
    condition_broadcast(&ended);
    mutex_unlock(&lock);
}

int main(void) {
    mutex_init(&lock);
    condition_init(&ended);
    for (size_t index = 0; index + 1 < sizeof large / sizeof *large; index++)
        large[index] = (char16_t)(u'a' + index % 26);
    HcsOpenComputeSystem(u"shared", GENERIC_ALL, &shared);
    for (intptr_t index = 0; index < THREADS; index++)
        assert(thread_start(work, (void *)index));
    mutex_lock(&lock);
    while (running > 0)
        condition_wait(&ended, &lock, NEVER);
    mutex_unlock(&lock);
    HcsCloseComputeSystem(shared);
    mutex_lock(&lock);
    printf("events: %d\n", events_seen);
    mutex_unlock(&lock);
    return 0;
}
