/* HCS_OPERATION: what tracks one call at a time.

   unused -> in flight -> complete -> in flight ... A call that is refused at once leaves the operation unused, but may leave a
   document in it. All functions but the exports want the library's lock held. */
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
    struct remote *created; /* what the call in flight makes */
    struct reply reply;
    struct library *library;
};

HRESULT operation_get(struct library *library, HCS_OPERATION handle, struct operation **operation); /* NULL on failure */
HRESULT operation_check(const struct operation *operation, const struct remote *subject); /* may a call be begun with it? */
void operation_begin(struct operation *operation, struct remote *created, HANDLE subject);
void operation_rejected(struct operation *operation, struct reply *reply); /* takes the document */

#endif
