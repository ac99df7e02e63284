"""Generates the codecs in shim/api from proto/: plain Python without the protobuf runtime, for a fast start.

protoc (grpcio-tools, pinned by the lock file) reads the sources into a descriptor set. Every message of it becomes a
class of straight-line code over shim/api/wire.py. The messages and stubs of containerd's gRPC API, which only clients
use, come from generate_grpc.py. `make proto` runs both; a test runs them too and compares.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import resources
from pathlib import Path

import generate_grpc
from api_fields import Field, Writer
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Generated from {sources} by scripts/generate_api.py. Do not edit; `make proto` regenerates it."

# The .proto files of each module. Messages that are imported together share a module; those that only one command
# needs have their own.
MODULES = {
    "wellknown": [f"google/protobuf/{name}.proto" for name in ("any", "duration", "empty", "timestamp")],
    "types": [f"containerd/types/{name}.proto" for name in ("mount", "task", "metrics", "platform")],
    "introspection": ["containerd/types/introspection.proto"],
    "sandbox_store": ["containerd/types/descriptor.proto", "containerd/types/sandbox.proto"],
    "task": ["containerd/task/v2/task.proto"],
    "events": ["containerd/events/task.proto", "containerd/events/sandbox.proto"],
    "events_ttrpc": ["containerd/types/event.proto", "containerd/services/events_ttrpc.proto"],
    "sandbox": ["containerd/sandbox/v1/sandbox.proto"],
    "cri_pod": ["cri/pod.proto"],
    "bootstrap": ["containerd/bootstrap/v1/bootstrap.proto"],
    "streaming": ["containerd/types/transfer_streaming.proto", "containerd/services/streaming.proto"],
    "runtimeoptions": ["containerd/runtimeoptions/v1/runtimeoptions.proto"],
    "runhcs_options": ["runhcs/options.proto"],
    "runhcs_stats": ["runhcs/stats.proto"],
    "shimdiag": ["runhcs/shimdiag.proto"],
    "extendedtask": ["runhcs/extendedtask.proto"],
    "inspect": ["runhcs/inspect.proto"],
    "agent": ["runhcs/agent.proto"],
    "record": ["runhcs/record.proto"],
    "runc_options": ["runc/options.proto"],
    "cgroups_v1": ["cgroups/v1/metrics.proto"],
    "cgroups_v2": ["cgroups/v2/metrics.proto"],
    "ttrpc": ["google/rpc/status.proto", "ttrpc/ttrpc.proto"],
}
PACKAGE = "shim.api"
# The messages that create, run and delete one container. The other messages of these modules are in `<module>_more`,
# which a module-level __getattr__ imports on first use: a shim that does nothing else never loads them.
USUAL = {
    "shim.api.task": (
        "StateRequest", "StateResponse", "CreateTaskRequest", "CreateTaskResponse", "StartRequest", "StartResponse",
        "DeleteRequest", "DeleteResponse", "KillRequest", "WaitRequest", "WaitResponse", "ShutdownRequest",
    ),
    "shim.api.events": ("TaskIO", "TaskCreate", "TaskStart", "TaskExit", "TaskDelete"),
    "shim.api.types": ("Mount", "Status"),
}  # fmt: skip
MORE = "_more"
# Files with the same content as another one in an older package: verified, and served by the same classes.
SAME = {"containerd/task/v3/task.proto": "containerd/task/v2/task.proto"}


def descriptor_set() -> FileDescriptorSet:
    """All sources and their imports, parsed by protoc."""
    from grpc_tools import protoc

    sources = sorted(str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto").rglob("*.proto"))
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "descriptors"
        include = resources.files("grpc_tools") / "_proto"
        options = [f"-I{ROOT / 'proto'}", f"-I{include}", "--include_imports", f"--descriptor_set_out={out}"]
        if protoc.main(["protoc", *options, *sources, "google/protobuf/duration.proto"]) != 0:
            sys.exit("protoc rejected the sources in proto/: see its message above")
        return FileDescriptorSet.FromString(out.read_bytes())


class Module:
    """One generated module, from one or more files."""

    def __init__(self, name: str, files: list[FileDescriptorProto], homes: dict[str, tuple[str, str]]) -> None:
        self.name, self.files, self.homes = name, files, homes
        self.usual = USUAL.get(name.removesuffix(MORE))
        self.used: set[str] = {"Message"}
        self.aliases: list[str] = []
        self.imports: dict[str, set[str]] = {}

    def use(self, helper: str) -> str:
        self.used.add(helper)
        return helper

    def use_list_alias(self) -> str:
        self.aliases = ["", "_list = list"]
        return "_list"

    def refer(self, type_name: str) -> str:
        module, name = self.homes[type_name.lstrip(".")]
        if module != self.name:
            self.imports.setdefault(module, set()).add(name.split(".")[0])
        return name

    def holds(self, name: str) -> bool:
        return self.usual is None or (name in self.usual) != self.name.endswith(MORE)

    def render(self, same_services: dict[str, list[str]]) -> str:
        body = Writer()
        for file in self.files:
            for enum in filter(lambda one: self.holds(one.name), file.enum_type):
                self.enum(body, 0, enum)
            for message in filter(lambda one: self.holds(one.name), file.message_type):
                self.message(body, 0, message, f"{file.package}.{message.name}" if file.package else message.name)
            if self.holds("SERVICES"):
                self.services(body, file, same_services.get(file.name, []))
        if self.usual is not None and not self.name.endswith(MORE):
            self.others(body)
        sources = ", ".join(file.name for file in self.files)
        imports = [f"from {m} import {', '.join(sorted(n))}" for m, n in sorted(self.imports.items())]
        names = ", ".join(sorted(self.used))
        head = [HEADER.format(sources=sources), "from __future__ import annotations", "", *imports]
        return "\n".join([*head, f"from shim.api.wire import {names}", *self.aliases, *body.lines, ""])

    def others(self, out: Writer) -> None:
        """A __getattr__ that imports the messages of the `_more` module."""
        names = [one.name for file in self.files for one in (*file.enum_type, *file.message_type)]
        names += ["SERVICES"] if any(file.service for file in self.files) else []
        out.blank(2)
        out.line(0, "TYPE_CHECKING = False")
        out.line(0, "if TYPE_CHECKING:")
        for name in names:
            if not self.holds(name):
                out.line(1, f"from {self.name}{MORE} import {name} as {name}")
        out.line(0, "else:")
        out.blank(1)
        out.line(1, "def __getattr__(name):")
        out.line(2, 'if name.startswith("__"):  # the import system looks up __path__')
        out.line(3, "raise AttributeError(name)")
        out.line(2, f"import {self.name}{MORE} as more")
        out.blank(1)
        out.line(2, "return getattr(more, name)")

    def enum(self, out: Writer, depth: int, enum: EnumDescriptorProto) -> None:
        if depth == 0:
            out.blank(2)
        out.line(depth, f"class {enum.name}:")
        out.line(depth + 1, "__slots__ = ()")
        for value in enum.value:
            out.line(depth + 1, f"{value.name} = {value.number}")
        if depth:
            out.blank(1)

    def message(self, out: Writer, depth: int, message: DescriptorProto, full: str) -> None:
        nested = [inner for inner in message.nested_type if not inner.options.map_entry]
        fields = sorted((Field(field, message, full, self) for field in message.field), key=lambda field: field.number)
        body = Writer()
        self.contents(body, full, fields)
        if depth == 0:
            out.blank(2)
        out.line(depth, f"class {message.name}(Message):")
        for inner in nested:
            self.message(out, depth + 1, inner, f"{full}.{inner.name}")
            out.blank(1)
        for enum in message.enum_type:
            self.enum(out, depth + 1, enum)
        for line in body.lines:
            out.line(depth if line else 0, line)

    def contents(self, out: Writer, full: str, fields: list[Field]) -> None:
        names = ", ".join(f'"{field.name}"' for field in fields) + ("," if len(fields) == 1 else "")
        out.line(1, f"__slots__ = ({names})")
        out.line(1, f'FULL_NAME = "{full}"')
        if not fields:
            return
        out.blank(1)
        out.line(1, f"def __init__(self, *, {', '.join(field.parameter() for field in fields)}) -> None:")
        for field in fields:
            out.line(2, field.init())
        out.blank(1)
        out.line(1, "def merge(self, data: bytes, pos: int, end: int) -> None:")
        out.line(2, "while pos < end:")
        out.line(3, "tag = data[pos]")
        out.line(3, "pos += 1")
        out.line(3, "if tag > 127:")
        out.line(4, f"tag, pos = {self.use('read_tag')}(data, pos, end)")
        for index, field in enumerate(fields):
            field.read(out, "elif" if index else "if")
        out.line(3, "else:")
        out.line(4, f"pos = {self.use('skip')}(data, pos, end, tag)")
        out.blank(1)
        out.line(1, "def encode(self) -> bytes:")
        out.line(2, "out: list[bytes] = []")
        for field in fields:
            field.write(out)
        out.line(2, 'return b"".join(out)')

    def services(self, out: Writer, file: FileDescriptorProto, aliases: list[str]) -> None:
        if not file.service:
            return
        out.blank(2)
        out.line(0, "SERVICES: dict[str, dict[str, tuple[type[Message], type[Message]]]] = {")
        for service in file.service:
            full = f"{file.package}.{service.name}" if file.package else service.name
            out.line(1, f'"{full}": {{')
            for method in service.method:
                out.line(2, f'"{method.name}": ({self.refer(method.input_type)}, {self.refer(method.output_type)}),')
            out.line(1, "},")
        out.line(0, "}")
        for alias in aliases:
            for service in file.service:
                out.line(0, f'SERVICES["{alias}.{service.name}"] = SERVICES["{file.package}.{service.name}"]')


def messages_of(files: list[FileDescriptorProto]) -> list[tuple[DescriptorProto, str, str]]:
    """Every message with its full name and the Python name of its class."""
    found = []
    for file in files:
        prefix = f"{file.package}." if file.package else ""
        stack = [(message, prefix + message.name, message.name) for message in file.message_type]
        while stack:
            message, full, name = stack.pop()
            found.append((message, full, name))
            stack += [(inner, f"{full}.{inner.name}", f"{name}.{inner.name}") for inner in message.nested_type]
    return found


def check_same(newer: FileDescriptorProto, older: FileDescriptorProto) -> None:
    text = str(newer).replace(newer.package, older.package).replace(newer.name, older.name)
    if text != str(older):
        sys.exit(f"{newer.name} is no longer the same as {older.name}: add a module for it to MODULES")


def generate(out: Path) -> None:
    files = {file.name: file for file in descriptor_set().file}
    aliases: dict[str, list[str]] = {}
    for newer, older in SAME.items():
        check_same(files[newer], files[older])
        aliases.setdefault(older, []).append(files[newer].package)
    modules = {f"{PACKAGE}.{name}": names for name, names in MODULES.items()}
    missing = set(files) - {name for names in modules.values() for name in names} - set(SAME)
    missing -= set(generate_grpc.SERVICES)
    if missing:
        sys.exit(f"no module for {', '.join(sorted(missing))}: add it to MODULES, or to SERVICES in generate_grpc.py")
    homes: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        for _, full, name in messages_of([files[name] for name in names]):
            is_here = module not in USUAL or name.partition(".")[0] in USUAL[module]
            homes[full] = (module if is_here else module + MORE, name)
    modules |= {module + MORE: modules[module] for module in USUAL}
    for module, names in modules.items():
        text = Module(module, [files[name] for name in names], homes).render(aliases)
        path = out / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT, help="directory that has shim/ and runhcs/ in it")
    target = parser.parse_args().out
    generate(target)
    generate_grpc.generate(target)
