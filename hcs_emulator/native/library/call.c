#include "call.h"

#include <stdlib.h>

#include "library.h"
#include "operation.h"
#include "remote.h"

struct waiting {
    struct pending pending;
    Condition answered;
    bool complete;
    struct reply *reply;
};

static void answered(struct pending *pending, struct reply *reply) {
    struct waiting *waiting = (struct waiting *)pending;
    *waiting->reply = *reply;
    *reply = (struct reply){0};
    waiting->complete = true;
    condition_broadcast(&waiting->answered);
}

static uint8_t *encode(const struct request *request, size_t *size, struct reply *reply) {
    uint8_t *frame = wire_encode(request, size);
    if (frame == NULL) {
        reply->result = E_INVALIDARG;
        reply->document = error_document(E_INVALIDARG,
                                         "the documents of one call may not be larger than 64 MiB together");
    }
    return frame;
}

static void explain(struct library *library, HRESULT code, struct reply *reply) {
    reply->result = code;
    if (code == HCS_E_SERVICE_NOT_AVAILABLE)
        reply->document = error_document(code, library->connector.reason);
    else if (code == HCS_E_SERVICE_DISCONNECT)
        reply->document = error_document(code,
                                         "the emulator service that this handle belonged to is gone: open it again");
}

/* The caller holds the lock. */
static HRESULT wait_for_answer(struct library *library, uint64_t connection, uint8_t *frame, size_t size,
                               uint32_t timeout, struct reply *reply) {
    struct waiting waiting = {.pending.complete = answered, .reply = reply};
    condition_init(&waiting.answered);
    HRESULT code = connection_send(library, &connection, frame, size, &waiting.pending);
    if (FAILED(code))
        explain(library, code, reply);
    uint64_t deadline = deadline_in(timeout);
    while (!FAILED(code) && !waiting.complete)
        if (!condition_wait(&waiting.answered, &library->lock, deadline) && !waiting.complete) {
            connection_forget(library, &waiting.pending);
            code = reply->result = HCS_E_OPERATION_TIMEOUT;
        }
    condition_destroy(&waiting.answered);
    return reply->result;
}

HRESULT call_on_connection(const struct request *request, uint64_t connection, uint32_t timeout, struct reply *reply) {
    *reply = (struct reply){0};
    struct library *state = library();
    size_t size;
    uint8_t *frame = state == NULL ? NULL : encode(request, &size, reply);
    if (frame == NULL)
        return reply->result = FAILED(reply->result) ? reply->result : E_OUTOFMEMORY;
    mutex_lock(&state->lock);
    HRESULT code = wait_for_answer(state, connection, frame, size, timeout, reply);
    mutex_unlock(&state->lock);
    free(frame);
    return code;
}

HRESULT call_and_wait(const struct arguments *arguments, uint32_t timeout, struct reply *reply) {
    struct request request = {.call = arguments->call, .number = arguments->number, .count = arguments->count,
                              .strings = arguments->strings};
    if (arguments->kind == 0)
        return call_on_connection(&request, 0, timeout, reply);
    *reply = (struct reply){0};
    struct library *state = library();
    if (state == NULL)
        return reply->result = E_OUTOFMEMORY;
    struct remote *remote;
    mutex_lock(&state->lock);
    reply->result = remote_get(state, arguments->subject, arguments->kind, &remote);
    mutex_unlock(&state->lock);
    if (FAILED(reply->result))
        return reply->result;
    request.handle = remote->number;
    HRESULT code = call_on_connection(&request, remote->connection, timeout, reply);
    mutex_lock(&state->lock);
    object_release(&remote->object);
    mutex_unlock(&state->lock);
    return code;
}

HRESULT call_simple(const struct arguments *arguments) {
    struct reply reply;
    HRESULT code = call_and_wait(arguments, HCS_INFINITE, &reply);
    reply_dispose(&reply);
    return code;
}

HRESULT call_for_document(const struct arguments *arguments, uint32_t timeout, PWSTR *document) {
    struct reply reply;
    HRESULT code = call_and_wait(arguments, timeout, &reply);
    if (document != NULL) {
        *document = reply.document;
        reply.document = NULL;
    }
    reply_dispose(&reply);
    return code;
}

static HRESULT add_opened(struct library *library, enum kind kind, const struct reply *reply, HANDLE *opened) {
    struct remote *remote = remote_create(kind);
    if (remote == NULL)
        return E_OUTOFMEMORY;
    remote->state = REMOTE_OPEN;
    remote->connection = reply->connection;
    remote->number = reply->handle;
    HRESULT code = handles_add(&library->handles, &remote->object) ? S_OK : E_OUTOFMEMORY;
    if (!FAILED(code))
        *opened = remote->object.handle;
    object_release(&remote->object);
    return code;
}

HRESULT call_to_open(const struct arguments *arguments, enum kind kind, HANDLE *opened, PWSTR *error) {
    struct reply reply;
    if (error != NULL)
        *error = NULL;
    if (opened == NULL)
        return E_INVALIDARG;
    *opened = NULL;
    HRESULT code = call_and_wait(arguments, HCS_INFINITE, &reply);
    if (!FAILED(code) && reply.handle == 0)
        code = E_UNEXPECTED;
    if (!FAILED(code)) {
        struct library *state = library();
        mutex_lock(&state->lock);
        code = add_opened(state, kind, &reply, opened);
        mutex_unlock(&state->lock);
    } else if (error != NULL) {
        *error = reply.document;
        reply.document = NULL;
    }
    reply_dispose(&reply);
    return code;
}

/* The caller holds the lock. */
static HRESULT track(struct library *library, const struct arguments *arguments, struct operation *operation,
                     uint8_t *frame, size_t size, uint64_t connection, HANDLE *opened, enum kind kind) {
    struct remote *created = NULL;
    if (opened != NULL) {
        created = remote_create(kind);
        if (created == NULL || !handles_add(&library->handles, &created->object)) {
            if (created != NULL)
                object_release(&created->object);
            return E_OUTOFMEMORY;
        }
        *opened = created->object.handle;
    }
    operation_begin(operation, created, opened != NULL && kind == KIND_SYSTEM ? *opened : arguments->subject);
    HRESULT code = connection_send(library, &connection, frame, size, &operation->pending);
    if (!FAILED(code))
        return S_OK;
    struct reply reply = {0};
    explain(library, code, &reply);
    operation_rejected(operation, &reply);
    if (created != NULL) {
        struct object *object;
        if (!FAILED(handles_remove(&library->handles, *opened, kind, &object)))
            object_release(object);
        *opened = NULL;
    }
    return code;
}

HRESULT call_tracked(const struct arguments *arguments, HCS_OPERATION handle, int32_t type, HANDLE *opened,
                     enum kind kind) {
    if (opened != NULL)
        *opened = NULL;
    struct library *state = library();
    if (state == NULL)
        return E_OUTOFMEMORY;
    struct reply reply = {0};
    struct remote *subject = NULL;
    struct operation *operation;
    struct request request = {.call = arguments->call, .number = arguments->number, .count = arguments->count,
                              .strings = arguments->strings};
    mutex_lock(&state->lock);
    HRESULT code = operation_get(state, handle, &operation);
    if (!FAILED(code) && arguments->kind != 0)
        code = remote_get(state, arguments->subject, arguments->kind, &subject);
    mutex_unlock(&state->lock);
    request.handle = subject == NULL ? 0 : subject->number;
    size_t size = 0;
    uint8_t *frame = FAILED(code) ? NULL : encode(&request, &size, &reply);

    mutex_lock(&state->lock);
    if (!FAILED(code))
        code = operation_check(operation, subject);
    if (!FAILED(code) && frame == NULL) {
        code = reply.result;
        operation_rejected(operation, &reply);
    }
    if (!FAILED(code)) {
        operation->type = type;
        code = track(state, arguments, operation, frame, size, subject == NULL ? 0 : subject->connection, opened, kind);
    }
    reply_dispose(&reply);
    if (subject != NULL)
        object_release(&subject->object);
    if (operation != NULL)
        object_release(&operation->object);
    mutex_unlock(&state->lock);
    free(frame);
    return code;
}
