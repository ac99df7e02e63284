/* etw-stub.dll: the calls of advapi32.dll that an ETW provider makes, recorded to a file.

   Wine's own accept every event and deliver none. This library uses the structures of the SDK's evntprov.h, so it
   detects a provider that lays them out differently. It answers the registration as if a session had already enabled
   the provider at all levels.

   A record is: u32 level, u32 number of parts, then for each part u32 type, u32 size and the bytes. The environment
   variable ETW_STUB_FILE names the file. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define EVNTAPI WINAPI /* not dllimport: they are here */
#include <evntprov.h>
#include <stdio.h>

#define HANDLE_VALUE 0x1234567890ULL
/* Missing in mingw's headers: evntrace.h, and EVENT_INFO_CLASS of evntprov.h. The type of a part is the first byte of
   Reserved. */
#define ENABLE_PROVIDER 1
#define CAPTURE_STATE 2
#define SET_TRAITS 2

static PENABLECALLBACK enabled;
static void *enabled_context;

static void append(const void *data, ULONG size) {
    char path[MAX_PATH];
    FILE *file = GetEnvironmentVariableA("ETW_STUB_FILE", path, sizeof path) ? fopen(path, "ab") : NULL;
    if (file != NULL) {
        fwrite(data, 1, size, file);
        fclose(file);
    }
}

__declspec(dllexport) ULONG WINAPI EventRegister(LPCGUID provider, PENABLECALLBACK callback, PVOID context, PREGHANDLE handle) {
    append(provider, sizeof *provider);
    enabled = callback;
    enabled_context = context;
    *handle = HANDLE_VALUE;
    callback(provider, ENABLE_PROVIDER, 0, 0, 0, NULL, context);
    return ERROR_SUCCESS;
}

__declspec(dllexport) ULONG WINAPI EventUnregister(REGHANDLE handle) { return handle == HANDLE_VALUE ? ERROR_SUCCESS : ERROR_INVALID_HANDLE; }

__declspec(dllexport) ULONG WINAPI EventSetInformation(REGHANDLE handle, EVENT_INFO_CLASS kind, PVOID information, ULONG size) {
    (void)information, (void)size;
    return handle == HANDLE_VALUE && (int)kind == SET_TRAITS ? ERROR_SUCCESS : ERROR_INVALID_PARAMETER;
}

__declspec(dllexport) ULONG WINAPI EventWriteTransfer(REGHANDLE handle, PCEVENT_DESCRIPTOR event, LPCGUID activity, LPCGUID related, ULONG count,
                                                      PEVENT_DATA_DESCRIPTOR data) {
    (void)activity, (void)related;
    if (handle != HANDLE_VALUE || event->Channel != 11 || event->Keyword != 0)
        return ERROR_INVALID_PARAMETER;
    ULONG head[] = {event->Level, count};
    append(head, sizeof head);
    for (ULONG i = 0; i < count; i++) {
        ULONG part[] = {data[i].Reserved & 0xFF, data[i].Size};
        append(part, sizeof part);
        append((const void *)(ULONG_PTR)data[i].Ptr, data[i].Size);
    }
    return ERROR_SUCCESS;
}

/* Called by the test: a session requests the state of the provider. */
__declspec(dllexport) void WINAPI CaptureState(void) { enabled(NULL, CAPTURE_STATE, 0, 0, 0, NULL, enabled_context); }
