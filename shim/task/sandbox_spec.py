"""The spec of a sandbox of the Sandbox service, and the pod annotations of its workloads.

The sandbox's settings come from three sources. The runtime's options come on `start`'s stdin. The spec comes from the
client: `ctr sandboxes run` gives one; CRI gives none and passes the pod's configuration as the request's options.
All of them may hold annotations: the request's own take precedence, then the pod's, then the spec's.
"""

from __future__ import annotations

from shim.api.cri_pod import PodSandboxConfig
from shim.api.packing import type_name
from shim.api.wellknown import Any
from shim.oci import normalize
from shim.oci import options as runtime_options
from shim.oci import spec as oci
from shim.oci.annotations import container as names
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.sandbox import CreateSandboxRequest
    from shim.oci.options import Options
    from shim.oci.spec import Spec
    from shim.task.context import ShimContext


def start_options(context: ShimContext) -> Options:
    """The options that came on stdin of `start`."""
    return runtime_options.decode(Any(type_url=context.options_type, value=context.options))


def sandbox_platform(context: ShimContext) -> tuple[str, str]:
    """Operating system and architecture of the pod's containers, as the options or else the host have them.

    CRI creates specs for this platform, and can do so only for its own system: on Linux they are Linux specs.
    """
    platform = start_options(context).values.sandbox_platform.lower()
    system, _, architecture = platform.partition("/")
    return system or host.operating_system(), architecture or host.architecture()


def set_pod_annotations(spec: Spec, role: str, sandbox_id: str) -> None:
    """A workload that joins by the sandbox's address need not have these annotations itself."""
    spec.annotations.set_default(names.CONTAINER_TYPE, role)
    spec.annotations.set_default(names.SANDBOX_ID, sandbox_id)


def sandbox_spec(request: CreateSandboxRequest, options: Options, pod: PodSandboxConfig, platform: str) -> Spec:
    """The normalized spec of the sandbox. `platform` is the operating system of the pod's containers."""
    spec = _load_spec(request.bundle_path)
    for key, value in [*pod.annotations.items(), *request.annotations.items()]:
        spec.annotations.set(key, value)
    set_pod_annotations(spec, oci.SANDBOX, request.sandbox_id)
    values = spec.document.values
    if is_linux(spec, platform):
        from shim.task import linux_sandbox

        linux_sandbox.complete(spec, request, pod)
    elif not spec.has_linux:
        windows = values["windows"] = values.get("windows") or {}
        # A path is a network namespace of Linux, which is nothing to HCS.
        if request.netns_path and "/" not in request.netns_path:
            network = windows["network"] = windows.get("network") or {}
            network.setdefault("networkNamespace", request.netns_path)
    normalize.normalize_spec(spec, options)
    if spec.is_isolated and not spec.is_lcow and not request.rootfs and not spec.windows.texts("layerFolders"):
        # CRI gives no image to a sandbox of the shim's own; the VM boots from what the runtime's options name.
        boot_files = options.values.boot_files_root_path
        if not boot_files:
            raise InvalidSpec(
                "the sandbox is to be a utility VM and has no image to boot it from: name the directory that has a "
                "UtilityVM in the runtime's option BootFilesRootPath",
                FAILED_PRECONDITION,
            )
        values["windows"]["layerFolders"] = [boot_files, f"{request.bundle_path}/scratch"]
    return spec


def _load_spec(bundle: str) -> Spec:
    if host.exists(f"{bundle}/{oci.CONFIG}"):
        return oci.load(bundle)
    return oci.Spec({"ociVersion": "1.0.2"})


def is_linux(spec: Spec, platform: str) -> bool:
    """Whether the pod's containers are Linux containers. CRI gives no spec, and creates those of the containers for the
    `platform` that the shim has answered."""
    return spec.has_linux or (platform == "linux" and not spec.has_windows)


def pod_config(request: CreateSandboxRequest) -> PodSandboxConfig:
    """CRI's configuration of the pod. Other clients have options of their own, which say nothing here."""
    packed = request.options
    if packed is None or type_name(packed) != PodSandboxConfig.FULL_NAME:
        return PodSandboxConfig()
    return PodSandboxConfig.decode(packed.value)
