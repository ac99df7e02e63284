/* The connection to the service: a byte stream that can carry operating system handles. Implemented by
   transport_posix.c and transport_windows.c. */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

typedef void *HANDLE; /* as in hcs.h and windows.h, which cannot be included together */

struct transport;

#define TRANSPORT_HANDLES 16
#define TRANSPORT_REASON 512

/* Connects to the service and starts it if it does not listen. Returns NULL on failure, with a message in reason. */
struct transport *transport_connect(char reason[TRANSPORT_REASON]);
bool transport_send(struct transport *transport, const void *data, size_t size);

/* Returns the number of bytes, 0 at the end. Received handles are added to handles; truncated is set if some were
   lost because the process has reached its limit. */
size_t transport_receive(struct transport *transport, void *data, size_t size, HANDLE handles[TRANSPORT_HANDLES],
                         unsigned *count, bool *truncated);
/* False: the other side has closed it, even if the receiver has not noticed. */
bool transport_is_alive(struct transport *transport);
void transport_end(struct transport *transport);   /* wakes threads that send or receive */
void transport_close(struct transport *transport); /* no thread uses it any more */
void transport_close_handle(HANDLE handle);        /* a handle that was received */

/* In the child of a fork: close the parent's connection, otherwise the service does not notice the parent's exit. */
void transport_abandon(void);

#endif
