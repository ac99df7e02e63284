#include "events.h"

#include <stdlib.h>

#include "library.h"

struct delivery {
    struct delivery *next;
    struct library *library;
    struct object *object;
    HCS_EVENT_CALLBACK event;
    HCS_OPERATION_COMPLETION completion;
    void (*task)(struct object *object);
    void *context;
    uint32_t type;
    PWSTR document;
    HCS_OPERATION operation;
    bool returned;
};

void deliveries_init(struct delivery_queue *queue) {
    *queue = (struct delivery_queue){0};
    condition_init(&queue->filled);
    condition_init(&queue->delivered);
}

static void call_back(void *argument) {
    struct delivery *delivery = argument;
    if (delivery->task != NULL) {
        delivery->task(delivery->object);
    } else if (delivery->completion != NULL) {
        delivery->completion(delivery->operation, delivery->context);
    } else {
        HCS_EVENT event = {.Type = (int32_t)delivery->type, .EventData = delivery->document,
                           .Operation = delivery->operation};
        delivery->event(&event, delivery->context);
    }
    delivery->returned = true;
}

static void dispose(struct delivery *delivery) {
    object_release(delivery->object);
    free(delivery->document);
    free(delivery);
}

static void called_back(void *argument) {
    struct delivery *delivery = argument;
    struct library *library = delivery->library;
    mutex_lock(&library->lock);
    delivery->object->delivering = false;
    if (!delivery->returned)
        /* the callback has ended this thread: the program is exiting, no other thread is started */
        library->deliveries.over = true;
    condition_broadcast(&library->deliveries.delivered);
    dispose(delivery);
    mutex_unlock(&library->lock);
}

static void deliver_all(void *argument) {
    struct library *library = argument;
    struct delivery_queue *queue = &library->deliveries;
    mutex_lock(&library->lock);
    for (;;) {
        struct delivery *delivery = queue->first;
        if (delivery == NULL) {
            condition_wait(&queue->filled, &library->lock, NEVER);
            continue;
        }
        queue->first = delivery->next;
        if (delivery->object->closed && delivery->task == NULL) {
            dispose(delivery);
            continue;
        }
        delivery->object->delivering = true;
        delivery->object->deliverer = thread_self();
        mutex_unlock(&library->lock);
        run_finally(call_back, called_back, delivery);
        mutex_lock(&library->lock);
    }
}

void deliveries_begin(struct library *library) {
    if (!library->deliveries.running)
        library->deliveries.running = thread_start(deliver_all, library);
}

static void enqueue(struct library *library, const struct delivery *wanted) {
    struct delivery_queue *queue = &library->deliveries;
    struct delivery *delivery = malloc(sizeof *delivery);
    if (delivery == NULL || queue->over) {
        free(wanted->document);
        free(delivery);
        return;
    }
    *delivery = *wanted;
    delivery->library = library;
    object_hold(delivery->object);
    if (queue->first == NULL)
        queue->first = delivery;
    else
        queue->last->next = delivery;
    queue->last = delivery;
    deliveries_begin(library);
    condition_broadcast(&queue->filled);
}

void deliver_event(struct library *library, struct object *object, HCS_EVENT_CALLBACK callback, void *context,
                   uint32_t type, PWSTR document, HCS_OPERATION operation) {
    struct delivery delivery = {.object = object, .event = callback, .context = context, .type = type,
                                .document = document, .operation = operation};
    enqueue(library, &delivery);
}

void deliver_completion(struct library *library, struct object *operation, HCS_OPERATION_COMPLETION callback,
                        void *context) {
    struct delivery delivery = {.object = operation, .completion = callback, .context = context,
                                .operation = operation->handle};
    enqueue(library, &delivery);
}

void deliver_task(struct library *library, struct object *object, void (*task)(struct object *object)) {
    struct delivery delivery = {.object = object, .task = task};
    enqueue(library, &delivery);
}

void deliveries_drain(struct library *library, struct object *object) {
    while (object->delivering && !thread_same(object->deliverer, thread_self()))
        condition_wait(&library->deliveries.delivered, &library->lock, NEVER);
}
