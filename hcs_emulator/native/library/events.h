/* Calling the program back, from a thread of the library's own, in the order in which things happened.

   After an object is closed none of its callbacks begins, and the close waits for one that runs. All functions want the library's lock
   held. */
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
    bool over;    /* and was ended by a callback */
};

void deliveries_init(struct delivery_queue *queue);

/* There will be something to deliver: an exit that is the first of all need not wait for the thread that tells of it. */
void deliveries_begin(struct library *library);

/* document is handed over, also on failure */
void deliver_event(struct library *library, struct object *object, HCS_EVENT_CALLBACK callback, void *context, uint32_t type,
                   PWSTR document, HCS_OPERATION operation);
void deliver_completion(struct library *library, struct object *operation, HCS_OPERATION_COMPLETION callback, void *context);

/* Work that must not be done where it was found to be needed. It is done even if the object is closed. */
void deliver_task(struct library *library, struct object *object, void (*task)(struct object *object));

/* Waits until no callback of the object runs. Called by that very callback it returns at once. */
void deliveries_drain(struct library *library, struct object *object);

#endif
