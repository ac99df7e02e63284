/* Exports that query and set properties of an operation. */
#include "library.h"
#include "operation.h"

/* Locks and looks up; NULL, and not locked, if there is no such operation. */
static struct operation *enter(HCS_OPERATION handle, HRESULT *code) {
    struct library *state = library();
    struct operation *operation = NULL;
    *code = E_OUTOFMEMORY;
    if (state == NULL)
        return NULL;
    mutex_lock(&state->lock);
    *code = operation_get(state, handle, &operation);
    if (operation == NULL)
        mutex_unlock(&state->lock);
    return operation;
}

static void leave(struct operation *operation) {
    Mutex *lock = &operation->library->lock;
    object_release(&operation->object);
    mutex_unlock(lock);
}

HCS_EXPORT void *WINAPI HcsGetOperationContext(HCS_OPERATION handle) {
    HRESULT code;
    struct operation *operation = enter(handle, &code);
    if (operation == NULL)
        return NULL;
    void *context = operation->context;
    leave(operation);
    return context;
}

HCS_EXPORT HRESULT WINAPI HcsSetOperationContext(HCS_OPERATION handle, const void *context) {
    HRESULT code;
    struct operation *operation = enter(handle, &code);
    if (operation == NULL)
        return code;
    operation->context = (void *)(uintptr_t)context;
    leave(operation);
    return S_OK;
}

HCS_EXPORT HRESULT WINAPI HcsSetOperationCallback(HCS_OPERATION handle, const void *context,
                                                  HCS_OPERATION_COMPLETION callback) {
    HRESULT code;
    struct operation *operation = enter(handle, &code);
    if (operation == NULL)
        return code;
    if (operation->state == OPERATION_IN_FLIGHT) {
        code = HCS_E_OPERATION_ALREADY_STARTED;
    } else {
        operation->context = (void *)(uintptr_t)context;
        operation->completion = callback;
    }
    leave(operation);
    return code;
}

HCS_EXPORT int32_t WINAPI HcsGetOperationType(HCS_OPERATION handle) {
    HRESULT code;
    struct operation *operation = enter(handle, &code);
    if (operation == NULL)
        return HcsOperationTypeNone;
    int32_t type = operation->type;
    leave(operation);
    return type;
}

HCS_EXPORT uint64_t WINAPI HcsGetOperationId(HCS_OPERATION handle) {
    HRESULT code;
    struct operation *operation = enter(handle, &code);
    if (operation == NULL)
        return HCS_INVALID_OPERATION_ID;
    uint64_t id = operation->id;
    leave(operation);
    return id;
}

static HANDLE subject_of(HCS_OPERATION handle, enum kind kind) {
    HRESULT code;
    struct operation *operation = enter(handle, &code);
    if (operation == NULL)
        return NULL;
    struct object *object;
    HANDLE subject = NULL;
    if (operation->subject != NULL && !FAILED(handles_get(&operation->library->handles, operation->subject, kind,
                                                          &object))) {
        subject = operation->subject;
        object_release(object);
    }
    leave(operation);
    return subject;
}

HCS_EXPORT HCS_SYSTEM WINAPI HcsGetComputeSystemFromOperation(HCS_OPERATION handle) {
    return subject_of(handle, KIND_SYSTEM);
}
HCS_EXPORT HCS_PROCESS WINAPI HcsGetProcessFromOperation(HCS_OPERATION handle) {
    return subject_of(handle, KIND_PROCESS);
}

HCS_EXPORT HRESULT WINAPI HcsCancelOperation(HCS_OPERATION handle) {
    HRESULT code;
    struct operation *operation = enter(handle, &code);
    if (operation == NULL)
        return code;
    leave(operation);
    return E_NOTIMPL; /* as documented: nothing can be cancelled */
}
