/* The connection to the service, opened when it is first needed, and its pending calls.

   A thread per connection reads. When the connection is lost, all pending calls fail with HCS_E_SERVICE_DISCONNECT,
   handles that were opened on it become invalid, and the next call that needs no handle opens a new connection. All
   functions require that the caller holds the library's lock. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "threads.h"
#include "transport.h"
#include "wire.h"

struct library;
struct connection;

/* A pending call. complete is called once, with the lock held; it takes ownership of the parts of the reply that it
   keeps. */
struct pending {
    void (*complete)(struct pending *pending, struct reply *reply);
    uint64_t id;
    struct pending *next;
};

struct connector {
    struct connection *connection;
    uint64_t last_number;
    bool connecting;
    uint64_t attempts;
    bool last_failed;
    Condition changed; /* a connection attempt has finished, or a connection was lost */
    char reason[TRANSPORT_REASON]; /* why the last attempt failed */
};

void connector_init(struct connector *connector);

/* Sends a frame. connection: the number of the connection to use, or 0 for any; on return the one used. The lock is
   released meanwhile, so the response may arrive before this returns. On failure the call is not pending. */
HRESULT connection_send(struct library *library, uint64_t *connection, uint8_t *frame, size_t size,
                        struct pending *pending);
/* its response, if one arrives, is discarded */
void connection_forget(struct library *library, struct pending *pending);

void reply_dispose(struct reply *reply);

#endif
