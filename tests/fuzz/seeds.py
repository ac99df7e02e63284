"""Valid inputs of each parser, from which fuzzing begins. The corpus directory has what fuzzing found beyond them."""

from __future__ import annotations

import json
from pathlib import Path

from hcs_emulator.service.transport.wire import Request, encode_request
from shim.api.bootstrap import BootstrapParams
from shim.api.runhcs_options import Options
from shim.api.task import CreateTaskRequest
from shim.api.types import Mount
from shim.api.wellknown import Any as Packed
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
_PROCESS = {"args": ["cmd", "/c", "a b"], "cwd": "C:\\x", "env": ["A=b", "C=d e"], "terminal": True,
            "consoleSize": {"height": 5, "width": 9}, "user": {"uid": 1, "gid": 2, "username": "u"}}  # fmt: skip
_VM = {
    "io.microsoft.virtualmachine.computetopology.memory.sizeinmb": "1024",
    "io.microsoft.virtualmachine.computetopology.processor.count": "2",
    "io.microsoft.virtualmachine.lcow.kernelbootoptions": "a=b c",
    "io.microsoft.virtualmachine.computetopology.memory.enabledeferredcommit": "true",
}
_PARAMS = BootstrapParams(instance_id="c1", namespace="n", log_level=-4, socket_dir="/s").encode()
_VALUES = Options(debug=True, sandbox_platform="linux/amd64").encode()
_OPTIONS = Packed(type_url=Options.FULL_NAME, value=_VALUES).encode()
_IDENTITY = {"version": "1", "pid": 7, "namespace": "n", "id": "c1", "is_sandbox": False, "start": "cold"}
_REPORT = {
    "version": 1, "shim": _IDENTITY, "clock": [5, 1700], "dropped": 2,
    "spans": [["rpc Create", "c1", "", 1, 9, [0x80370109, "HcsError"], ["00-a-b-01"],
               [["hcs HcsCreateComputeSystem", 2, 3, None], ["guest Start", 4, 5, [5, ""]]], {"isolation": "process"}],
              ["exit", "c1", "e1", 1, 9, None, [], [], {"exit_status": 3}],
              ["start", "c1", "", 1, 2, None, [], [], {}]],
    "events": [[5, "/tasks/exit", {"container_id": "c1", "id": "c1", "exit_status": 1}], [6, "/tasks/oom", {}]],
}  # fmt: skip
_CALL_ENTRY = {"kind": "call", "shim": 1, "call": "HcsCreateComputeSystem", "begin": 1, "end": 2, "opened": 4,
               "strings": ["c1", {"VirtualMachine": {}}], "code": 0}  # fmt: skip
_RECORDING = [
    {"format": "runhcs-recording", "version": 1},
    {"kind": "shim", "shim": 1, **_IDENTITY, "bundle": "/b", "from_start": True, "build": 20348},
    {"kind": "spec", "shim": 1, "time": 1, "id": "c1", "spec": {}, "paths": {"C:\\a": 5, "/b": {"link": "../c"}}},
    _CALL_ENTRY,
    {"kind": "call", "shim": 1, "call": "HcsGetComputeSystemProperties", "begin": 2, "end": 3, "handle": 4,
     "strings": [None], "document": {"RuntimeId": "11111111-2222-3333-4444-555555555555"}},
    {"kind": "guest", "shim": 1, "procedure": "WaitForProcess", "begin": 3, "end": 4, "request": {"ContainerId": "c1"},
     "response": {"ExitCode": 3}},
    {"kind": "event", "shim": 1, "time": 5, "handle": 4, "type": 1, "data": {}},
    {"kind": "rpc", "shim": 1, "service": "s", "method": "Create", "request": {"id": "c1"}, "begin": 1, "end": 2},
    {"kind": "job", "shim": 1, "function": "spawn", "arguments": [], "begin": 1, "end": 2},
    {"kind": "publish", "shim": 1, "time": 3, "topic": "/tasks/exit", "event": {"container_id": "c1"}},
    {"kind": "notification", "shim": 1, "time": 3, "body": {}},
    {"kind": "end", "left_out": 0, "lost": []},
]  # fmt: skip
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
    "emulator-frames": [protocol.encode(protocol.REQUEST, protocol.CREATE, 0, _RESPONSE)],
    "vm-settings": [json.dumps(_VM).encode()],
    "exec-process": [json.dumps(_PROCESS).encode(), json.dumps({**_PROCESS, "commandLine": "x y"}).encode()],
    "start-stdin": [_PARAMS, _OPTIONS],
    "hcs-events": [b'\x03\0\x00\x0c{"Status":0} \x03\0\x05\0\x04\0\x05\0', b"\x01\0\x02\x06\x03\0\0\0{}\x04\0\x03\0"],
    "guest-bridge": [
        protocol.encode(protocol.RESPONSE, protocol.WAIT_FOR_PROCESS, 5, _RESPONSE)
        + protocol.encode(protocol.NOTIFICATION, protocol.CONTAINER_NOTIFICATION, 0, {"ContainerId": "c1"}),
        protocol.encode(protocol.RESPONSE, protocol.NEGOTIATE_PROTOCOL, 10, {"Version": 4, "Capabilities": {}}),
    ],
    "handovers": [b"\x02runhcs-standby-3\x001\0/b\x002\0-id\0c1\0A=b\0", b"\x03runhcs-standby-3\x000\0/b\x000\0"],
    "agent-reports": [json.dumps(_REPORT).encode()],
    "recordings": ["\n".join(map(json.dumps, _RECORDING)).encode()],
    "emulator-requests": [encode_request(1, Request("HcsCreateComputeSystem", 0, 0, ["c1", "{}", None]))],
}  # fmt: skip


def inputs(name: str) -> list[bytes]:
    """The seeds and the corpus of a parser."""
    return [*SEEDS[name], *(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))]
