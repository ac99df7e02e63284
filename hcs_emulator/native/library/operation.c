#include "operation.h"

#include <stdlib.h>

#include "library.h"

#define OPERATION_OF(member_pointer, member) \
    ((struct operation *)((char *)(member_pointer) - offsetof(struct operation, member)))

#define HCS_E_OPERATION_RESULT_ALLOCATION_FAILED ((HRESULT)0x8037011A)

static void destroy(struct object *object) {
    struct operation *operation = OPERATION_OF(object, object);
    reply_dispose(&operation->reply);
    condition_destroy(&operation->changed);
    free(operation);
}

static HCS_OPERATION create(const void *context, HCS_OPERATION_COMPLETION completion, HCS_EVENT_CALLBACK notification) {
    struct library *state = library();
    struct operation *operation = state == NULL ? NULL : calloc(1, sizeof *operation);
    if (operation == NULL)
        return NULL;
    operation->object = (struct object){.kind = KIND_OPERATION, .references = 1, .destroy = destroy};
    operation->type = HcsOperationTypeNone;
    operation->id = HCS_INVALID_OPERATION_ID;
    operation->context = (void *)(uintptr_t)context;
    operation->completion = completion;
    operation->notification = notification;
    operation->library = state;
    condition_init(&operation->changed);
    mutex_lock(&state->lock);
    HANDLE handle = handles_add(&state->handles, &operation->object) ? operation->object.handle : NULL;
    object_release(&operation->object);
    mutex_unlock(&state->lock);
    return handle;
}

HCS_EXPORT HCS_OPERATION WINAPI HcsCreateOperation(const void *context, HCS_OPERATION_COMPLETION callback) {
    return create(context, callback, NULL);
}

HCS_EXPORT HCS_OPERATION WINAPI HcsCreateOperationWithNotifications(int32_t types, const void *context,
                                                                    HCS_EVENT_CALLBACK callback) {
    return (types & ~1) != 0 ? NULL : create(context, NULL, callback);
}

HRESULT operation_get(struct library *library, HCS_OPERATION handle, struct operation **operation) {
    struct object *object;
    *operation = NULL;
    HRESULT code = handles_get(&library->handles, handle, KIND_OPERATION, &object);
    if (!FAILED(code))
        *operation = OPERATION_OF(object, object);
    return code;
}

HRESULT operation_check(const struct operation *operation, const struct remote *subject) {
    if (operation->state == OPERATION_IN_FLIGHT)
        return HCS_E_OPERATION_ALREADY_STARTED;
    if (operation->completion != NULL && subject != NULL &&
        (subject->options & HCS_EVENT_OPTION_ENABLE_OPERATION_CALLBACKS))
        return HCS_E_OPERATION_SYSTEM_CALLBACK_ALREADY_SET;
    return S_OK;
}

static void call_back(struct operation *operation) {
    struct library *library = operation->library;
    struct object *object = &operation->object;
    if (operation->completion != NULL)
        deliver_completion(library, object, operation->completion, operation->context);
    if (operation->notification != NULL)
        deliver_event(library, object, operation->notification, operation->context, HCS_EVENT_OPERATION_CALLBACK, NULL,
                      object->handle);
    enum kind kinds[] = {KIND_SYSTEM, KIND_PROCESS};
    for (int index = 0; index < 2; index++) {
        struct object *subject;
        if (FAILED(handles_get(&library->handles, operation->subject, kinds[index], &subject)))
            continue;
        struct remote *remote = (struct remote *)subject;
        if (remote->callback != NULL && (remote->options & HCS_EVENT_OPTION_ENABLE_OPERATION_CALLBACKS))
            deliver_event(library, subject, remote->callback, remote->context, HCS_EVENT_OPERATION_CALLBACK, NULL,
                          object->handle);
        object_release(subject);
    }
}

static void completed(struct pending *pending, struct reply *reply) {
    struct operation *operation = OPERATION_OF(pending, pending);
    operation->reply = *reply;
    *reply = (struct reply){0};
    operation->state = OPERATION_COMPLETE;
    if (operation->created != NULL) {
        operation->created->connection = operation->reply.connection;
        remote_resolve(operation->library, operation->created, operation->reply.result, operation->reply.handle);
        object_release(&operation->created->object);
        operation->created = NULL;
    }
    condition_broadcast(&operation->changed);
    if (!operation->object.closed)
        call_back(operation);
    object_release(&operation->object);
}

void operation_begin(struct operation *operation, struct remote *created, HANDLE subject) {
    reply_dispose(&operation->reply);
    operation->pending.complete = completed;
    operation->state = OPERATION_IN_FLIGHT;
    operation->id = ++operation->library->last_operation;
    operation->created = created;
    operation->subject = subject;
    object_hold(&operation->object);
}

void operation_rejected(struct operation *operation, struct reply *reply) {
    bool begun = operation->state == OPERATION_IN_FLIGHT;
    reply_dispose(&operation->reply);
    operation->reply.document = reply->document;
    reply->document = NULL;
    operation->state = OPERATION_UNUSED;
    operation->type = HcsOperationTypeNone;
    operation->id = HCS_INVALID_OPERATION_ID;
    operation->subject = NULL;
    if (operation->created != NULL)
        object_release(&operation->created->object);
    operation->created = NULL;
    condition_broadcast(&operation->changed);
    if (begun)
        object_release(&operation->object);
}

HCS_EXPORT void WINAPI HcsCloseOperation(HCS_OPERATION handle) {
    struct library *state = library();
    struct object *object;
    if (state == NULL)
        return;
    mutex_lock(&state->lock);
    if (!FAILED(handles_remove(&state->handles, handle, KIND_OPERATION, &object))) {
        object->closed = true;
        condition_broadcast(&OPERATION_OF(object, object)->changed);
        deliveries_drain(state, object);
        object_release(object);
    }
    mutex_unlock(&state->lock);
}

static bool has_process_info(const struct operation *operation) {
    return operation->type == HcsOperationTypeCreateProcess || operation->type == HcsOperationTypeGetProcessInfo;
}

/* The caller takes ownership of the handles in it, so only the first caller gets them. */
static void give_process_info(struct operation *operation, HCS_PROCESS_INFORMATION *info) {
    HANDLE *streams = operation->reply.streams;
    *info = (HCS_PROCESS_INFORMATION){
        .ProcessId = operation->reply.pid, .StdInput = streams[0], .StdOutput = streams[1], .StdError = streams[2]};
    streams[0] = streams[1] = streams[2] = NULL;
}

static HRESULT await(struct operation *operation, bool wait, uint64_t deadline) {
    while (operation->state == OPERATION_IN_FLIGHT && !operation->object.closed) {
        if (!wait)
            return HCS_E_OPERATION_PENDING;
        if (!condition_wait(&operation->changed, &operation->library->lock, deadline) &&
            operation->state == OPERATION_IN_FLIGHT)
            return HCS_E_OPERATION_TIMEOUT;
    }
    if (operation->object.closed)
        return E_INVALID_HANDLE;
    return operation->state == OPERATION_UNUSED ? HCS_E_OPERATION_NOT_STARTED : S_OK;
}

static HRESULT result(HCS_OPERATION handle, bool wait, DWORD timeout, HCS_PROCESS_INFORMATION *info, bool wants_info,
                      PWSTR *document) {
    struct library *state = library();
    struct operation *operation;
    uint64_t deadline = deadline_in(timeout);
    if (document != NULL)
        *document = NULL;
    if (info != NULL)
        *info = (HCS_PROCESS_INFORMATION){0};
    if (state == NULL)
        return E_OUTOFMEMORY;
    if (wants_info && info == NULL)
        return E_INVALIDARG;
    mutex_lock(&state->lock);
    HRESULT code = operation_get(state, handle, &operation);
    if (FAILED(code)) {
        mutex_unlock(&state->lock);
        return code;
    }
    code = await(operation, wait, deadline);
    bool complete = !FAILED(code);
    if (complete)
        code = wants_info && !has_process_info(operation) ? E_INVALIDARG : operation->reply.result;
    if (complete && wants_info && !FAILED(code))
        give_process_info(operation, info);
    if ((complete || code == HCS_E_OPERATION_NOT_STARTED) && document != NULL && operation->reply.document != NULL) {
        *document = text_copy(operation->reply.document, text_length(operation->reply.document));
        if (*document == NULL)
            code = HCS_E_OPERATION_RESULT_ALLOCATION_FAILED;
    }
    object_release(&operation->object);
    mutex_unlock(&state->lock);
    return code;
}

HCS_EXPORT HRESULT WINAPI HcsGetOperationResult(HCS_OPERATION operation, PWSTR *document) {
    return result(operation, false, 0, NULL, false, document);
}

HCS_EXPORT HRESULT WINAPI HcsGetOperationResultAndProcessInfo(HCS_OPERATION operation, HCS_PROCESS_INFORMATION *info,
                                                              PWSTR *document) {
    return result(operation, false, 0, info, true, document);
}

HCS_EXPORT HRESULT WINAPI HcsWaitForOperationResult(HCS_OPERATION operation, DWORD timeout, PWSTR *document) {
    return result(operation, true, timeout, NULL, false, document);
}

HCS_EXPORT HRESULT WINAPI HcsWaitForOperationResultAndProcessInfo(HCS_OPERATION operation, DWORD timeout,
                                                                  HCS_PROCESS_INFORMATION *info, PWSTR *document) {
    return result(operation, true, timeout, info, true, document);
}
