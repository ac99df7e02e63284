/* Included first when the library is built for Windows. Callers release results with LocalFree or CoTaskMemFree, and
   both use the process heap; the C library's malloc may not. */
#ifndef MEMORY_WINDOWS_H
#define MEMORY_WINDOWS_H

#include <stdlib.h>
#include <string.h>

void *hcs_allocate(size_t size);
void *hcs_reallocate(void *memory, size_t size);
void hcs_free(void *memory);

static inline void *hcs_allocate_zeroed(size_t count, size_t size) {
    if (size != 0 && count > (size_t)-1 / size)
        return NULL;
    void *memory = hcs_allocate(count * size);
    return memory == NULL ? NULL : memset(memory, 0, count * size);
}

#define malloc hcs_allocate
#define calloc hcs_allocate_zeroed
#define realloc hcs_reallocate
#define free hcs_free

#endif
