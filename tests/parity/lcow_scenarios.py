"""The scenarios of `tests.parity.record` with Linux containers in utility VMs.

The guest is Microsoft's agent, except with several layers in one memory device: for these the agent needs a device
mapper, which the kernel of the recording may lack.
"""

from __future__ import annotations

from typing import Any

from tests.parity.lcow_specs import (
    BUSY,
    CONSTRAINTS,
    EXEC,
    LCOW,
    LIMITS,
    NAMESPACE,
    ONCE,
    RUN,
    SLEEP,
    TRAP,
    VM,
    WORKLOAD,
    annotated,
    bind,
    layer,
    member,
    pod,
    process,
    running,
    scenario,
)

_ALL = [
    # The VM.
    scenario("plain"),
    scenario("multi-mapping", annotations={f"{VM}lcow.bootfilesrootpath": "C:\\boot\\emulated"}, multi_mapping=True),
    scenario(
        "vhd-multi-mapping", annotations={f"{VM}lcow.bootfilesrootpath": "C:\\boot\\emulated-vhd"}, multi_mapping=True
    ),
    scenario("options", options={**LCOW, "vmProcessorCount": 1, "vmMemorySizeInMb": 2048}),
    scenario("boot-files-option", options={**LCOW, "bootFilesRootPath": "C:\\boot\\vhd"}),
    annotated(
        "sized",
        computetopology__memory__sizeinmb="1001",
        computetopology__memory__lowmmiogapinmb="256",
        computetopology__memory__highmmiobaseinmb="512",
        computetopology__processor__count="1",
        computetopology__processor__limit="50000",
        computetopology__processor__weight="300",
        storageqos__iopsmaximum="5",
        storageqos__bandwidthmaximum="6",
    ),
    annotated("processors", computetopology__processor__count="99"),
    scenario(
        "resources",
        windows={"resources": {"cpu": {"count": 1, "shares": 500}, "memory": {"limit": 734003200}}},
        linux={"resources": {**CONSTRAINTS, "pids": {"limit": 100}, "blockIO": {"weight": 10}}},
    ),
    annotated("no-vpmem", devices__virtualpmem__maximumcount="0"),
    annotated("small-vpmem", devices__virtualpmem__maximumsizebytes="1048576"),
    annotated("many-vpmem", devices__virtualpmem__maximumcount="200"),
    annotated("odd-vpmem", devices__virtualpmem__maximumsizebytes="1000"),
    annotated("physical", fullyphysicallybacked="true"),
    annotated("deferred", computetopology__memory__enabledeferredcommit="true"),
    annotated(
        "deferred-physical",
        computetopology__memory__enabledeferredcommit="true",
        computetopology__memory__allowovercommit="false",
    ),
    annotated("cold-discard", computetopology__memory__enablecolddiscardhint="true"),
    annotated("uefi", lcow__kerneldirectboot="false"),
    annotated("vhd", lcow__bootfilesrootpath="C:\\boot\\vhd"),
    annotated("vhd-uefi", lcow__bootfilesrootpath="C:\\boot\\vhd", lcow__kerneldirectboot="false"),
    annotated("vhd-scsi", lcow__bootfilesrootpath="C:\\boot\\vhd", devices__virtualpmem__maximumcount="0"),
    annotated("initrd", lcow__bootfilesrootpath="C:\\boot\\vhd", lcow__preferredrootfstype="initrd"),
    annotated("rootfs-type", lcow__preferredrootfstype="floppy"),
    annotated(
        "kernel",
        lcow__kernelbootoptions="loglevel=7 x=y",
        lcow__vpcienabled="true",
        lcow__timesync__disable="true",
    ),
    annotated("overlays", lcow__bootfilesrootpath="C:\\boot\\vhd", lcow__writable_overlay_directories="true"),
    annotated("console", console__pipe="\\\\.\\pipe\\console"),
    scenario("dumps", annotations={"io.microsoft.container.processdumplocation": "/tmp/cores"}),
    annotated("partition", resource_partition_id="x"),
    annotated("no-boot-files", lcow__bootfilesrootpath="C:\\boot\\none"),
    annotated("no-kernel", lcow__bootfilesrootpath="C:\\boot\\initrd-only"),
    # Options and roots.
    scenario("process-isolation", options={"sandboxPlatform": "linux/amd64"}),
    scenario("windows-platform", options={**LCOW, "sandboxPlatform": "windows/amd64"}),
    scenario("other-platform", options={**LCOW, "sandboxPlatform": "plan9/amd64"}),
    scenario(
        "layer-folders",
        rootfs=[],
        windows={"layerFolders": ["C:\\layers\\2", "C:\\layers\\1", "C:\\snapshots\\own-lcow-layer-folders"]},
    ),
    scenario("one-folder", rootfs=[], windows={"layerFolders": ["C:\\layers\\2"]}),
    scenario("no-root", rootfs=[]),
    scenario("windows-layer", rootfs=[{**layer("own-lcow-windows-layer")[0], "type": "windows-layer"}]),
    scenario("no-parents", rootfs=layer("own-lcow-no-parents", "rw")),
    scenario("missing-layer", rootfs=layer("own-lcow-missing-layer", 'parentLayerPaths=["C:\\\\layers\\\\9"]')),
    scenario("missing-scratch", rootfs=layer("none")),
    scenario(
        "partitioned",
        rootfs=[
            {
                "type": "lcow-partitioned-layer",
                "source": "",
                "options": [
                    "scratch=C:\\snapshots\\own-lcow-partitioned\\sandbox.vhdx",
                    'parent-partitioned-layers=[{"Path":"C:\\\\layers\\\\2\\\\layer.vhd","Partition":0},'
                    '{"Path":"C:\\\\layers\\\\1\\\\layer.vhd","Partition":0}]',
                ],
            }
        ],
    ),
    scenario(
        "partitioned-option",
        rootfs=[{"type": "lcow-partitioned-layer", "source": "", "options": ["scratch=C:\\x.vhdx", "what=ever"]}],
    ),
    # Mounts.
    scenario(
        "mounts",
        ONCE,
        "/bin/sh",
        "-c",
        "cat /a/file.txt /f /g; echo w > /w/new; cat /w/new",
        mounts=[
            bind("C:\\hostdir", "/a", "ro"),
            bind("C:\\hostdir", "/w", "rw"),
            bind("C:\\hostdir\\file.txt", "/f", "ro"),
            bind("C:\\hostdir\\other.txt", "/g"),
            {"destination": "/t", "type": "tmpfs", "source": "tmpfs", "options": ["size=1m"]},
        ],
    ),
    scenario("missing-mount", mounts=[bind("C:\\hostdir\\none", "/a")]),
    scenario("mount-without-target", mounts=[bind("C:\\hostdir", "")]),
    scenario("disk", mounts=[bind("C:\\hostdir\\linux.vhdx", "/disk", "ro", kind="virtual-disk")]),
    scenario("disk-rw", mounts=[bind("C:\\hostdir\\linux.vhdx", "/disk", kind="virtual-disk")]),
    scenario("block-device", mounts=[bind("C:\\hostdir\\linux.vhdx", "blockdev:///dev/x", kind="virtual-disk")]),
    scenario("extensible-disk", mounts=[bind("evd://x", "/disk", kind="extensible-virtual-disk")]),
    scenario("hugepages", mounts=[bind("hugepages://1G/x", "/h")]),
    scenario(
        "read-only-shares",
        mounts=[bind("C:\\hostdir", "/a")],
        annotations={f"{VM}fileshares.disablewritable": "true"},
    ),
    # Processes.
    scenario("exit-code", ONCE, "/bin/sh", "-c", "echo o; echo e >&2; exit 3"),
    scenario("no-program", ONCE, "/no/such/program"),
    scenario("user", ONCE, "/bin/id", process={"user": {"uid": 0, "gid": 0, "username": "daemon"}}),
    scenario(
        "privileged",
        annotations={f"{VM}lcow.privileged": "true"},
        linux={"seccomp": {"defaultAction": "SCMP_ACT_ALLOW"}},
    ),
    scenario(
        "stdin", (*RUN, "stdin", "sleep:200", "closeio", "wait", "io", "delete", "shutdown", "events"), "/bin/cat"
    ),
    scenario(
        "tty",
        (*RUN, "resize", "stdin", "sleep:300", "kill:,9", "wait", "delete", "shutdown", "events"),
        "/bin/cat",
        process={"terminal": True, "consoleSize": {"height": 25, "width": 80}},
    ),
    running(
        "execs",
        "exec:e1", "exec:e1", "delete:e1", "exec:e2", "run:e2", "wait:e2", "io:e2", "run:e2", "kill:e2,9", "resize:e2",
        "delete:e2", "exec:e3", "run:e3", "delete:e3", "kill:nosuch,9",
        execs={"e1": EXEC, "e2": EXEC, "e3": process("/no/such/program")},
    ),
    running(
        "exec-stdin",
        "exec:e1", "run:e1", "stdin:e1", "sleep:200", "closeio:e1", "wait:e1", "io:e1", "delete:e1", "closeio",
        execs={"e1": process("/bin/cat")},
    ),
    running(
        "exec-tty",
        "exec:e1", "run:e1", "resize:e1", "kill:e1,15", "wait:e1", "delete:e1",
        execs={"e1": process("/bin/sleep", "600", terminal=True)},
    ),
    running(
        "kill-exec",
        "exec:e1", "run:e1", "kill:e1,77", "kill:e1,34", "kill:e1,1", "wait:e1", "state:e1", "delete:e1", "exec:e2",
        "kill:e2,15", "state:e2", "run:e2", "delete:e2",
        execs={"e1": process("/bin/sleep", "600"), "e2": EXEC},
    ),
    scenario(
        "signal", (*RUN, "ready", "kill:,10", "wait", "kill:,9", "delete", "shutdown", "events"), process=TRAP
    ),
    scenario("kill-all", (*RUN, "kill:e9,9,all", "kill:,9,all", "wait", "delete", "shutdown", "events"), process=SLEEP),
    scenario(
        "created",
        (
            "start", "connect", "create", "pids", "stats", "update:0", "resize", "closeio", "pause", "resume",
            "checkpoint", "kill:,15", "state", "wait", "run", "kill:,15", "delete", "shutdown", "events",
        ),
        process=SLEEP,
        updates=[LIMITS],
    ),
    scenario("delete-created", ("start", "connect", "create", "delete", "shutdown", "events")),
    running(
        "update",
        "update:0", "update:1", "update:2", "update:3", "update:4", "stats", "pids",
        updates=[
            LIMITS,
            {"type": "LinuxResources", "resources": {"memory": {"limit": 1499 << 20}}},
            {"resources": {"memory": {"limit": 1501 << 20}}},
            {"resources": {"cpu": {"maximum": 5000}}},
            {"type": "ContainerMount", "resources": {"HostPath": "C:\\hostdir", "ContainerPath": "/x"}},
        ],
    ),
    # Failures of HCS and of the guest.
    scenario("fail-create", fail="HcsCreateComputeSystem=0x80370102"),
    scenario("fail-start", fail="HcsStartComputeSystem=0x80070005"),
    scenario("fail-modify", fail="HcsModifyComputeSystem=0x80070005"),
    scenario("fail-grant", fail="GrantVmAccess=0x80070005"),
    scenario(
        "no-answer", fail="guest:NegotiateProtocol=delay", environment={"HCSSHIM_TIMEOUT_GCSCONNECTION": "3"}
    ),
    scenario("crash-create", fail="guest:Create=crash"),
    scenario(
        "crash-exec",
        (*RUN, "exec:e1", "run:e1", "wait:e1", "wait", "state", "delete", "shutdown", "events"),
        process=SLEEP,
        execs={"e1": EXEC},
        fail="guest:ExecuteProcess=crash@2",
    ),
    # Unusual values.
    annotated(
        "malformed",
        computetopology__memory__sizeinmb="much",
        computetopology__memory__allowovercommit="perhaps",
        computetopology__processor__count="0x2",
        computetopology__processor__limit="",
        computetopology__processor__weight="99999999999",
        devices__virtualpmem__maximumcount="-1",
        devices__virtualpmem__maximumsizebytes="4GB",
        lcow__kerneldirectboot="yes",
        lcow__vpcienabled="T",
        storageqos__iopsmaximum="many",
    ),
    scenario(
        "services",
        annotations={
            f"{VM}hv-socket.service-table.AAAAAAAA-2222-3333-4444-555555555555": '{"allowwildcardbinds":true,"X":1}',
            f"{VM}hv-socket.service-table.zzzzzzzz-2222-3333-4444-555555555555": '{"AllowWildcardBinds":true}',
            f"{VM}hv-socket.service-table.bbbbbbbb-2222-3333-4444-555555555555": '{"Disabled":"yes"}',
            f"{VM}hv-socket.service-table.cccccccc-2222-3333-4444-555555555555": '{"Disabled":false}',
        },
    ),
    scenario("log-options", options={**LCOW, "debug": True, "logLevel": "warning"}),
    scenario(
        "own-parts",
        hooks={"prestart": [{"path": "/bin/true"}]},
        linux={
            "resources": {
                "cpu": {"period": 0, "quota": 0}, "memory": {"limit": 64 << 20, "reservation": 32 << 20},
                "hugepageLimits": [{"pageSize": "2MB", "limit": 0}], "unified": {},
            },
            "sysctl": {"net.ipv4.ip_forward": "1"},
        },
        windows={"hyperv": {}, "ignoreFlushesDuringBoot": True},
    ),
    scenario(
        "unsafe",
        annotations={"io.microsoft.disable-unsafe-operations": "true"},
        mounts=[bind("C:\\hostdir", "/a", "RO"), bind("C:\\hostdir", "/b")],
    ),
    scenario("two-mounts", rootfs=[*layer("own-lcow-two-mounts"), *layer("own-lcow-two-mounts")]),
    scenario("target", rootfs=[{**layer("own-lcow-target")[0], "target": "/x"}]),
    scenario("both-roots", windows={"layerFolders": ["C:\\layers\\1", "C:\\snapshots\\x"]}),
    scenario(
        "disks",
        mounts=[
            bind("C:\\hostdir\\linux.vhdx", "/one", "noatime", "ro", kind="virtual-disk"),
            bind("C:\\hostdir\\linux.vhdx", "/two", "ro", "noatime", kind="virtual-disk"),
            bind("C:\\hostdir\\linux.vhdx", "/three", "ro", kind="virtual-disk"),
        ],
    ),
    scenario("sandbox-alone", mounts=[bind("sandbox:///a", "/a")]),
    scenario("hugepages-path", mounts=[bind("hugepages://2M", "/h")]),
    scenario(
        "devices",
        annotations={f"{VM}lcow.vpcienabled": "true"},
        windows={
            "devices": [
                {"id": "PCIP\\VEN_1&DEV_2\\3", "idType": "vpci-instance-id"},
                {"id": "PCIP\\VEN_1&DEV_2/5", "idType": "gpu"},
                {"id": "x", "idType": "class"},
            ]
        },
    ),
    scenario(
        "devices-twice",
        windows={"devices": [{"id": "PCIP\\A", "idType": "vpci"}, {"id": "PCIP\\A\\0", "idType": "gpu"}]},
    ),
    scenario("drivers-missing", annotations={f"{VM}kerneldrivers": "C:\\hostdir\\none.vhd"}),
    annotated("policy-routing", lcow__network__policybasedrouting="true"),
    running(
        "exec-users",
        "exec:e1", "run:e1", "wait:e1", "io:e1", "delete:e1", "exec:e2", "run:e2", "wait:e2", "io:e2", "delete:e2",
        "exec:e3", "run:e3", "delete:e3", "kill:,64", "kill:,0",
        execs={
            "e1": process("/bin/id", user={"uid": 0, "gid": 0, "username": "daemon"}),
            "e2": process("/bin/pwd", cwd="/new/directory", user={"uid": 7, "gid": 8, "additionalGids": [9]}),
            "e3": process("/bin/id", user={"username": "nobody-here"}),
        },
    ),
    running(
        "update-odd",
        "update:0", "update:1", "update:2", "update:3",
        updates=[
            {"type": "LinuxResources", "resources": {"cpu": {"shares": 300}}},
            {"type": "LinuxResources", "resources": {"cpu": {"quota": 60000, "period": 100000}}},
            {"type": "LinuxResources", "resources": {}},
            {"type": "Process", "resources": {"cwd": "/"}},
        ],
    ),
    # Network.
    scenario("network", windows={"network": {"networkNamespace": NAMESPACE}}),
    scenario("new-network", windows={"network": {}}),
]  # fmt: skip

SCENARIOS: dict[str, dict[str, Any]] = {one["id"].removeprefix("own-"): one for one in _ALL}

POD = "own-lcow-pod"
SCENARIOS["lcow-pod"] = pod(
    POD,
    (*RUN, "state", "exec:e1", "run:e1", "wait:e1", "io:e1", "delete:e1", "pids", "stats", "update:0", "events"),
    member(
        POD, "container", WORKLOAD, f"{POD}-c1",
        mounts=[bind("C:\\hostdir", "/d", "ro"), bind("sandbox:///a/b", "/s"), bind("sandbox-tmp:///t", "/t")],
    ),
    member(POD, "container", BUSY, f"{POD}-c2", process=SLEEP, execs={"e1": EXEC}, updates=[LIMITS]),
    member(POD, "container", WORKLOAD, f"{POD}-c3", hostname="w"),
    member(
        POD, "container", WORKLOAD, f"{POD}-c4", process={"args": ["/bin/df", "/dev/shm"]},
        annotations={"io.microsoft.lcow.shm.size-kb": "1024"},
    ),
    member(POD, "container", WORKLOAD, f"{POD}-c5", mounts=[bind("uvm:///none", "/u")]),
    execs={"e1": EXEC},
    updates=[{"type": "LinuxResources", "resources": {"memory": {"limit": 1201 << 20}}}],
)  # fmt: skip
ENDING = "own-lcow-ending"
SCENARIOS["lcow-ending"] = pod(
    ENDING,
    (*RUN, "events"),
    member(ENDING, "container", (*RUN, "events"), f"{ENDING}-c1", process=SLEEP),
    member(ENDING, "other", (*RUN, "events"), f"{ENDING}-c2"),
    hostname="the-pod",
)  # fmt: skip
ODD = "own-lcow-odd"
SCENARIOS["lcow-odd"] = pod(
    ODD,
    (*RUN, "events"),
    # Shares the scratch disk of the sandbox.
    {
        **member(
            ODD, "container", WORKLOAD, f"{ODD}-c1",
            windows={"layerFolders": ["C:\\layers\\1", f"C:\\snapshots\\{ODD}"]},
            mounts=[bind("uvm:///tmp", "/u"), bind("sandbox:///../../x", "/s")],
        ),
        "rootfs": [],
    },
    {
        **member(
            ODD, "container", WORKLOAD, f"{ODD}-c2",
            windows={"layerFolders": ["C:\\layers\\1", f"C:\\snapshots\\{ODD}"]},
            annotations={f"{VM}lcow.privileged": "true"},
            linux={"seccomp": {"defaultAction": "SCMP_ACT_ALLOW"}, "devices": [{"path": "/dev/none", "type": "c"}]},
        ),
        "rootfs": [],
    },
    member(
        ODD, "container", (*RUN, "update:0", "update:1", "kill:,9", "wait", "delete", "shutdown", "events"),
        f"{ODD}-c3", process=SLEEP,
        updates=[{"resources": {"memory": {"limit": 1 << 26}}}, LIMITS],
    ),
    member(ODD, "container", WORKLOAD, f"{ODD}-c4", process={"user": {"username": "user:daemon"}, "args": ["/bin/id"]}),
    member(ODD, "container", WORKLOAD, f"{ODD}-c5", process={"user": {"username": "nobody-here"}}),
    annotations={f"{VM}devices.virtualpmem.maximumcount": "0", f"{VM}computetopology.processor.count": "1"},
)
