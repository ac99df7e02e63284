/* The calls of Windows that Python does not offer, as cffi reads them (cffi_build.py turns this into _system_cffi.py). */
typedef struct {
    uint32_t nLength;
    void *lpSecurityDescriptor;
    int32_t bInheritHandle;
} SECURITY_ATTRIBUTES;
int32_t ConvertStringSecurityDescriptorToSecurityDescriptorW(const char16_t *text, uint32_t revision, void **descriptor, uint32_t *size);
uint32_t GetFinalPathNameByHandleW(void *file, char16_t *path, uint32_t characters, uint32_t flags);
uint32_t GetTimeZoneInformation(void *information);
char16_t *GetCommandLineW(void);
