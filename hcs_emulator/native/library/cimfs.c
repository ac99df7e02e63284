/* cimfs.dll: composite images as volumes. */
#include <stdlib.h>

#include "call.h"
#include "guid.h"

typedef struct {
    PCWSTR Directory, Name;
} CIMFS_IMAGE_PATH;

#define MAX_IMAGES 1024

HCS_EXPORT HRESULT WINAPI CimMountImage(PCWSTR directory, PCWSTR name, ULONG flags, const GUID *volume) {
    char16_t id[GUID_CHARS];
    if (volume == NULL)
        return E_INVALIDARG;
    guid_to_text(volume, id);
    struct arguments arguments = {.call = CALL_CimMountImage, .number = flags, TEXTS(id, directory, name)};
    return call_simple(&arguments);
}

/* The volume, then directory and name of each image. */
HCS_EXPORT HRESULT WINAPI CimMergeMountImage(uint32_t count, const CIMFS_IMAGE_PATH *images, ULONG flags,
                                             const GUID *volume) {
    char16_t id[GUID_CHARS];
    if (volume == NULL || images == NULL || count == 0 || count > MAX_IMAGES)
        return E_INVALIDARG;
    guid_to_text(volume, id);
    PCWSTR *strings = calloc(1 + 2 * (size_t)count, sizeof *strings);
    if (strings == NULL)
        return E_OUTOFMEMORY;
    strings[0] = id;
    for (uint32_t index = 0; index < count; index++) {
        strings[1 + 2 * index] = images[index].Directory;
        strings[2 + 2 * index] = images[index].Name;
    }
    struct arguments arguments = {
        .call = CALL_CimMergeMountImage, .number = flags, .count = 1 + 2 * count, .strings = strings};
    HRESULT code = call_simple(&arguments);
    free(strings);
    return code;
}

HCS_EXPORT HRESULT WINAPI CimDismountImage(const GUID *volume) {
    char16_t id[GUID_CHARS];
    if (volume == NULL)
        return E_INVALIDARG;
    guid_to_text(volume, id);
    struct arguments arguments = {.call = CALL_CimDismountImage, TEXTS(id)};
    return call_simple(&arguments);
}
