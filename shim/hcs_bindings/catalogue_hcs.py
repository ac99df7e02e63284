"""Codes of the Host Compute Service (facility 0x37), in computecore's spelling."""

from __future__ import annotations


class Entry:
    """A code, its symbolic name, what it means, what usually causes it and what to do next."""

    __slots__ = ("cause", "code", "message", "name", "next_step")

    def __init__(self, code: int, name: str, message: str, cause: str, next_step: str) -> None:
        self.code = code
        self.name = name
        self.message = message
        self.cause = cause
        self.next_step = next_step


EVENT_LOG = "Applications and Services Logs > Microsoft > Windows > Hyper-V-Compute"
BUG = "report it with the shim's log: the shim, not the node, is at fault"
LOG = f"look into the event log ({EVENT_LOG}) at the time of the failure"

HCS = [
    Entry(
        0x80370100,
        "HCS_E_TERMINATED_DURING_START",
        "the container or utility VM ended while it was starting",
        "The guest crashed while booting, ran out of memory, or was stopped by another client.",
        f"give the utility VM more memory, and {LOG}",
    ),
    Entry(
        0x80370101,
        "HCS_E_IMAGE_MISMATCH",
        "the container's operating system does not match the host's",
        "A process-isolated container needs an image of the host's own Windows build.",
        "use an image whose build matches the host's (`ver`), or run it hypervisor-isolated (SandboxIsolation = 1)",
    ),
    Entry(
        0x80370102,
        "HCS_E_HYPERV_NOT_INSTALLED",
        "the machine cannot run virtual machines",
        "The Hyper-V role is not installed, or virtualization is switched off in the firmware.",
        "install it (`Install-WindowsFeature Hyper-V`), enable virtualization, and restart the node",
    ),
    Entry(
        0x80370103,
        "ERROR_VMCOMPUTE_OPERATION_PENDING",
        "the request was accepted and continues in the background",
        "The older interface (vmcompute) returns this; the result follows as a notification.",
        "wait for the system's exit or its next state",
    ),
    Entry(
        0x80370104,
        "ERROR_VMCOMPUTE_TOO_MANY_NOTIFICATIONS",
        "notifications were lost",
        "The system sent more notifications than the compute service keeps.",
        "query the system's state again; nothing else is lost",
    ),
    Entry(
        0x80370105,
        "HCS_E_INVALID_STATE",
        "the system's state does not allow it",
        "It is still starting, is paused, or is already stopping.",
        "look at its state (`runhcs ps`) and try again once it runs; if it is stopping there is nothing to do",
    ),
    Entry(
        0x80370106,
        "HCS_E_UNEXPECTED_EXIT",
        "the container or utility VM exited unexpectedly",
        "The guest's operating system crashed, its worker process was killed, or the host ran out of memory.",
        f"{LOG}; a crash dump, if one is configured, has details. The pod is restarted by kubelet",
    ),
    Entry(
        0x80370107,
        "HCS_E_TERMINATED",
        "the container or utility VM was terminated",
        "A client terminated it: a kill after the grace period, or an administrator.",
        "nothing to do if it was meant to stop; otherwise look for the kill in containerd's log",
    ),
    Entry(
        0x80370108,
        "HCS_E_CONNECT_FAILED",
        "no connection to the guest could be made",
        "The guest's operating system has not booted far enough to run its compute service.",
        "check that the utility VM's image matches the host and is complete, and that the VM has enough memory",
    ),
    Entry(
        0x80370109,
        "HCS_E_CONNECTION_TIMEOUT",
        "the guest did not answer in time",
        "The utility VM boots too slowly or hangs: an overloaded host, slow storage, or a broken image.",
        "try again when the node is less busy; if it stays, give the VM more processors or repair the image",
    ),
    Entry(
        0x8037010A,
        "HCS_E_CONNECTION_CLOSED",
        "the connection to the guest was lost",
        "The utility VM crashed or restarted, or its compute service ended.",
        f"recreate the pod; {LOG}",
    ),
    Entry(
        0x8037010B,
        "HCS_E_UNKNOWN_MESSAGE",
        "the guest does not know this request",
        "The guest's operating system is older than the requested feature.",
        "use a newer image for the utility VM, or do without the setting",
    ),
    Entry(
        0x8037010C,
        "HCS_E_UNSUPPORTED_PROTOCOL_VERSION",
        "host and guest have no protocol in common",
        "The utility VM's image is much older or much newer than the host.",
        "use an image of a Windows build that the host supports",
    ),
    Entry(
        0x8037010D,
        "HCS_E_INVALID_JSON",
        "the compute service refused the document",
        "A member is unknown to this Windows build, is of the wrong type, or is missing. The message names its path.",
        "remove the annotation or option behind the named path, or update Windows; otherwise " + BUG,
    ),
    Entry(
        0x8037010E,
        "HCS_E_SYSTEM_NOT_FOUND",
        "there is no container or utility VM of that name",
        "It has exited and was removed, or was never created.",
        "nothing to do when stopping or deleting; otherwise create it again",
    ),
    Entry(
        0x8037010F,
        "HCS_E_SYSTEM_ALREADY_EXISTS",
        "there is already a container or utility VM of that name",
        "An earlier one was not deleted, or two requests were made with one id.",
        "delete the old one (`ctr task delete`, `runhcs gc`), or choose another id",
    ),
    Entry(
        0x80370110,
        "HCS_E_SYSTEM_ALREADY_STOPPED",
        "the container or utility VM is not running",
        "It has ended, or is ending, already.",
        "nothing to do when stopping; otherwise start a new one",
    ),
    Entry(
        0x80370111,
        "HCS_E_PROTOCOL_ERROR",
        "protocol error between host and guest",
        "A damaged message on the connection to the guest, or a guest of a build that does not match.",
        f"recreate the pod; if it happens again, {LOG}",
    ),
    Entry(
        0x80370112,
        "HCS_E_INVALID_LAYER",
        "a layer of the image is invalid",
        "The layer's directory is damaged or incomplete, or was made for another layer format.",
        "remove the image and pull it again; check the disk for errors",
    ),
    Entry(
        0x80370113,
        "HCS_E_WINDOWS_INSIDER_REQUIRED",
        "it requires a Windows Insider build",
        "The image is a preview that runs only on hosts in the Insider programme.",
        "use a released image",
    ),
    Entry(
        0x80370114,
        "HCS_E_SERVICE_NOT_AVAILABLE",
        "a required service or feature is not available",
        "A Windows feature (Containers, Hyper-V) is not installed, or its service is disabled.",
        "install the Containers and Hyper-V features, check that the service `vmcompute` runs, and restart the node",
    ),
    Entry(
        0x80370115,
        "HCS_E_OPERATION_NOT_STARTED",
        "the operation was never started",
        "The result was requested before the call.",
        BUG,
    ),
    Entry(
        0x80370116,
        "HCS_E_OPERATION_ALREADY_STARTED",
        "the operation is in use by another call",
        "One operation was given to two calls.",
        BUG,
    ),
    Entry(
        0x80370117,
        "HCS_E_OPERATION_PENDING",
        "the operation has not finished yet",
        "The result was requested while it runs.",
        "keep waiting",
    ),
    Entry(
        0x80370118,
        "HCS_E_OPERATION_TIMEOUT",
        "the operation timed out",
        "The compute service or the guest is busy or hangs. The request may still be carried out.",
        "look at the system's state before trying again; if it hangs, terminate it",
    ),
    Entry(
        0x80370119,
        "HCS_E_OPERATION_SYSTEM_CALLBACK_ALREADY_SET",
        "there is already a callback",
        "Events of one handle were registered for twice.",
        BUG,
    ),
    Entry(
        0x8037011A,
        "HCS_E_OPERATION_RESULT_ALLOCATION_FAILED",
        "out of memory for the result",
        "This process, or the host, is out of memory.",
        "free memory on the node",
    ),
    Entry(
        0x8037011B,
        "HCS_E_ACCESS_DENIED",
        "the compute service refuses this user",
        "Only SYSTEM, administrators and Hyper-V Administrators may use it.",
        "run containerd as a service under SYSTEM, or from an elevated prompt",
    ),
    Entry(
        0x8037011C,
        "HCS_E_GUEST_CRITICAL_ERROR",
        "the guest's operating system crashed or restarted",
        "A stop error in the utility VM.",
        f"{LOG}; recreate the pod",
    ),
    Entry(
        0x8037011D,
        "HCS_E_PROCESS_INFO_NOT_AVAILABLE",
        "there is no information about the process",
        "It ended too soon, or the call does not return a process.",
        "run it again; if it happens every time, " + BUG,
    ),
    Entry(
        0x8037011E,
        "HCS_E_SERVICE_DISCONNECT",
        "the connection to the compute service was lost",
        "The service vmcompute stopped or was restarted, and every handle with it.",
        "start it (`Start-Service vmcompute`); recreate the pods on the node",
    ),
    Entry(
        0x8037011F,
        "HCS_E_PROCESS_ALREADY_STOPPED",
        "the process has ended already",
        "It ended before the request reached it.",
        "nothing to do when killing; otherwise start a new one",
    ),
]
