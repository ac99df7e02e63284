"""The generated code of one field of a message: its declaration, decoding and encoding."""

from __future__ import annotations

import keyword
import sys
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

if TYPE_CHECKING:
    from generate_api import Module

F = FieldDescriptorProto
# Scalars that are encoded as varints: Python type, expression of the decoded value, expression of the encoded number.
VARINTS = {
    F.TYPE_UINT32: ("int", "{} & 0xFFFFFFFF", "{} & 0xFFFFFFFF"),
    F.TYPE_UINT64: ("int", "{}", "{}"),
    F.TYPE_INT32: ("int", "signed32({})", "{}"),
    F.TYPE_ENUM: ("int", "signed32({})", "{}"),
    F.TYPE_INT64: ("int", "signed64({})", "{}"),
    F.TYPE_BOOL: ("bool", "{} != 0", "1 if {} else 0"),
}
SCALARS = {F.TYPE_STRING: ("str", '""'), F.TYPE_BYTES: ("bytes", 'b""'), F.TYPE_DOUBLE: ("float", "0.0")}
READERS = {F.TYPE_STRING: "read_string", F.TYPE_BYTES: "read_bytes", F.TYPE_DOUBLE: "read_double"}
WRITERS = {F.TYPE_STRING: "put_string", F.TYPE_BYTES: "put_bytes", F.TYPE_DOUBLE: "put_double"}


def tag_bytes(number: int, wire_type: int) -> bytes:
    value, out = number << 3 | wire_type, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


class Writer:
    """The lines of one module."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text if text else "")

    def blank(self, count: int) -> None:
        self.lines += [""] * count


class Field:
    """One field of a message."""

    def __init__(self, proto: F, message: DescriptorProto, full: str, module: Module) -> None:
        self.name, self.number, self.type = proto.name, proto.number, proto.type
        if keyword.iskeyword(self.name) or self.name in ("encode", "decode", "merge"):
            sys.exit(f"{message.name}.{self.name}: this name cannot be an attribute of a message")
        if self.type not in VARINTS and self.type not in SCALARS and self.type != F.TYPE_MESSAGE:
            sys.exit(f"{message.name}.{self.name}: add support for its type to scripts/api_fields.py")
        self.presence = proto.proto3_optional or proto.HasField("oneof_index")
        self.siblings: list[str] = []
        if proto.HasField("oneof_index") and not proto.proto3_optional:
            same = [other for other in message.field if other.HasField("oneof_index")]
            self.siblings = [o.name for o in same if o.oneof_index == proto.oneof_index and o.name != self.name]
        entries = {f".{full}.{n.name}": n for n in message.nested_type if n.options.map_entry}
        self.map_value: str | None = None
        self.repeated = proto.label == F.LABEL_REPEATED
        self.is_map = proto.type_name in entries
        if self.is_map:
            key, value = entries[proto.type_name].field
            if key.type != F.TYPE_STRING or value.type not in (F.TYPE_STRING, F.TYPE_MESSAGE):
                sys.exit(f"{message.name}.{self.name}: add support for its kind of map to scripts/api_fields.py")
            self.map_value = module.refer(value.type_name) if value.type == F.TYPE_MESSAGE else None
            self.item = self.map_value or "str"
        elif self.type == F.TYPE_MESSAGE:
            self.item = module.refer(proto.type_name)
        else:
            self.item = VARINTS[self.type][0] if self.type in VARINTS else SCALARS[self.type][0]
        self.message = self.type == F.TYPE_MESSAGE and not self.is_map
        self.writes_varint = self.type in VARINTS
        # Inside a class with an attribute of that name, `list` in an annotation would be the attribute.
        shadowed = any(field.name == "list" for field in message.field)
        self.list = module.use_list_alias() if shadowed else "list"
        self.module = module

    @property
    def annotation(self) -> str:
        if self.is_map:
            return f"dict[str, {self.item}]"
        if self.repeated:
            return f"{self.list}[{self.item}]"
        return f"{self.item} | None" if self.message or self.presence else self.item

    def parameter(self) -> str:
        if self.is_map or self.repeated:
            return f"{self.name}: {self.annotation} | None = None"
        return f"{self.name}: {self.annotation} = {self.default()}"

    def default(self) -> str:
        if self.message or self.presence:
            return "None"
        if self.type in SCALARS:
            return SCALARS[self.type][1]
        return "False" if self.type == F.TYPE_BOOL else "0"

    def init(self) -> str:
        if self.is_map or self.repeated:
            empty = "{}" if self.is_map else "[]"
            return f"self.{self.name}: {self.annotation} = {empty} if {self.name} is None else {self.name}"
        return f"self.{self.name} = {self.name}"

    # Decoding.

    def tag(self, wire_type: int) -> int:
        return self.number << 3 | wire_type

    @property
    def wire_type(self) -> int:
        if self.writes_varint:
            return 0
        return 1 if self.type == F.TYPE_DOUBLE else 2

    def read(self, out: Writer, condition: str) -> None:
        use = self.module.use
        out.line(3, f"{condition} tag == {self.tag(self.wire_type)}:")
        if self.is_map or self.message:
            self.read_length_delimited(out)
        elif self.writes_varint:
            value = self.value_read()
            out.line(4, f"value, pos = {use('read_varint')}(data, pos, end)")
            out.line(4, f"self.{self.name}.append({value})" if self.repeated else f"self.{self.name} = {value}")
            if self.repeated:
                out.line(3, f"elif tag == {self.tag(2)}:")
                out.line(4, f"pos, stop = {use('read_length')}(data, pos, end)")
                out.line(4, "while pos < stop:")
                out.line(5, "value, pos = read_varint(data, pos, stop)")
                out.line(5, f"self.{self.name}.append({value})")
        elif self.repeated:
            out.line(4, f"item_{self.number}, pos = {use(READERS[self.type])}(data, pos, end)")
            out.line(4, f"self.{self.name}.append(item_{self.number})")
        else:
            out.line(4, f"self.{self.name}, pos = {use(READERS[self.type])}(data, pos, end)")
        for sibling in self.siblings:
            out.line(4, f"self.{sibling} = None")

    def value_read(self) -> str:
        expression = VARINTS[self.type][1]
        if "signed" in expression:
            self.module.use(expression.partition("(")[0])
        return expression.format("value")

    def read_length_delimited(self, out: Writer) -> None:
        use = self.module.use
        if self.is_map:
            out.line(4, f"pos, stop = {use('read_length')}(data, pos, end)")
            if self.map_value is None:
                out.line(4, f"key, text = {use('read_string_entry')}(data, pos, stop)")
                out.line(4, f"self.{self.name}[key] = text")
            else:
                out.line(4, f"item_{self.number} = {self.map_value}()")
                out.line(4, f"key = {use('read_message_entry')}(data, pos, stop, item_{self.number})")
                out.line(4, f"self.{self.name}[key] = item_{self.number}")
        else:
            out.line(4, f"pos, stop = {use('read_length')}(data, pos, end)")
            if self.repeated:
                out.line(4, f"item_{self.number} = {self.item}()")
                out.line(4, f"item_{self.number}.merge(data, pos, stop)")
                out.line(4, f"self.{self.name}.append(item_{self.number})")
            else:
                out.line(4, f"if self.{self.name} is None:")
                out.line(5, f"self.{self.name} = {self.item}()")
                out.line(4, f"self.{self.name}.merge(data, pos, stop)")
        out.line(4, "pos = stop")

    # Encoding.

    def write(self, out: Writer) -> None:
        use = self.module.use
        name, tag = f"self.{self.name}", tag_bytes(self.number, self.wire_type)
        if self.is_map:
            out.line(2, f"for key in sorted({name}):")
            value = f"put_string(b'\\x12', {name}[key])"
            if self.map_value:
                value = f"put_bytes(b'\\x12', {name}[key].encode())"
            out.line(3, f"out.append({use('put_bytes')}({tag!r}, {use('put_string')}(b'\\n', key) + {value}))")
        elif self.repeated and self.writes_varint:
            number = VARINTS[self.type][2].format("value")
            out.line(2, f"if {name}:")
            packed = f"b''.join([{use('varint')}({number}) for value in {name}])"
            out.line(3, f"out.append({use('put_bytes')}({tag_bytes(self.number, 2)!r}, {packed}))")
        elif self.repeated:
            out.line(2, f"for item_{self.number} in {name}:")
            out.line(3, f"out.append({self.written(f'item_{self.number}', tag)})")
        elif self.message or self.presence:
            out.line(2, f"if {name} is not None:")
            out.line(3, f"out.append({self.written(name, tag)})")
        elif self.type == F.TYPE_DOUBLE:
            out.line(2, f"out.append({self.written(name, tag)})")
        else:
            out.line(2, f"if {name}:")
            text = repr(tag + b"\1") if self.type == F.TYPE_BOOL else self.written(name, tag)
            out.line(3, f"out.append({text})")

    def written(self, value: str, tag: bytes) -> str:
        use = self.module.use
        if self.message:
            return f"{use('put_bytes')}({tag!r}, {value}.encode())"
        if self.writes_varint:
            return f"{tag!r} + {use('varint')}({VARINTS[self.type][2].format(value)})"
        return f"{use(WRITERS[self.type])}({tag!r}, {value})"
