"""How a containerd speaks to a shim's commands, by version: flags, environment, stdin of `start`, and its answer.

1.6 tells least. 1.7 adds variables and takes JSON. 2.3 sends a bootstrap message on stdin and takes one as the
answer, unless the program's name says that it is one of two old acquaintances (`shim-runhcs-v1`, `shim-runc-v1`),
which get what they always got.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from shim.api.bootstrap import BootstrapParams, BootstrapResult, Extension
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import DecodeError

NAMESPACE = "bench"
LEGACY_NAMES = ("shim-runhcs-v1", "shim-runc-v1")
SERVICES = {2: "containerd.task.v2.Task", 3: "containerd.task.v3.Task"}


class Endpoint(NamedTuple):
    """Where a shim listens, and which version of the task API it says it has."""

    address: str
    version: int

    @property
    def path(self) -> str:
        return self.address.removeprefix("unix://")

    @property
    def service(self) -> str:
        return SERVICES[self.version]


class Dialect(NamedTuple):
    """`version`: of the containerd that it sounds like."""

    version: str
    more_variables: bool
    takes_json: bool
    bootstraps: bool

    def flags(self, address: str, id: str, action: str, bundle: str = "") -> list[str]:
        flags = ["-namespace", NAMESPACE, "-address", address, "-publish-binary", "/bin/true", "-id", id]
        if bundle:
            flags += ["-bundle", bundle]
        return [*flags, action]

    def variables(self, address: str) -> dict[str, str]:
        told = {"TTRPC_ADDRESS": f"{address}.ttrpc", "GOMAXPROCS": "2"}
        if self.more_variables:
            told |= {"GRPC_ADDRESS": address, "NAMESPACE": NAMESPACE, "MAX_SHIM_VERSION": "2"}
        return told

    def stdin(self, program: Path, address: str, id: str, options: PackedAny | None) -> bytes:
        """Of `start`."""
        if not self.bootstraps or any(name in program.name for name in LEGACY_NAMES):
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
        """What `start` printed. Raises ValueError when this containerd could not make sense of it."""
        found = self._endpoint(output)
        if not found.address.startswith("unix:///") or found.version not in SERVICES:
            raise ValueError(f"containerd {self.version} finds no usable address in {output!r}")
        return found

    def _endpoint(self, output: bytes) -> Endpoint:
        if self.bootstraps:
            try:
                result = BootstrapResult.decode(output)
                return Endpoint(result.address, result.version)
            except (DecodeError, UnicodeDecodeError):
                pass  # the older forms never read as protobuf
        text = output.decode(errors="replace").strip()
        if self.takes_json:
            try:
                found = json.loads(text)
                return Endpoint(str(found["address"]), int(found["version"]))
            except (ValueError, KeyError, TypeError):
                pass  # a plain address
        return Endpoint(text, 2)


DIALECTS = {
    "1.6": Dialect("1.6.20", more_variables=False, takes_json=False, bootstraps=False),
    "1.7": Dialect("1.7.34", more_variables=True, takes_json=True, bootstraps=False),
    "2.3": Dialect("2.3.4", more_variables=True, takes_json=True, bootstraps=True),
}
NEWEST = "2.3"
