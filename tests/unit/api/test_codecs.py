"""The generated codecs against the protobuf runtime (upb): every message, both ways, and arbitrary bytes.

Known differences, none on what a protobuf writer produces: field number zero and varints of more than 64 bits are
refused, as Go refuses them, while upb skips the one and cuts the other; unknown groups may nest to 100 wherever they
are, while upb counts the messages around them too; unknown fields are dropped, while upb keeps them for writing, and
with them a whole entry of a map that has one, which then is not in the map; here it is, as in Go. And of two keys of a
map where one begins with the other, upb writes the longer first; ours are in plain order, as Go's are.
"""

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError as UpbDecodeError
from google.protobuf.message import Message as UpbMessage
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shim.api.wire import DecodeError, Message

ROOT = Path(__file__).resolve().parents[3]


@cache
def generator() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("generate_api")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@cache
def pool() -> descriptor_pool.DescriptorPool:
    made = descriptor_pool.DescriptorPool()
    for file in generator().descriptor_set().file:
        made.Add(file)
    return made


def generated_modules() -> list[Path]:
    return sorted((ROOT / "shim" / "api").glob("*.py"))


def classes() -> dict[str, type[Message]]:
    """Every generated message by its full name."""
    found: dict[str, type[Message]] = {}

    def visit(owner: Any) -> None:
        for value in vars(owner).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found[value.FULL_NAME] = value
                visit(value)

    for path in generated_modules():
        visit(importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)))
    return found


CLASSES = classes()
NAMES = sorted(CLASSES)


def upb_class(name: str) -> type[UpbMessage]:
    made: type[UpbMessage] = message_factory.GetMessageClass(pool().FindMessageTypeByName(name))
    return made


# Equally long keys: none can begin another.
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=3, max_size=3)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
F = FieldDescriptor
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    F.TYPE_STRING: TEXT,
    F.TYPE_BYTES: st.binary(max_size=200),
    F.TYPE_BOOL: st.booleans(),
    F.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    F.TYPE_ENUM: st.integers(-(2**31), 2**31 - 1) | st.integers(0, 5),
    F.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    F.TYPE_UINT32: st.integers(0, 2**32 - 1) | st.integers(0, 300),
    F.TYPE_UINT64: st.integers(0, 2**64 - 1),
    F.TYPE_DOUBLE: st.floats(allow_nan=False),
}


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


@cache
def instances(name: str) -> st.SearchStrategy[Message]:
    """Random instances of our class, made from the descriptor, so that a field missing in our class is noticed."""
    descriptor: Descriptor = pool().FindMessageTypeByName(name)
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in descriptor.fields:
        if is_map(field):
            value = field.message_type.fields_by_name["value"]
            item = instances(value.message_type.full_name) if value.message_type else TEXT
            fields[field.name] = st.dictionaries(KEYS, item, max_size=4)
            continue
        item = instances(field.message_type.full_name) if field.message_type else SCALARS[field.type]
        fields[field.name] = st.lists(item, max_size=4) if is_repeated(field) else item

    def build(values: dict[str, Any]) -> Message:
        for oneof in descriptor.oneofs:
            for extra in [field.name for field in oneof.fields if field.name in values][1:]:
                del values[extra]
        return CLASSES[name](**values)

    return st.fixed_dictionaries({}, optional=fields).map(build)


def to_upb(message: Message) -> UpbMessage:
    made = upb_class(message.FULL_NAME)()
    fill(made, message)
    return made


def fill(made: UpbMessage, message: Message) -> None:
    made.SetInParent()
    for field in made.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if value is None:
            continue
        if is_map(field):
            for key, item in value.items():
                if isinstance(item, Message):
                    fill(getattr(made, field.name)[key], item)
                else:
                    getattr(made, field.name)[key] = item
        elif is_repeated(field):
            for item in value:
                if isinstance(item, Message):
                    fill(getattr(made, field.name).add(), item)
                else:
                    getattr(made, field.name).append(item)
        elif isinstance(value, Message):
            fill(getattr(made, field.name), value)
        else:
            setattr(made, field.name, value)


def from_upb(made: UpbMessage) -> Message:
    values: dict[str, Any] = {}
    for field in made.DESCRIPTOR.fields:
        value = getattr(made, field.name)
        if is_map(field):
            has_messages = field.message_type.fields_by_name["value"].message_type
            values[field.name] = {key: from_upb(value[key]) if has_messages else value[key] for key in value}
        elif is_repeated(field):
            values[field.name] = [from_upb(item) if field.message_type else item for item in value]
        elif field.has_presence:
            if made.HasField(field.name):
                values[field.name] = from_upb(value) if field.message_type else value
        else:
            values[field.name] = value
    return CLASSES[made.DESCRIPTOR.full_name](**values)


def every_message(name: str) -> Any:
    return pytest.mark.parametrize(name, NAMES)


relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)


def test_generated_codecs_are_current(tmp_path: Path) -> None:
    generator().generate(tmp_path)
    generated = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.py")}
    kept = {path.relative_to(ROOT): path.read_text() for path in generated_modules()}
    assert {path: text for path, text in kept.items() if text.startswith("# Generated")} == generated


def test_every_proto_message_has_a_class() -> None:
    named = {full for _, full, _ in generator().messages_of(list(generator().descriptor_set().file))}
    entries = {name for name in named if pool().FindMessageTypeByName(name).GetOptions().map_entry}
    v3 = {name for name in named if name.startswith("containerd.task.v3.")}
    files = [file for file in generator().descriptor_set().file if file.name in generator().generate_grpc.SERVICES]
    only_grpc = {full for _, full, _ in generator().messages_of(files)}
    assert named - entries - v3 - only_grpc == set(CLASSES)


@every_message("name")
@relaxed
@given(data=st.data())
def test_same_bytes_and_values_as_upb(name: str, data: st.DataObject) -> None:
    message = data.draw(instances(name))
    expected = to_upb(message).SerializeToString(deterministic=True)
    assert message.encode() == expected
    assert CLASSES[name].decode(expected) == message
    assert CLASSES[name].decode(memoryview(expected)) == message


def kept_an_entry_apart(made: UpbMessage) -> bool:
    """Does upb hold an entry of a map among the unknown fields?"""
    maps = {field.number for field in made.DESCRIPTOR.fields if is_map(field)}
    if any(field.field_number in maps for field in UnknownFieldSet(made)):
        return True
    values = [value for field, value in made.ListFields() if field.message_type and not is_map(field)]
    inner = [item for value in values for item in ([value] if isinstance(value, UpbMessage) else value)]
    return any(kept_an_entry_apart(item) for item in inner)


def agree(name: str, data: bytes) -> None:
    try:
        made = upb_class(name).FromString(data)
        if kept_an_entry_apart(made):
            return
        expected = from_upb(made)
    except UpbDecodeError:
        expected = None
    try:
        got = CLASSES[name].decode(data)
    except DecodeError as error:
        if str(error) in ("field number is zero", "varint does not fit in 64 bits"):
            return
        got = None
    # By their bytes, since a double may be not-a-number.
    assert (got and got.encode()) == (expected and expected.encode())


@every_message("name")
@relaxed
@given(data=st.binary(max_size=64))
def test_arbitrary_bytes_decode_as_by_upb(name: str, data: bytes) -> None:
    agree(name, data)


VARINT_EDGES = [
    *(bytes([0x80] * count) + b"\x00" for count in range(1, 12)),
    *(bytes([0xFF] * count + [last]) for count in (4, 8, 9, 10) for last in (0x00, 0x01, 0x02, 0x0F, 0x7F)),
]
PIECES = st.one_of(
    st.binary(max_size=4),
    st.sampled_from(VARINT_EDGES),
    st.sampled_from([bytes([number << 3 | wire]) for number in range(16) for wire in range(8)]),
    st.binary(max_size=6).map(lambda data: bytes([len(data)]) + data),
)


@every_message("name")
@relaxed
@given(data=st.data())
def test_damaged_messages_decode_as_by_upb(name: str, data: st.DataObject) -> None:
    """Closer to home than random bytes: real messages, spliced, cut, repeated and with hostile numbers put in."""
    encoded = data.draw(instances(name)).encode()
    if data.draw(st.booleans()):
        encoded += data.draw(instances(name)).encode()
    at = data.draw(st.integers(0, len(encoded)))
    to = data.draw(st.integers(at, len(encoded)))
    agree(name, encoded[:at] + b"".join(data.draw(st.lists(PIECES, max_size=4))) + encoded[to:])


@pytest.mark.parametrize("depth", [1, 50, 99, 100, 101, 5000])
def test_deep_unknown_groups_are_bounded(depth: int) -> None:
    name = "google.protobuf.Empty"
    agree(name, b"\x0b" * depth + b"\x0c" * depth)


@pytest.mark.parametrize("data", [b"\x00\x00", b"\x08" + b"\xff" * 9 + b"\x02"])
def test_input_that_go_rejects_is_rejected(data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"zero|64 bits"):
        CLASSES["google.protobuf.Timestamp"].decode(data)


@pytest.mark.parametrize("keys", [["", "a"], ["a", "ab", "", "a\0"]])
def test_maps_are_encoded_in_key_order(keys: list[str]) -> None:
    from shim.api.task import UpdateTaskRequest

    encoded = UpdateTaskRequest(annotations=dict.fromkeys(keys, "x")).encode()
    assert list(UpdateTaskRequest.decode(encoded).annotations) == sorted(keys)
    agree("containerd.task.v2.UpdateTaskRequest", encoded)


def test_unsigned_numbers_are_masked_and_negative_ones_take_ten_bytes() -> None:
    from shim.api.runhcs_options import Options
    from shim.api.task import StartResponse

    assert StartResponse.decode(StartResponse(pid=-1).encode()).pid == 0xFFFFFFFF
    assert Options(vm_processor_count=-2).encode() == b"\x40\xfe" + b"\xff" * 8 + b"\x01"


def test_last_oneof_field_wins_and_messages_merge() -> None:
    from shim.api.cgroups_v1 import Metrics
    from shim.api.runhcs_stats import Statistics, WindowsContainerStatistics
    from shim.api.wellknown import Timestamp

    windows = Statistics(windows=WindowsContainerStatistics(uptime_ns=1)).encode()
    both = Statistics.decode(windows + Statistics(linux=Metrics()).encode())
    assert both.windows is None and both.linux == Metrics()
    later = Statistics(windows=WindowsContainerStatistics(timestamp=Timestamp(seconds=5))).encode()
    merged = Statistics.decode(windows + later)
    assert merged.windows == WindowsContainerStatistics(uptime_ns=1, timestamp=Timestamp(seconds=5))


def test_any_has_a_bare_type_url() -> None:
    from shim.api.packing import pack, type_name
    from shim.api.task import WaitRequest
    from shim.api.wellknown import Any as AnyMessage

    packed = pack(WaitRequest(id="a"))
    assert packed.type_url == "containerd.task.v2.WaitRequest"
    assert type_name(packed) == "containerd.task.v2.WaitRequest"
    assert type_name(AnyMessage(type_url="types.containerd.io/opencontainers/runtime-spec/1/Spec")) == "Spec"


def test_both_task_services_have_their_methods() -> None:
    from shim.api import task

    assert task.SERVICES["containerd.task.v2.Task"] == task.SERVICES["containerd.task.v3.Task"]
    assert task.SERVICES["containerd.task.v2.Task"]["Kill"][0] is task.KillRequest
    assert len(task.SERVICES["containerd.task.v3.Task"]) == 17
