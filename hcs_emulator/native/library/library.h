/* The root of the library's state.

   One lock guards all of it: handles, operations, calls under way and the queue of callbacks. It is never held while bytes are sent or
   received, nor while a callback runs, so that it is only ever held for moments. The state belongs to one process: the child of a fork
   begins with an empty one, in which the parent's handles are not valid. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "connection.h"
#include "events.h"
#include "handles.h"
#include "threads.h"

struct library {
    Mutex lock;
    struct handle_table handles;
    struct connector connector;
    struct delivery_queue deliveries;
    uint64_t last_operation;
    struct library *parent; /* what was before the fork; kept reachable, never looked at */
};

struct library *library(void); /* NULL: no memory */

#endif
