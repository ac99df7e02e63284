# Generated from proto/containerd/services/sandboxes.proto by scripts/generate_grpc.py. Do not edit; `make proto` regenerates it.
import datetime

from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from runhcs.containerd.api.types import metrics_pb2 as _metrics_pb2
from runhcs.containerd.api.types import mount_pb2 as _mount_pb2
from runhcs.containerd.api.types import sandbox_pb2 as _sandbox_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StoreCreateRequest(_message.Message):
    __slots__ = ("sandbox",)
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    sandbox: _sandbox_pb2.Sandbox
    def __init__(self, sandbox: _Optional[_Union[_sandbox_pb2.Sandbox, _Mapping]] = ...) -> None: ...

class StoreCreateResponse(_message.Message):
    __slots__ = ("sandbox",)
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    sandbox: _sandbox_pb2.Sandbox
    def __init__(self, sandbox: _Optional[_Union[_sandbox_pb2.Sandbox, _Mapping]] = ...) -> None: ...

class StoreDeleteRequest(_message.Message):
    __slots__ = ("sandbox_id",)
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    def __init__(self, sandbox_id: _Optional[str] = ...) -> None: ...

class StoreDeleteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StoreListRequest(_message.Message):
    __slots__ = ("filters",)
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, filters: _Optional[_Iterable[str]] = ...) -> None: ...

class StoreListResponse(_message.Message):
    __slots__ = ("list",)
    LIST_FIELD_NUMBER: _ClassVar[int]
    list: _containers.RepeatedCompositeFieldContainer[_sandbox_pb2.Sandbox]
    def __init__(self, list: _Optional[_Iterable[_Union[_sandbox_pb2.Sandbox, _Mapping]]] = ...) -> None: ...

class StoreGetRequest(_message.Message):
    __slots__ = ("sandbox_id",)
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    def __init__(self, sandbox_id: _Optional[str] = ...) -> None: ...

class StoreGetResponse(_message.Message):
    __slots__ = ("sandbox",)
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    sandbox: _sandbox_pb2.Sandbox
    def __init__(self, sandbox: _Optional[_Union[_sandbox_pb2.Sandbox, _Mapping]] = ...) -> None: ...

class ControllerCreateRequest(_message.Message):
    __slots__ = ("sandbox_id", "rootfs", "options", "netns_path", "annotations", "sandbox", "sandboxer")
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    ROOTFS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    NETNS_PATH_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SANDBOXER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    rootfs: _containers.RepeatedCompositeFieldContainer[_mount_pb2.Mount]
    options: _any_pb2.Any
    netns_path: str
    annotations: _containers.ScalarMap[str, str]
    sandbox: _sandbox_pb2.Sandbox
    sandboxer: str
    def __init__(self, sandbox_id: _Optional[str] = ..., rootfs: _Optional[_Iterable[_Union[_mount_pb2.Mount, _Mapping]]] = ..., options: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., netns_path: _Optional[str] = ..., annotations: _Optional[_Mapping[str, str]] = ..., sandbox: _Optional[_Union[_sandbox_pb2.Sandbox, _Mapping]] = ..., sandboxer: _Optional[str] = ...) -> None: ...

class ControllerCreateResponse(_message.Message):
    __slots__ = ("sandbox_id",)
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    def __init__(self, sandbox_id: _Optional[str] = ...) -> None: ...

class ControllerStartRequest(_message.Message):
    __slots__ = ("sandbox_id", "sandboxer")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    SANDBOXER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    sandboxer: str
    def __init__(self, sandbox_id: _Optional[str] = ..., sandboxer: _Optional[str] = ...) -> None: ...

class ControllerStartResponse(_message.Message):
    __slots__ = ("sandbox_id", "pid", "created_at", "labels", "address", "version", "spec")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    pid: int
    created_at: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    address: str
    version: int
    spec: _any_pb2.Any
    def __init__(self, sandbox_id: _Optional[str] = ..., pid: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., address: _Optional[str] = ..., version: _Optional[int] = ..., spec: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...

class ControllerStopRequest(_message.Message):
    __slots__ = ("sandbox_id", "timeout_secs", "sandboxer")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECS_FIELD_NUMBER: _ClassVar[int]
    SANDBOXER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    timeout_secs: int
    sandboxer: str
    def __init__(self, sandbox_id: _Optional[str] = ..., timeout_secs: _Optional[int] = ..., sandboxer: _Optional[str] = ...) -> None: ...

class ControllerStopResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ControllerWaitRequest(_message.Message):
    __slots__ = ("sandbox_id", "sandboxer")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    SANDBOXER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    sandboxer: str
    def __init__(self, sandbox_id: _Optional[str] = ..., sandboxer: _Optional[str] = ...) -> None: ...

class ControllerWaitResponse(_message.Message):
    __slots__ = ("exit_status", "exited_at")
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    EXITED_AT_FIELD_NUMBER: _ClassVar[int]
    exit_status: int
    exited_at: _timestamp_pb2.Timestamp
    def __init__(self, exit_status: _Optional[int] = ..., exited_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ControllerStatusRequest(_message.Message):
    __slots__ = ("sandbox_id", "verbose", "sandboxer")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    VERBOSE_FIELD_NUMBER: _ClassVar[int]
    SANDBOXER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    verbose: bool
    sandboxer: str
    def __init__(self, sandbox_id: _Optional[str] = ..., verbose: _Optional[bool] = ..., sandboxer: _Optional[str] = ...) -> None: ...

class ControllerStatusResponse(_message.Message):
    __slots__ = ("sandbox_id", "pid", "state", "info", "created_at", "exited_at", "extra", "address", "version")
    class InfoEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXITED_AT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    pid: int
    state: str
    info: _containers.ScalarMap[str, str]
    created_at: _timestamp_pb2.Timestamp
    exited_at: _timestamp_pb2.Timestamp
    extra: _any_pb2.Any
    address: str
    version: int
    def __init__(self, sandbox_id: _Optional[str] = ..., pid: _Optional[int] = ..., state: _Optional[str] = ..., info: _Optional[_Mapping[str, str]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., exited_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., extra: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., address: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class ControllerShutdownRequest(_message.Message):
    __slots__ = ("sandbox_id", "sandboxer")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    SANDBOXER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    sandboxer: str
    def __init__(self, sandbox_id: _Optional[str] = ..., sandboxer: _Optional[str] = ...) -> None: ...

class ControllerShutdownResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ControllerMetricsRequest(_message.Message):
    __slots__ = ("sandbox_id", "sandboxer")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    SANDBOXER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    sandboxer: str
    def __init__(self, sandbox_id: _Optional[str] = ..., sandboxer: _Optional[str] = ...) -> None: ...

class ControllerMetricsResponse(_message.Message):
    __slots__ = ("metrics",)
    METRICS_FIELD_NUMBER: _ClassVar[int]
    metrics: _metrics_pb2.Metric
    def __init__(self, metrics: _Optional[_Union[_metrics_pb2.Metric, _Mapping]] = ...) -> None: ...
