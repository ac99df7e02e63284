#include "handles.h"

#include <stdlib.h>
#include <string.h>

/* A handle, from its lowest bit: kind (4), place (20), uses (24), epoch (8). uses starts at 1, so that no handle
   equals a descriptor or INVALID_HANDLE_VALUE. */
#define PLACE_SHIFT 4
#define USES_SHIFT 24
#define EPOCH_SHIFT 48
#define MAX_PLACES (1u << 20)
#define MAX_USES ((1u << 24) - 1)
#define NO_PLACE UINT32_MAX

_Static_assert(sizeof(HANDLE) == 8, "handles need 56 bits");

void handles_init(struct handle_table *table, uint32_t epoch) {
    *table = (struct handle_table){.free = NO_PLACE, .epoch = epoch};
}

static HANDLE make_handle(const struct handle_table *table, uint32_t place, enum kind kind) {
    uint64_t value = (uint64_t)kind | (uint64_t)place << PLACE_SHIFT |
        (uint64_t)table->slots[place].uses << USES_SHIFT |
                     (uint64_t)(table->epoch & 0xFF) << EPOCH_SHIFT;
    return (HANDLE)(uintptr_t)value;
}

static bool grow(struct handle_table *table) {
    uint32_t count = table->count == 0 ? 64 : table->count * 2;
    if (count > MAX_PLACES)
        return false;
    struct slot *slots = realloc(table->slots, count * sizeof *slots);
    if (slots == NULL)
        return false;
    for (uint32_t place = table->count; place < count; place++)
        slots[place] = (struct slot){.next_free = place + 1 < count ? place + 1 : NO_PLACE};
    table->free = table->count;
    table->slots = slots;
    table->count = count;
    return true;
}

bool handles_add(struct handle_table *table, struct object *object) {
    if (table->free == NO_PLACE && !grow(table))
        return false;
    uint32_t place = table->free;
    struct slot *slot = &table->slots[place];
    table->free = slot->next_free;
    slot->uses = slot->uses == MAX_USES ? 1 : slot->uses + 1;
    slot->object = object;
    object->handle = make_handle(table, place, object->kind);
    object_hold(object);
    return true;
}

static HRESULT find(struct handle_table *table, HANDLE handle, enum kind kind, struct slot **slot) {
    if (handle == NULL)
        return E_INVALIDARG;
    uint32_t place = (uint32_t)((uintptr_t)handle >> PLACE_SHIFT) & (MAX_PLACES - 1);
    struct object *object = place < table->count ? table->slots[place].object : NULL;
    if (object == NULL || object->handle != handle || object->kind != kind)
        return E_INVALID_HANDLE;
    *slot = &table->slots[place];
    return S_OK;
}

HRESULT handles_get(struct handle_table *table, HANDLE handle, enum kind kind, struct object **object) {
    struct slot *slot;
    HRESULT code = find(table, handle, kind, &slot);
    if (FAILED(code))
        return code;
    *object = slot->object;
    object_hold(*object);
    return S_OK;
}

HRESULT handles_remove(struct handle_table *table, HANDLE handle, enum kind kind, struct object **object) {
    struct slot *slot;
    HRESULT code = find(table, handle, kind, &slot);
    if (FAILED(code))
        return code;
    *object = slot->object;
    slot->object = NULL;
    slot->next_free = table->free;
    table->free = (uint32_t)(slot - table->slots);
    return S_OK;
}

struct object *handles_next(struct handle_table *table, uint32_t *position) {
    while (*position < table->count) {
        struct object *object = table->slots[(*position)++].object;
        if (object != NULL)
            return object;
    }
    return NULL;
}

void object_hold(struct object *object) { object->references++; }

void object_release(struct object *object) {
    if (--object->references == 0)
        object->destroy(object);
}
