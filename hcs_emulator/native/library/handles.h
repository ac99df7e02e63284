/* Handles, and the objects behind them.

   A handle is not a pointer: it names a place in a table together with how often the place was used, so that a closed handle, or one
   that never was, is told from a valid one and never touches memory. All functions want the library's lock held. */
#ifndef HANDLES_H
#define HANDLES_H

#include <stdbool.h>

#include "hcs.h"
#include "threads.h"

enum kind { KIND_OPERATION = 1, KIND_SYSTEM, KIND_PROCESS, KIND_NETWORK, KIND_NAMESPACE, KIND_ENDPOINT, KIND_DISK };

/* What every object begins with. Whoever holds a reference may read it after its handle was closed. */
struct object {
    enum kind kind;
    HANDLE handle;
    unsigned references;
    void (*destroy)(struct object *object);
    bool closed;
    bool delivering; /* a callback of it runs, in the thread named next */
    ThreadId deliverer;
};

struct slot {
    struct object *object;
    uint32_t uses;
    uint32_t next_free;
};

struct handle_table {
    struct slot *slots;
    uint32_t count, free;
    uint32_t epoch; /* how many forks deep: a parent's handle is not valid in the child */
};

void handles_init(struct handle_table *table, uint32_t epoch);
bool handles_add(struct handle_table *table, struct object *object);             /* sets object->handle, adds a reference */
HRESULT handles_get(struct handle_table *table, HANDLE handle, enum kind kind, struct object **object); /* adds a reference */
HRESULT handles_remove(struct handle_table *table, HANDLE handle, enum kind kind, struct object **object); /* hands over the table's */
struct object *handles_next(struct handle_table *table, uint32_t *position);     /* to visit all; adds no reference */

void object_hold(struct object *object);
void object_release(struct object *object);

#endif
