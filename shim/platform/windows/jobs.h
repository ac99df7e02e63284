/* What jobs of processes need of Windows, as cffi reads it (cffi_build.py turns this into _jobs_cffi.py). */
typedef void *HANDLE;
typedef const char16_t *PCWSTR;

/* kernel32.dll: job objects */
typedef struct {
    int64_t PerProcessUserTimeLimit, PerJobUserTimeLimit;
    uint32_t LimitFlags;
    size_t MinimumWorkingSetSize, MaximumWorkingSetSize;
    uint32_t ActiveProcessLimit;
    uintptr_t Affinity;
    uint32_t PriorityClass, SchedulingClass;
} BASIC_LIMITS;
typedef struct { uint64_t ReadOperations, WriteOperations, OtherOperations, ReadBytes, WriteBytes, OtherBytes; } IO_COUNTERS;
typedef struct { BASIC_LIMITS Basic; IO_COUNTERS Io; size_t ProcessMemory, JobMemory, PeakProcessMemory, PeakJobMemory; } EXTENDED_LIMITS;
typedef struct {
    int64_t TotalUserTime, TotalKernelTime, PeriodUserTime, PeriodKernelTime;
    uint32_t PageFaults, TotalProcesses, ActiveProcesses, TerminatedProcesses;
} BASIC_ACCOUNTING;
typedef struct { BASIC_ACCOUNTING Basic; IO_COUNTERS Io; } ACCOUNTING;
typedef struct { uintptr_t Count; uint64_t QueueTime, ServiceTime, Size; } IO_ATTRIBUTION_STATS;
typedef struct { uint32_t ControlFlags; IO_ATTRIBUTION_STATS Read, Write; } IO_ATTRIBUTION;
typedef struct { uint64_t JobMemory, PeakJobMemory; } MEMORY_USAGE;
typedef struct { uint32_t Assigned, Listed; uintptr_t Ids[]; } PROCESS_IDS;
typedef struct { void *Key; HANDLE Port; } COMPLETION_PORT;
typedef struct { uint32_t Flags, Value; } CPU_RATE;
typedef struct { int64_t MaxIops, MaxBandwidth, ReservationIops; PCWSTR Volume; uint32_t BaseIoSize, Flags; } IO_RATE;
typedef struct { uintptr_t Mask; uint16_t Group, Reserved[3]; } GROUP_MASK;
HANDLE CreateJobObjectW(void *attributes, PCWSTR name);
int32_t SetInformationJobObject(HANDLE job, int32_t kind, void *information, uint32_t length);
int32_t QueryInformationJobObject(HANDLE job, int32_t kind, void *information, uint32_t length, uint32_t *used);
int32_t AssignProcessToJobObject(HANDLE job, HANDLE process);
int32_t TerminateJobObject(HANDLE job, uint32_t code);
uint32_t SetIoRateControlInformationJobObject(HANDLE job, IO_RATE *information);
HANDLE CreateIoCompletionPort(HANDLE file, HANDLE port, uintptr_t key, uint32_t threads);
int32_t GetQueuedCompletionStatus(HANDLE port, uint32_t *bytes, uintptr_t *key, void **overlapped, uint32_t milliseconds);
int32_t PostQueuedCompletionStatus(HANDLE port, uint32_t bytes, uintptr_t key, void *overlapped);

/* kernel32.dll, advapi32.dll: processes */
typedef struct {
    uint32_t cb;
    char16_t *Reserved, *Desktop, *Title;
    uint32_t X, Y, XSize, YSize, XCountChars, YCountChars, FillAttribute, Flags;
    uint16_t ShowWindow, ReservedSize;
    void *ReservedData;
    HANDLE StdInput, StdOutput, StdError;
    void *Attributes;
} STARTUP;
typedef struct { HANDLE Process, Thread; uint32_t ProcessId, ThreadId; } PROCESS_INFO;
int32_t InitializeProcThreadAttributeList(void *list, uint32_t count, uint32_t flags, size_t *size);
int32_t UpdateProcThreadAttribute(void *list, uint32_t flags, uintptr_t attribute, void *value, size_t size, void *previous, size_t *used);
void DeleteProcThreadAttributeList(void *list);
int32_t CreateProcessW(PCWSTR program, char16_t *line, void *process, void *thread, int32_t inherit, uint32_t flags, void *environment,
                       PCWSTR directory, STARTUP *startup, PROCESS_INFO *info);
int32_t CreateProcessAsUserW(HANDLE token, PCWSTR program, char16_t *line, void *process, void *thread, int32_t inherit, uint32_t flags,
                             void *environment, PCWSTR directory, STARTUP *startup, PROCESS_INFO *info);
int32_t CreatePseudoConsole(uint32_t size, HANDLE input, HANDLE output, uint32_t flags, HANDLE *console);
int32_t ResizePseudoConsole(HANDLE console, uint32_t size);
void ClosePseudoConsole(HANDLE console);
HANDLE GetModuleHandleW(PCWSTR name);
void *GetProcAddress(HANDLE module, const char *name);
HANDLE CreateRemoteThread(HANDLE process, void *attributes, size_t stack, void *start, void *parameter, uint32_t flags, uint32_t *id);
int32_t SetConsoleCtrlHandler(void *handler, int32_t add);
HANDLE OpenProcess(uint32_t access, int32_t inherit, uint32_t pid);

/* advapi32.dll, userenv.dll, netapi32.dll: who they run as */
typedef struct {
    PCWSTR Name, Password;
    uint32_t PasswordAge, Privilege;
    PCWSTR HomeDirectory, Comment;
    uint32_t Flags;
    PCWSTR ScriptPath;
} USER_INFO;
typedef struct { PCWSTR Name, FullName, Comment; uint32_t Flags; void *Sid; } USER_SID;
typedef struct { void *Sid; } GROUP_MEMBER;
int32_t LogonUserW(PCWSTR user, PCWSTR domain, PCWSTR password, uint32_t type, uint32_t provider, HANDLE *token);
int32_t OpenProcessToken(HANDLE process, uint32_t access, HANDLE *token);
int32_t CreateEnvironmentBlock(void **block, HANDLE token, int32_t inherit);
int32_t DestroyEnvironmentBlock(void *block);
uint32_t NetLocalGroupGetInfo(PCWSTR server, PCWSTR group, uint32_t level, void **buffer);
uint32_t NetApiBufferFree(void *buffer);
uint32_t NetUserAdd(PCWSTR server, uint32_t level, void *info, uint32_t *wrong);
uint32_t NetUserGetInfo(PCWSTR server, PCWSTR user, uint32_t level, void **buffer);
uint32_t NetUserDel(PCWSTR server, PCWSTR user);
uint32_t NetLocalGroupAddMembers(PCWSTR server, PCWSTR group, uint32_t level, void *members, uint32_t count);

/* bindfltapi.dll, kernel32.dll: files at other places */
int32_t BfSetupFilter(HANDLE job, uint32_t flags, PCWSTR root, PCWSTR target, PCWSTR *exceptions, uint32_t count);
int32_t SetVolumeMountPointW(PCWSTR directory, PCWSTR volume);
int32_t DeleteVolumeMountPointW(PCWSTR directory);

/* ntdll.dll: what all processes use */
typedef struct { uint16_t Length, MaximumLength; char16_t *Buffer; } COUNTED_STRING;
typedef struct {
    uint32_t NextEntryOffset, Threads;
    int64_t WorkingSetPrivateSize;
    uint32_t HardFaults, MostThreads;
    uint64_t CycleTime;
    int64_t CreateTime, UserTime, KernelTime;
    COUNTED_STRING ImageName;
    int32_t BasePriority;
    uintptr_t ProcessId, ParentId;
    uint32_t Handles, Session;
    uintptr_t Key;
    size_t PeakVirtualSize, VirtualSize;
    uint32_t PageFaults;
    size_t PeakWorkingSetSize, WorkingSetSize, PeakPagedPool, PagedPool, PeakNonPagedPool, NonPagedPool, PagefileUsage, PeakPagefileUsage,
        PrivatePageCount;
} SYSTEM_PROCESS_INFORMATION;
typedef struct {
    size_t PeakVirtualSize, VirtualSize;
    uint32_t PageFaults;
    size_t PeakWorkingSetSize, WorkingSetSize, PeakPagedPool, PagedPool, PeakNonPagedPool, NonPagedPool, PagefileUsage, PeakPagefileUsage,
        PrivateUsage, PrivateWorkingSetSize;
    uint64_t SharedCommitUsage;
} VM_COUNTERS;
int32_t NtQueryInformationProcess(HANDLE process, int32_t kind, void *information, uint32_t length, uint32_t *used);
int32_t NtQuerySystemInformation(int32_t kind, void *information, uint32_t length, uint32_t *used);
