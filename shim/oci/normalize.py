"""Normalizes a spec before the container is created.

It decides the isolation, copies options to annotations, rejects contradictions, and warns of settings without effect.
The same for sandboxes, workloads and standalone containers.
"""

from __future__ import annotations

from shim.oci.annotations import container as names
from shim.oci.annotations.table import check_annotations, warn_once
from shim.oci.errors import InvalidSpec
from shim.oci.options import HYPERVISOR, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.oci.annotations.container import Annotations
    from shim.oci.spec import Spec


def normalize_spec(spec: Spec, options: Options) -> None:
    """Change the spec in place. Raises InvalidSpec for a contradiction."""
    spec.options = options.values
    _set_isolation(spec, options)
    _copy_options(spec, options)
    given = list(spec.annotations)  # without those that the next line adds
    _expand(spec.annotations)
    _check_host_process(spec.annotations)
    if not options.is_empty and options.values.sandbox_platform:
        _check_platform(spec, options.values.sandbox_platform)
    if not spec.has_windows and not spec.has_linux:
        raise InvalidSpec("the spec has neither a windows nor a linux section: give the one of the container's system")
    _ = spec.pod_role  # raises for an invalid role
    _ = spec.requested_build  # raises for an invalid version
    check_annotations(spec, given)
    for sentence in options.ineffective(spec.is_isolated):
        warn_once(spec, sentence)


def _set_isolation(spec: Spec, options: Options) -> None:
    if options.values.sandbox_isolation == HYPERVISOR:
        spec.isolate()
    elif spec.is_isolated and not options.is_empty:
        raise InvalidSpec(
            "invalid runtime sandbox isolation (PROCESS) for hypervisor isolated OCI spec: "
            "set SandboxIsolation = 1, or take windows.hyperv out of the spec"
        )


def _copy_options(spec: Spec, options: Options) -> None:
    values = options.values
    if spec.is_isolated:
        for key, value in (
            (names.VM_PROCESSOR_COUNT, str(values.vm_processor_count) if values.vm_processor_count else ""),
            (names.VM_MEMORY_SIZE_IN_MB, str(values.vm_memory_size_in_mb) if values.vm_memory_size_in_mb else ""),
            (names.NCPROXY_ADDRESS, values.NCProxyAddr),
            (names.NO_TIME_ZONE, "true" if values.no_inherit_host_timezone else ""),
        ):
            if value:
                spec.annotations.set_default(key, value)
    if spec.is_lcow and values.boot_files_root_path and names.VM_BOOT_FILES_OLD not in spec.annotations:
        spec.annotations.set_default(names.VM_BOOT_FILES, values.boot_files_root_path)
    if options.os_version:
        spec.annotations.set_default(names.SANDBOX_OS_VERSION, options.os_version)
    for name, text in values.default_container_annotations.items():
        spec.annotations.set_default(name, text)


def _expand(annotations: Annotations) -> None:
    if names.DISABLE_UNSAFE not in annotations:
        return
    value = annotations.text(names.DISABLE_UNSAFE)
    for key in names.UNSAFE:
        if annotations.text(key, value) != value:
            raise InvalidSpec(
                f'unable to process OCI Spec annotations: annotation expansion conflict: "{names.DISABLE_UNSAFE}" = '
                f'"{value}" and "{key}" = "{annotations.text(key)}": remove one of them'
            )
        annotations.set(key, value)


def _check_host_process(annotations: Annotations) -> None:
    if annotations.flag(names.HOST_PROCESS) and annotations.flag(names.HOST_PROCESS_DISABLED):
        raise InvalidSpec(
            "unable to process OCI Spec annotations: specified annotations conflict: host process container "
            f'annotations "{names.HOST_PROCESS_DISABLED}" = "{annotations.text(names.HOST_PROCESS_DISABLED)}" and '
            f'"{names.HOST_PROCESS}" = "{annotations.text(names.HOST_PROCESS)}": it is one, and such containers are '
            "forbidden here"
        )


def _check_platform(spec: Spec, platform: str) -> None:
    system = platform.partition("/")[0].lower()
    if system not in ("linux", "windows"):
        raise InvalidSpec(f"unknown runtime sandbox platform OS: {platform}: use windows/amd64 or linux/amd64")
    if (system == "linux") != spec.has_linux:
        has, meant = ("non-empty", "Windows") if spec.has_linux else ("empty", "Linux")
        raise InvalidSpec(
            f"{has} Linux config in OCI spec for {meant} sandbox platform: {platform}: choose the runtime of the "
            "image's platform"
        )
