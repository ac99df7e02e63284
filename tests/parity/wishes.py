"""What our own recordings are of: each a spec, options and steps that the shared ones do not have."""

from __future__ import annotations

from typing import Any

CONTAINER = "io.microsoft.container."
VM = "io.microsoft.virtualmachine."
ONCE = ["start", "connect", "create", "run", "wait", "delete", "shutdown", "events"]
FOREVER = {"args": ["cmd", "/c", "ping -n 600 127.0.0.1 >nul"]}
HYPERVISOR = {"sandboxIsolation": "HYPERVISOR", "sandboxPlatform": "windows/amd64"}
EXEC = {"args": ["cmd", "/c", "exit 5"], "cwd": "C:\\", "env": ["A=b", "C="], "user": {"username": "ContainerUser"}}
REGISTRY = (
    '[{"Key":{"Hive":"System","Name":"CurrentControlSet\\\\Services\\\\x"},"Name":"a","Type":"DWord","DWordValue":3},'
    '{"Key":{"Hive":"Sam","Name":"y"},"Name":"b","Type":"DWord","DWordValue":3}]'
)


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


def lasting(*steps: str, **more: Any) -> dict[str, Any]:
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


WISHES: dict[str, dict[str, Any]] = {
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
    "execs": lasting(
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
    "update": lasting(
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
    "hv-update": lasting(
        "update:0",
        "update:1",
        options=HYPERVISOR,
        updates=[{"resources": {"memory": {"limit": 1499 << 20}}}, {"resources": {"cpu": {"maximum": 5000}}}],
    ),
}
