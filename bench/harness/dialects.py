"""How each containerd version runs a shim's commands: flags, environment, stdin of `start`, and the output it accepts.

1.6 passes the least. 1.7 adds environment variables and accepts JSON. 2.3 sends a bootstrap message on stdin and
accepts one as output, except for programs with a legacy name (`shim-runhcs-v1`, `shim-runc-v1`): 1.7 form.
"""

from __future__ import annotations

import json
from pathlib import Path

from attrs import frozen

from shim.api.bootstrap import BootstrapParams, BootstrapResult, Extension
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import DecodeError

NAMESPACE = "bench"
LEGACY_NAMES = ("shim-runhcs-v1", "shim-runc-v1")
SERVICES = {2: "containerd.task.v2.Task", 3: "containerd.task.v3.Task"}


@frozen
class Endpoint:
    """The address of a shim, and the version of the task API that it reports."""

    address: str
    version: int

    @property
    def path(self) -> str:
        return self.address.removeprefix("unix://")

    @property
    def service(self) -> str:
        return SERVICES[self.version]


@frozen
class Dialect:
    """`version`: of the containerd that it imitates."""

    version: str
    has_more_variables: bool
    accepts_json: bool
    has_bootstrap: bool

    def flags(self, address: str, id: str, action: str, bundle: str = "") -> list[str]:
        flags = ["-namespace", NAMESPACE, "-address", address, "-publish-binary", "/bin/true", "-id", id]
        if bundle:
            flags += ["-bundle", bundle]
        return [*flags, action]

    def variables(self, address: str) -> dict[str, str]:
        variables = {"TTRPC_ADDRESS": f"{address}.ttrpc", "GOMAXPROCS": "2"}
        if self.has_more_variables:
            variables |= {"GRPC_ADDRESS": address, "NAMESPACE": NAMESPACE, "MAX_SHIM_VERSION": "2"}
        return variables

    def stdin(self, program: Path, address: str, id: str, options: PackedAny | None) -> bytes:
        """Of `start`."""
        if not self.has_bootstrap or any(name in program.name for name in LEGACY_NAMES):
            return options.encode() if options is not None else b""
        return BootstrapParams(
            instance_id=id,
            namespace=NAMESPACE,
            containerd_version=self.version,
            containerd_ttrpc_address=f"{address}.ttrpc",
            containerd_grpc_address=address,
            containerd_binary="/bin/true",
            extensions=[Extension(value=options)] if options is not None else [],
        ).encode()

    def endpoint(self, output: bytes) -> Endpoint:
        """Parses the output of `start`. Raises ValueError when this containerd could not parse it."""
        found = self._endpoint(output)
        if not found.address.startswith("unix:///") or found.version not in SERVICES:
            raise ValueError(f"containerd {self.version} finds no usable address in {output!r}")
        return found

    def _endpoint(self, output: bytes) -> Endpoint:
        if self.has_bootstrap:
            try:
                result = BootstrapResult.decode(output)
                return Endpoint(result.address, result.version)
            except (DecodeError, UnicodeDecodeError):
                pass  # the older forms never decode as protobuf
        text = output.decode(errors="replace").strip()
        if self.accepts_json:
            try:
                found = json.loads(text)
                return Endpoint(str(found["address"]), int(found["version"]))
            except (ValueError, KeyError, TypeError):
                pass  # a plain address
        return Endpoint(text, 2)


DIALECTS = {
    "1.6": Dialect("1.6.20", has_more_variables=False, accepts_json=False, has_bootstrap=False),
    "1.7": Dialect("1.7.34", has_more_variables=True, accepts_json=True, has_bootstrap=False),
    "2.3": Dialect("2.3.4", has_more_variables=True, accepts_json=True, has_bootstrap=True),
}
NEWEST = "2.3"
