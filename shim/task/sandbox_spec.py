"""From a CreateSandbox request to the pod's sandbox, as a task like any other: in a utility VM, or nothing but a name.

What the pod is to be comes from three sides. The runtime's options came on `start`'s stdin. The spec is whatever
the client gave: `ctr sandboxes run` gives one; CRI does not, and passes the pod's configuration as the request's
options instead. Annotations may be in all of them; the request's own win, then the pod's, then the spec's.

Nothing is announced: `/sandboxes/*` events are containerd's to publish, and there is no task that clients know of.
"""

from __future__ import annotations

from shim.api.cri_pod import PodSandboxConfig
from shim.api.packing import type_name
from shim.api.wellknown import Any
from shim.container.null_container import NullContainer
from shim.oci import normalize
from shim.oci import options as runtime_options
from shim.oci import spec as oci
from shim.oci.annotations import container as names
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.platform import host
from shim.task.events.task_events import Announcer
from shim.task.signals import terminating
from shim.task.stdio.process_io import open_stdio
from shim.task.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.sandbox import CreateSandboxRequest
    from shim.oci.options import Options
    from shim.oci.spec import Spec
    from shim.task.context import ShimContext
    from shim.task.events.publisher import Event
    from shim.task.interfaces import NewContainer
    from shim.uvm.vm import Vm


def make_sandbox(context: ShimContext, request: CreateSandboxRequest) -> Task:
    log = context.log.bind(tid=request.sandbox_id)
    options = own_options(context)
    spec = sandbox_spec(request, options)
    vm: Vm | None = None
    container: NewContainer
    if spec.is_isolated:
        from shim.uvm.sandbox_vm import SandboxVm

        sandbox = SandboxVm.create(request.sandbox_id, request.bundle_path, spec, request.rootfs, log)
        container, vm = sandbox, sandbox.vm
    elif spec.is_host_process:
        from shim.hostprocess.sandbox_container import HostProcessSandbox

        container = HostProcessSandbox(request.sandbox_id, spec, log.warning)
    else:
        container = NullContainer(request.sandbox_id, log.warning)
    no_streams = open_stdio("", "", "", False, namespace=context.namespace, id=request.sandbox_id, exec_id="")
    return Task(
        request.sandbox_id,
        request.bundle_path,
        container,
        {},
        no_streams,
        _Silent(request.sandbox_id),
        log,
        is_pod_member=True,
        vm=vm,
        event_of=terminating,
    )


def own_options(context: ShimContext) -> Options:
    """The options that came on stdin of `start`."""
    return runtime_options.decode(Any(type_url=context.options_type, value=context.options))


def platform(context: ShimContext) -> tuple[str, str]:
    """Operating system and architecture of the pod's containers, as the options or else the host have them.

    CRI makes specs for it, and can do so only for its own system: on Linux they are Linux specs, which the emulator
    runs.
    """
    wanted = own_options(context).values.sandbox_platform.lower()
    system, _, architecture = wanted.partition("/")
    return system or host.operating_system(), architecture or host.architecture()


def mark(spec: Spec, role: str, sandbox_id: str) -> None:
    """Who joins by the sandbox's address need not say so in annotations as well."""
    spec.annotations.set_default(names.CONTAINER_TYPE, role)
    spec.annotations.set_default(names.SANDBOX_ID, sandbox_id)


def sandbox_spec(request: CreateSandboxRequest, options: Options) -> Spec:
    """What the sandbox is to be, settled."""
    spec = _given(request.bundle_path)
    for key, value in [*_pod_annotations(request).items(), *request.annotations.items()]:
        spec.annotations.set(key, value)
    mark(spec, oci.SANDBOX, request.sandbox_id)
    values = spec.document.values
    if not spec.has_linux:
        windows = values["windows"] = values.get("windows") or {}
        # A path is a network namespace of Linux, which is nothing to HCS.
        if request.netns_path and "/" not in request.netns_path:
            network = windows["network"] = windows.get("network") or {}
            network.setdefault("networkNamespace", request.netns_path)
    normalize.settle(spec, options)
    if spec.is_isolated and not request.rootfs and not spec.windows.texts("layerFolders"):
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


def _given(bundle: str) -> Spec:
    if host.exists(f"{bundle}/{oci.CONFIG}"):
        return oci.load(bundle)
    return oci.Spec({"ociVersion": "1.0.2"})


def _pod_annotations(request: CreateSandboxRequest) -> dict[str, str]:
    """Of CRI's options. Those of other clients are theirs."""
    packed = request.options
    if packed is None or type_name(packed) != PodSandboxConfig.FULL_NAME:
        return {}
    return PodSandboxConfig.decode(packed.value).annotations


class _Silent(Announcer):
    def __init__(self, task_id: str) -> None:
        self._publish = _tell_nobody
        self._id = task_id


def _tell_nobody(topic: str, event: Event) -> None:
    """In place of a publisher."""
