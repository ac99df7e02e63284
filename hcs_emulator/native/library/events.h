/* Callbacks of the program, called from a thread of the library in the order of the events.

   After an object is closed, none of its callbacks starts, and the close waits for one that runs. All functions
   require that the caller holds the library's lock. */
#ifndef EVENTS_H
#define EVENTS_H

#include "handles.h"
#include "hcs.h"
#include "threads.h"

struct library;
struct delivery;

struct delivery_queue {
    struct delivery *first, *last;
    Condition filled, delivered;
    bool running; /* the thread exists */
    bool over;    /* and a callback has ended it */
};

void deliveries_init(struct delivery_queue *queue);

/* Start the thread early, so that the first exit event does not wait for its start. */
void deliveries_begin(struct library *library);

/* takes ownership of document, also on failure */
void deliver_event(struct library *library, struct object *object, HCS_EVENT_CALLBACK callback, void *context,
                   uint32_t type, PWSTR document, HCS_OPERATION operation);
void deliver_completion(struct library *library, struct object *operation, HCS_OPERATION_COMPLETION callback,
                        void *context);

/* Work that must not run in the calling thread. It is done even if the object is closed. */
void deliver_task(struct library *library, struct object *object, void (*task)(struct object *object));

/* Waits until no callback of the object runs. Returns at once when called by that callback. */
void deliveries_drain(struct library *library, struct object *object);

#endif
