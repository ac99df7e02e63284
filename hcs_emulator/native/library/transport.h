/* The way to the service: a stream of bytes that can carry operating system handles. transport_posix.c and transport_windows.c. */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

typedef void *HANDLE; /* as in hcs.h, and in windows.h, with which that cannot be read together */

struct transport;

#define TRANSPORT_HANDLES 16
#define TRANSPORT_REASON 512

/* Connects to the service and starts it if nothing listens. Gives NULL on failure, and in reason a sentence for people. */
struct transport *transport_connect(char reason[TRANSPORT_REASON]);
bool transport_send(struct transport *transport, const void *data, size_t size);

/* Gives the number of bytes, 0 at the end. Received handles are added to handles; truncated says that some were lost because the
   process can hold no more. */
size_t transport_receive(struct transport *transport, void *data, size_t size, HANDLE handles[TRANSPORT_HANDLES], unsigned *count,
                         bool *truncated);
bool transport_is_alive(struct transport *transport); /* false: the other side has ended it, noticed by the receiver or not yet */
void transport_end(struct transport *transport);   /* wakes whoever sends or receives */
void transport_close(struct transport *transport); /* nobody uses it any more */
void transport_close_handle(HANDLE handle);        /* a handle that was received */

/* In the child of a fork: let go of the parent's connection, or the service would not see the parent's end. */
void transport_abandon(void);

#endif
