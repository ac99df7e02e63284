/* The types, structures and codes of the HCS C ABI. */
#ifndef HCS_H
#define HCS_H

#include <stdint.h>
#include <stddef.h>
#include <uchar.h>

#ifdef _WIN32
#define HCS_EXPORT __declspec(dllexport)
#define WINAPI __stdcall
#else
#define HCS_EXPORT __attribute__((visibility("default")))
#define WINAPI
#endif

typedef int32_t HRESULT;
typedef uint32_t DWORD;
typedef uint32_t ULONG;
typedef const char16_t *PCWSTR;
typedef char16_t *PWSTR;
typedef void *HANDLE;
typedef void *HCS_OPERATION;
typedef void *HCS_SYSTEM;
typedef void *HCS_PROCESS;

typedef struct {
    uint32_t Data1;
    uint16_t Data2, Data3;
    uint8_t Data4[8];
} GUID;

typedef struct {
    int32_t Type;
    PCWSTR EventData;
    HCS_OPERATION Operation;
} HCS_EVENT;

typedef struct {
    DWORD ProcessId, Reserved;
    HANDLE StdInput, StdOutput, StdError;
} HCS_PROCESS_INFORMATION;

typedef void(WINAPI *HCS_OPERATION_COMPLETION)(HCS_OPERATION operation, void *context);
typedef void(WINAPI *HCS_EVENT_CALLBACK)(HCS_EVENT *event, void *context);

enum {
    HcsOperationTypeNone = -1,
    HcsOperationTypeEnumerate = 0,
    HcsOperationTypeCreate,
    HcsOperationTypeStart,
    HcsOperationTypeShutdown,
    HcsOperationTypePause,
    HcsOperationTypeResume,
    HcsOperationTypeSave,
    HcsOperationTypeTerminate,
    HcsOperationTypeModify,
    HcsOperationTypeGetProperties,
    HcsOperationTypeCreateProcess,
    HcsOperationTypeSignalProcess,
    HcsOperationTypeGetProcessInfo,
    HcsOperationTypeGetProcessProperties,
    HcsOperationTypeModifyProcess,
    HcsOperationTypeCrash,
};

#define HCS_EVENT_OPERATION_CALLBACK 0x01000000
#define HCS_EVENT_SERVICE_DISCONNECT 0x02000000
#define HCS_EVENT_OPTION_ENABLE_OPERATION_CALLBACKS 1

#define HCS_INVALID_OPERATION_ID UINT64_MAX
#define HCS_INFINITE UINT32_MAX
#define GENERIC_ALL 0x10000000u

#define S_OK ((HRESULT)0)
#define E_NOTIMPL ((HRESULT)0x80004001)
#define E_UNEXPECTED ((HRESULT)0x8000FFFF)
#define E_TOO_MANY_OPEN_FILES ((HRESULT)0x80070004)
#define E_INVALID_HANDLE ((HRESULT)0x80070006)
#define E_OUTOFMEMORY ((HRESULT)0x8007000E)
#define E_INVALIDARG ((HRESULT)0x80070057)
#define E_INSUFFICIENT_BUFFER ((HRESULT)0x8007007A)
#define HCS_E_INVALID_STATE ((HRESULT)0x80370105)
#define HCS_E_SERVICE_NOT_AVAILABLE ((HRESULT)0x80370114)
#define HCS_E_OPERATION_NOT_STARTED ((HRESULT)0x80370115)
#define HCS_E_OPERATION_ALREADY_STARTED ((HRESULT)0x80370116)
#define HCS_E_OPERATION_PENDING ((HRESULT)0x80370117)
#define HCS_E_OPERATION_TIMEOUT ((HRESULT)0x80370118)
#define HCS_E_OPERATION_SYSTEM_CALLBACK_ALREADY_SET ((HRESULT)0x80370119)
#define HCS_E_SERVICE_DISCONNECT ((HRESULT)0x8037011E)

#define FAILED(code) ((code) < 0)

#endif
