/* A computecore whose every result is scripted by the test, for what a correct service never does: operations that
 * cannot be waited for, results that never arrive, callbacks after a close or while the interpreter exits. It counts
 * the objects that it returns, so that a test can check that all were released. It is not an emulator: it has no
 * compute systems. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uchar.h>
#include <unistd.h>

typedef int32_t HRESULT;
typedef const char16_t *PCWSTR;
typedef struct { int32_t Type; PCWSTR EventData; void *Operation; } HCS_EVENT;
typedef struct { uint32_t ProcessId, Reserved; void *StdInput, *StdOutput, *StdError; } HCS_PROCESS_INFORMATION;
typedef void (*HCS_EVENT_CALLBACK)(HCS_EVENT *, void *);

#define TIMEOUT ((HRESULT)0x80370118)
#define NOT_STARTED ((HRESULT)0x80370115)
#define STORM 1000
#define BLOCK 1 /* a result of this value is blocked until released */

struct script { char name[64]; HRESULT submit, result; char16_t *document; int no_handle; };
struct operation { HRESULT result; char16_t *document; int started, process; };
struct handle { HCS_EVENT_CALLBACK callback; void *context; };

enum { OPERATIONS, DOCUMENTS, HANDLES, CANCELS, TERMINATIONS, COUNTERS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct script scripts[32];
static int script_count, released, counters[COUNTERS], pipes;
static struct handle last; /* the last registration, kept after its handle is closed */
static pthread_mutex_t in_callback = PTHREAD_MUTEX_INITIALIZER;
static void *silent; /* the context of the handle closed last */

static size_t length(PCWSTR text) { size_t n = 0; while (text[n]) n++; return n; }

static char16_t *copy(PCWSTR text)
{
    size_t size = (length(text) + 1) * sizeof *text;
    char16_t *result = malloc(size);
    memcpy(result, text, size);
    return result;
}

static struct script find(const char *name)
{
    for (int i = script_count; i-- > 0;)
        if (!strcmp(scripts[i].name, name))
            return scripts[i];
    return (struct script){0};
}

/* What the test calls. */
void script_set(const char *name, HRESULT submit, HRESULT result, PCWSTR document, int no_handle)
{
    struct script *script = &scripts[script_count++ % 32];
    strncpy(script->name, name, sizeof script->name - 1);
    script->submit = submit;
    script->result = result;
    script->no_handle = no_handle;
    script->document = document ? copy(document) : NULL;
}
void script_reset(void) { script_count = released = pipes = 0; memset(counters, 0, sizeof counters); }
void script_pipes(int on) { pipes = on; }
int script_counter(int which) { return __atomic_load_n(&counters[which], __ATOMIC_SEQ_CST); }
void script_release(void)
{
    pthread_mutex_lock(&lock);
    released = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void count(int which, int by) { __atomic_add_fetch(&counters[which], by, __ATOMIC_SEQ_CST); }

struct firing { struct handle to; int32_t type; char16_t *data; int times; };

/* Like Windows: no callback after the close of its handle, and the close waits for one that runs. */
static int call_unless_closed(struct handle to, HCS_EVENT *event)
{
    pthread_mutex_lock(&in_callback);
    int open = silent != to.context;
    if (open)
        to.callback(event, to.context);
    pthread_mutex_unlock(&in_callback);
    return open;
}

static void *fire(void *argument)
{
    struct firing *firing = argument;
    for (int i = 0; i < firing->times; i++) {
        HCS_EVENT event = {firing->type, firing->data, NULL};
        if (firing->times < STORM)
            firing->to.callback(&event, firing->to.context);
        else if (!call_unless_closed(firing->to, &event))
            break;
    }
    if (firing->data) {
        memset(firing->data, 0xEE, length(firing->data) * 2); /* it was valid during the callback only */
        free(firing->data);
    }
    free(firing);
    return NULL;
}

/* Calls back from a thread of the library, whether or not the handle is still open; waits for it if `join`. Repeated
 * callbacks follow the rules of Windows. */
void script_fire(int32_t type, PCWSTR data, int times, int join)
{
    struct firing *firing = malloc(sizeof *firing);
    *firing = (struct firing){last, type, data ? copy(data) : NULL, times};
    pthread_t thread;
    pthread_create(&thread, NULL, fire, firing);
    if (join)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
}

/* What the bindings call. */
void *HcsCreateOperation(const void *context, void *callback)
{
    (void)context, (void)callback;
    if (find("HcsCreateOperation").submit < 0)
        return NULL;
    count(OPERATIONS, 1);
    return calloc(1, sizeof(struct operation));
}
void HcsCloseOperation(struct operation *operation)
{
    count(OPERATIONS, -1);
    free(operation);
}
HRESULT HcsCancelOperation(void *operation)
{
    (void)operation;
    count(CANCELS, 1);
    return (HRESULT)0x80004001;
}
static void give(struct operation *operation, char16_t **document)
{
    if (operation->document) {
        *document = copy(operation->document);
        count(DOCUMENTS, 1);
    }
}
HRESULT HcsGetOperationResult(struct operation *operation, char16_t **document)
{
    give(operation, document);
    return operation->started ? operation->result : NOT_STARTED;
}
HRESULT HcsWaitForOperationResult(struct operation *operation, uint32_t timeout, char16_t **document)
{
    pthread_mutex_lock(&lock);
    if (operation->result == BLOCK) {
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        if (timeout > 30000)
            timeout = 30000;
        end.tv_sec += timeout / 1000;
        end.tv_nsec += timeout % 1000 * 1000000L;
        if (end.tv_nsec >= 1000000000L)
            end.tv_sec++, end.tv_nsec -= 1000000000L;
        while (!released)
            if (pthread_cond_timedwait(&changed, &lock, &end) == ETIMEDOUT)
                break;
        operation->result = released ? 0 : TIMEOUT;
    }
    pthread_mutex_unlock(&lock);
    give(operation, document);
    return operation->result;
}
HRESULT HcsWaitForOperationResultAndProcessInfo(struct operation *operation, uint32_t timeout,
                                                HCS_PROCESS_INFORMATION *info, char16_t **document)
{
    HRESULT result = HcsWaitForOperationResult(operation, timeout, document);
    if (result >= 0 && operation->process) {
        info->ProcessId = 4712;
        info->StdError = (void *)(intptr_t)-1;
        if (pipes) {
            int ends[2];
            if (pipe(ends) == 0) {
                info->StdInput = (void *)(intptr_t)ends[1];
                info->StdOutput = (void *)(intptr_t)ends[0];
            }
        }
    }
    return result;
}
static HRESULT tracked(const char *name, struct operation *operation, int process)
{
    struct script script = find(name);
    if (!strcmp(name, "HcsTerminateComputeSystem"))
        count(TERMINATIONS, 1);
    operation->started = script.submit >= 0;
    operation->result = script.result;
    operation->document = script.document;
    operation->process = process;
    return script.submit;
}
static HRESULT made(const char *name, void **handle)
{
    struct script script = find(name);
    if (!script.no_handle && script.submit >= 0) {
        *handle = calloc(1, sizeof(struct handle));
        count(HANDLES, 1);
    }
    return script.submit;
}
static HRESULT listen_to(const char *name, struct handle *handle, void *context, HCS_EVENT_CALLBACK callback)
{
    *handle = last = (struct handle){callback, context};
    return find(name).submit;
}
static void closed(struct handle *handle)
{
    pthread_mutex_lock(&in_callback);
    silent = handle->context;
    pthread_mutex_unlock(&in_callback);
    count(HANDLES, -1);
    free(handle);
}

HRESULT HcsCreateComputeSystem(PCWSTR id, PCWSTR document, void *operation, const void *descriptor, void **out)
{
    (void)id, (void)document, (void)descriptor;
    made("HcsCreateComputeSystem", out);
    return tracked("HcsCreateComputeSystem", operation, 0);
}
HRESULT HcsOpenComputeSystem(PCWSTR id, uint32_t access, void **out)
{
    (void)id, (void)access;
    return made("HcsOpenComputeSystem", out);
}
void HcsCloseComputeSystem(void *system) { closed(system); }
HRESULT HcsSetComputeSystemCallback(void *system, int32_t options, void *context, HCS_EVENT_CALLBACK callback)
{
    (void)options;
    return listen_to("HcsSetComputeSystemCallback", system, context, callback);
}
HRESULT HcsCreateProcess(void *system, PCWSTR document, void *operation, const void *descriptor, void **out)
{
    (void)system, (void)document, (void)descriptor;
    made("HcsCreateProcess", out);
    return tracked("HcsCreateProcess", operation, 1);
}
HRESULT HcsOpenProcess(void *system, uint32_t pid, uint32_t access, void **out)
{
    (void)system, (void)pid, (void)access;
    return made("HcsOpenProcess", out);
}
void HcsCloseProcess(void *process) { closed(process); }
HRESULT HcsSetProcessCallback(void *process, int32_t options, void *context, HCS_EVENT_CALLBACK callback)
{
    (void)options;
    return listen_to("HcsSetProcessCallback", process, context, callback);
}
HRESULT HcsGetProcessInfo(void *process, void *operation)
{
    (void)process;
    return tracked("HcsGetProcessInfo", operation, 1);
}
#define TRACKED(name) \
    HRESULT name(void *handle, void *operation, PCWSTR text) \
    { \
        (void)handle, (void)text; \
        return tracked(#name, operation, 0); \
    }
TRACKED(HcsStartComputeSystem)
TRACKED(HcsShutDownComputeSystem)
TRACKED(HcsTerminateComputeSystem)
TRACKED(HcsGetComputeSystemProperties)
TRACKED(HcsTerminateProcess)
TRACKED(HcsSignalProcess)
TRACKED(HcsGetProcessProperties)
TRACKED(HcsModifyProcess)

void *LocalFree(void *memory)
{
    count(DOCUMENTS, -1);
    free(memory);
    return NULL;
}
