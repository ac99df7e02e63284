"""The intended differences from the recordings, each with its reason: a heading of docs/reference/parity.md.

A difference is a line of `tests.parity.differences`, in which `<id>` is the task of the case. It is allowed if the
recording has all lines of `given`, and required if it has all lines of `when`: an outdated entry fails the test. `when`
is empty for differences that may or may not occur, such as races. `recorded_only` marks what generated cases do not
have (`tests.differential`): their processes do not exit while a call is made, and no container outlives its sandbox.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    reason: str
    difference: str
    when: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    recorded_only: bool = False

    # `recording` has the lines of `tests.parity.differences.outline`.

    def allows(self, line: str, recording: list[str]) -> bool:
        return re.fullmatch(self.difference, line) is not None and _has(recording, self.given)

    def is_required(self, recording: list[str]) -> bool:
        return bool(self.when) and _has(recording, self.when)


def _has(recording: list[str], all_of: tuple[str, ...]) -> bool:
    return all(any(re.fullmatch(one, line) for line in recording) for one in all_of)


SECOND_HANDLE = "A kill uses a second handle without callbacks"
CLOSED_LATER = "The exit is published before the process handle is closed"
STATS_AT_EXIT = "Stats are sampled once more at exit"
REFUSED_EARLIER = "An invalid spec is refused before anything is created"
UPDATE = "A task that has exited is not updated"
LINUX = "Message types for Linux clients"
RACES = "Races"
DELETE = "`delete` releases the ledger and returns the real exit status"
CLEANED_UP = "A failed Create is cleaned up"
SENT_AGAIN = "Events are sent again after a restart of containerd"
EXECS_FIRST = "Execs are terminated before the container is shut down"
NAMESPACE = "A namespace is deleted through HCN"
GUEST_NETWORK = "The guest receives the resource type on removal"
POD = "Deleting a sandbox stops its containers"

REFUSED = r"answer Create (?!OK).*"
EVENT = r"event contents: \w+\.(exit|delete)( again)?"
EXEC_EVENT = r"event contents: e\d\.(exit|delete)"
#: The exit and the deletion of a process, which Microsoft's shim has not published.
MORE_EVENTS = (
    r"event contents: \w+\.(order is \"(?P<order>.*)\", here \"(?P=order)( exit)?( delete)?\""
    r"|(exit|delete) is .*, not in theirs)"
)
LINUX_CONTAINER = r"linux container"
USERS = "Users of standalone Linux containers are resolved"
NOT_STARTED = "A Linux container that was not started is terminated"
HOST_NOT_STARTED = "A host process container that was not started can be deleted"
EXITED = "A Linux container that has exited is not shut down"

EXPECTED = (
    Expected(
        "Connect returns the pid of the task",
        r"answer Connect: taskPid is missing",
        (r"answer start OK", r"answer Connect OK"),
    ),
    Expected(
        "No property query after create",
        r"hcs - HcsGetComputeSystemProperties <id>(@vm)?",
        (r"hcs HcsGetComputeSystemProperties <id>(@vm)?", r"hcs HcsCreateComputeSystem .*"),
    ),
    Expected(
        STATS_AT_EXIT,
        r"hcs \+ HcsGetComputeSystemProperties <id> Statistics",
        (r"answer Wait\(\) OK", r"hcs HcsSetProcessCallback <pid>"),
    ),
    Expected(STATS_AT_EXIT, r"hcs \+ HcsGetComputeSystemProperties <id>@vm Statistics,Memory"),
    Expected(STATS_AT_EXIT, r"guest [+-] guest:GetProperties .*"),
    Expected(STATS_AT_EXIT, r"guest guest:GetProperties .*: Query.PropertyTypes\[0\] is .*"),
    Expected(STATS_AT_EXIT, r"answer (Pids|Stats): code Unknown, here OK", (r"answer Pids Unknown",)),
    # OK: Microsoft's shim closes its handle in another thread.
    Expected(
        STATS_AT_EXIT,
        r"answer (Pids: code Unknown|Stats: code (OK|Unknown)), here NotFound",
        given=(r"answer Start (?!OK).*",),
    ),
    Expected(
        "Stdio is closed when Create fails",
        r"answer after-failed-create: it is .*, here \"released\"",
        (r"answer after-failed-create OK",),
    ),
    Expected(
        REFUSED_EARLIER,
        r"hcs - (CreateSandbox|Activate|Prepare|Unprepare|Deactivate)Layer",
        (r"case (?!own-fail-).*", r"answer Create Unknown", r"hcs CreateSandboxLayer", r"hcs calls 6"),
    ),
    Expected(REFUSED_EARLIER, r"hcs - GetLayerMountPath"),
    Expected(REFUSED_EARLIER, r"(hcs|guest) - .*", given=(REFUSED,)),
    Expected(REFUSED_EARLIER, r"hcs \+ HcsGetServiceProperties {2}ProcessorTopology", given=(REFUSED,)),
    # Of two such calls, the one for another disk is missing.
    Expected(REFUSED_EARLIER, r"hcs GrantVmAccess: it is .*", given=(REFUSED,)),
    Expected(CLEANED_UP, r"hcs \+ HcsOpenComputeSystem <id>@vm", given=(REFUSED,)),
    Expected(
        CLEANED_UP, r"hcs \+ Hcn(OpenNamespace|ModifyNamespace {2}Remove {2}Endpoint|DeleteNamespace)", given=(REFUSED,)
    ),
    Expected(CLEANED_UP, r"hcs \+ HcsModifyServiceSettings", given=(REFUSED, r"hcs HcsModifyServiceSettings")),
    Expected(
        "A VM that has crashed is terminated",
        r"hcs \+ HcsTerminateComputeSystem <id>@vm",
        given=(r"crash of the guest",),
    ),
    # As soon as it boots, for want of memory.
    Expected("A VM that has crashed is terminated", r"hcs \+ HcsTerminateComputeSystem <id>@vm", given=(REFUSED,)),
    Expected("A second Create is refused at once", r"answer Create: code Unknown, here AlreadyExists"),
    Expected(
        "A failed VM start fails Create", r"answer Create: text .*handle has already been closed', .*"
    ),
    Expected(
        "The name of the kernel depends on its own directory",
        r"answer Create: text \"kernel: '.*vmlinux' not found\", here .*",
        given=(LINUX_CONTAINER,),
    ),
    Expected(
        "A lost connection to the guest names the request",
        r"answer (Create|Start): text '.*bridge closed: use of closed network connection', here '.*guest RPC failure.*",
        (r"crash of the guest",),
    ),
    Expected(
        "A kill succeeds if the VM crashes",
        r"answer Kill\(.*\): code Unknown, here OK",
        given=(r"crash of the guest",),
    ),
    Expected("An invalid option is InvalidArgument", r"answer Create: code Unknown, here InvalidArgument"),
    Expected("Unsupported container types", r"answer Create: code Unknown, here Unimplemented"),
    Expected(
        "Host process containers can be updated",
        r"answer Update: code Unknown, here (OK|Unimplemented)",
        given=(r"host process container",),
    ),
    Expected(
        "A VM is closed when its container cannot start",
        r"answer Update: (code OK, here Unknown|text 'hcs::System::Modify <id>@vm: .*)",
        given=(r"answer Start (?!OK).*", r"hcs HcsCreateComputeSystem <id>@vm"),
    ),
    Expected(
        UPDATE,
        r"answer Update: text 'guest RPC failure: cannot modify: .*', here 'hcs::System::Modify <id>: .*",
    ),
    # OK: Microsoft's shim closes its handle in another thread.
    Expected(UPDATE, r"answer Update: code OK, here Unknown", given=(r"answer Start (?!OK).*",)),
    Expected(
        UPDATE,
        r"(guest - guest:ModifySettings|hcs - HcsModifyComputeSystem) <id> Update Container/.*",
        given=(r"answer Start (?!OK).*", r"answer Update (OK|Unknown)"),
    ),
    Expected(
        "A VM is closed when its container cannot start",
        r"hcs - HcsGetComputeSystemProperties <id>@vm Statistics,Memory",
        given=(r"answer Start (?!OK).*", r"hcs HcsCreateComputeSystem <id>@vm"),
    ),
    # Of two errors in a spec, or of one that HCS finds.
    Expected(
        REFUSED_EARLIER,
        r"answer Create: text ['\"](error in preparing config doc:|error while creating the compute system:"
        r"|invalid spec - Windows Container CPU|vNUMA topology is not supported|UVM options incorrect:) .*['\"], "
        r"here ['\"](invalid OCI spec|(failed to add VSMB share to utility VM for mount mounts\[\d\]: )?"
        r"failed to resolve path|could not open bind mount target:|windows\.resources\.memory\.limit is) .*",
    ),
    Expected(
        "Of several invalid mounts the first is named",
        r"answer Create: text 'invalid OCI spec - a mount must have both .*', here 'failed to resolve path .*",
    ),
    Expected(
        "A killed host process exits with 4294967295",
        rf"answer (Wait\(.*\): |Delete\(.*\): |State: |{EVENT}\.)exitStatus is 1, here 4294967295",
        given=(r"host process container",),
    ),
    Expected(
        EXECS_FIRST,
        rf"answer (Wait\(.+\): |Delete\(.+\): |State: |{EXEC_EVENT}\.)exitStatus is \d+, here 4294967295",
        given=(r"answer Exec\(.*\) OK",),
    ),
    Expected(EXECS_FIRST, r"guest \+ guest:SignalProcess \S+", given=(r"answer Exec\(.*\) OK",)),
    Expected(
        "A process that did not start is terminated without a shutdown",
        r"guest - guest:Shutdown(Graceful|Forced) \S+",
        given=(r"answer Start Unknown",),
    ),
    Expected(
        "The disk of a container that cannot start is detached",
        r"hcs \+ HcsModifyComputeSystem \S+@vm Remove VirtualMachine/Devices/Scsi/<guid>/Attachments/\d+",
        given=(r"answer Start (?!OK).*",),
    ),
    Expected(
        EXITED,
        r"guest - guest:Shutdown(Graceful|Forced) <id>",
        (LINUX_CONTAINER, r"answer Wait\(\) OK", r"guest guest:ShutdownGraceful <id>"),
    ),
    # A race: Microsoft's shim kills the process whose streams it closes, unless it knows of the exit.
    Expected(EXITED, r"guest - guest:SignalProcess <id>", given=(LINUX_CONTAINER,)),
    Expected(NOT_STARTED, r"guest - guest:ShutdownGraceful <id>", given=(LINUX_CONTAINER,)),
    Expected(NOT_STARTED, r"guest \+ guest:ShutdownForced <id>", given=(LINUX_CONTAINER,)),
    Expected(
        NOT_STARTED,
        r"answer Delete\(\): code Unknown, here OK",
        (LINUX_CONTAINER, r"answer Delete\(\) Unknown"),
    ),
    Expected(
        NOT_STARTED,
        r"hcs \+ Hcs(ModifyComputeSystem <id>@vm Remove .*|(Terminate|Close)ComputeSystem <id>@vm)",
        given=(LINUX_CONTAINER, r"answer Delete\(\) Unknown"),
    ),
    Expected(
        NOT_STARTED,
        r"guest \+ guest:ModifySettings \S+ Remove .*",
        given=(LINUX_CONTAINER, r"answer Delete\(\) Unknown"),
    ),
    Expected(
        NOT_STARTED,
        rf"answer (events: it is \[\"/tasks/create\"(, \"/tasks/exit\")?\], .*|{MORE_EVENTS})",
        given=(LINUX_CONTAINER, r"answer Delete\(\) Unknown"),
    ),
    Expected(
        NOT_STARTED,
        r"guest \+ guest:DeleteContainerState <id>",
        given=(LINUX_CONTAINER, r"answer Delete\(\) Unknown"),
    ),
    Expected(
        HOST_NOT_STARTED,
        rf"answer (Delete\(\): code Unknown, here OK|events: it is \[\"/tasks/create\"\], .*|{MORE_EVENTS})",
        given=(r"host process container", r"answer Delete\(\) Unknown"),
    ),
    Expected(
        HOST_NOT_STARTED,
        r"answer Wait\(\): code DeadlineExceeded, here OK",
        given=(r"host process container", r"answer Kill\(.*\) .*"),
    ),
    Expected(
        "A host process that cannot be started does not crash the shim",
        r"answer .*|hcs \+ .*",
        given=(r"host process container", r"answer Start Unknown", r"answer .* ttrpc: closed"),
    ),
    Expected(
        HOST_NOT_STARTED,
        r"hcs \+ (Unprepare|Deactivate)Layer",
        given=(r"host process container", r"answer Delete\(\) Unknown"),
    ),
    Expected(
        USERS,
        r"guest \+ guest:(ExecuteProcess|WaitForProcess) 00000000-\S+",
        (r"standalone user by name", r"answer Create OK"),
    ),
    Expected(
        USERS,
        r"guest guest:(Create <id>: \S+\.process\.user\.[ug]id|ExecuteProcess <id>: \S+RelaySettings.\w+) is .*",
        given=(r"standalone user by name",),
    ),
    Expected(
        "Shares are mounted outside the container's directory",
        r"guest guest:(ModifySettings|Create) .*: \S+ is \"/run/gcs/c/[^/]+/mounts/m\d+.*\", "
        r"here \"/run/mounts/plan9/\S+-m\d+.*\"",
        (LINUX_CONTAINER, r"guest guest:ModifySettings \S+ Add {2}MappedDirectory"),
    ),
    Expected(
        "A file that is shared already is not added again",
        r"hcs - HcsModifyComputeSystem \S+@vm Update VirtualMachine/Devices/VirtualSmb/Shares",
        given=(r"a source is mounted twice",),
    ),
    Expected(
        "The guest adapts to the VM's new memory",
        r"guest \+ guest:ModifySettings \S+ Update {2}PodCgroupMemoryLimit",
        given=(LINUX_CONTAINER, r"answer Update .*"),
    ),
    Expected(
        LINUX,
        r"answer Pids: \[\d+\]\.(details is missing|type is .*)",
        (r"answer Pids OK", r"hcs HcsGetComputeSystemProperties <id> ProcessList"),
    ),
    Expected(LINUX, r"answer Stats: (values is missing|type is .*)"),
    Expected(
        "An invalid annotation of log sources is ignored",
        r"guest (\+ )?guest:ModifyServiceSettings 00000000-0000-0000-0000-000000000000(: Settings\.\w+ is .*)?",
        given=(r"annotation of log sources",),
    ),
    Expected("VM memory under Wine", r"answer Stats: code Unknown, here OK"),
    Expected(
        "Pause calls HCS",
        r"hcs \+ HcsPauseComputeSystem <id>",
        (r"answer Pause .*", r"hcs HcsCreateProcess <id>"),
    ),
    Expected("Pause calls HCS", r"answer (Pause|Resume): code Unimplemented, here NotFound"),
    Expected(
        "Stats and Pids of a created container do not call HCS",
        r"hcs - HcsGetComputeSystemProperties <id> (ProcessList|Statistics)",
        (r"case own-created", r"answer Pids Unknown"),
    ),
    Expected(
        "Stats and Pids of a created container do not call HCS",
        r"hcs - HcsGetComputeSystemProperties <id>@vm Statistics,Memory",
        given=(LINUX_CONTAINER, r"answer Stats Unknown"),
    ),
    # A race: the Go shim closes the system of a container that could not start.
    Expected(
        "Stats and Pids of a created container do not call HCS",
        r"answer Pids: it is \[\], here \[\{[^{}]*(\{[^{}]*\})?[^{}]*\}\]",
        given=(r"answer Start (?!OK).*",),
    ),
    Expected(NAMESPACE, r"hcs - HNSCall", (r"hcs HNSCall",)),
    Expected(NAMESPACE, r"hcs \+ HcnDeleteNamespace", (r"hcs HNSCall",)),
    Expected(NAMESPACE, r"hcs - HcnQueryNamespaceProperties", given=(r"hcs HNSCall",)),
    Expected(NAMESPACE, r"hcs \+ HcnModifyNamespace {2}Remove {2}Endpoint", given=(r"hcs HNSCall",)),
    Expected(SECOND_HANDLE, r"hcs - HcsSetProcessCallback <pid>", (r"hcs HcsOpenProcess .*",)),
    Expected(SECOND_HANDLE, r"hcs - HcsSetComputeSystemCallback <id>", (r"hcs HcsOpenProcess .*",)),
    Expected(SECOND_HANDLE, r"hcs [+-] HcsClose(Process|ComputeSystem) (<pid>|<id>)"),
    Expected(CLOSED_LATER, r"hcs [+-] HcsCloseProcess <pid>"),
    Expected(POD, r"answer events: .*", recorded_only=True),
    Expected(POD, r"hcs \+ \S+ podc2( .*)?", (r"hcs HcsTerminateProcess .*", r"answer Connect OK", r"case pod-.*")),
    Expected(POD, r"hcs \+ (HcsTerminateProcess <pid>|UnprepareLayer|DeactivateLayer)", recorded_only=True),
    Expected(DELETE, r"answer delete-cmd: .*", (r"answer delete-cmd OK",)),
    Expected(DELETE, r"hcs \+ (Unprepare|Deactivate)Layer", given=(r"answer delete-cmd OK",)),
    Expected(DELETE, r"hcs - HcsOpenComputeSystem <id>", given=(r"answer delete-cmd OK",)),
    Expected(DELETE, r"hcs \+ HcsShutDownComputeSystem <id>", given=(r"answer delete-cmd OK",)),
    # The VM, which the Go shim does not look for, and a system that HCS has not terminated yet after the shim's crash.
    Expected(
        DELETE,
        r"hcs \+ Hcs(Open|Terminate|Close)ComputeSystem <id>(@vm)?|hcs \+ HcsSetComputeSystemCallback <id>(@vm)?",
        given=(r"answer delete-cmd OK",),
    ),
    # A system that HCS has terminated already after the shim's crash.
    Expected(
        DELETE, r"hcs - Hcs(SetComputeSystemCallback|TerminateComputeSystem) <id>", given=(r"answer delete-cmd OK",)
    ),
    Expected(
        SENT_AGAIN,
        r"answer events: it is \[(.*)\], here \[\1, .*\]",
        given=(r"restart of containerd",),
    ),
    # Its event did not reach containerd. The exec exists nevertheless.
    Expected(
        SENT_AGAIN,
        r"answer Exec\(.*\): code Unknown, here OK",
        given=(r"restart of containerd",),
    ),
    Expected(
        SENT_AGAIN,
        r"answer events: it is \[(.*), (.*)\], here \[\1, \"/tasks/exec-added\", \2\]",
        given=(r"restart of containerd", r"answer Exec\(.*\) Unknown"),
    ),
    # containerd had got it, but the response was lost.
    Expected(
        SENT_AGAIN,
        r"answer events: it is \[(?P<before>(.*, )?(?P<event>\"/tasks/\w+\"))(?P<after>.*)\], "
        r"here \[(?P=before), (?P=event)(?P=after)\]",
        given=(r"restart of containerd",),
    ),
    Expected(
        SENT_AGAIN,
        r"answer event contents: \w+\.(\w+ again is .*, not in theirs"
        r"|order is \"(?P<before>(.* )?(?P<event>\w+))(?P<after>.*)\", here \"(?P=before) (?P=event)(?P=after)\")",
        given=(r"restart of containerd",),
    ),
    # The event of a deletion did not reach containerd. The container is deleted nevertheless.
    Expected(SENT_AGAIN, rf"answer {MORE_EVENTS}", given=(r"restart of containerd", r"answer Delete\(\) Unknown")),
    Expected(
        "CloseIO does not discard input",
        r"answer io\(.*\): stdout is \"\", here \"line one.*line two.*\"",
        given=(r"answer CloseIO OK",),
    ),
    Expected("A missed exit is polled", r"hcs \+ HcsGetProcessProperties <pid>"),
    Expected(
        GUEST_NETWORK,
        r"guest [+-] guest:ModifySettings \S+ Remove( {2}Network)?",
        (r"guest guest:ModifySettings \S+ Remove",),
    ),
    # The emulator's guest refused the request of Microsoft's shim, which then skipped the rest.
    Expected(
        GUEST_NETWORK, r"hcs \+ HcsModifyComputeSystem <id>@vm Remove VirtualMachine/Devices/NetworkAdapters/<guid>"
    ),
    Expected(GUEST_NETWORK, r"hcs \+ Hcn(EnumerateNamespaces|OpenNamespace|QueryNamespaceProperties)"),
    Expected(GUEST_NETWORK, r"guest \+ guest:ModifySettings \S+ Remove {2}NetworkNamespace"),
    Expected(
        "An error names the container, not the command line",
        r"answer Start: text .hcs::System::CreateProcess: .*",
    ),
    Expected(
        "An error names the container, not the command line",
        r"answer Start: text 'failed to get application name from commandline .*: failed to find executable .*', "
        r"here .failed to get application name from commandline: failed to find executable .*",
        given=(r"host process container",),
    ),
    Expected(
        "New VM limits are an `Update`",
        r"hcs [+-] HcsModifyComputeSystem <id>@vm (Update)? VirtualMachine/ComputeTopology/"
        r"(Memory/SizeInMB|Processor/Limits|Processor/CpuGroup)",
        (r"hcs HcsModifyComputeSystem <id>@vm {2}VirtualMachine/ComputeTopology/Memory/SizeInMB",),
    ),
    Expected("HCN settings are passed on unchanged", r"guest .*Settings.HostComputeNamespace is .*, not in theirs"),
    Expected(
        RACES,
        r"answer State: (exitStatus is (missing|255, (not in theirs|here \d+))|exitedAt is .*)",
        recorded_only=True,
    ),
    Expected(RACES, r"answer State: status is \"(RUNNING|STOPPED)\", here \"(RUNNING|STOPPED)\"", recorded_only=True),
    Expected(RACES, r"answer Kill\(.*\): code NotFound, here OK", recorded_only=True),
    Expected(RACES, r"answer io\(\): stdout is .*", recorded_only=True),
    Expected(RACES, r"answer (Stats|Pids): (code (OK|Unknown), here NotFound|it is .*)", recorded_only=True),
    Expected(RACES, r"hcs \+ (HcsOpenComputeSystem|HcsOpenProcess) <id>"),
    Expected(RACES, r"hcs \+ HcsSetProcessCallback <pid>", given=(r"answer Exec\(.*\) OK",)),
    Expected(RACES, r"hcs [+-] event <id>(@vm)?"),
    # All processes of the VM exit while a client goes on.
    Expected(
        RACES,
        r"answer events: \[\d+\] is \"/tasks/(exit|delete)\", here \"/tasks/(exit|delete)\"",
        given=(r"crash of the guest",),
    ),
    # Whether the emulator has written the request down when the VM is terminated.
    Expected(RACES, r"guest \+ guest:SignalProcess <id>", given=(LINUX_CONTAINER,)),
    # Which of two processes gets the next ports.
    Expected(
        RACES,
        r"guest guest:ExecuteProcess <id>: Settings\.(Vsock)?StdioRelaySettings\.\w+ is .*",
        given=(r"calls at the same time",),
    ),
)
