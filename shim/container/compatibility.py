"""Whether an image can run on this host, checked before HCS is called.

Three builds may be known: the host's, the image's (`shim.container.image_version`) and the requested one
(SandboxOsVersion). Windows itself finds a mismatch later and reports less: a code without builds, or a VM that does not
boot for minutes. Errors name the builds and a runtime that works.
"""

from __future__ import annotations

from shim.container import image_version
from shim.hcs_bindings.windows_version import windows_build
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.oci.windows_versions import oldest_on, runs_in_process, runs_in_vm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.container.layers import Plan
    from shim.oci.spec import Spec

# Builds that `runhcs config` prints runtimes for.
BUILDS_WITH_RUNTIME = (17763, 20348, 26100)


def check_process(spec: Spec, plan: Plan) -> None:
    """For a container without a VM."""
    image, requested = image_version.build_of(plan), spec.requested_build
    if not image and not requested:
        return
    host = windows_build()
    if image and requested and not runs_in_process(requested, image):
        raise _refusal(
            f"the image is of Windows build {image}, and SandboxOsVersion asks for {requested}: use an image of build "
            f"{requested}, or set SandboxOsVersion to {image}"
        )
    needed = image or requested
    if runs_in_process(host, needed):
        return
    raise _refusal(
        f"{_subject(image, requested)} and this host is {host}: without a utility VM it runs {_span(host)}. "
        + (_use_vm(needed) if runs_in_vm(host, needed) else _use_node(needed, host))
    )


def check_vm(spec: Spec, plan: Plan) -> int:
    """For an image that a utility VM boots from: the build of its Windows, 0 when it is not known."""
    image, requested = image_version.build_of(plan), spec.requested_build
    if image and requested and image != requested:
        raise _refusal(
            f"the image is of Windows build {image}, and SandboxOsVersion asks for a VM of {requested}: use an image "
            f"of build {requested}, or {_runtime(image)}"
        )
    needed = image or requested
    if needed and not runs_in_vm(host := windows_build(), needed):
        raise _refusal(
            f"{_subject(image, requested)} and this host is {host}: a utility VM runs {host} and older. "
            f"{_use_node(needed, host)}"
        )
    return needed


def check_workload(plan: Plan, guest: int) -> None:
    """For a container that joins a VM whose Windows is of build `guest`, 0 if that is not known."""
    image = image_version.build_of(plan)
    if image and guest and not runs_in_process(guest, image):
        raise _refusal(
            f"the image is of Windows build {image}, and its pod's VM is of {guest}, which runs {_span(guest)}: use an "
            f"image of build {guest}, or for the pod {_runtime(image)}"
        )


def _refusal(sentence: str) -> InvalidSpec:
    return InvalidSpec(sentence, FAILED_PRECONDITION)


def _subject(image: int, requested: int) -> str:
    if image:
        return f"the image is of Windows build {image},"
    return f"SandboxOsVersion asks for Windows build {requested},"


def _span(host: int) -> str:
    oldest = oldest_on(host)
    return f"build {host} only" if oldest == host else f"builds {oldest} to {host}"


def _runtime(build: int) -> str:
    suffix = f"-{build}" if build in BUILDS_WITH_RUNTIME else ""
    return f"RuntimeClass runhcs-wcow-hypervisor{suffix}"


def _use_vm(build: int) -> str:
    return f"Use hypervisor isolation: {_runtime(build)}, or the option SandboxIsolation = 1"


def _use_node(build: int, host: int) -> str:
    return (
        f"Use a node of build {build} or later (nodeSelector node.kubernetes.io/windows-build: 10.0.{build}), or an "
        f"image of build {host}"
    )
