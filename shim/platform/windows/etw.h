/* Event Tracing for Windows, as cffi reads it (cffi_build.py turns this into _etw_cffi.py). See evntprov.h. */
typedef struct {
    uint32_t Data1;
    uint16_t Data2, Data3;
    uint8_t Data4[8];
} GUID;
typedef struct {
    uint16_t Id;
    uint8_t Version, Channel, Level, Opcode;
    uint16_t Task;
    uint64_t Keyword;
} EVENT_DESCRIPTOR;
typedef struct {
    uint64_t Ptr;
    uint32_t Size;
    uint8_t Type, Reserved1;
    uint16_t Reserved2;
} EVENT_DATA_DESCRIPTOR;
typedef void EnableCallback(const GUID *source, uint32_t state, uint8_t level, uint64_t any, uint64_t all, void *filter, void *context);
uint32_t EventRegister(const GUID *provider, EnableCallback *callback, void *context, uint64_t *handle);
uint32_t EventUnregister(uint64_t handle);
uint32_t EventSetInformation(uint64_t handle, uint32_t kind, const void *information, uint32_t size);
uint32_t EventWriteTransfer(uint64_t handle, const EVENT_DESCRIPTOR *descriptor, const GUID *activity, const GUID *related, uint32_t count,
                            EVENT_DATA_DESCRIPTOR *data);
