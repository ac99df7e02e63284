/* Objects that the service holds: compute systems, processes, networks, disks. An object knows the connection it was
   opened on and its number there, and its event callback if it has one. */
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

/* The caller of these must hold the library's lock. */
struct remote *remote_create(enum kind kind); /* with one reference and no handle yet */

/* Looks up a handle and adds a reference. Waits for an object whose create call is pending, as calls on it would
   wait in HCS. */
HRESULT remote_get(struct library *library, HANDLE handle, enum kind kind, struct remote **remote);
void remote_resolve(struct library *library, struct remote *remote, HRESULT result, uint64_t number);
void remote_event(struct library *library, uint64_t connection, uint64_t number, uint32_t type, PWSTR document);
void remotes_disconnected(struct library *library, uint64_t connection);

/* The caller of these must not hold the lock. */
HRESULT remote_close(HANDLE handle, enum kind kind);
HRESULT remote_set_callback(HANDLE handle, enum kind kind, enum call call, uint32_t options, void *context,
                            HCS_EVENT_CALLBACK callback);

#endif
