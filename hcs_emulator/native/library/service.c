/* computecore.dll: the service itself and files of VMs; release of results. */
#include <stdlib.h>

#include "call.h"

static HRESULT for_document(enum call call, PCWSTR document, PWSTR *result) {
    struct arguments arguments = {.call = call, TEXTS(document)};
    return call_for_document(&arguments, HCS_INFINITE, result);
}

static HRESULT one(enum call call, PCWSTR text) {
    struct arguments arguments = {.call = call, TEXTS(text)};
    return call_simple(&arguments);
}

static HRESULT two(enum call call, PCWSTR first, PCWSTR second) {
    struct arguments arguments = {.call = call, TEXTS(first, second)};
    return call_simple(&arguments);
}

HCS_EXPORT HRESULT WINAPI HcsGetServiceProperties(PCWSTR query, PWSTR *result) {
    return for_document(CALL_HcsGetServiceProperties, query, result);
}

HCS_EXPORT HRESULT WINAPI HcsModifyServiceSettings(PCWSTR settings, PWSTR *result) {
    return for_document(CALL_HcsModifyServiceSettings, settings, result);
}

HCS_EXPORT HRESULT WINAPI HcsSubmitWerReport(PCWSTR settings) { return one(CALL_HcsSubmitWerReport, settings); }

HCS_EXPORT HRESULT WINAPI HcsGrantVmAccess(PCWSTR vm, PCWSTR path) { return two(CALL_HcsGrantVmAccess, vm, path); }
HCS_EXPORT HRESULT WINAPI HcsRevokeVmAccess(PCWSTR vm, PCWSTR path) { return two(CALL_HcsRevokeVmAccess, vm, path); }
HCS_EXPORT HRESULT WINAPI HcsGrantVmGroupAccess(PCWSTR path) { return one(CALL_HcsGrantVmGroupAccess, path); }
HCS_EXPORT HRESULT WINAPI HcsRevokeVmGroupAccess(PCWSTR path) { return one(CALL_HcsRevokeVmGroupAccess, path); }
HCS_EXPORT HRESULT WINAPI HcsCreateEmptyGuestStateFile(PCWSTR path) {
    return one(CALL_HcsCreateEmptyGuestStateFile, path);
}
HCS_EXPORT HRESULT WINAPI HcsCreateEmptyRuntimeStateFile(PCWSTR path) {
    return one(CALL_HcsCreateEmptyRuntimeStateFile, path);
}

HCS_EXPORT HRESULT WINAPI HcsGetProcessorCompatibilityFromSavedState(PCWSTR path, PWSTR *features) {
    return for_document(CALL_HcsGetProcessorCompatibilityFromSavedState, path, features);
}

#ifndef _WIN32
typedef struct {
    ULONG Size, Major, Minor, Build, Platform;
    char16_t ServicePack[128];
} VERSION_INFORMATION;

_Static_assert(sizeof(VERSION_INFORMATION) == 276, "as RTL_OSVERSIONINFOW");

/* ntdll.dll: returns an NTSTATUS, of which only success is defined. Every Windows with containers is version 10.0. */
HCS_EXPORT int32_t WINAPI RtlGetVersion(VERSION_INFORMATION *version) {
    if (version == NULL || version->Size < sizeof *version)
        return E_INVALIDARG;
    struct reply reply;
    struct arguments arguments = {.call = CALL_RtlGetVersion};
    HRESULT code = call_and_wait(&arguments, HCS_INFINITE, &reply);
    if (!FAILED(code)) {
        ULONG size = version->Size;
        *version = (VERSION_INFORMATION){.Size = size, .Major = 10, .Build = reply.pid, .Platform = 2};
    }
    reply_dispose(&reply);
    return code;
}

HCS_EXPORT void *LocalFree(void *memory) {
    free(memory);
    return NULL;
}

HCS_EXPORT void CoTaskMemFree(void *memory) { free(memory); }
#endif
