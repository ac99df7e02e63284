"""The second zip for Windows nodes, with `runhcs agent`.

dist/containerd-shim-runhcs-<version>-windows-<architecture>-agent.zip is unpacked beside runhcs.exe, which then
starts it. It is apart from the distribution of the shim, which every node needs: the agent's libraries look up each
other as installed packages (entry points of OpenTelemetry), so they cannot be packed as the shim's modules are, and
they would make the zip of the shim several times as large, with OpenSSL in it.

    containerd-shim-runhcs-agent/python.exe, *.dll, *.pyd    the embeddable CPython, as python.org signed it
    containerd-shim-runhcs-agent/site-packages/*             the packages of requirements/windows.lock that it needs,
                                                             and ours, as their wheels have them
    containerd-shim-runhcs-agent/sbom-agent.cdx.json         all components with versions and hashes
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import wheels
import windows_sbom
from windows_packages import Python, locked_wheels

from runhcs.agent_zip import ARCHITECTURES, FOLDER, PACKAGES_FOLDER

__all__ = ["ARCHITECTURES", "binaries", "contents"]

# What the extra `agent` needs at run time, by the names of the wheels. rich and pywin32 are for other commands.
PACKAGES = (
    "attrs", "cattrs", "certifi", "cffi", "charset_normalizer", "googleapis_common_protos", "grpcio", "idna",
    "opentelemetry_api", "opentelemetry_exporter_http_transport", "opentelemetry_exporter_otlp_common",
    "opentelemetry_exporter_otlp_proto_common", "opentelemetry_exporter_otlp_proto_grpc",
    "opentelemetry_exporter_otlp_proto_http", "opentelemetry_proto", "opentelemetry_sdk",
    "opentelemetry_semantic_conventions", "prometheus_client", "protobuf", "psutil", "requests", "typing_extensions",
    "urllib3",
)  # fmt: skip
# Of CPython: without windows, sound and a database. platform.uname asks _wmi, which may take seconds, if it exists.
LEFT_OUT = ("pythonw.exe", "winsound.pyd", "sqlite3.dll", "_sqlite3.pyd", "_wmi.pyd", "python.cat")
OWN = ("shim/", "runhcs/")


def binaries(python: Python) -> tuple[str, ...]:
    """The files of CPython whose signatures are verified."""
    return tuple(name for name in python.files if name.endswith((".exe", ".dll", ".pyd")) and name not in LEFT_OUT)


def contents(python: Python, version: str) -> dict[str, bytes]:
    """The members of the zip by name."""
    runtime = {name: data for name, data in python.files.items() if name not in LEFT_OUT}
    runtime[python.path_file] = f"{python.standard_library}\r\n.\r\n{PACKAGES_FOLDER}\r\n".encode()
    packages: dict[str, bytes] = {}
    found = _wheels(python)
    for wheel in found:
        packages |= _unpacked(wheel)
    with tempfile.TemporaryDirectory() as work:
        own = _unpacked(wheels.build_pure(Path(work), Path(work)))
    packages |= {name: data for name, data in own.items() if name.startswith(OWN) or ".dist-info/" in name}
    members = {f"{FOLDER}/{name}": data for name, data in runtime.items()}
    members |= {f"{FOLDER}/{PACKAGES_FOLDER}/{name}": data for name, data in packages.items()}
    requirements = ["==".join(wheel.name.split("-")[:2]) for wheel in found]
    members[f"{FOLDER}/sbom-agent.cdx.json"] = windows_sbom.of_packages(version, python, requirements, members)
    return members


def _wheels(python: Python) -> list[Path]:
    directory = locked_wheels(python)
    return [next(directory.glob(f"{name}-*.whl")) for name in PACKAGES]


def _unpacked(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


