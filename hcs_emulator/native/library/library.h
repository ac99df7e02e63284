/* The state of the library.

   One lock guards all of it: handles, operations, pending calls and the queue of callbacks. It is not held while
   bytes are sent or received, nor while a callback runs, so it is held for moments only. The state belongs to one
   process: the child of a fork starts with an empty one, in which the parent's handles are not valid. */
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
    struct library *parent; /* the parent's state; reachable for leak checkers, never used */
};

struct library *library(void); /* NULL: no memory */

#endif
