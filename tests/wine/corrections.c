/* bcryptprimitives.dll: functions that Windows programs need and Wine 8 lacks. Only tests use it; Windows has its own
   DLL of that name.

   Every Go program loads this DLL first, for ProcessPrng, and so does the emulator's computecore.dll. Functions of
   Wine's DLLs are looked up later, so DllMain redirects entries of their export tables to the functions below, which
   call the originals. They correct the following:

   - go-winio's listeners keep a first pipe instance to which no client may connect: it has no right to read or write.
     Wine connects the first client to it, which then gets no response. So corrected_create connects a client at once.
   - FileDispositionInformationEx returns "not implemented", which Go does not treat as "not supported": RemoveAll
     fails.
   - Wine has no Hyper-V sockets. They become TCP sockets of the loopback interface, and the port is written to the file
     where the emulator's guest reads it: <HCS_EMULATOR_DIR>/hvsock/<VM>/<service>.
   - Wine lacks the driver that maps the Hyper-V sockets of a container to its VM. An entry of it is a file of the
     emulator, <HCS_EMULATOR_DIR>/address-info-<GUID>, which has the entry's data and exists as long as the handle.
   - Wine attributes no I/O to jobs, limits none of their processors, and mounts no volumes at directories, which
     Microsoft's shim needs for a host process container. All succeed without an effect, for limits that Windows accepts
     and for a directory that exists.

   Built with BIND_FILTER it is bindfltapi.dll, without which containerd cannot remove a bundle. It reports no bindings. */
#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <windows.h>
#include <winternl.h>

#include <stdio.h>
#include <string.h>

#define NOT_IMPLEMENTED ((NTSTATUS)0xC0000002)
#define INVALID_INFO_CLASS ((NTSTATUS)0xC0000003)
#define DISPOSITION_EX 64
#define JOB_IO_ATTRIBUTION 42
#define JOB_CPU_RATE 15
#define RATE_ENABLE 1
#define RATE_BY_WEIGHT 2
#define RATE_HARD_CAP 4
#define AF_HYPERV 34
#define UPDATE_ADDRESS_INFO 0x21C004
#define ADDRESS_INFO_SIZE 52

#ifdef BIND_FILTER

__declspec(dllexport) HRESULT WINAPI BfSetupFilter(HANDLE job, ULONG flags, const WCHAR *root, const WCHAR *target, const WCHAR **except,
                                                   ULONG count) {
    (void)job, (void)flags, (void)root, (void)target, (void)except, (void)count;
    return E_NOTIMPL;
}

__declspec(dllexport) HRESULT WINAPI BfRemoveMapping(HANDLE job, const WCHAR *root) {
    (void)job, (void)root;
    return S_OK;
}

__declspec(dllexport) HRESULT WINAPI BfGetMappings(ULONG flags, HANDLE job, const WCHAR *root, void *user, ULONG *size, void *mappings) {
    (void)flags, (void)job, (void)root, (void)user;
    memset(mappings, 0, *size); /* a header with a count of zero */
    return S_OK;
}

#else

BOOLEAN NTAPI SystemFunction036(void *buffer, ULONG length); /* advapi32's RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T size) {
    while (size > 0) {
        ULONG part = size > 0x10000000 ? 0x10000000 : (ULONG)size;
        if (!SystemFunction036(data, part))
            return FALSE;
        data += part;
        size -= part;
    }
    return TRUE;
}

typedef NTSTATUS(NTAPI *CreatePipeFile)(HANDLE *handle, ULONG access, OBJECT_ATTRIBUTES *attributes, IO_STATUS_BLOCK *status, ULONG sharing,
                                        ULONG disposition, ULONG options, ULONG type, ULONG read_mode, ULONG completion, ULONG instances,
                                        ULONG inbound, ULONG outbound, LARGE_INTEGER *timeout);
typedef NTSTATUS(NTAPI *SetInformation)(HANDLE handle, IO_STATUS_BLOCK *status, void *data, ULONG size, ULONG kind);

static CreatePipeFile create_pipe_file;
static SetInformation set_information;

static NTSTATUS NTAPI corrected_create(HANDLE *handle, ULONG access, OBJECT_ATTRIBUTES *attributes, IO_STATUS_BLOCK *status, ULONG sharing,
                                       ULONG disposition, ULONG options, ULONG type, ULONG read_mode, ULONG completion, ULONG instances,
                                       ULONG inbound, ULONG outbound, LARGE_INTEGER *timeout) {
    /* go-winio 0.5 does not set it, and Wine has the directory only as \??\PIPE. */
    attributes->Attributes |= OBJ_CASE_INSENSITIVE;
    NTSTATUS result = create_pipe_file(handle, access, attributes, status, sharing, disposition, options, type, read_mode, completion,
                                       instances, inbound, outbound, timeout);
    if (result >= 0 && (access & (GENERIC_READ | GENERIC_WRITE | FILE_READ_DATA | FILE_WRITE_DATA)) == 0) {
        HANDLE client;
        IO_STATUS_BLOCK ignored;
        if (NtOpenFile(&client, SYNCHRONIZE | FILE_READ_ATTRIBUTES, attributes, &ignored, FILE_SHARE_READ | FILE_SHARE_WRITE, 0) >= 0)
            NtClose(client);
    }
    return result;
}

static NTSTATUS NTAPI corrected_set(HANDLE handle, IO_STATUS_BLOCK *status, void *data, ULONG size, ULONG kind) {
    NTSTATUS result = set_information(handle, status, data, size, kind);
    return kind == DISPOSITION_EX && result == NOT_IMPLEMENTED ? INVALID_INFO_CLASS : result;
}

/* -- jobs */

struct cpu_rate {
    DWORD flags, value;
};

typedef BOOL(WINAPI *SetJob)(HANDLE job, JOBOBJECTINFOCLASS kind, void *data, DWORD size);
typedef BOOL(WINAPI *QueryJob)(HANDLE job, JOBOBJECTINFOCLASS kind, void *data, DWORD size, DWORD *returned);
static SetJob set_job;
static QueryJob query_job;

/* A hard cap is 1 to 10000 hundredths of a percent, a weight 1 to 9. */
static BOOL is_valid_rate(const struct cpu_rate *rate, DWORD size) {
    if (size != sizeof *rate)
        return FALSE;
    if (!(rate->flags & RATE_ENABLE))
        return rate->flags == 0;
    DWORD most = rate->flags & RATE_BY_WEIGHT ? 9 : 10000;
    return !(rate->flags & RATE_BY_WEIGHT) != !(rate->flags & RATE_HARD_CAP) && rate->value >= 1 && rate->value <= most;
}

static BOOL WINAPI corrected_set_job(HANDLE job, JOBOBJECTINFOCLASS kind, void *data, DWORD size) {
    if ((int)kind == JOB_CPU_RATE) {
        if (is_valid_rate(data, size))
            return TRUE;
        SetLastError(ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    return (int)kind == JOB_IO_ATTRIBUTION || set_job(job, kind, data, size);
}

static BOOL WINAPI corrected_query_job(HANDLE job, JOBOBJECTINFOCLASS kind, void *data, DWORD size, DWORD *returned) {
    if ((int)kind != JOB_CPU_RATE)
        return query_job(job, kind, data, size, returned);
    if (size != sizeof(struct cpu_rate)) {
        SetLastError(ERROR_BAD_LENGTH);
        return FALSE;
    }
    memset(data, 0, size); /* no limit has been set */
    if (returned != NULL)
        *returned = size;
    return TRUE;
}

/* The files of a layer are not where they are mounted. */
static BOOL WINAPI corrected_mount(const WCHAR *point, const WCHAR *volume) {
    (void)volume;
    return GetFileAttributesW(point) != INVALID_FILE_ATTRIBUTES;
}

static BOOL WINAPI corrected_unmount(const WCHAR *point) {
    return GetFileAttributesW(point) != INVALID_FILE_ATTRIBUTES;
}

/* -- Hyper-V sockets */

struct hyperv_address {
    USHORT family, reserved;
    GUID vm, service;
};

typedef SOCKET(WSAAPI *MakeSocket)(int family, int type, int protocol);
typedef SOCKET(WSAAPI *MakeSocketWith)(int family, int type, int protocol, WSAPROTOCOL_INFOW *info, GROUP group, DWORD flags);
typedef int(WSAAPI *Bind)(SOCKET socket, const struct sockaddr *address, int size);

static MakeSocket make_socket;
static MakeSocketWith make_socket_with;
static Bind bind_socket;

static SOCKET set_nodelay(SOCKET created) {
    BOOL yes = TRUE;
    setsockopt(created, IPPROTO_TCP, TCP_NODELAY, (const char *)&yes, sizeof yes);
    return created;
}

static SOCKET WSAAPI corrected_socket(int family, int type, int protocol) {
    return family == AF_HYPERV ? set_nodelay(make_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP)) : make_socket(family, type, protocol);
}

static SOCKET WSAAPI corrected_socket_with(int family, int type, int protocol, WSAPROTOCOL_INFOW *info, GROUP group, DWORD flags) {
    if (family == AF_HYPERV)
        return set_nodelay(make_socket_with(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, 0, flags));
    return make_socket_with(family, type, protocol, info, group, flags);
}

static int write_guid(char *text, const GUID *guid) {
    return sprintf(text, "%08lx-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", guid->Data1, guid->Data2, guid->Data3, guid->Data4[0],
                   guid->Data4[1], guid->Data4[2], guid->Data4[3], guid->Data4[4], guid->Data4[5], guid->Data4[6], guid->Data4[7]);
}

/* Write the port for the emulator's guest, to a temporary file that is then renamed, so that no reader gets a part of
   it. FALSE: there is no such VM. */
static BOOL publish(const struct hyperv_address *address, unsigned port) {
    char directory[MAX_PATH] = "/run/hcs-emulator", path[MAX_PATH + 100], partial[MAX_PATH + 120];
    GetEnvironmentVariableA("HCS_EMULATOR_DIR", directory, sizeof directory);
    /* The root directory of Linux is Wine's drive Z:. */
    int length = snprintf(path, MAX_PATH, "%s%s/hvsock/", directory[0] == '/' ? "Z:" : "", directory);
    length += write_guid(path + length, &address->vm);
    path[length++] = '/';
    write_guid(path + length, &address->service);
    snprintf(partial, sizeof partial, "%s.%lu", path, GetCurrentThreadId());
    FILE *file = fopen(partial, "wb");
    if (file == NULL)
        return FALSE;
    fprintf(file, "%u", port);
    fclose(file);
    return MoveFileExA(partial, path, MOVEFILE_REPLACE_EXISTING);
}

static int WSAAPI corrected_bind(SOCKET socket, const struct sockaddr *address, int size) {
    if (size != sizeof(struct hyperv_address) || address->sa_family != AF_HYPERV)
        return bind_socket(socket, address, size);
    struct sockaddr_in local = {.sin_family = AF_INET};
    int local_size = sizeof local;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind_socket(socket, (struct sockaddr *)&local, sizeof local) != 0 || getsockname(socket, (struct sockaddr *)&local, &local_size) != 0)
        return SOCKET_ERROR;
    if (publish((const struct hyperv_address *)address, ntohs(local.sin_port)))
        return 0;
    WSASetLastError(WSAEADDRNOTAVAIL);
    return SOCKET_ERROR;
}

typedef HANDLE(WINAPI *OpenByName)(const WCHAR *name, DWORD access, DWORD sharing, SECURITY_ATTRIBUTES *security, DWORD disposition,
                                  DWORD flags, HANDLE template);
typedef BOOL(WINAPI *Control)(HANDLE device, DWORD code, void *in, DWORD in_size, void *out, DWORD out_size, DWORD *returned,
                              OVERLAPPED *overlapped);

static OpenByName open_file;
static Control control;

static HANDLE WINAPI corrected_open(const WCHAR *name, DWORD access, DWORD sharing, SECURITY_ATTRIBUTES *security, DWORD disposition,
                                    DWORD flags, HANDLE template) {
    static const WCHAR driver[] = L"\\\\.\\HvSocketSystem\\AddressInfo\\";
    enum { DRIVER = sizeof driver / sizeof *driver - 1 };
    if (name == NULL || wcsncmp(name, driver, DRIVER) != 0)
        return open_file(name, access, sharing, security, disposition, flags, template);
    if (disposition != CREATE_NEW || (access & (GENERIC_READ | GENERIC_WRITE)) != (GENERIC_READ | GENERIC_WRITE)) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return INVALID_HANDLE_VALUE;
    }
    WCHAR directory[MAX_PATH] = L"/run/hcs-emulator", path[MAX_PATH + 100];
    GetEnvironmentVariableW(L"HCS_EMULATOR_DIR", directory, MAX_PATH);
    swprintf(path, MAX_PATH + 100, L"%ls%ls/address-info-%ls", directory[0] == '/' ? L"Z:" : L"", directory, name + DRIVER);
    return open_file(path, access | DELETE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, security, CREATE_NEW,
                     flags | FILE_FLAG_DELETE_ON_CLOSE, NULL);
}

static BOOL WINAPI corrected_control(HANDLE device, DWORD code, void *in, DWORD in_size, void *out, DWORD out_size, DWORD *returned,
                                     OVERLAPPED *overlapped) {
    if (code != UPDATE_ADDRESS_INFO)
        return control(device, code, in, in_size, out, out_size, returned, overlapped);
    if (returned != NULL)
        *returned = 0;
    if (in_size != ADDRESS_INFO_SIZE) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    DWORD written;
    return WriteFile(device, in, in_size, &written, NULL);
}

/* -- redirection of exports */

/* Code that jumps to `target`, allocated above a module, because the export table has 32-bit offsets from its base. */
static BYTE *near_jump(BYTE *module, void *target) {
    BYTE *code = NULL;
    for (SIZE_T distance = 0x1000000; code == NULL && distance < 0x70000000; distance += 0x10000)
        code = VirtualAlloc(module + distance, 4096, MEM_RESERVE | MEM_COMMIT, PAGE_EXECUTE_READWRITE);
    if (code == NULL)
        return NULL;
    memcpy(code, "\x48\xB8", 2); /* mov rax, target */
    memcpy(code + 2, &target, sizeof target);
    memcpy(code + 10, "\xFF\xE0", 2); /* jmp rax */
    return code;
}

/* Redirect the export `name` to `target`. Returns the original function. */
static void *redirect(const WCHAR *library, const char *name, void *target) {
    BYTE *module = (BYTE *)GetModuleHandleW(library);
    void *original = (void *)GetProcAddress((HMODULE)module, name);
    IMAGE_NT_HEADERS *headers = (IMAGE_NT_HEADERS *)(module + ((IMAGE_DOS_HEADER *)module)->e_lfanew);
    IMAGE_EXPORT_DIRECTORY *exports =
        (IMAGE_EXPORT_DIRECTORY *)(module + headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT].VirtualAddress);
    DWORD *names = (DWORD *)(module + exports->AddressOfNames), *functions = (DWORD *)(module + exports->AddressOfFunctions);
    WORD *ordinals = (WORD *)(module + exports->AddressOfNameOrdinals);
    for (DWORD index = 0; index < exports->NumberOfNames; index++)
        if (strcmp((char *)module + names[index], name) == 0) {
            DWORD *entry = &functions[ordinals[index]], before;
            BYTE *jump = near_jump(module, target);
            if (jump == NULL || !VirtualProtect(entry, sizeof *entry, PAGE_READWRITE, &before))
                break;
            *entry = (DWORD)(jump - module);
            VirtualProtect(entry, sizeof *entry, before, &before);
            break;
        }
    return original;
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved) {
    (void)self, (void)reserved;
    if (reason == DLL_PROCESS_ATTACH) {
        create_pipe_file = (CreatePipeFile)redirect(L"ntdll.dll", "NtCreateNamedPipeFile", (void *)corrected_create);
        set_information = (SetInformation)redirect(L"ntdll.dll", "NtSetInformationFile", (void *)corrected_set);
        set_job = (SetJob)redirect(L"kernel32.dll", "SetInformationJobObject", (void *)corrected_set_job);
        query_job = (QueryJob)redirect(L"kernel32.dll", "QueryInformationJobObject", (void *)corrected_query_job);
        redirect(L"kernel32.dll", "SetVolumeMountPointW", (void *)corrected_mount);
        redirect(L"kernel32.dll", "DeleteVolumeMountPointW", (void *)corrected_unmount);
        make_socket = (MakeSocket)redirect(L"ws2_32.dll", "socket", (void *)corrected_socket);
        make_socket_with = (MakeSocketWith)redirect(L"ws2_32.dll", "WSASocketW", (void *)corrected_socket_with);
        bind_socket = (Bind)redirect(L"ws2_32.dll", "bind", (void *)corrected_bind);
        open_file = (OpenByName)redirect(L"kernel32.dll", "CreateFileW", (void *)corrected_open);
        control = (Control)redirect(L"kernel32.dll", "DeviceIoControl", (void *)corrected_control);
    }
    return TRUE;
}

#endif
