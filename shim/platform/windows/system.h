/* The calls of Windows that Python does not offer, as cffi reads them (cffi_build.py turns this into _system_cffi.py). */
typedef struct {
    uint32_t nLength;
    void *lpSecurityDescriptor;
    int32_t bInheritHandle;
} SECURITY_ATTRIBUTES;
int32_t ConvertStringSecurityDescriptorToSecurityDescriptorW(const char16_t *text, uint32_t revision, void **descriptor, uint32_t *size);
typedef struct { void *Multiple; int32_t Operation, Form, Type; void *Name; } TRUSTEE;
typedef struct { uint32_t Permissions, Mode, Inheritance; TRUSTEE Trustee; } EXPLICIT_ACCESS;
int32_t ConvertStringSidToSidW(const char16_t *text, void **sid);
uint32_t GetNamedSecurityInfoW(const char16_t *name, int32_t type, uint32_t information, void **owner, void **group, void **dacl,
                               void **sacl, void **descriptor);
uint32_t SetNamedSecurityInfoW(const char16_t *name, int32_t type, uint32_t information, void *owner, void *group, void *dacl,
                               void *sacl);
uint32_t SetEntriesInAclW(uint32_t count, EXPLICIT_ACCESS *entries, void *old, void **created);
void *LocalFree(void *memory);
uint32_t GetFinalPathNameByHandleW(void *file, char16_t *path, uint32_t characters, uint32_t flags);
void *LoadLibraryExW(const char16_t *path, void *file, uint32_t flags);
void *CreateFileW(const char16_t *name, uint32_t access, uint32_t sharing, void *attributes, uint32_t disposition, uint32_t flags,
                  void *template_file);
int32_t DeviceIoControl(void *device, uint32_t code, void *in, uint32_t in_size, void *out, uint32_t out_size, uint32_t *returned,
                        void *overlapped);
uint32_t GetTimeZoneInformation(void *information);
char16_t *GetCommandLineW(void);
int32_t GetNamedPipeClientProcessId(void *pipe, uint32_t *pid);
void *CreateEventW(void *attributes, int32_t manual, int32_t initial, const char16_t *name);
void *RegisterEventSourceW(const char16_t *server, const char16_t *source);
int32_t DeregisterEventSource(void *log);
int32_t ReportEventW(void *log, uint16_t type, uint16_t category, uint32_t event, void *user, uint16_t texts, uint32_t data_size,
                     const char16_t **text, void *data);

/* launcher/windows/crash_filter.c, exported by the launcher. */
void report_unhandled_exceptions_only(void);
