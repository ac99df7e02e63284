/* What the shim calls of Windows' compute libraries, as cffi reads it (cffi_build.py turns this into _hcs_cffi.py).
 *
 * One text for Windows and for the emulator: strings are char16_t, since wchar_t has 32 bits on Linux; an HRESULT has 32 bits
 * everywhere; WINAPI matters on 32-bit x86 only and is written down all the same. A function that is declared here and missing in
 * a library is no error until it is called.
 */
typedef int32_t HRESULT;
typedef uint32_t DWORD;
typedef uint32_t ULONG;
typedef void *HANDLE;
typedef const char16_t *PCWSTR;
typedef char16_t *PWSTR;
typedef struct { uint32_t Data1; uint16_t Data2; uint16_t Data3; uint8_t Data4[8]; } GUID;

typedef void *HCS_SYSTEM;
typedef void *HCS_PROCESS;
typedef void *HCS_OPERATION;

typedef struct {
    int32_t Type;
    PCWSTR EventData;
    HCS_OPERATION Operation;
} HCS_EVENT;

typedef struct {
    DWORD ProcessId;
    DWORD Reserved;
    HANDLE StdInput;
    HANDLE StdOutput;
    HANDLE StdError;
} HCS_PROCESS_INFORMATION;

typedef struct { GUID LayerId; ULONG Flags; PCWSTR Path; } WC_LAYER_DESCRIPTOR;
typedef struct { int32_t Flavour; PCWSTR HomeDir; } DriverInfo;

typedef void (WINAPI *HCS_EVENT_CALLBACK)(HCS_EVENT *event, void *context);
typedef void (WINAPI *HCS_OPERATION_COMPLETION)(HCS_OPERATION operation, void *context);

/* computecore.dll: operations */
HCS_OPERATION WINAPI HcsCreateOperation(const void *context, HCS_OPERATION_COMPLETION callback);
void WINAPI HcsCloseOperation(HCS_OPERATION operation);
int32_t WINAPI HcsGetOperationType(HCS_OPERATION operation);
uint64_t WINAPI HcsGetOperationId(HCS_OPERATION operation);
HRESULT WINAPI HcsGetOperationResult(HCS_OPERATION operation, PWSTR *document);
HRESULT WINAPI HcsGetOperationResultAndProcessInfo(HCS_OPERATION operation, HCS_PROCESS_INFORMATION *info, PWSTR *document);
HRESULT WINAPI HcsWaitForOperationResult(HCS_OPERATION operation, DWORD timeout, PWSTR *document);
HRESULT WINAPI HcsWaitForOperationResultAndProcessInfo(HCS_OPERATION operation, DWORD timeout,
                                                       HCS_PROCESS_INFORMATION *info, PWSTR *document);
HRESULT WINAPI HcsCancelOperation(HCS_OPERATION operation);

/* computecore.dll: compute systems */
HRESULT WINAPI HcsEnumerateComputeSystems(PCWSTR query, HCS_OPERATION operation);
HRESULT WINAPI HcsCreateComputeSystem(PCWSTR id, PCWSTR configuration, HCS_OPERATION operation,
                                      const void *security_descriptor, HCS_SYSTEM *system);
HRESULT WINAPI HcsOpenComputeSystem(PCWSTR id, DWORD access, HCS_SYSTEM *system);
void WINAPI HcsCloseComputeSystem(HCS_SYSTEM system);
HRESULT WINAPI HcsStartComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsShutDownComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsTerminateComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsCrashComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsPauseComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsResumeComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsSaveComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsGetComputeSystemProperties(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR query);
HRESULT WINAPI HcsModifyComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR configuration, HANDLE identity);
HRESULT WINAPI HcsSetComputeSystemCallback(HCS_SYSTEM system, int32_t options, const void *context, HCS_EVENT_CALLBACK callback);

/* computecore.dll: processes */
HRESULT WINAPI HcsCreateProcess(HCS_SYSTEM system, PCWSTR parameters, HCS_OPERATION operation,
                                const void *security_descriptor, HCS_PROCESS *process);
HRESULT WINAPI HcsOpenProcess(HCS_SYSTEM system, DWORD pid, DWORD access, HCS_PROCESS *process);
void WINAPI HcsCloseProcess(HCS_PROCESS process);
HRESULT WINAPI HcsTerminateProcess(HCS_PROCESS process, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsSignalProcess(HCS_PROCESS process, HCS_OPERATION operation, PCWSTR options);
HRESULT WINAPI HcsGetProcessInfo(HCS_PROCESS process, HCS_OPERATION operation);
HRESULT WINAPI HcsGetProcessProperties(HCS_PROCESS process, HCS_OPERATION operation, PCWSTR query);
HRESULT WINAPI HcsModifyProcess(HCS_PROCESS process, HCS_OPERATION operation, PCWSTR settings);
HRESULT WINAPI HcsSetProcessCallback(HCS_PROCESS process, int32_t options, void *context, HCS_EVENT_CALLBACK callback);

/* computecore.dll: the service, access of virtual machines to files */
HRESULT WINAPI HcsGetServiceProperties(PCWSTR query, PWSTR *result);
HRESULT WINAPI HcsModifyServiceSettings(PCWSTR settings, PWSTR *result);
HRESULT WINAPI HcsSubmitWerReport(PCWSTR settings);
HRESULT WINAPI HcsGrantVmAccess(PCWSTR vm_id, PCWSTR path);
HRESULT WINAPI HcsRevokeVmAccess(PCWSTR vm_id, PCWSTR path);
HRESULT WINAPI HcsGrantVmGroupAccess(PCWSTR path);
HRESULT WINAPI HcsRevokeVmGroupAccess(PCWSTR path);

/* computestorage.dll */
HRESULT WINAPI HcsImportLayer(PCWSTR layer_path, PCWSTR source_folder, PCWSTR layer_data);
HRESULT WINAPI HcsExportLayer(PCWSTR layer_path, PCWSTR export_folder, PCWSTR layer_data, PCWSTR options);
HRESULT WINAPI HcsDestroyLayer(PCWSTR layer_path);
HRESULT WINAPI HcsSetupBaseOSLayer(PCWSTR layer_path, HANDLE vhd, PCWSTR options);
HRESULT WINAPI HcsSetupBaseOSVolume(PCWSTR layer_path, PCWSTR volume_path, PCWSTR options);
HRESULT WINAPI HcsInitializeWritableLayer(PCWSTR path, PCWSTR layer_data, PCWSTR options);
HRESULT WINAPI HcsAttachLayerStorageFilter(PCWSTR layer_path, PCWSTR layer_data);
HRESULT WINAPI HcsDetachLayerStorageFilter(PCWSTR layer_path);
HRESULT WINAPI HcsAttachOverlayFilter(PCWSTR volume_path, PCWSTR layer_data);
HRESULT WINAPI HcsDetachOverlayFilter(PCWSTR volume_path, PCWSTR layer_data);
HRESULT WINAPI HcsFormatWritableLayerVhd(HANDLE vhd);
HRESULT WINAPI HcsGetLayerVhdMountPath(HANDLE vhd, PWSTR *mount_path);

/* vmcompute.dll: layers under the filter driver, HNS, file access */
HRESULT WINAPI ActivateLayer(DriverInfo *info, PCWSTR id);
HRESULT WINAPI DeactivateLayer(DriverInfo *info, PCWSTR id);
HRESULT WINAPI PrepareLayer(DriverInfo *info, PCWSTR id, WC_LAYER_DESCRIPTOR *parents, ULONG count);
HRESULT WINAPI UnprepareLayer(DriverInfo *info, PCWSTR id);
HRESULT WINAPI CreateSandboxLayer(DriverInfo *info, PCWSTR id, PCWSTR parent, WC_LAYER_DESCRIPTOR *parents, ULONG count);
HRESULT WINAPI ExpandSandboxSize(DriverInfo *info, PCWSTR id, uint64_t size);
HRESULT WINAPI GetLayerMountPath(DriverInfo *info, PCWSTR id, size_t *length, PWSTR buffer);
HRESULT WINAPI LayerExists(DriverInfo *info, PCWSTR id, ULONG *exists);
HRESULT WINAPI DestroyLayer(DriverInfo *info, PCWSTR id);
HRESULT WINAPI CreateLayer(DriverInfo *info, PCWSTR id, PCWSTR parent);
HRESULT WINAPI NameToGuid(PCWSTR name, GUID *guid);
HRESULT WINAPI GrantVmAccess(PCWSTR vm_id, PCWSTR path);
HRESULT WINAPI HNSCall(PCWSTR method, PCWSTR path, PCWSTR body, PWSTR *response);

/* computenetwork.dll */
HRESULT WINAPI HcnEnumerateNamespaces(PCWSTR query, PWSTR *ids, PWSTR *error);
HRESULT WINAPI HcnOpenNamespace(const GUID *id, HANDLE *handle, PWSTR *error);
HRESULT WINAPI HcnCloseNamespace(HANDLE handle);
HRESULT WINAPI HcnQueryNamespaceProperties(HANDLE handle, PCWSTR query, PWSTR *properties, PWSTR *error);
HRESULT WINAPI HcnCreateNamespace(const GUID *id, PCWSTR settings, HANDLE *handle, PWSTR *error);
HRESULT WINAPI HcnModifyNamespace(HANDLE handle, PCWSTR settings, PWSTR *error);
HRESULT WINAPI HcnDeleteNamespace(const GUID *id, PWSTR *error);
HRESULT WINAPI HcnEnumerateEndpoints(PCWSTR query, PWSTR *ids, PWSTR *error);
HRESULT WINAPI HcnOpenEndpoint(const GUID *id, HANDLE *handle, PWSTR *error);
HRESULT WINAPI HcnCloseEndpoint(HANDLE handle);
HRESULT WINAPI HcnQueryEndpointProperties(HANDLE handle, PCWSTR query, PWSTR *properties, PWSTR *error);
HRESULT WINAPI HcnCreateEndpoint(HANDLE network, const GUID *id, PCWSTR settings, HANDLE *handle, PWSTR *error);
HRESULT WINAPI HcnModifyEndpoint(HANDLE handle, PCWSTR settings, PWSTR *error);
HRESULT WINAPI HcnDeleteEndpoint(const GUID *id, PWSTR *error);
HRESULT WINAPI HcnEnumerateNetworks(PCWSTR query, PWSTR *ids, PWSTR *error);
HRESULT WINAPI HcnOpenNetwork(const GUID *id, HANDLE *handle, PWSTR *error);
HRESULT WINAPI HcnCloseNetwork(HANDLE handle);
HRESULT WINAPI HcnQueryNetworkProperties(HANDLE handle, PCWSTR query, PWSTR *properties, PWSTR *error);
HRESULT WINAPI HcnCreateNetwork(const GUID *id, PCWSTR settings, HANDLE *handle, PWSTR *error);
HRESULT WINAPI HcnDeleteNetwork(const GUID *id, PWSTR *error);

/* What frees the strings above: kernel32.dll for computecore and computestorage, ole32.dll for the others. */
HANDLE WINAPI LocalFree(HANDLE memory);
void WINAPI CoTaskMemFree(void *memory);

/* ntdll.dll: which build of Windows this is. An NTSTATUS. */
typedef struct { ULONG Size; ULONG Major; ULONG Minor; ULONG Build; ULONG Platform; char16_t ServicePack[128]; } RTL_OSVERSIONINFOW;
int32_t WINAPI RtlGetVersion(RTL_OSVERSIONINFOW *version);

/* ntdll.dll: the job object of a container, found by its name in the object manager. NTSTATUSes. */
typedef struct { uint16_t Length; uint16_t MaximumLength; char16_t *Buffer; } UNICODE_STRING;
typedef struct { ULONG Length; HANDLE RootDirectory; UNICODE_STRING *ObjectName; ULONG Attributes; void *SecurityDescriptor; void *SecurityQualityOfService; } OBJECT_ATTRIBUTES;
typedef struct { uint64_t Mask; uint16_t Group; uint16_t Reserved[3]; } GROUP_AFFINITY;
int32_t WINAPI NtOpenJobObject(HANDLE *job, ULONG access, OBJECT_ATTRIBUTES *attributes);
int32_t WINAPI NtSetInformationJobObject(HANDLE job, int32_t information_class, void *information, ULONG length);
int32_t WINAPI NtClose(HANDLE handle);

/* cimfs.dll: composite images as volumes. */
typedef struct { PCWSTR Directory; PCWSTR Name; } CIMFS_IMAGE_PATH;
HRESULT WINAPI CimMountImage(PCWSTR directory, PCWSTR name, ULONG flags, const GUID *volume);
HRESULT WINAPI CimMergeMountImage(uint32_t count, const CIMFS_IMAGE_PATH *images, ULONG flags, const GUID *volume);
HRESULT WINAPI CimDismountImage(const GUID *volume);

/* virtdisk.dll: files of virtual disks. Win32 codes. */
typedef struct { ULONG DeviceId; GUID VendorId; } VIRTUAL_STORAGE_TYPE;
typedef struct {
    GUID UniqueId;
    uint64_t MaximumSize;
    ULONG BlockSizeInBytes;
    ULONG SectorSizeInBytes;
    ULONG PhysicalSectorSizeInBytes;
    PCWSTR ParentPath;
    PCWSTR SourcePath;
    ULONG OpenFlags;
    VIRTUAL_STORAGE_TYPE ParentVirtualStorageType;
    VIRTUAL_STORAGE_TYPE SourceVirtualStorageType;
    GUID ResiliencyGuid;
} CREATE_VIRTUAL_DISK_VERSION2;
typedef struct { ULONG Version; CREATE_VIRTUAL_DISK_VERSION2 Version2; } CREATE_VIRTUAL_DISK_PARAMETERS;
DWORD WINAPI CreateVirtualDisk(const VIRTUAL_STORAGE_TYPE *type, PCWSTR path, ULONG access, const void *security_descriptor,
                               ULONG flags, ULONG provider_flags, const CREATE_VIRTUAL_DISK_PARAMETERS *parameters,
                               void *overlapped, HANDLE *disk);

/* kernel32.dll */
int32_t WINAPI CloseHandle(HANDLE handle);
