#include "remote.h"

#include <stdio.h>
#include <stdlib.h>

#include "library.h"

#define OPENING_MILLISECONDS 10000
#define CLOSE_MILLISECONDS 60000

static void destroy(struct object *object) {
    struct remote *remote = (struct remote *)object;
    condition_destroy(&remote->resolved);
    free(remote);
}

struct remote *remote_create(enum kind kind) {
    struct remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL)
        return NULL;
    remote->object = (struct object){.kind = kind, .references = 1, .destroy = destroy};
    condition_init(&remote->resolved);
    return remote;
}

static HRESULT state_code(const struct remote *remote) {
    if (remote->object.closed)
        return E_INVALID_HANDLE;
    if (remote->state == REMOTE_OPENING)
        return HCS_E_INVALID_STATE;
    return remote->state == REMOTE_OPEN ? S_OK : remote->failure;
}

HRESULT remote_get(struct library *library, HANDLE handle, enum kind kind, struct remote **remote) {
    struct object *object;
    HRESULT code = handles_get(&library->handles, handle, kind, &object);
    if (FAILED(code))
        return code;
    struct remote *found = (struct remote *)object;
    uint64_t deadline = deadline_in(OPENING_MILLISECONDS);
    while (found->state == REMOTE_OPENING && !object->closed &&
           condition_wait(&found->resolved, &library->lock, deadline))
        continue;
    code = state_code(found);
    if (FAILED(code))
        object_release(object);
    else
        *remote = found; /* a caller that starts from NULL releases only what it holds */
    return code;
}

static enum call close_call(enum kind kind) {
    switch (kind) {
    case KIND_SYSTEM:
        return CALL_HcsCloseComputeSystem;
    case KIND_PROCESS:
        return CALL_HcsCloseProcess;
    case KIND_NETWORK:
        return CALL_HcnCloseNetwork;
    case KIND_NAMESPACE:
        return CALL_HcnCloseNamespace;
    case KIND_ENDPOINT:
        return CALL_HcnCloseEndpoint;
    default:
        return CALL_CloseHandle;
    }
}

static void notify_service(struct object *object) {
    struct remote *remote = (struct remote *)object;
    struct reply reply;
    struct request request = {.call = close_call(object->kind), .handle = remote->number};
    call_on_connection(&request, remote->connection, CLOSE_MILLISECONDS, &reply);
    reply_dispose(&reply);
}

void remote_resolve(struct library *library, struct remote *remote, HRESULT result, uint64_t number) {
    remote->state = number != 0 ? REMOTE_OPEN : REMOTE_FAILED;
    remote->number = number;
    remote->failure = FAILED(result) ? result : E_UNEXPECTED;
    condition_broadcast(&remote->resolved);
    if (remote->object.closed && number != 0)
        /* closed before it was open; the reading thread must not send */
        deliver_task(library, &remote->object, notify_service);
}

void remote_event(struct library *library, uint64_t connection, uint64_t number, uint32_t type, PWSTR document) {
    struct object *object;
    for (uint32_t position = 0; (object = handles_next(&library->handles, &position)) != NULL;) {
        struct remote *remote = (struct remote *)object;
        if ((object->kind == KIND_SYSTEM || object->kind == KIND_PROCESS) && remote->state == REMOTE_OPEN &&
            remote->connection == connection && remote->number == number && remote->callback != NULL) {
            deliver_event(library, object, remote->callback, remote->context, type, document, NULL);
            return;
        }
    }
    free(document);
}

void remotes_disconnected(struct library *library, uint64_t connection) {
    struct object *object;
    for (uint32_t position = 0; (object = handles_next(&library->handles, &position)) != NULL;) {
        struct remote *remote = (struct remote *)object;
        if ((object->kind == KIND_SYSTEM || object->kind == KIND_PROCESS) && remote->connection == connection &&
            remote->callback != NULL)
            deliver_event(library, object, remote->callback, remote->context, HCS_EVENT_SERVICE_DISCONNECT, NULL, NULL);
    }
}

HRESULT remote_close(HANDLE handle, enum kind kind) {
    struct library *state = library();
    if (state == NULL)
        return E_OUTOFMEMORY;
    struct object *object;
    mutex_lock(&state->lock);
    HRESULT code = handles_remove(&state->handles, handle, kind, &object);
    if (FAILED(code)) {
        mutex_unlock(&state->lock);
        return code;
    }
    struct remote *remote = (struct remote *)object;
    object->closed = true;
    condition_broadcast(&remote->resolved);
    if (object->delivering && thread_same(object->deliverer, thread_self()))
        fprintf(stderr,
                "hcs emulator: a handle was closed by its own callback; with Windows' HCS this never returns\n");
    deliveries_drain(state, object);
    bool open = remote->state == REMOTE_OPEN;
    mutex_unlock(&state->lock);
    if (open)
        notify_service(object);
    mutex_lock(&state->lock);
    object_release(object);
    mutex_unlock(&state->lock);
    return S_OK;
}

HRESULT remote_set_callback(HANDLE handle, enum kind kind, enum call call, uint32_t options, void *context,
                            HCS_EVENT_CALLBACK callback) {
    struct library *state = library();
    if (state == NULL)
        return E_OUTOFMEMORY;
    struct remote *remote;
    mutex_lock(&state->lock);
    HRESULT code = remote_get(state, handle, kind, &remote);
    if (FAILED(code)) {
        mutex_unlock(&state->lock);
        return code;
    }
    if (callback != NULL && remote->callback != NULL) {
        code = HCS_E_OPERATION_SYSTEM_CALLBACK_ALREADY_SET;
    } else {
        remote->callback = callback; /* before the service is called: the exit event may precede its response */
        remote->context = context;
        remote->options = options;
        if (callback != NULL)
            deliveries_begin(state);
        if (callback == NULL)
            deliveries_drain(state, &remote->object);
        mutex_unlock(&state->lock);
        if (callback != NULL) {
            struct reply reply;
            struct request request = {.call = call, .handle = remote->number, .number = options};
            code = call_on_connection(&request, remote->connection, HCS_INFINITE, &reply);
            reply_dispose(&reply);
        }
        mutex_lock(&state->lock);
        if (FAILED(code))
            remote->callback = NULL;
    }
    object_release(&remote->object);
    mutex_unlock(&state->lock);
    return code;
}
