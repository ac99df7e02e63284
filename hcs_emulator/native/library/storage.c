/* computestorage.dll, and the part of virtdisk.dll that layers need. */
#include <stdlib.h>
#include <string.h>

#include "remote.h"
#include "transport.h"

static HRESULT simple(enum call call, uint32_t count, PCWSTR one, PCWSTR two, PCWSTR three, PCWSTR four) {
    PCWSTR strings[] = {one, two, three, four};
    struct arguments arguments = {.call = call, .count = count, .strings = strings};
    return call_simple(&arguments);
}

HCS_EXPORT HRESULT WINAPI HcsImportLayer(PCWSTR layer, PCWSTR source, PCWSTR data) {
    return simple(CALL_HcsImportLayer, 3, layer, source, data, NULL);
}

HCS_EXPORT HRESULT WINAPI HcsExportLayer(PCWSTR layer, PCWSTR folder, PCWSTR data, PCWSTR options) {
    return simple(CALL_HcsExportLayer, 4, layer, folder, data, options);
}

HCS_EXPORT HRESULT WINAPI HcsExportLegacyWritableLayer(PCWSTR mount, PCWSTR layer, PCWSTR folder, PCWSTR data) {
    return simple(CALL_HcsExportLegacyWritableLayer, 4, mount, layer, folder, data);
}

HCS_EXPORT HRESULT WINAPI HcsDestroyLayer(PCWSTR layer) {
    return simple(CALL_HcsDestroyLayer, 1, layer, NULL, NULL, NULL);
}

HCS_EXPORT HRESULT WINAPI HcsSetupBaseOSLayer(PCWSTR layer, HANDLE vhd, PCWSTR options) {
    struct arguments arguments = {CALL_HcsSetupBaseOSLayer, vhd, vhd == NULL ? 0 : KIND_DISK, TEXTS(layer, options)};
    return call_simple(&arguments);
}

HCS_EXPORT HRESULT WINAPI HcsSetupBaseOSVolume(PCWSTR layer, PCWSTR volume, PCWSTR options) {
    return simple(CALL_HcsSetupBaseOSVolume, 3, layer, volume, options, NULL);
}

HCS_EXPORT HRESULT WINAPI HcsInitializeWritableLayer(PCWSTR layer, PCWSTR data, PCWSTR options) {
    return simple(CALL_HcsInitializeWritableLayer, 3, layer, data, options, NULL);
}

HCS_EXPORT HRESULT WINAPI HcsInitializeLegacyWritableLayer(PCWSTR mount, PCWSTR layer, PCWSTR data, PCWSTR options) {
    return simple(CALL_HcsInitializeLegacyWritableLayer, 4, mount, layer, data, options);
}

HCS_EXPORT HRESULT WINAPI HcsAttachLayerStorageFilter(PCWSTR layer, PCWSTR data) {
    return simple(CALL_HcsAttachLayerStorageFilter, 2, layer, data, NULL, NULL);
}

HCS_EXPORT HRESULT WINAPI HcsDetachLayerStorageFilter(PCWSTR layer) {
    return simple(CALL_HcsDetachLayerStorageFilter, 1, layer, NULL, NULL, NULL);
}

HCS_EXPORT HRESULT WINAPI HcsAttachOverlayFilter(PCWSTR volume, PCWSTR data) {
    return simple(CALL_HcsAttachOverlayFilter, 2, volume, data, NULL, NULL);
}

HCS_EXPORT HRESULT WINAPI HcsDetachOverlayFilter(PCWSTR volume, PCWSTR data) {
    return simple(CALL_HcsDetachOverlayFilter, 2, volume, data, NULL, NULL);
}

HCS_EXPORT HRESULT WINAPI HcsFormatWritableLayerVhd(HANDLE vhd) {
    struct arguments arguments = {.call = CALL_HcsFormatWritableLayerVhd, .subject = vhd, .kind = KIND_DISK};
    return call_simple(&arguments);
}

HCS_EXPORT HRESULT WINAPI HcsGetLayerVhdMountPath(HANDLE vhd, PWSTR *path) {
    struct arguments arguments = {.call = CALL_HcsGetLayerVhdMountPath, .subject = vhd, .kind = KIND_DISK};
    return call_for_document(&arguments, HCS_INFINITE, path);
}

typedef struct {
    ULONG Version;
    GUID UniqueId;
    uint64_t MaximumSize;
    ULONG BlockSizeInBytes, SectorSizeInBytes, PhysicalSectorSizeInBytes;
    PCWSTR ParentPath, SourcePath;
} CREATE_VIRTUAL_DISK_PARAMETERS;

_Static_assert(offsetof(CREATE_VIRTUAL_DISK_PARAMETERS, MaximumSize) == 24, "as in virtdisk.h");
_Static_assert(offsetof(CREATE_VIRTUAL_DISK_PARAMETERS, ParentPath) == 48, "as in virtdisk.h");

/* virtdisk returns Win32 codes. */
static DWORD win32(HRESULT code) {
    return ((uint32_t)code & 0x1FFF0000) == 0x00070000 ? (DWORD)code & 0xFFFF : (DWORD)code;
}

HCS_EXPORT DWORD WINAPI CreateVirtualDisk(const void *type, PCWSTR path, ULONG access, const void *security,
                                          ULONG flags,
                                          ULONG provider_flags, const CREATE_VIRTUAL_DISK_PARAMETERS *parameters,
                                              void *overlapped,
                                          HANDLE *disk) {
    (void)type, (void)access, (void)security, (void)flags, (void)provider_flags;
    if (path == NULL || parameters == NULL || overlapped != NULL)
        return win32(E_INVALIDARG);
    struct arguments arguments = {.call = CALL_CreateVirtualDisk, .number = parameters->MaximumSize,
                                  TEXTS(path, parameters->ParentPath)};
    return win32(call_to_open(&arguments, KIND_DISK, disk, NULL));
}

HCS_EXPORT DWORD WINAPI OpenVirtualDisk(const void *type, PCWSTR path, ULONG access, ULONG flags,
                                        const void *parameters, HANDLE *disk) {
    (void)type, (void)access, (void)parameters;
    struct arguments arguments = {.call = CALL_OpenVirtualDisk, .number = flags, TEXTS(path)};
    return win32(call_to_open(&arguments, KIND_DISK, disk, NULL));
}

HCS_EXPORT DWORD WINAPI AttachVirtualDisk(HANDLE disk, const void *security, ULONG flags, ULONG provider_flags,
                                          const void *parameters, const void *overlapped) {
    (void)security, (void)provider_flags, (void)parameters;
    if (overlapped != NULL)
        return win32(E_INVALIDARG);
    struct arguments arguments = {.call = CALL_AttachVirtualDisk, .subject = disk, .kind = KIND_DISK, .number = flags};
    return win32(call_simple(&arguments));
}

HCS_EXPORT DWORD WINAPI DetachVirtualDisk(HANDLE disk, ULONG flags, ULONG provider_flags) {
    (void)flags, (void)provider_flags;
    struct arguments arguments = {.call = CALL_DetachVirtualDisk, .subject = disk, .kind = KIND_DISK};
    return win32(call_simple(&arguments));
}

HCS_EXPORT DWORD WINAPI GetVirtualDiskPhysicalPath(HANDLE disk, ULONG *bytes, PWSTR buffer) {
    if (bytes == NULL)
        return win32(E_INVALIDARG);
    PWSTR path = NULL;
    struct arguments arguments = {.call = CALL_GetVirtualDiskPhysicalPath, .subject = disk, .kind = KIND_DISK};
    HRESULT code = call_for_document(&arguments, HCS_INFINITE, &path);
    if (!FAILED(code) && path == NULL)
        code = E_UNEXPECTED;
    if (!FAILED(code)) {
        size_t needed = (text_length(path) + 1) * sizeof *path;
        if (buffer == NULL || *bytes < needed)
            code = E_INSUFFICIENT_BUFFER;
        else
            memcpy(buffer, path, needed);
        *bytes = (ULONG)needed;
    }
    free(path);
    return win32(code);
}

#ifndef _WIN32
/* Disks and stdio handles of processes are the only handles of this library. */
HCS_EXPORT int32_t WINAPI CloseHandle(HANDLE handle) {
    if ((uintptr_t)handle > 2 && (uintptr_t)handle <= INT32_MAX / 128) {
        transport_close_handle(handle);
        return 1;
    }
    return !FAILED(remote_close(handle, KIND_DISK));
}
#endif
