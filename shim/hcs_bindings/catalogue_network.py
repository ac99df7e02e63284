"""Codes of the Host Compute Network service (facility 0x3B), host and guest side."""

from __future__ import annotations

from shim.hcs_bindings.catalogue_hcs import BUG, Entry

HCN = [
    Entry(
        0x803B0001,
        "HCN_E_NETWORK_NOT_FOUND",
        "there is no such network",
        "The CNI plugin's network was deleted, or the network service was reset.",
        "let the CNI plugin recreate it (restart it on the node); `Get-HnsNetwork` lists what exists",
    ),
    Entry(
        0x803B0002,
        "HCN_E_ENDPOINT_NOT_FOUND",
        "there is no such endpoint",
        "It was deleted with its pod, or the network service was reset.",
        "nothing to do when deleting; otherwise recreate the pod",
    ),
    Entry(
        0x803B0006,
        "HCN_E_ADAPTER_NOT_FOUND",
        "the network adapter was not found",
        "The host's adapter was renamed or removed, or the network is bound to another.",
        "check the adapter's name in the CNI configuration against `Get-NetAdapter`",
    ),
    Entry(
        0x803B0007,
        "HCN_E_PORT_NOT_FOUND",
        "the switch port was not found",
        "The endpoint is not attached, or its virtual machine is gone.",
        "nothing to do when deleting; otherwise recreate the pod",
    ),
    Entry(
        0x803B0013,
        "HCN_E_PORT_ALREADY_EXISTS",
        "the port is taken",
        "Another endpoint maps the same host port.",
        "choose another host port",
    ),
    Entry(
        0x803B0014,
        "HCN_E_ENDPOINT_ALREADY_ATTACHED",
        "the endpoint is attached already",
        "It belongs to another container or VM, or an earlier one was not cleaned up.",
        "delete the earlier pod (`runhcs gc`), then try again",
    ),
    Entry(
        0x803B001B,
        "HCN_E_INVALID_JSON",
        "the network service refused the document",
        "A member is unknown to this Windows build or of the wrong type.",
        "check the CNI configuration; otherwise " + BUG,
    ),
    Entry(
        0x803B0020,
        "HCN_E_SERVICE_STOPPING",
        "the network service is stopping",
        "The service `hns` is being restarted.",
        "try again when it runs (`Get-Service hns`)",
    ),
    Entry(
        0x803B0021,
        "GCN_E_MODULE_NOT_FOUND",
        "the guest has no networking module",
        "The utility VM's image lacks it.",
        "use a complete image for the utility VM",
    ),
    Entry(
        0x803B0022,
        "GCN_E_NO_REQUEST_HANDLERS",
        "the guest cannot handle network requests",
        "The utility VM's image is too old.",
        "use a newer image for the utility VM",
    ),
    Entry(
        0x803B0023,
        "GCN_E_REQUEST_UNSUPPORTED",
        "the guest does not support this network request",
        "The utility VM's image is older than the feature.",
        "use a newer image for the utility VM",
    ),
    Entry(
        0x803B0024,
        "GCN_E_RUNTIMEKEYS_FAILED",
        "the guest could not prepare its network settings",
        "An error inside the utility VM.",
        "recreate the pod",
    ),
    Entry(
        0x803B0025,
        "GCN_E_NETADAPTER_TIMEOUT",
        "the guest's network adapter did not appear in time",
        "The utility VM is overloaded.",
        "recreate the pod; give the VM more processors",
    ),
    Entry(
        0x803B0026,
        "GCN_E_NETADAPTER_NOT_FOUND",
        "the guest has no such network adapter",
        "It was not attached to the utility VM, or was removed meanwhile.",
        "recreate the pod",
    ),
    Entry(
        0x803B0027,
        "GCN_E_NETCOMPARTMENT_NOT_FOUND",
        "the guest has no such network compartment",
        "The network namespace was deleted in the utility VM.",
        "recreate the pod",
    ),
    Entry(
        0x803B0028,
        "GCN_E_NETINTERFACE_NOT_FOUND",
        "the guest has no such network interface",
        "The adapter has not come up in the utility VM.",
        "recreate the pod",
    ),
    Entry(
        0x803B0029,
        "GCN_E_DEFAULTNAMESPACE_EXISTS",
        "the guest has a default namespace already",
        "Two default namespaces were added to one utility VM.",
        BUG,
    ),
    Entry(
        0x803B002B,
        "HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS",
        "the endpoint is in a namespace already",
        "It belongs to another pod, or an earlier one was not cleaned up.",
        "delete the earlier pod (`runhcs gc`), then try again",
    ),
]
