"""Pods and networks: both Linux guests get the same messages. Where their answers differ, Microsoft's agent is
right."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm import bridge_frames as frames
from tests.support.guest_transcript import Transcript
from tests.support.linux_image import make_scratch
from tests.support.linux_vm import oci_process, ok, spec

UNKNOWN = "unknown"


def sandbox_spec(guest: Transcript, root: str, **annotations: str) -> dict[str, Any]:
    labels = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "pod"}
    labels |= {"io.microsoft.cri.skip-pod-networking": "true"} | annotations
    return spec(root, "sleep", "1000", hostname="pod.example", annotations=labels)


def workload_spec(root: str, pid: int, *args: str, **annotations: str) -> dict[str, Any]:
    labels = {"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-id": "pod"} | annotations
    document = spec(root, *args, annotations=labels)
    document["linux"]["namespaces"] = [
        {"type": "mount"},
        {"type": "pid"},
        *(
            {"type": name, "path": f"/proc/{pid}/ns/{file}"}
            for name, file in (("network", "net"), ("ipc", "ipc"), ("uts", "uts"))
        ),
    ]
    return document


def start_sandbox(guest: Transcript) -> int:
    root = guest.vm.prepare(guest.bridge, "pod", device=0, lun=0)
    guest.create("create sandbox", "pod", sandbox_spec(guest, root))
    return guest.start("pod").pid


def test_pod_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "one", device=1, lun=1)
        guest.create("workload first", "one", workload_spec(root, 1, "cat"))
        pid = start_sandbox(guest)
        document = workload_spec(root, pid, "cat", **{"io.microsoft.lcow.shm.size-kb": "512"})
        guest.create("hostname", "one", document | {"hostname": "own"})
        document["process"]["user"] = {"username": "user"}
        document["mounts"] += [
            {"destination": "/shared", "type": "bind", "source": "sandbox:///data", "options": ["rbind"]},
            {"destination": "/fast", "type": "bind", "source": "sandbox-tmp:///data", "options": ["rbind"]},
            {"destination": "/vm", "type": "bind", "source": "uvm:///etc/hostname", "options": ["bind", "ro"]},
        ]
        guest.create("create", "one", document)
        init = guest.start("one", StdIn=True, StdOut=True)
        guest.run("user", "one", "id")
        guest.run("as root", "one", "id", user={"username": "0:0"})
        guest.run("unknown number", "one", "id", user={"username": "4242"})
        guest.refused_exec("unknown name", "one", "id", user={"username": "nobody-here"})
        guest.run("files", "one", "sh", "-c", "cat /etc/hostname /etc/hosts /etc/resolv.conf /vm")
        guest.run("names", "one", "sh", "-c", "cat /proc/sys/kernel/hostname")
        guest.run(
            "mounts",
            "one",
            "sh",
            "-c",
            "while read s d t o r; do case $d in /shared|/fast|/dev/shm) echo $d $t; esac; done </proc/mounts",
        )
        guest.run("write", "one", "sh", "-c", "echo 1 >/shared/a && echo 2 >/fast/b && stat -c %a /shared /fast")
        other = guest.vm.prepare(guest.bridge, "two", device=2, lun=2)
        second = workload_spec(other, pid, "sh", "-c", "cat /shared/a; readlink /proc/self/ns/net >/dev/null; exit 2")
        second["mounts"] += [
            {"destination": "/shared", "type": "bind", "source": "sandbox:///data", "options": ["rbind"]}
        ]
        guest.create("create two", "two", second)
        run = guest.start("two", StdOut=True)
        guest.record("two", (run.read(), run.wait()))
        guest.notification("exit of two", "two")
        guest.call("stats", frames.GET_PROPERTIES, "one", Query='{"PropertyTypes":["Statistics"]}')
        init.streams["StdIn"].shutdown(1)
        guest.record("one", (init.read(), init.wait()))
        for name, device in (("one", 1), ("two", 2)):
            guest.vm.release(guest.bridge, name, device=device, lun=device)
            guest.call(f"delete {name}", frames.DELETE_CONTAINER_STATE, name)
        guest.call("kill sandbox", frames.SIGNAL_PROCESS, "pod", ProcessId=pid)
        guest.call("wait", frames.WAIT_FOR_PROCESS, "pod", ProcessId=pid, TimeoutInMs=0xFFFFFFFF)
        guest.notification("exit of the sandbox", "pod")
        guest.call("delete sandbox with its disk", frames.DELETE_CONTAINER_STATE, "pod", text=False)

    answers = compare(scenario)
    assert "pod pod does not exist" in answers["workload first"]["ErrorMessage"]
    assert "must not change hostname" in answers["hostname"]["ErrorMessage"]
    assert answers["user"] == (0, "uid=1000(user) gid=1000(user) groups=1000(user)\n")
    assert answers["two"] == (b"1\n", 2)


def test_mount_prefixes_same_refusals(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        pid = start_sandbox(guest)
        root = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        for label, source in (
            ("escape", "sandbox://../../../etc"),
            ("escape tmpfs", "sandbox-tmp://../x"),
            ("missing", "uvm:///no/such/file"),
            ("hugepages", "hugepages://../x"),
        ):
            document = workload_spec(root, pid, "cat")
            document["mounts"] += [{"destination": "/x", "type": "bind", "source": source, "options": ["rbind"]}]
            guest.create(label, "app", document)
        for label, value in (("shm text", "many"), ("shm zero", "0")):
            guest.create(label, "app", workload_spec(root, pid, "cat", **{"io.microsoft.lcow.shm.size-kb": value}))
        for label, value in (("core", "1"), ("core text", "a;2")):
            guest.create(label, "app", workload_spec(root, pid, "cat", **{"io.microsoft.lcow.rlimitcore": value}))
        document = workload_spec(root, pid, "cat")
        document["linux"]["devices"] = [{"path": "/dev/no-such", "type": "c", "major": 1, "minor": 3}]
        guest.create("device", "app", document)
        document = workload_spec(root, pid, "cat")
        document["windows"] = {"devices": [{"id": "5d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b01", "idType": "gpu"}]}
        guest.create("GPU", "app", document)
        document = workload_spec(root, pid, "cat")
        document["process"]["user"] = {"username": "a:b:c"}
        guest.create("user", "app", document)

    answers = compare(scenario)
    assert "is not within sandbox's mounts dir" in answers["escape"]["ErrorMessage"]


def test_shared_pid_namespace_same_end(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        pid = start_sandbox(guest)
        root = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        document = workload_spec(root, pid, "sh", "-c", "sleep 1000 & exit 5")
        document["linux"]["namespaces"] = [{"type": "mount"}, {"type": "pid", "path": f"/proc/{pid}/ns/pid"}]
        guest.create("create", "app", document)
        init = guest.start("app", StdOut=True)
        guest.record("exit", (init.read(), init.wait()))

    assert compare(scenario)["exit"] == (b"", 5)


def test_privileged_and_devices_same_nodes(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        pid = start_sandbox(guest)
        root = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        label = {"io.microsoft.virtualmachine.lcow.privileged": "true"}
        guest.create("privileged", "app", workload_spec(root, pid, "cat", **label))
        guest.start("app", StdIn=True)
        guest.run("nodes", "app", "sh", "-c", "ls /dev; head -c 4 /dev/pmem0 >/dev/null && echo read")
        other = guest.vm.prepare(guest.bridge, "two", device=2, lun=2)
        document = workload_spec(other, pid, "cat")
        document["linux"]["devices"] = [{"path": "/dev/pmem0", "type": "b", "major": 1, "minor": 1}]
        guest.create("device", "two", document)
        guest.start("two", StdIn=True)
        guest.run("one node", "two", "sh", "-c", "ls /dev; head -c 4 /dev/pmem0 >/dev/null && echo read")

    answers = compare(scenario)
    assert answers["one node"][1].endswith("read\n")


def test_special_mounts_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        pid = start_sandbox(guest)
        root = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        guest.vm.attach(2, make_scratch(guest.vm.directory / "block.vhdx"))
        guest.modify("block device", "MappedVirtualDisk", "Add", {"Lun": 2, "MountPath": f"{root}/b", "BlockDev": True})
        labels = {
            "io.microsoft.container.lcow.tee-log-path": "app/log",
            "io.microsoft.container.lcow.tee-log-dir-mount": "/logs",
        }
        document = workload_spec(root, pid, "sh", "-c", "echo to the log; read line", **labels)
        document["mounts"] += [
            {"destination": "blockdev:///dev/disk", "type": "bind", "source": f"{root}/b", "options": ["bind", "ro"]},
            {"destination": "/huge", "type": "bind", "source": "hugepages://2M/app", "options": ["bind"]},
        ]
        guest.create("create", "app", document)
        init = guest.start("app", StdIn=True, StdOut=True)
        guest.record("output", init.streams["StdOut"].recv(100))
        guest.run("mounts", "app", "sh", "-c", "cat /logs/app/log; [ -b /dev/disk ] && head -c 4 /dev/disk | head -c 1")
        guest.run("huge", "app", "sh", "-c", "while read s d t o; do [ $d = /huge ] && echo $t; done </proc/mounts")

    answers = compare(scenario)
    assert answers["huge"] == (1, "hugetlbfs\n")
    assert answers["mounts"][1].startswith("to the log\n")


# network


def test_network_same_configuration(compare: Callable[..., Any]) -> None:
    namespace, nic = "5d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b01", "6d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b02"

    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "pod")
        document = sandbox_spec(guest, root, **{"io.microsoft.cri.skip-pod-networking": ""})
        document["windows"] = {"network": {"networkNamespace": namespace.upper()}}
        guest.create("unknown namespace", "pod", document)
        guest.vm.add_adapter(nic)
        settings = {
            "NamespaceID": namespace,
            "ID": nic.upper(),
            "MacAddress": "00-15-5D-00-00-01",
            "DNSSuffix": "a.local,b.local",
            "DNSServerList": "10.0.0.10,10.0.0.11",
            "EncapOverhead": 50,
            "IPConfigs": [{"IPAddress": "10.1.2.3", "PrefixLength": 24}],
            "Routes": [
                {"NextHop": "10.1.2.1", "DestinationPrefix": "0.0.0.0/0"},
                {"NextHop": "10.9.9.9", "DestinationPrefix": "10.7.0.0/16"},
            ],
        }
        guest.modify("add", "Network", "Add", settings)
        guest.modify("add again", "Network", "Add", settings)
        guest.create("create", "pod", document)
        guest.start("pod")
        guest.run("routes", "pod", "sh", "-c", "while read i d g f r; do echo $i $d $g $f; done </proc/net/route")
        guest.run("addresses", "pod", "cat", "/proc/net/fib_trie")
        guest.run("mtu", "pod", "sh", "-c", "cat /sys/class/net/*/mtu")
        app = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        pid = json.loads(
            ok(guest.bridge.call(frames.GET_PROPERTIES, "pod", Query='{"PropertyTypes":["ProcessList"]}'))["Properties"]
        )["ProcessList"][0]["ProcessId"]
        guest.create("create app", "app", workload_spec(app, pid, "cat"))
        guest.start("app", StdIn=True)
        guest.run("files", "app", "cat", "/etc/hosts", "/etc/hostname")
        resolver = guest.vm.execute(guest.bridge, "app", oci_process("cat", "/etc/resolv.conf"), StdOut=True)
        # Microsoft's guest writes the search domains in any order.
        guest.record("resolver", sorted(resolver.read().decode().split()))
        resolver.wait()
        guest.modify("remove", "Network", "Remove", {"NamespaceID": namespace, "ID": nic})
        guest.modify("remove again", "Network", "Remove", {"NamespaceID": namespace, "ID": nic})
        guest.modify("unknown", "Network", "Remove", {"NamespaceID": UNKNOWN, "ID": nic})

    answers = compare(scenario)
    assert answers["unknown namespace"]["Result"] == "80070490"
    assert "1450" in answers["mtu"][1]
    assert answers["resolver"] == ["10.0.0.10", "10.0.0.11", "a.local", "b.local", "nameserver", "nameserver", "search"]
