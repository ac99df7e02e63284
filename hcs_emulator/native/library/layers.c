/* vmcompute.dll: the layer functions, HNSCall and GrantVmAccess. */
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "guid.h"

typedef struct {
    int32_t Flavour;
    PCWSTR HomeDir;
} DriverInfo;

typedef struct {
    GUID LayerId;
    ULONG Flags;
    PCWSTR Path;
} WC_LAYER_DESCRIPTOR;

#define MAX_LAYERS 4096

static HRESULT texts(enum call call, PCWSTR first, PCWSTR second, uint32_t count) {
    PCWSTR strings[] = {first, second};
    struct arguments arguments = {.call = call, .count = count, .strings = strings};
    return call_simple(&arguments);
}

/* The names, then two strings for each layer: its id and its path. */
static HRESULT with_layers(enum call call, PCWSTR first, PCWSTR second, uint32_t names,
                           const WC_LAYER_DESCRIPTOR *layers, ULONG count) {
    if (count > MAX_LAYERS || (count > 0 && layers == NULL))
        return E_INVALIDARG;
    PCWSTR *strings = calloc(names + 2 * (size_t)count, sizeof *strings);
    char16_t(*ids)[GUID_CHARS] = calloc((size_t)count + 1, sizeof *ids);
    HRESULT code = E_OUTOFMEMORY;
    if (strings != NULL && ids != NULL) {
        strings[0] = first;
        if (names > 1)
            strings[1] = second;
        for (ULONG index = 0; index < count; index++) {
            guid_to_text(&layers[index].LayerId, ids[index]);
            strings[names + 2 * index] = ids[index];
            strings[names + 2 * index + 1] = layers[index].Path;
        }
        struct arguments arguments = {.call = call, .count = names + 2 * count, .strings = strings};
        code = call_simple(&arguments);
    }
    free(strings);
    free(ids);
    return code;
}

#define DRIVER const DriverInfo *info
#define LAYERS const WC_LAYER_DESCRIPTOR *layers, ULONG count

HCS_EXPORT HRESULT WINAPI ActivateLayer(DRIVER, PCWSTR id) {
    return (void)info, texts(CALL_ActivateLayer, id, NULL, 1);
}
HCS_EXPORT HRESULT WINAPI DeactivateLayer(DRIVER, PCWSTR id) {
    return (void)info, texts(CALL_DeactivateLayer, id, NULL, 1);
}
HCS_EXPORT HRESULT WINAPI UnprepareLayer(DRIVER, PCWSTR id) {
    return (void)info, texts(CALL_UnprepareLayer, id, NULL, 1);
}
HCS_EXPORT HRESULT WINAPI DestroyLayer(DRIVER, PCWSTR id) { return (void)info, texts(CALL_DestroyLayer, id, NULL, 1); }
HCS_EXPORT HRESULT WINAPI CreateLayer(DRIVER, PCWSTR id, PCWSTR parent) {
    return (void)info, texts(CALL_CreateLayer, id, parent, 2);
}
HCS_EXPORT HRESULT WINAPI ProcessBaseImage(PCWSTR path) { return texts(CALL_ProcessBaseImage, path, NULL, 1); }
HCS_EXPORT HRESULT WINAPI ProcessUtilityImage(PCWSTR path) { return texts(CALL_ProcessUtilityImage, path, NULL, 1); }
HCS_EXPORT HRESULT WINAPI GrantVmAccess(PCWSTR vm, PCWSTR path) { return texts(CALL_GrantVmAccess, vm, path, 2); }

HCS_EXPORT HRESULT WINAPI PrepareLayer(DRIVER, PCWSTR id, LAYERS) {
    return (void)info, with_layers(CALL_PrepareLayer, id, NULL, 1, layers, count);
}

HCS_EXPORT HRESULT WINAPI CreateSandboxLayer(DRIVER, PCWSTR id, PCWSTR parent, LAYERS) {
    return (void)info, with_layers(CALL_CreateSandboxLayer, id, parent, 2, layers, count);
}

HCS_EXPORT HRESULT WINAPI CopyLayer(DRIVER, PCWSTR source, PCWSTR destination, LAYERS) {
    return (void)info, with_layers(CALL_CopyLayer, source, destination, 2, layers, count);
}

HCS_EXPORT HRESULT WINAPI ImportLayer(DRIVER, PCWSTR id, PCWSTR source, LAYERS) {
    return (void)info, with_layers(CALL_ImportLayer, id, source, 2, layers, count);
}

HCS_EXPORT HRESULT WINAPI ExportLayer(DRIVER, PCWSTR id, PCWSTR destination, LAYERS) {
    return (void)info, with_layers(CALL_ExportLayer, id, destination, 2, layers, count);
}

HCS_EXPORT HRESULT WINAPI ExpandSandboxSize(DRIVER, PCWSTR id, uint64_t size) {
    (void)info;
    struct arguments arguments = {.call = CALL_ExpandSandboxSize, .number = size, TEXTS(id)};
    return call_simple(&arguments);
}

/* Called twice: without a buffer for the length, NUL included, then with one. */
HCS_EXPORT HRESULT WINAPI GetLayerMountPath(DRIVER, PCWSTR id, size_t *length, PWSTR buffer) {
    (void)info;
    if (length == NULL)
        return E_INVALIDARG;
    PWSTR path = NULL;
    struct arguments arguments = {.call = CALL_GetLayerMountPath, TEXTS(id)};
    HRESULT code = call_for_document(&arguments, HCS_INFINITE, &path);
    if (!FAILED(code)) {
        size_t needed = path == NULL ? 0 : text_length(path) + 1;
        if (buffer != NULL && *length < needed)
            code = E_INSUFFICIENT_BUFFER;
        else if (buffer != NULL && needed > 0)
            memcpy(buffer, path, needed * sizeof *path);
        *length = needed;
    }
    free(path);
    return code;
}

HCS_EXPORT HRESULT WINAPI LayerExists(DRIVER, PCWSTR id, ULONG *exists) {
    (void)info;
    if (exists == NULL)
        return E_INVALIDARG;
    struct reply reply;
    struct arguments arguments = {.call = CALL_LayerExists, TEXTS(id)};
    HRESULT code = call_and_wait(&arguments, HCS_INFINITE, &reply);
    *exists = !FAILED(code) && reply.pid != 0;
    reply_dispose(&reply);
    return code;
}

HCS_EXPORT HRESULT WINAPI NameToGuid(PCWSTR name, GUID *guid) {
    if (name == NULL || guid == NULL)
        return E_INVALIDARG;
    PWSTR text = NULL;
    struct arguments arguments = {.call = CALL_NameToGuid, TEXTS(name)};
    HRESULT code = call_for_document(&arguments, HCS_INFINITE, &text);
    if (!FAILED(code) && (text == NULL || !guid_from_text(text, guid)))
        code = E_UNEXPECTED;
    free(text);
    return code;
}

HCS_EXPORT HRESULT WINAPI GetBaseImages(PWSTR *images) {
    struct arguments arguments = {.call = CALL_GetBaseImages};
    return call_for_document(&arguments, HCS_INFINITE, images);
}

HCS_EXPORT HRESULT WINAPI HNSCall(PCWSTR method, PCWSTR path, PCWSTR request, PWSTR *response) {
    struct arguments arguments = {.call = CALL_HNSCall, TEXTS(method, path, request)};
    return call_for_document(&arguments, HCS_INFINITE, response);
}
