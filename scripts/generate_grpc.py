"""Generates runhcs/containerd/api from proto/: protobuf messages and grpcio stubs of containerd's gRPC services.

protoc and its plugins come from grpcio-tools. The sources import each other by paths such as containerd/types/…, which
protoc turns into top-level Python packages; the imports are rewritten so that every module is in one package of ours.
`make proto` runs this through generate_api.py; a test runs it too and compares.
"""

from __future__ import annotations

import re
import sys
import tempfile
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "runhcs.containerd.api"
HEADER = "# Generated from proto/{source} by scripts/generate_grpc.py. Do not edit; `make proto` regenerates it.\n"
# The services that the client calls.
SERVICES = (
    *(f"containerd/services/{name}.proto" for name in ("containers", "events", "sandboxes", "tasks", "version")),
    "cri/runtime.proto",
)
# containerd's own sources are at the top of the package.
_PREFIXES = {"containerd": PACKAGE, "cri": f"{PACKAGE}.cri"}
_PROTO_IMPORT = re.compile(r'^import "([^"]+)";', re.MULTILINE)
# Both places that name a Python module: imports, and the __module__ of the message classes.
_PYTHON_MODULE = re.compile(rf"(^from |Messages\(DESCRIPTOR, ')({'|'.join(_PREFIXES)})(?=[. ])", re.MULTILINE)


def sources() -> list[str]:
    """The services and what they import from proto/, in order."""
    found: list[str] = []
    waiting = list(SERVICES)
    while waiting:
        name = waiting.pop()
        if name in found or name.startswith("google/protobuf/"):
            continue
        found.append(name)
        waiting += _PROTO_IMPORT.findall((ROOT / "proto" / name).read_text())
    return sorted(found)


def generate(out: Path) -> None:
    """Write the package below `out`, the directory that has runhcs/ in it."""
    with tempfile.TemporaryDirectory() as directory:
        _protoc(directory)
        for path in sorted(Path(directory).rglob("*_pb2*.py*")):
            source = str(path.relative_to(directory))
            target = out / PACKAGE.replace(".", "/") / source.removeprefix("containerd/")
            target.parent.mkdir(parents=True, exist_ok=True)
            proto = re.sub(r"_pb2(_grpc)?\.pyi?$", ".proto", source)
            text = _PYTHON_MODULE.sub(lambda match: match[1] + _PREFIXES[match[2]], path.read_text())
            target.write_text(HEADER.format(source=proto) + text)
            (target.parent / "__init__.py").touch()
            (target.parent.parent / "__init__.py").touch()


def _protoc(directory: str) -> None:
    from grpc_tools import protoc

    include = resources.files("grpc_tools") / "_proto"
    common = ["protoc", f"-I{ROOT / 'proto'}", f"-I{include}"]
    messages = [f"--python_out={directory}", f"--pyi_out={directory}", *sources()]
    stubs = [f"--grpc_python_out={directory}", *SERVICES]
    if any(protoc.main([*common, *arguments]) != 0 for arguments in (messages, stubs)):
        sys.exit("protoc rejected the sources in proto/: see its message above")
