"""The exports of the compute DLLs, and the sizes of the structures that are passed to them."""

from __future__ import annotations

from typing import Any

from runhcs.selftest.runner import Context, Step, StepFailed
from shim.hcs_bindings import library
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.windows_version import windows_build

# The functions of hcs.h, by DLL.
EXPORTS: dict[str, tuple[str, ...]] = {
    "computecore": (
        "HcsCreateOperation", "HcsCloseOperation", "HcsGetOperationType", "HcsGetOperationId", "HcsGetOperationResult",
        "HcsGetOperationResultAndProcessInfo", "HcsWaitForOperationResult", "HcsWaitForOperationResultAndProcessInfo",
        "HcsCancelOperation", "HcsEnumerateComputeSystems", "HcsCreateComputeSystem", "HcsOpenComputeSystem",
        "HcsCloseComputeSystem", "HcsStartComputeSystem", "HcsShutDownComputeSystem", "HcsTerminateComputeSystem",
        "HcsCrashComputeSystem", "HcsPauseComputeSystem", "HcsResumeComputeSystem", "HcsSaveComputeSystem",
        "HcsGetComputeSystemProperties", "HcsModifyComputeSystem", "HcsSetComputeSystemCallback", "HcsCreateProcess",
        "HcsOpenProcess", "HcsCloseProcess", "HcsTerminateProcess", "HcsSignalProcess", "HcsGetProcessInfo",
        "HcsGetProcessProperties", "HcsModifyProcess", "HcsSetProcessCallback", "HcsGetServiceProperties",
        "HcsModifyServiceSettings", "HcsSubmitWerReport", "HcsGrantVmAccess", "HcsRevokeVmAccess",
        "HcsGrantVmGroupAccess", "HcsRevokeVmGroupAccess",
    ),
    "computestorage": (
        "HcsImportLayer", "HcsExportLayer", "HcsDestroyLayer", "HcsSetupBaseOSLayer", "HcsSetupBaseOSVolume",
        "HcsInitializeWritableLayer", "HcsAttachLayerStorageFilter", "HcsDetachLayerStorageFilter",
        "HcsAttachOverlayFilter", "HcsDetachOverlayFilter", "HcsFormatWritableLayerVhd", "HcsGetLayerVhdMountPath",
    ),
    "vmcompute": (
        "ActivateLayer", "DeactivateLayer", "PrepareLayer", "UnprepareLayer", "CreateSandboxLayer",
        "ExpandSandboxSize", "GetLayerMountPath", "LayerExists", "DestroyLayer", "CreateLayer", "NameToGuid",
        "GrantVmAccess", "HNSCall",
    ),
    "computenetwork": (
        "HcnEnumerateNamespaces", "HcnOpenNamespace", "HcnCloseNamespace", "HcnQueryNamespaceProperties",
        "HcnCreateNamespace", "HcnModifyNamespace", "HcnDeleteNamespace", "HcnEnumerateEndpoints", "HcnOpenEndpoint",
        "HcnCloseEndpoint", "HcnQueryEndpointProperties", "HcnCreateEndpoint", "HcnModifyEndpoint",
        "HcnDeleteEndpoint", "HcnEnumerateNetworks", "HcnOpenNetwork", "HcnCloseNetwork", "HcnQueryNetworkProperties",
        "HcnCreateNetwork", "HcnDeleteNetwork",
    ),
    "kernel32": ("LocalFree", "CloseHandle"),
    "ole32": ("CoTaskMemFree",),
    "ntdll": ("RtlGetVersion", "NtOpenJobObject", "NtSetInformationJobObject", "NtClose"),
    "cimfs": ("CimMountImage", "CimMergeMountImage", "CimDismountImage"),
    "virtdisk": ("CreateVirtualDisk",),
}  # fmt: skip
# Functions that Server 2019 does not export, and the build from which on the shim relies on them. 0: optional in every
# build, the shim reports it if an image needs them.
NEWER = {
    "HcsGrantVmGroupAccess": 20348, "HcsRevokeVmGroupAccess": 20348, "HcsSetupBaseOSVolume": 20348,
    "HcsAttachOverlayFilter": 0, "HcsDetachOverlayFilter": 0,
    "CimMountImage": 0, "CimMergeMountImage": 0, "CimDismountImage": 0,
}  # fmt: skip
# Bytes on x64 and arm64.
SIZES = {
    "GUID": 16, "HCS_EVENT": 24, "HCS_PROCESS_INFORMATION": 32, "WC_LAYER_DESCRIPTOR": 32, "DriverInfo": 16,
    "RTL_OSVERSIONINFOW": 276, "UNICODE_STRING": 16, "OBJECT_ATTRIBUTES": 48, "GROUP_AFFINITY": 16,
    "CIMFS_IMAGE_PATH": 16, "VIRTUAL_STORAGE_TYPE": 20, "CREATE_VIRTUAL_DISK_VERSION2": 120,
    "CREATE_VIRTUAL_DISK_PARAMETERS": 128,
}  # fmt: skip
JOB_SIZES = {
    "BASIC_LIMITS": 64, "EXTENDED_LIMITS": 144, "BASIC_ACCOUNTING": 48, "ACCOUNTING": 96, "STARTUP": 112,
    "PROCESS_INFO": 24, "GROUP_MASK": 16, "IO_RATE": 40, "USER_INFO": 56, "SYSTEM_PROCESS_INFORMATION": 208,
}  # fmt: skip


def exports(context: Context) -> str:
    build = windows_build()
    missing: list[str] = []
    optional: list[str] = []
    for dll, names in EXPORTS.items():
        module: Any = getattr(library, dll)
        for name in names:
            try:
                found = library.has(module, name)
            except HcsError:  # the DLL itself is missing
                found = False
            if not found:
                needed_from = NEWER.get(name, 1)
                (missing if needed_from and build >= needed_from else optional).append(f"{dll}!{name}")
    context.details["missing"] = missing
    context.details["missing optional"] = optional
    if missing:
        raise StepFailed(f"missing: {', '.join(missing)}", "Install-WindowsFeature Containers; install all updates")
    count = sum(map(len, EXPORTS.values()))
    others = f"; {len(optional)} others are optional in build {build}" if optional else ""
    return f"{count - len(optional)} functions{others}"


def structures(context: Context) -> str:
    from shim.platform.windows import _jobs_cffi

    job_ffi: Any = _jobs_cffi.ffi
    wrong = [f"{name} has {ffi.sizeof(name)} bytes, not {size}" for name, size in SIZES.items()
             if ffi.sizeof(name) != size]  # fmt: skip
    wrong += [f"{name} has {job_ffi.sizeof(name)} bytes, not {size}" for name, size in JOB_SIZES.items()
              if job_ffi.sizeof(name) != size]  # fmt: skip
    if wrong:
        raise StepFailed("; ".join(wrong), "use the distribution for this architecture")
    return f"{len(SIZES) + len(JOB_SIZES)} structures have the sizes of 64-bit Windows"


STEPS = [
    Step("exports", "the compute DLLs export every function that this build must have", exports),
    Step("structures", "the structures passed to Windows have its sizes", structures),
]
