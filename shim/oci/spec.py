"""The OCI spec of a container, `config.json` of its bundle
(https://github.com/opencontainers/runtime-spec/blob/main/config.md)."""

from __future__ import annotations

from shim.api.runhcs_options import Options
from shim.lean_json import loads
from shim.oci import windows_versions
from shim.oci.annotations import container as names
from shim.oci.annotations.container import Annotations
from shim.oci.errors import InvalidSpec
from shim.oci.section import Section, wrong_type
from shim.platform import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONFIG = "config.json"
# containerd's messages carry at most 16 MiB; a spec that is larger did not come from it.
MAX_SIZE = 16 << 20

SANDBOX = "sandbox"
CONTAINER = "container"


def load(bundle: str) -> Spec:
    """The spec in a bundle."""
    path = f"{bundle.rstrip('/')}/{CONFIG}"
    try:
        data = files.read(path, MAX_SIZE + 1, follow=False)
    except FileNotFoundError:
        raise InvalidSpec(f"{path} does not exist: a bundle needs the container's OCI spec") from None
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_SIZE:
        raise InvalidSpec(f"{path} is larger than {MAX_SIZE >> 20} MiB: that is no spec of one container")
    return Spec(parse(data, path))


def parse(data: bytes, source: str) -> dict[str, Any]:
    """Parse a JSON object. An error names its source."""
    try:
        value = loads(data)
    except ValueError as error:
        raise InvalidSpec(f"{source} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidSpec(f"{source} is not a JSON object: give an OCI spec")
    return value


def parse_process(data: bytes) -> Section:
    """The process of an exec, from its request."""
    return Section(parse(data, "the exec's process"), "process")


class Spec:
    """One spec. Annotations may be added before the first property that depends on them is read."""

    __slots__ = ("annotations", "document", "options", "own_root")

    def __init__(self, values: dict[str, Any]) -> None:
        self.document = Section(values, "")
        given = self.document.section("annotations")
        for name, value in given.values.items():
            if not isinstance(value, str):
                raise wrong_type(given.where(name), value, str)
        self.annotations = Annotations(dict(given.values))
        #: The runtime options, set by `shim.oci.normalize.normalize_spec`.
        self.options = Options()
        #: The root file system that the shim has made itself, "" for an image's.
        self.own_root = ""

    # The kind of container.

    @property
    def has_linux(self) -> bool:
        return self.document.has("linux")

    @property
    def has_windows(self) -> bool:
        return self.document.has("windows")

    @property
    def is_wcow(self) -> bool:
        """A Windows container, in a utility VM or not."""
        return self.has_windows and not self.has_linux

    @property
    def is_lcow(self) -> bool:
        """A Linux container, always in a utility VM. Tools on Linux write no `windows` section."""
        return self.has_linux

    @property
    def is_isolated(self) -> bool:
        """In a utility VM."""
        return self.is_lcow or self.windows.has("hyperv")

    @property
    def is_host_process(self) -> bool:
        """A host-process container, on the host or in its VM."""
        return not self.is_lcow and self.annotations.is_exactly_true(names.HOST_PROCESS)

    def isolate(self) -> None:
        """Request a utility VM, if the spec does not yet."""
        values = self.document.values
        windows = values["windows"] = values.get("windows") or {}
        if windows.get("hyperv") is None:
            windows["hyperv"] = {}

    # Pod membership.

    @property
    def pod_role(self) -> str:
        """`sandbox`, `container`, or "" for a container that belongs to no pod."""
        role = self.annotations.text(names.CONTAINER_TYPE)
        if role not in ("", SANDBOX, CONTAINER):
            raise InvalidSpec(
                f"invalid '{names.CONTAINER_TYPE}': '{role}': it must be {SANDBOX!r}, {CONTAINER!r} or absent"
            )
        if bool(role) != bool(self.annotations.text(names.SANDBOX_ID)):
            given, missing = names.CONTAINER_TYPE, names.SANDBOX_ID
            if not role:
                given, missing = missing, given
            raise InvalidSpec(f"cannot specify '{given}' without '{missing}': set both or neither")
        return role

    @property
    def sandbox_id(self) -> str:
        return self.annotations.text(names.SANDBOX_ID)

    @property
    def requested_build(self) -> int:
        """The requested Windows build (SandboxOsVersion); 0 if none."""
        if names.SANDBOX_OS_VERSION not in self.annotations:
            return 0
        return windows_versions.parse(
            self.annotations.text(names.SANDBOX_OS_VERSION), f"annotation {names.SANDBOX_OS_VERSION}"
        )

    # Sections.

    @property
    def windows(self) -> Section:
        return self.document.section("windows")

    @property
    def linux(self) -> Section:
        return self.document.section("linux")

    @property
    def root(self) -> Section:
        return self.document.section("root")

    @property
    def hostname(self) -> str:
        return self.document.text("hostname")

    @property
    def mounts(self) -> list[Section]:
        return self.document.sections("mounts")

    @property
    def process(self) -> Section:
        """The init process."""
        process = self.document.section("process")
        if not process.values:
            raise InvalidSpec("the spec has no process: give process.args or process.commandLine")
        return process
