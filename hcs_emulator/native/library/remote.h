/* What the service holds for us: compute systems, processes, networks, disks. The object knows which connection it was opened on and its
   number there; if it reports events, also whom to call. */
#ifndef REMOTE_H
#define REMOTE_H

#include "call.h"
#include "handles.h"

struct library;

struct remote {
    struct object object;
    enum { REMOTE_OPENING, REMOTE_OPEN, REMOTE_FAILED } state;
    HRESULT failure;
    uint64_t connection, number;
    Condition resolved;
    HCS_EVENT_CALLBACK callback;
    void *context;
    uint32_t options;
};

/* These want the library's lock held. */
struct remote *remote_create(enum kind kind); /* with one reference and no handle yet */

/* Finds what a handle stands for and adds a reference. A handle that a create under way will give is waited for, as calls on it would
   wait in HCS. */
HRESULT remote_get(struct library *library, HANDLE handle, enum kind kind, struct remote **remote);
void remote_resolve(struct library *library, struct remote *remote, HRESULT result, uint64_t number);
void remote_event(struct library *library, uint64_t connection, uint64_t number, uint32_t type, PWSTR document);
void remotes_disconnected(struct library *library, uint64_t connection);

/* These do not. */
HRESULT remote_close(HANDLE handle, enum kind kind);
HRESULT remote_set_callback(HANDLE handle, enum kind kind, enum call call, uint32_t options, void *context,
                            HCS_EVENT_CALLBACK callback);

#endif
