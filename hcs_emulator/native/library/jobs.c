/* ntdll.dll: the job object of a container, by its name in the object manager (\Container_<id>). Not built for
   Windows, whose ntdll is used there. */
#ifndef _WIN32
#include <stdlib.h>
#include <string.h>

#include "call.h"

typedef struct {
    uint16_t Length, MaximumLength; /* in bytes */
    PWSTR Buffer;                   /* not terminated */
} OBJECT_NAME;

typedef struct {
    ULONG Length;
    HANDLE RootDirectory;
    OBJECT_NAME *ObjectName;
    ULONG Attributes;
    void *SecurityDescriptor, *SecurityQualityOfService;
} ATTRIBUTES;

/* The handle is the name; every call looks up the container. */
HCS_EXPORT int32_t WINAPI NtOpenJobObject(HANDLE *job, uint32_t access, const ATTRIBUTES *attributes) {
    if (job == NULL || attributes == NULL || attributes->Length != sizeof *attributes || attributes->ObjectName == NULL)
        return E_INVALIDARG;
    const OBJECT_NAME *name = attributes->ObjectName;
    char16_t *copy = calloc(name->Length / sizeof(char16_t) + 1, sizeof(char16_t));
    if (copy == NULL)
        return E_OUTOFMEMORY;
    memcpy(copy, name->Buffer, name->Length / sizeof(char16_t) * sizeof(char16_t));
    struct arguments arguments = {.call = CALL_NtOpenJobObject, .number = access, TEXTS(copy)};
    HRESULT code = call_simple(&arguments);
    if (FAILED(code))
        free(copy);
    else
        *job = (HANDLE)copy;
    return code;
}

/* The information is sent as hexadecimal digits. */
HCS_EXPORT int32_t WINAPI NtSetInformationJobObject(HANDLE job, int32_t class, const uint8_t *information,
                                                    ULONG length) {
    static const char digits[] = "0123456789abcdef";
    if (job == NULL || information == NULL || length > 4096)
        return E_INVALIDARG;
    char16_t *text = calloc((size_t)length * 2 + 1, sizeof(char16_t));
    if (text == NULL)
        return E_OUTOFMEMORY;
    for (ULONG index = 0; index < length; index++) {
        text[2 * index] = (char16_t)digits[information[index] >> 4];
        text[2 * index + 1] = (char16_t)digits[information[index] & 15];
    }
    struct arguments arguments = {.call = CALL_NtSetInformationJobObject, .number = (uint64_t)class,
                                  TEXTS((PCWSTR)job, text)};
    HRESULT code = call_simple(&arguments);
    free(text);
    return code;
}

HCS_EXPORT int32_t WINAPI NtClose(HANDLE job) {
    free(job);
    return 0;
}
#endif
