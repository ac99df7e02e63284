"""Devices in the specs of clients on a Linux host, where HCS is emulated.

Such a client lists devices of the host, and rules that allow them. The guest gets no rules: it allows the devices of
its own list, and those that every container has. So a privileged container, which may use all devices, is one for
the guest too and gets the devices of the VM; and devices that every container has are left to the guest. Clients on
Windows list none.
"""

from __future__ import annotations

from shim.oci.annotations.linux import PRIVILEGED
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.oci.spec import Spec

# runc does not allow them once more if the spec lists them.
DEFAULT_DEVICES = frozenset(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx"))


def adapt(spec: Spec) -> list[str]:
    """Change the spec; returns what has no effect, in sentences."""
    devices = spec.linux.sections("devices")
    if not devices or not host.IS_EMULATED:
        return []
    kept = [entry for entry in devices if entry.text("path") not in DEFAULT_DEVICES]
    if _allows_all(spec):
        spec.annotations.set_default(PRIVILEGED, "true")
        kept = []
    spec.document.values["linux"]["devices"] = [entry.values for entry in kept]
    if spec.pod_role:
        return []
    return [
        f"linux.devices: {entry.text('path')} cannot be opened: guests allow devices only to containers of a pod"
        for entry in kept
    ]


def _allows_all(spec: Spec) -> bool:
    """Whether a rule allows every device."""
    rules = spec.linux.section("resources").sections("devices")
    return any(
        rule.values.get("allow") is True
        and rule.text("type") in ("", "a")
        and rule.values.get("major") is None
        and rule.values.get("minor") is None
        and rule.text("access") in ("", "rwm")
        for rule in rules
    )
