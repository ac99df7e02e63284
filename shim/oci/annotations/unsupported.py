"""Annotations that other shims act on and this one does not: this module's part of the table (see
`shim.oci.annotations.schema`). Some would weaken security if ignored and are rejected; the others are logged once."""

from __future__ import annotations

from shim.oci.annotations.schema import (
    CONTAINER,
    FLAG,
    LINUX_CONTAINER,
    LINUX_VM,
    NO_EFFECT,
    NUMBERS,
    REFUSED,
    TEXT,
    VM,
    Annotation,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.oci.annotations.schema import Kind

_VM = "io.microsoft.virtualmachine."
_LCOW = f"{_VM}lcow."
_CONFIDENTIAL = "For confidential VMs, which this shim does not support."


def _none(key: str, kind: Kind, scope: str, effect: str) -> Annotation:
    return Annotation(key, kind, scope, effect, outcome=NO_EFFECT)


# Confidential VMs. A policy that is not enforced must not be accepted.
_NOT_ENFORCED = "Requests a confidential VM, which this shim does not support: Create fails."
SECURITY_POLICY = Annotation(f"{_VM}wcow.securitypolicy", TEXT, VM, _NOT_ENFORCED, outcome=REFUSED)
LINUX_SECURITY_POLICY = Annotation(f"{_LCOW}securitypolicy", TEXT, VM, _NOT_ENFORCED, outcome=REFUSED)
CONFIDENTIAL_DEBUG = Annotation(
    "io.microsoft.wcow.debug",
    FLAG,
    VM,
    "Saves the disks of a confidential VM, which this shim does not support: Create fails.",
    default="false",
    outcome=REFUSED,
)
CONFIDENTIAL_ONLY = (
    _none("io.microsoft.wcow.debug_data_path", TEXT, VM, _CONFIDENTIAL),
    _none(f"{_VM}wcow.enforcer", TEXT, VM, _CONFIDENTIAL),
    _none(f"{_VM}wcow.securitypolicy.env", FLAG, CONTAINER, _CONFIDENTIAL),
    _none(f"{_VM}wcow.amd-certificate", TEXT, CONTAINER, _CONFIDENTIAL),
    _none(f"{_VM}wcow.gueststatefile", TEXT, VM, _CONFIDENTIAL),
    _none(f"{_VM}wcow.uvm-reference-info-file", TEXT, VM, _CONFIDENTIAL),
    _none(f"{_VM}uvm-hash-envelope-reference-info-file", TEXT, VM, _CONFIDENTIAL),
    _none(f"{_VM}wcow.isolation_type", TEXT, VM, _CONFIDENTIAL),
    _none(f"{_VM}wcow.no_secure_boot", FLAG, VM, _CONFIDENTIAL),
    _none(f"{_VM}no_security_hardware", FLAG, VM, _CONFIDENTIAL),
    _none(f"{_VM}wcow.writable_efi", FLAG, VM, "For VMs of block CIM layers, which this shim does not support."),
)

CONFIDENTIAL_LINUX = (
    _none(f"{_LCOW}enforcer", TEXT, LINUX_VM, _CONFIDENTIAL),
    _none(f"{_LCOW}securitypolicy.env", FLAG, LINUX_CONTAINER, _CONFIDENTIAL),
    _none(f"{_LCOW}uvm-reference-info-file", TEXT, LINUX_VM, _CONFIDENTIAL),
    _none(f"{_LCOW}amd-certificate", TEXT, LINUX_VM, _CONFIDENTIAL),
    _none(f"{_LCOW}extra-vsock-ports", NUMBERS, LINUX_VM, _CONFIDENTIAL),
)

NOT_HERE = (
    _none("io.microsoft.network.ncproxy.containerid", TEXT, VM, "For networks set up by a proxy, see `ncproxy`."),
    _none("io.microsoft.lcow.gpuvhdpath", TEXT, LINUX_VM, "No shim reads it any more."),
    _none("io.microsoft.cri.tenant-sandbox-id", TEXT, LINUX_VM, "No shim reads it."),
    _none("io.microsoft.migration.support-enabled", FLAG, VM, "For live migration, which another shim does."),
    _none("io.microsoft.migration.source-container-id", TEXT, VM, "For live migration, which another shim does."),
)
