"""The scenarios of `tests.parity.record`: each has a spec, options and steps that the other recordings do not have."""

from __future__ import annotations

import json
from typing import Any

from tests.parity import lcow_scenarios

CONTAINER = "io.microsoft.container."
VM = "io.microsoft.virtualmachine."
ONCE = ["start", "connect", "create", "run", "wait", "delete", "shutdown", "events"]
FOREVER = {"args": ["cmd", "/c", "ping -n 600 127.0.0.1 >nul"]}
HYPERVISOR = {"sandboxIsolation": "HYPERVISOR", "sandboxPlatform": "windows/amd64"}
EXEC = {"args": ["cmd", "/c", "exit 5"], "cwd": "C:\\", "env": ["A=b", "C="], "user": {"username": "ContainerUser"}}
SLEEP = {"args": ["C:\\tool.exe", "sleep", "600"]}
EXEC_SLEEP = {**EXEC, **SLEEP}
ENDPOINT, HV_ENDPOINT = (f"cccccccc-dddd-eeee-ffff-00000000000{number}" for number in (1, 2))
NAMESPACE = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
LIMITS = {"resources": {"cpu": {"maximum": 3000}, "memory": {"limit": 268435456}}}
RUN = ("start", "connect", "create", "run")
ALL = (*RUN, "wait", "state", "delete", "shutdown", "io", "events")
BUSY = (*RUN, "exec:e1", "run:e1", "wait:e1", "delete:e1", "update", "stats", "pids")
REGISTRY = (
    '[{"Key":{"Hive":"System","Name":"CurrentControlSet\\\\Services\\\\x"},"Name":"a","Type":"DWord","DWordValue":3},'
    '{"Key":{"Hive":"Sam","Name":"y"},"Name":"b","Type":"DWord","DWordValue":3}]'
)

VOLUME = "\\\\?\\Volume{11111111-2222-3333-4444-555555555555}"


def _value(hive: str, key: str, type: str = "DWord", **value: Any) -> dict[str, Any]:
    return {"Key": {"Hive": hive, "Name": key}, "Name": "v", "Type": type, **value}


REGISTRY_VALUES = [
    _value("Software", "Contoso\\X", "String", StringValue="s"),
    _value("System", "currentcontrolset\\policies\\b", "QWord", QWordValue=9),
    _value("System", "Software\\c", "Binary", BinaryValue="AQI="),
    _value("System", "ControlSet001\\Control", DWordValue=1),
    _value("Software", "two", DWordValue=1, StringValue="x"),
    _value("Software", "type", "Foo", DWordValue=1),
    _value("Software", "zero", DWordValue=0),
    _value("Software", "custom", "CustomType", CustomType=5, BinaryValue="AQ=="),
]


def spec(
    process: dict[str, Any] | None = None, windows: dict[str, Any] | None = None, **members: Any
) -> dict[str, Any]:
    init = {
        "user": {"username": "ContainerUser"},
        "args": ["cmd", "/c", "echo hello"],
        "cwd": "C:\\",
        **(process or {}),
    }
    section = {"layerFolders": None, "ignoreFlushesDuringBoot": True, **(windows or {})}
    return {"ociVersion": "1.1.0", "process": init, "root": {"path": ""}, "windows": section, **members}


def once(*, options: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {"spec": spec(**members), "steps": ONCE, "options": options}


def in_vm(**members: Any) -> dict[str, Any]:
    members["windows"] = {"hyperv": {}, **members.get("windows", {})}
    return once(options=HYPERVISOR, **members)


def long_running(*steps: str, **more: Any) -> dict[str, Any]:
    end = ["kill:,9", "wait", "delete", "shutdown", "events"]
    options = more.pop("options", None)
    windows = {"hyperv": {}} if options else {}
    members = {"spec": spec(FOREVER, windows), "steps": ["start", "connect", "create", "run", *steps, *end]}
    return {**members, "options": options, **more}


def mounts(*entries: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [
        {"source": source, "destination": target, **({"options": [option]} if option else {})}
        for source, target, option in entries
    ]


def failing(fault: str, *steps: str, **members: Any) -> dict[str, Any]:
    """`fault` is `CALL=CODE`: the first such call fails."""
    scenario = long_running(*steps) if steps else once(**members)
    return {**scenario, "fail": fault}


def member(pod: str, role: str, steps: tuple[str, ...], id: str = "", **members: Any) -> dict[str, Any]:
    """One task of a pod, with the network namespace of the other recordings."""
    options = members.pop("options", None)
    given = {name: members.pop(name) for name in ("execs", "updates") if name in members}
    section = {"network": {"networkNamespace": NAMESPACE}, **members.pop("windows", {})}
    if options:
        section["hyperv"] = {}
    annotations = {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": pod}
    task_spec = spec(members.pop("process", None), section, annotations=annotations, **members)
    parents = 'parentLayerPaths=["C:\\\\layers\\\\2","C:\\\\layers\\\\1"]'
    root = {"type": "windows-layer", "source": f"C:\\snapshots\\{id or pod}", "options": ["rw", parents]}
    return {"id": id or pod, "spec": task_spec, "rootfs": [root], "steps": list(steps), "options": options, **given}


def pod(name: str, boot: tuple[str, ...], *containers: dict[str, Any], **members: Any) -> dict[str, Any]:
    """The sandbox, its containers in sequence, and the stop of the sandbox."""
    sandbox = {"process": SLEEP, **members}
    end = ("attach", "connect", "kill:,9", "wait", "delete", "shutdown", "events")
    tasks = {f"-{number}": one for number, one in enumerate(containers, 1)}
    return {
        "pod": {
            "-0": member(name, "sandbox", boot, **sandbox),
            **tasks,
            "-9": member(name, "sandbox", end, **sandbox),
        }
    }


SCENARIOS: dict[str, dict[str, Any]] = {
    "limits": once(
        windows={
            "resources": {"cpu": {"shares": 500}, "storage": {"iops": 100, "bps": 200}, "memory": {"limit": 1073741829}}
        }
    ),
    "annotated-limits": once(
        annotations={
            f"{CONTAINER}memory.sizeinmb": "77",
            f"{CONTAINER}processor.count": "1",
            f"{CONTAINER}storage.qos.iopsmaximum": "9",
        },
        windows={"resources": {"memory": {"limit": 536870912}}},
    ),
    "dumps": once(
        annotations={
            f"{CONTAINER}processdumplocation": "C:\\dumps\\{container_id}",
            "io.microsoft.wcow.processdumptype": "mini",
            "io.microsoft.wcow.processdumpcount": "3",
        }
    ),
    "dump-type": once(
        annotations={f"{CONTAINER}processdumplocation": "C:\\d", "io.microsoft.wcow.processdumptype": "tiny"}
    ),
    "device": once(windows={"devices": [{"id": "5b45201d-f2f2-4f3b-85bb-30ff1f953599", "idType": "class"}]}),
    "device-type": once(windows={"devices": [{"id": "x", "idType": "gpu"}]}),
    "mount-without-target": once(mounts=mounts(("C:\\hostdir", "", ""))),
    "gmsa-disabled": once(windows={"credentialSpec": "{}"}, annotations={f"{CONTAINER}wcow.gmsa.disable": "true"}),
    "annotations-conflict": once(
        annotations={"io.microsoft.disable-unsafe-operations": "true", f"{CONTAINER}wcow.gmsa.disable": "false"}
    ),
    "one-layer": {**once(windows={"layerFolders": ["C:\\layers\\1"]}), "rootfs": []},
    "wrong-rootfs": {**once(), "rootfs": [{"type": "lcow-layer", "source": "C:\\snapshots\\own-wrong-rootfs"}]},
    "options-against-spec": once(windows={"hyperv": {}}, options={"sandboxPlatform": "windows/amd64"}),
    "pod-role": once(
        annotations={"io.kubernetes.cri.container-type": "pod", "io.kubernetes.cri.sandbox-id": "own-pod-role"}
    ),
    "no-program": once(process={"args": ["no-such-program.exe"]}),
    "execs": long_running(
        "exec:e1",
        "exec:e1",
        "delete:e1",
        "exec:e2",
        "run:e2",
        "wait:e2",
        "run:e2",
        "kill:e2,9",
        "resize:e2",
        "delete:e2",
        "kill:nosuch,9",
        "kill:e9,9,all",
        "kill:,77",
        execs={"e1": EXEC, "e2": EXEC},
    ),
    "update": long_running(
        "update:0",
        "update:1",
        "update:2",
        updates=[
            {"resources": {"memory": {"limit": 255 << 20}}},
            {"resources": {"cpu": {"count": 1, "shares": 5}}},
            {"resources": {"HostPath": "", "ContainerPath": "C:\\x"}, "type": "ContainerMount"},
        ],
    ),
    "hv-mounts": in_vm(
        mounts=mounts(
            ("C:\\hostdir\\file.txt", "C:\\a.txt", "ro"),
            ("C:\\hostdir\\other.txt", "C:\\b.txt", "ro"),
            ("C:\\hostdir", "C:\\w", ""),
            ("uvm://\\\\.\\pipe\\x", "\\\\.\\pipe\\y", ""),
        )
    ),
    "hv-annotated": in_vm(
        annotations={
            f"{VM}computetopology.memory.sizeinmb": "1001",
            f"{VM}fullyphysicallybacked": "true",
            f"{VM}computetopology.memory.lowmmiogapinmb": "256",
            f"{VM}disablecompartmentnamespace": "true",
            f"{VM}computetopology.processor.count": "1",
            f"{VM}forwardlogs.enable": "false",
        }
    ),
    "hv-registry": in_vm(
        annotations={
            f"{VM}wcow.additional-reg-keys": REGISTRY,
            f"{CONTAINER}processdumplocation": "C:\\dumps",
            f"{VM}hv-socket.service-table.11111111-2222-3333-4444-555555555555": '{"AllowWildcardBinds":true}',
        }
    ),
    "hv-resources": in_vm(
        windows={"resources": {"cpu": {"count": 1}, "memory": {"limit": 734003200}, "storage": {"iops": 7, "bps": 8}}}
    ),
    "hv-credentials": in_vm(windows={"credentialSpec": '{"CmsPlugins":["ActiveDirectory"]}'}),
    "hv-deferred-commit": in_vm(
        annotations={
            f"{VM}computetopology.memory.enabledeferredcommit": "true",
            f"{VM}computetopology.memory.allowovercommit": "false",
        }
    ),
    "hv-update": long_running(
        "update:0",
        "update:1",
        options=HYPERVISOR,
        updates=[{"resources": {"memory": {"limit": 1499 << 20}}}, {"resources": {"cpu": {"maximum": 5000}}}],
    ),
    "registry": once(annotations={f"{CONTAINER}wcow.test-registry-annotation": json.dumps(REGISTRY_VALUES)}),
    "ready-root": {
        **once(root={"path": VOLUME}, windows={"layerFolders": ["C:\\layers\\1", "C:\\snapshots\\x"]}),
        "rootfs": [],
    },
    "endpoints": once(windows={"network": {"DNSSearchList": ["x"], "endpointList": [ENDPOINT]}}),
    "created": {
        "spec": spec(SLEEP),
        "steps": [
            "start",
            "connect",
            "create",
            "pids",
            "stats",
            "update",
            "resize",
            "closeio",
            "pause",
            "resume",
            "checkpoint",
            "kill:,15",
            "state",
            "wait",
            "run",
            "kill:,15",
            "delete",
            "shutdown",
            "events",
        ],
    },
    "exec-stdin": long_running(
        "exec:e1",
        "run:e1",
        "stdin:e1",
        "sleep:200",
        "closeio:e1",
        "wait:e1",
        "io:e1",
        "delete:e1",
        "closeio",
        execs={"e1": {**EXEC, "args": ["C:\\tool.exe", "cat"]}},
    ),
    "kill-exec": long_running(
        "exec:e1",
        "run:e1",
        "kill:e1,77",
        "kill:e1,1",
        "wait:e1",
        "state:e1",
        "delete:e1",
        "exec:e2",
        "kill:e2,15",
        "state:e2",
        "run:e2",
        "delete:e2",
        execs={"e1": EXEC_SLEEP, "e2": EXEC},
    ),
    "fail-activate": failing("ActivateLayer=0x80070015"),
    "fail-mount-path": failing("GetLayerMountPath=0x80070005"),
    "fail-process": failing("HcsCreateProcess=0x80070005"),
    "fail-credentials": failing("HcsModifyServiceSettings=0x80070005", windows={"credentialSpec": "{}"}),
    "fail-terminate": failing("HcsTerminateProcess=0x80070005", "kill:,9", "state"),
    "hv-network": in_vm(windows={"network": {}}),
    "hv-endpoints": in_vm(windows={"network": {"endpointList": [HV_ENDPOINT]}}),
    "hv-dump-directory": in_vm(annotations={f"{VM}dump-directory-path": "C:\\hostdir"}),
    "hv-shares": in_vm(
        annotations={f"{VM}wcow.virtualSMB.nodirectmap": "true"},
        mounts=mounts(
            ("C:\\hostdir", "C:\\a", "ro"),
            ("C:\\hostdir", "C:\\b", "ro"),
            ("C:\\hostdir", "C:\\c", ""),
            ("C:\\hostdir\\file.txt", "C:\\f", ""),
            ("C:\\hostdir\\file.txt", "C:\\g", "ro"),
            ("sandbox:///a/b", "C:\\s", ""),
        ),
    ),
    "hv-disk": in_vm(
        mounts=[
            {"type": "virtual-disk", "source": "C:\\hostdir\\disk.vhdx", "destination": "C:\\disk"},
            {"source": "C:\\hostdir", "destination": "C:\\h"},
        ]
    ),
    "hv-limits": in_vm(
        annotations={
            f"{VM}computetopology.processor.limit": "50000",
            f"{VM}computetopology.processor.weight": "300",
            f"{VM}computetopology.processor.count": "99",
            f"{VM}storageqos.iopsmaximum": "5",
        },
        windows={"resources": {"cpu": {"shares": 400}}},
    ),
    "pod": pod(
        "own-pod",
        ("start", "connect", "create", "state", "run", "exec:e1", "run:e1", "wait:e1", "delete:e1", "events"),
        member(
            "own-pod", "container", ALL, "own-pod-c1", windows=LIMITS, mounts=mounts(("C:\\hostdir", "C:\\d", "ro"))
        ),
        member("own-pod", "container", (*BUSY, "kill:,15", "wait", "delete", "events"), "own-pod-c2", process=SLEEP),
        execs={"e1": EXEC},
    ),
    "hv-pod": pod(
        "own-hv-pod",
        (*RUN, "run", "exec:e1", "resize", "pids", "state:x", "kill:x,9", "delete", "events"),
        member(
            "own-hv-pod",
            "container",
            ALL,
            "own-hv-pod-c1",
            windows=LIMITS,
            hostname="w",
            options=HYPERVISOR,
            mounts=mounts(("C:\\hostdir", "C:\\d", "ro")),
        ),
        member(
            "own-hv-pod",
            "container",
            (*BUSY, "kill:,9", "wait", "delete", "events"),
            "own-hv-pod-c2",
            process=SLEEP,
            options=HYPERVISOR,
        ),
        options=HYPERVISOR,
    ),
}
SCENARIOS |= lcow_scenarios.SCENARIOS
