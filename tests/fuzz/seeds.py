"""Valid inputs of each parser, from which fuzzing begins. The corpus directory has what fuzzing found beyond them."""

from __future__ import annotations

import json
from pathlib import Path

from hcs_emulator.service.transport.wire import Request, encode_request
from shim.api.task import CreateTaskRequest
from shim.api.types import Mount
from shim.ttrpc.core import DATA, REQUEST, RESPONSE, encode_frame
from shim.ttrpc.envelope import encode_request as encode_call
from shim.ttrpc.envelope import encode_response, encode_route
from shim.uvm.gcs import protocol

CORPUS = Path(__file__).parent / "corpus"

_CREATE = CreateTaskRequest(id="c1", bundle="/b", rootfs=[Mount(type="bind", source="/s", options=["ro"])]).encode()
_CALL = encode_call(encode_route("containerd.task.v2.Task", "Create"), _CREATE, 10**9, [("a", "b")])
_SPEC = {
    "ociVersion": "1.1.0", "process": {"args": ["cmd"], "cwd": "C:\\", "user": {"username": "u"}}, "root": {"path": ""},
    "mounts": [{"source": "C:\\a", "destination": "C:\\b"}], "hostname": "h", "linux": {},
    "windows": {"layerFolders": ["C:\\l"], "hyperv": {}, "resources": {"memory": {"limit": 1}}},
    "annotations": {"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-id": "p"},
}  # fmt: skip
_PROPERTIES = {
    "Statistics": {"Timestamp": "2026-01-01T00:00:00.1234567Z", "Processor": {"TotalRuntime100ns": 5},
                   "Memory": {"MemoryUsageCommitBytes": 1}, "Storage": {"ReadCountNormalized": 2}},
    "ProcessList": [{"ProcessId": 4, "ImageName": "cmd.exe"}],
    "LCOWMetrics": {"cpu": {"usage": {"total": 3, "per_cpu": [1]}}, "memory": {"usage": {"limit": 1}}},
}  # fmt: skip
_LOG = {"level": "info", "msg": "text", "time": "now", "a b": 'c"\n'}
_RESPONSE = {"Result": 0, "ErrorMessage": "", "ErrorRecords": [{"Message": "m"}], "ExitCode": 3}

SEEDS: dict[str, list[bytes]] = {
    "ttrpc-frames": [
        encode_frame(1, REQUEST, 0, _CALL) + encode_frame(1, DATA, 1, b"x"),
        encode_frame(1, RESPONSE, 0, encode_response(b"payload")),
    ],
    "protobuf": [bytes([number]) + _CREATE for number in range(0, 200, 20)],
    "toml-options": [b'debug = true\nSandboxIsolation = 1\nNPipe = "x"\n[a]\nb = [1, 2]\n'],
    "annotations": [b"true", b"100", b"1,2,3", b"a,b", b"12345678-1234-1234-1234-123456789012"],
    "config-json": [json.dumps(_SPEC).encode()],
    "guest-messages": [protocol.encode(protocol.RESPONSE, protocol.CREATE, 0, _RESPONSE)],
    "guest-properties": [json.dumps(_PROPERTIES).encode()],
    "linux-guest-log": [json.dumps(_LOG).encode() + b"\n" + b"panic: x\n"],
    "windows-guest-log": [json.dumps({"Level": "Warning", "Message": "m", "x\ny": 1}).encode() + b"\n"],
    "hcs-documents": [b'{"Status":0,"ExitType":"GracefulExit","Attribution":[{}]}',
                      b'{"ExitCode":3,"LastWaitResult":0}',
                      b'{"ErrorMessage":"m","ErrorEvents":[{"Message":"x","StackTrace":"y"}]}'],
    "json-values": [b'{"a":[1,2.5,null,true,"\\u00e4"],"b":{}}', b" [1e3 , -0] "],
    "ledger": [b'{"n":"0","hcs":"i"}\n{"n":"1","enter":"mount","path":"/x"}\n{"n":"1","strike":"mount"}\n'],
    "exit-records": [b"3 1700000000 5 77\n"],
    "command-line": [b"-namespace\0n\0-id\0x\0-address\0/a\0start", b"-id=x\0--debug\0delete\0-bundle\0/b"],
    "stdio-uris": [b"binary:///bin/logger?id=1&a=%20b", b"file:///var/log/x", b"/run/fifo", b"\\\\.\\pipe\\x"],
    "user-names": [b"web:wheel\0web:x:33:34::/:/bin/sh\n\0wheel:x:10:web\n", b"1000:1000\0\0"],
    "registry-hive": [b"regf" + bytes(4092) + b"hbin" + bytes(4092)],
    "emulator-requests": [encode_request(1, Request("HcsCreateComputeSystem", 0, 0, ["c1", "{}", None]))],
}  # fmt: skip


def inputs(name: str) -> list[bytes]:
    """The seeds and the corpus of a parser."""
    return [*SEEDS[name], *(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))]
