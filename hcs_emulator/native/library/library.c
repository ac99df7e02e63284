#include "library.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "transport.h"

static _Atomic(struct library *) current;
static _Atomic(struct library *) before_fork;

static void forked(void) {
    struct library *parent = atomic_exchange(&current, NULL);
    if (parent == NULL)
        return;
    atomic_store(&before_fork, parent);
    transport_abandon();
}

__attribute__((constructor)) static void loaded(void) { at_fork_in_child(forked); }

static struct library *create(void) {
    struct library *created = calloc(1, sizeof *created);
    if (created == NULL)
        return NULL;
    created->parent = atomic_load(&before_fork);
    mutex_init(&created->lock);
    handles_init(&created->handles, created->parent == NULL ? 0 : created->parent->handles.epoch + 1);
    connector_init(&created->connector);
    deliveries_init(&created->deliveries);
    return created;
}

struct library *library(void) {
    struct library *found = atomic_load(&current);
    if (found != NULL)
        return found;
    struct library *created = create();
    if (created != NULL && !atomic_compare_exchange_strong(&current, &found, created)) {
        free(created); /* another thread was faster; this state is still empty */
        return found;
    }
    return created;
}
