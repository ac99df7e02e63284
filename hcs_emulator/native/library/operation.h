/* HCS_OPERATION: tracks one call at a time.

   unused -> in flight -> complete -> in flight ... A call that is refused at once leaves the operation unused, but
   may store a document in it. All functions except the exports require that the caller holds the library's lock. */
#ifndef OPERATION_H
#define OPERATION_H

#include "connection.h"
#include "handles.h"
#include "remote.h"

struct operation {
    struct pending pending;
    struct object object;
    enum { OPERATION_UNUSED, OPERATION_IN_FLIGHT, OPERATION_COMPLETE } state;
    int32_t type;
    uint64_t id;
    void *context;
    HCS_OPERATION_COMPLETION completion;
    HCS_EVENT_CALLBACK notification;
    Condition changed;
    HANDLE subject;         /* the system or process that the call is about */
    struct remote *created; /* the object that the call in flight creates */
    struct reply reply;
    struct library *library;
};

/* operation is NULL on failure. */
HRESULT operation_get(struct library *library, HCS_OPERATION handle, struct operation **operation);
/* Whether a call may be started with it. */
HRESULT operation_check(const struct operation *operation, const struct remote *subject);
void operation_begin(struct operation *operation, struct remote *created, HANDLE subject);
void operation_rejected(struct operation *operation, struct reply *reply); /* takes ownership of the document */

#endif
