"""Access of VMs to disks (HcsGrantVmAccess), which Windows stores as file permissions."""

from __future__ import annotations


class VmAccess:
    EVERY_VM = "*"

    def __init__(self) -> None:
        self._paths: dict[str, set[str]] = {}

    def grant(self, vm: str, path: str) -> None:
        self._paths.setdefault(vm, set()).add(path)

    def revoke(self, vm: str, path: str) -> None:
        paths = self._paths.get(vm, set())
        paths.discard(path)
        if not paths:
            self._paths.pop(vm, None)

    def is_granted(self, vm: str, path: str) -> bool:
        return any(path in self._paths.get(who, ()) for who in (vm, self.EVERY_VM))

    def revoke_all(self, vm: str) -> None:
        """The VM is removed: on Windows its account is, too."""
        self._paths.pop(vm, None)
