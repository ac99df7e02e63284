/* Handles, and their objects.

   A handle is not a pointer: it is an index into a table and a use count of the entry, so that a closed or invalid
   handle is detected and never dereferenced. All functions require that the caller holds the library's lock. */
#ifndef HANDLES_H
#define HANDLES_H

#include <stdbool.h>

#include "hcs.h"
#include "threads.h"

enum kind { KIND_OPERATION = 1, KIND_SYSTEM, KIND_PROCESS, KIND_NETWORK, KIND_NAMESPACE, KIND_ENDPOINT, KIND_DISK };

/* The first member of every object. The holder of a reference may read it after its handle was closed. */
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
    uint32_t epoch; /* the number of forks: a parent's handle is not valid in the child */
};

void handles_init(struct handle_table *table, uint32_t epoch);
/* Sets object->handle and adds a reference. */
bool handles_add(struct handle_table *table, struct object *object);
/* Adds a reference. */
HRESULT handles_get(struct handle_table *table, HANDLE handle, enum kind kind, struct object **object);
/* Transfers the table's reference to the caller. */
HRESULT handles_remove(struct handle_table *table, HANDLE handle, enum kind kind, struct object **object);
struct object *handles_next(struct handle_table *table, uint32_t *position);     /* to visit all; adds no reference */

void object_hold(struct object *object);
void object_release(struct object *object);

#endif
