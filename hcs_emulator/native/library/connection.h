/* The connection to the service, made when it is first needed, and the calls under way on it.

   A thread per connection reads. When the connection is lost, everything under way fails with HCS_E_SERVICE_DISCONNECT, what was opened on
   it is dead, and the next call that needs no handle connects anew. All functions want the library's lock held. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "threads.h"
#include "transport.h"
#include "wire.h"

struct library;
struct connection;

/* A call under way. complete is called once, with the lock held; it takes from the reply what it wants to keep. */
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
    Condition changed; /* an attempt has ended, or a connection was lost */
    char reason[TRANSPORT_REASON]; /* why the last attempt failed */
};

void connector_init(struct connector *connector);

/* Sends a frame. connection: the number of the one to use, or 0 for any; on return the one used. The lock is let go meanwhile, so
   the answer may have come before this returns. Failure: the call is not under way. */
HRESULT connection_send(struct library *library, uint64_t *connection, uint8_t *frame, size_t size, struct pending *pending);
void connection_forget(struct library *library, struct pending *pending); /* its answer, if one comes, is for nobody */

void reply_dispose(struct reply *reply);

#endif
