/* computecore.dll: compute systems and processes. */
#include "remote.h"

#define WAIT_GRACE 5000 /* the service enforces the timeout; this is for a service that does not answer */

static uint32_t with_grace(DWORD timeout) {
    return timeout < HCS_INFINITE - WAIT_GRACE ? timeout + WAIT_GRACE : HCS_INFINITE;
}

static HRESULT system_call(enum call call, HCS_SYSTEM system, HCS_OPERATION operation, int32_t type, PCWSTR document) {
    struct arguments arguments = {call, system, KIND_SYSTEM, TEXTS(document)};
    return call_tracked(&arguments, operation, type, NULL, 0);
}

static HRESULT process_call(enum call call, HCS_PROCESS process, HCS_OPERATION operation, int32_t type,
                            PCWSTR document) {
    struct arguments arguments = {call, process, KIND_PROCESS, TEXTS(document)};
    return call_tracked(&arguments, operation, type, NULL, 0);
}

HCS_EXPORT HRESULT WINAPI HcsEnumerateComputeSystems(PCWSTR query, HCS_OPERATION operation) {
    struct arguments arguments = {.call = CALL_HcsEnumerateComputeSystems, TEXTS(query)};
    return call_tracked(&arguments, operation, HcsOperationTypeEnumerate, NULL, 0);
}

HCS_EXPORT HRESULT WINAPI HcsCreateComputeSystem(PCWSTR id, PCWSTR configuration, HCS_OPERATION operation,
                                                 const void *security, HCS_SYSTEM *system) {
    if (system == NULL)
        return E_INVALIDARG;
    *system = NULL;
    if (id == NULL || configuration == NULL || security != NULL)
        return E_INVALIDARG;
    struct arguments arguments = {.call = CALL_HcsCreateComputeSystem, TEXTS(id, configuration)};
    return call_tracked(&arguments, operation, HcsOperationTypeCreate, system, KIND_SYSTEM);
}

HCS_EXPORT HRESULT WINAPI HcsOpenComputeSystem(PCWSTR id, DWORD access, HCS_SYSTEM *system) {
    if (system == NULL)
        return E_INVALIDARG;
    *system = NULL;
    if (id == NULL || access != GENERIC_ALL)
        return E_INVALIDARG;
    struct arguments arguments = {.call = CALL_HcsOpenComputeSystem, .number = access, TEXTS(id)};
    return call_to_open(&arguments, KIND_SYSTEM, system, NULL);
}

HCS_EXPORT void WINAPI HcsCloseComputeSystem(HCS_SYSTEM system) { remote_close(system, KIND_SYSTEM); }

HCS_EXPORT HRESULT WINAPI HcsStartComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options) {
    return system_call(CALL_HcsStartComputeSystem, system, operation, HcsOperationTypeStart, options);
}

HCS_EXPORT HRESULT WINAPI HcsShutDownComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options) {
    return system_call(CALL_HcsShutDownComputeSystem, system, operation, HcsOperationTypeShutdown, options);
}

HCS_EXPORT HRESULT WINAPI HcsTerminateComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options) {
    return system_call(CALL_HcsTerminateComputeSystem, system, operation, HcsOperationTypeTerminate, options);
}

HCS_EXPORT HRESULT WINAPI HcsCrashComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options) {
    return system_call(CALL_HcsCrashComputeSystem, system, operation, HcsOperationTypeCrash, options);
}

HCS_EXPORT HRESULT WINAPI HcsPauseComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options) {
    return system_call(CALL_HcsPauseComputeSystem, system, operation, HcsOperationTypePause, options);
}

HCS_EXPORT HRESULT WINAPI HcsResumeComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options) {
    return system_call(CALL_HcsResumeComputeSystem, system, operation, HcsOperationTypeResume, options);
}

HCS_EXPORT HRESULT WINAPI HcsSaveComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR options) {
    return system_call(CALL_HcsSaveComputeSystem, system, operation, HcsOperationTypeSave, options);
}

HCS_EXPORT HRESULT WINAPI HcsGetComputeSystemProperties(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR query) {
    return system_call(CALL_HcsGetComputeSystemProperties, system, operation, HcsOperationTypeGetProperties, query);
}

HCS_EXPORT HRESULT WINAPI HcsModifyComputeSystem(HCS_SYSTEM system, HCS_OPERATION operation, PCWSTR configuration,
                                                 HANDLE identity) {
    struct arguments arguments = {CALL_HcsModifyComputeSystem, system, KIND_SYSTEM, (uintptr_t)identity,
                                  TEXTS(configuration)};
    return call_tracked(&arguments, operation, HcsOperationTypeModify, NULL, 0);
}

HCS_EXPORT HRESULT WINAPI HcsWaitForComputeSystemExit(HCS_SYSTEM system, DWORD timeout, PWSTR *document) {
    struct arguments arguments = {CALL_HcsWaitForComputeSystemExit, system, KIND_SYSTEM, .number = timeout};
    return call_for_document(&arguments, with_grace(timeout), document);
}

HCS_EXPORT HRESULT WINAPI HcsSetComputeSystemCallback(HCS_SYSTEM system, int32_t options, const void *context,
                                                      HCS_EVENT_CALLBACK callback) {
    return remote_set_callback(system, KIND_SYSTEM, CALL_HcsSetComputeSystemCallback, (uint32_t)options,
                               (void *)(uintptr_t)context, callback);
}

HCS_EXPORT HRESULT WINAPI HcsCreateProcess(HCS_SYSTEM system, PCWSTR parameters, HCS_OPERATION operation,
                                           const void *security, HCS_PROCESS *process) {
    if (process == NULL)
        return E_INVALIDARG;
    *process = NULL;
    if (parameters == NULL || security != NULL)
        return E_INVALIDARG;
    struct arguments arguments = {CALL_HcsCreateProcess, system, KIND_SYSTEM, TEXTS(parameters)};
    return call_tracked(&arguments, operation, HcsOperationTypeCreateProcess, process, KIND_PROCESS);
}

HCS_EXPORT HRESULT WINAPI HcsOpenProcess(HCS_SYSTEM system, DWORD pid, DWORD access, HCS_PROCESS *process) {
    if (process == NULL)
        return E_INVALIDARG;
    *process = NULL;
    if (access != GENERIC_ALL)
        return E_INVALIDARG;
    struct arguments arguments = {CALL_HcsOpenProcess, system, KIND_SYSTEM, .number = pid};
    return call_to_open(&arguments, KIND_PROCESS, process, NULL);
}

HCS_EXPORT void WINAPI HcsCloseProcess(HCS_PROCESS process) { remote_close(process, KIND_PROCESS); }

HCS_EXPORT HRESULT WINAPI HcsTerminateProcess(HCS_PROCESS process, HCS_OPERATION operation, PCWSTR options) {
    return process_call(CALL_HcsTerminateProcess, process, operation, HcsOperationTypeSignalProcess, options);
}

HCS_EXPORT HRESULT WINAPI HcsSignalProcess(HCS_PROCESS process, HCS_OPERATION operation, PCWSTR options) {
    return process_call(CALL_HcsSignalProcess, process, operation, HcsOperationTypeSignalProcess, options);
}

HCS_EXPORT HRESULT WINAPI HcsGetProcessInfo(HCS_PROCESS process, HCS_OPERATION operation) {
    struct arguments arguments = {CALL_HcsGetProcessInfo, process, KIND_PROCESS, .number = 0};
    return call_tracked(&arguments, operation, HcsOperationTypeGetProcessInfo, NULL, 0);
}

HCS_EXPORT HRESULT WINAPI HcsGetProcessProperties(HCS_PROCESS process, HCS_OPERATION operation, PCWSTR query) {
    return process_call(CALL_HcsGetProcessProperties, process, operation, HcsOperationTypeGetProcessProperties, query);
}

HCS_EXPORT HRESULT WINAPI HcsModifyProcess(HCS_PROCESS process, HCS_OPERATION operation, PCWSTR settings) {
    return process_call(CALL_HcsModifyProcess, process, operation, HcsOperationTypeModifyProcess, settings);
}

HCS_EXPORT HRESULT WINAPI HcsWaitForProcessExit(HCS_PROCESS process, DWORD timeout, PWSTR *document) {
    struct arguments arguments = {CALL_HcsWaitForProcessExit, process, KIND_PROCESS, .number = timeout};
    return call_for_document(&arguments, with_grace(timeout), document);
}

HCS_EXPORT HRESULT WINAPI HcsSetProcessCallback(HCS_PROCESS process, int32_t options, void *context,
                                                HCS_EVENT_CALLBACK callback) {
    return remote_set_callback(process, KIND_PROCESS, CALL_HcsSetProcessCallback, (uint32_t)options, context, callback);
}
