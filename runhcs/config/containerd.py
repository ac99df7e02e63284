"""Runtimes for the configuration of containerd, as TOML."""

from __future__ import annotations

import json

from runhcs.config.runtimes import PROCESS, Runtime
from shim.oci.annotations.container import SANDBOX_OS_VERSION
from shim.oci.annotations.vm import PHYSICALLY_BACKED

# By major version of containerd: the version of its configuration, and the plugin that has the runtimes.
FORMATS = {1: (2, "io.containerd.grpc.v1.cri"), 2: (3, "io.containerd.cri.v1.runtime")}
RUNTIME_TYPE = "io.containerd.runhcs.v1"

# The annotations of a pod, and of a CRI container, that containerd passes to the shim. A star does not match a slash.
CONTAINER_PATTERNS = ["io.microsoft.container.*", "io.microsoft.wcow.*"]
PROCESS_POD_PATTERNS: list[str] = [SANDBOX_OS_VERSION]
VM_POD_PATTERNS = ["io.microsoft.virtualmachine.*", "io.microsoft.container.processdumplocation"]
LINUX_CONTAINER_PATTERNS = ["io.microsoft.container.*", "io.microsoft.lcow.*", "io.microsoft.virtualmachine.lcow.*"]

# Linux images on a Windows node.
LINUX_PLATFORM = "linux/amd64"
LINUX_SNAPSHOTTER = "windows-lcow"
IMAGES_PLUGIN = "io.containerd.cri.v1.images"

HEADER = """\
# Runtimes of Windows nodes for containerd {major}.x, by `runhcs config containerd --version {major}`.
# Add it to containerd's configuration file (C:\\Program Files\\containerd\\config.toml on Windows), or to a file that
# its `imports` names, and restart containerd. `runhcs config runtimeclass` prints the RuntimeClasses.
version = {version}
"""


def text(
    runtimes: list[Runtime], major: int, program: str = "", with_default: bool = True, emulator: bool = False
) -> str:
    """`program`: the path of the shim; without it containerd searches its PATH. `emulator`: for a containerd on Linux,
    whose default snapshotter has the Linux images."""
    version, plugin = FORMATS[major]
    section = f'plugins."{plugin}".containerd'
    out = [HEADER.format(major=major, version=version)]
    if with_default and any(runtime.name == PROCESS for runtime in runtimes):
        out.append(f"\n[{section}]\n  # For pods without a RuntimeClass.\n")
        out.append(f"  default_runtime_name = {_quoted(PROCESS)}\n")
    for runtime in runtimes:
        out.append(_runtime(runtime, f"{section}.runtimes.{runtime.name}", program, major, emulator))
        if runtime.linux and major == 2 and not emulator:
            out.append(_platform(runtime))
    return "".join(out)


def _runtime(runtime: Runtime, section: str, program: str, major: int, emulator: bool) -> str:
    patterns = LINUX_CONTAINER_PATTERNS if runtime.linux else CONTAINER_PATTERNS
    lines = [
        "",
        f"# {runtime.summary[0].upper()}{runtime.summary[1:]}.",
        f"[{section}]",
        f"  runtime_type = {_quoted(RUNTIME_TYPE)}",
        *([f"  runtime_path = {_quoted(program)}"] if program else []),
        "  # Annotations of pods, and of containers, that reach the shim: docs/reference/annotations.md.",
        f"  pod_annotations = {_list(VM_POD_PATTERNS if runtime.hypervisor else PROCESS_POD_PATTERNS)}",
        f"  container_annotations = {_list(patterns)}",
    ]
    if runtime.linux:
        lines += _linux(major, emulator, program)
    if runtime.hypervisor:
        lines += ["", f"  [{section}.options]", *_options(runtime)]
    if annotations := _annotations(runtime):
        lines += ["", f"    [{section}.options.DefaultContainerAnnotations]", *annotations]
    return "\n".join(lines) + "\n"


def _linux(major: int, emulator: bool, program: str) -> list[str]:
    """Where the images of Linux containers are, and who creates their sandbox: containerd itself creates only
    sandboxes of its host's platform. For those of a shim it ignores `runtime_path` and searches its PATH
    (plugins/sandbox/controller.go, Create)."""
    if emulator and program:
        return []
    lines = [] if emulator else [f"  snapshotter = {_quoted(LINUX_SNAPSHOTTER)}"]
    lines.append("  # The shim creates the pod's sandbox: on Windows containerd itself creates Windows sandboxes only.")
    if major == 1:
        lines.append("  # Needs containerd 1.7 with ENABLE_CRI_SANDBOXES in its environment.")
        return [*lines, '  sandbox_mode = "shim"']
    return [*lines, '  sandboxer = "shim"']


def _platform(runtime: Runtime) -> str:
    """Which manifest of an image, and which snapshotter, CRI takes for pods of this runtime."""
    return (
        f'\n[plugins."{IMAGES_PLUGIN}".runtime_platforms.{runtime.name}]\n'
        f"  platform = {_quoted(LINUX_PLATFORM)}\n"
        f"  snapshotter = {_quoted(LINUX_SNAPSHOTTER)}\n"
    )


def _options(runtime: Runtime) -> list[str]:
    lines = ["    SandboxIsolation = 1"]
    if runtime.linux:
        lines.append(f"    SandboxPlatform = {_quoted(LINUX_PLATFORM)}")
    else:
        lines.append("    # CPU limits of containers are shares of the host, scaled to the VM.")
        lines.append("    ScaleCpuLimitsToSandbox = true")
    if runtime.processors:
        lines.append(f"    VmProcessorCount = {runtime.processors}")
    if runtime.memory_mb:
        lines.append(f"    VmMemorySizeInMb = {runtime.memory_mb}")
    return lines


def _annotations(runtime: Runtime) -> list[str]:
    """Settings without a runtime option; needs containerd 1.7."""
    lines = []
    if runtime.build:
        lines.append("      # SandboxOsVersion: an image of another build is rejected before anything is created.")
        lines.append(f"      {_quoted(SANDBOX_OS_VERSION)} = {_quoted(str(runtime.build))}")
    if runtime.reserved:
        lines.append("      # All memory is physical from the start.")
        lines.append(f"      {_quoted(PHYSICALLY_BACKED)} = {_quoted('true')}")
    return lines


def _quoted(value: str) -> str:
    """A basic string of TOML, which has the syntax of JSON."""
    return json.dumps(str(value))


def _list(values: list[str]) -> str:
    return "[" + ", ".join(_quoted(value) for value in values) + "]"
