/* See memory_windows.h. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "memory_windows.h"

void *hcs_allocate(size_t size) { return HeapAlloc(GetProcessHeap(), 0, size); }

void *hcs_reallocate(void *memory, size_t size) {
    return memory == NULL ? hcs_allocate(size) : HeapReAlloc(GetProcessHeap(), 0, memory, size);
}

void hcs_free(void *memory) {
    if (memory != NULL)
        HeapFree(GetProcessHeap(), 0, memory);
}
