"""Cleanup: how each kind of resource in the ledger is released, from its entry alone, by this or another process.

Every function takes the entry's fields and a deadline (monotonic seconds), and succeeds if the resource does not exist.
"""

from __future__ import annotations

import time

from shim.hcs_bindings import errors

# Layer calls fail with these when the layer does not exist: file, path, element not found.
_NOT_FOUND = frozenset((0x80070002, 0x80070003, 0x80070490))
# … and with these while it is in use: sharing violation, busy, files open.
_IN_USE = frozenset((0x80070020, 0x800700AA, 0x80070961))
_RETRY_SECONDS = 0.05

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def release_system(fields: dict[str, str], deadline: float) -> None:
    """Terminate a compute system and wait for its exit."""
    from shim.hcs_bindings.system import ComputeSystem

    try:
        system = ComputeSystem.open(fields["id"])
    except errors.HcsError as error:
        if errors.is_not_exist(error):
            return
        raise
    try:
        if system.terminate():
            system.wait_exit(max(0.1, deadline - time.monotonic()))
    except errors.HcsError as error:
        if not (errors.is_stopped_or_stopping(error) or errors.is_not_exist(error) or errors.is_invalid_state(error)):
            raise
    finally:
        system.close()


def release_layer(fields: dict[str, str], deadline: float) -> None:
    """Remove the filter from a scratch layer and unmount its disk. Both steps, even if the first has nothing to do."""
    from shim.hcs_bindings.storage import deactivate_layer, unprepare_layer

    _layer_step(unprepare_layer, fields["path"], deadline)
    _layer_step(deactivate_layer, fields["path"], deadline)


def release_overlay(fields: dict[str, str], deadline: float) -> None:
    """Detach a scratch from the composite images under it and unmount its disk."""
    from shim.hcs_bindings import storage

    def detach(path: str) -> None:
        if volume := storage.layer_mount_path(path):
            storage.detach_overlay_filter(volume)

    _layer_step(detach, fields["path"], deadline)
    _layer_step(storage.deactivate_layer, fields["path"], deadline)


def release_cim(fields: dict[str, str], deadline: float) -> None:
    from shim.hcs_bindings import cim

    _layer_step(cim.dismount, fields["volume"], deadline)


def _layer_step(step: Callable[[str], None], path: str, deadline: float) -> None:
    while True:
        try:
            step(path)
            return
        except errors.HcsError as error:
            code = errors.normalise(error.code)
            if code in _NOT_FOUND:
                return
            # A system that has just exited may still hold it for a moment.
            if code not in _IN_USE or time.monotonic() + _RETRY_SECONDS > deadline:
                raise
        time.sleep(_RETRY_SECONDS)


def release_mount(fields: dict[str, str], deadline: float) -> None:
    from shim.platform.host import unmount

    unmount(fields["target"])


def release_job(fields: dict[str, str], deadline: float) -> None:
    """Terminate the processes of a host process container."""
    from shim.platform import jobs

    jobs.kill_job(fields, deadline)


def release_user(fields: dict[str, str], deadline: float) -> None:
    """Remove the user that was created for a host process container."""
    from shim.platform import jobs

    jobs.remove_user(fields["name"])


def release_mount_point(fields: dict[str, str], deadline: float) -> None:
    """Unmount a volume from the root directory of a host process container (Server 2019)."""
    from shim.platform import jobs

    jobs.unmount_volume(fields["directory"])


def release_namespace(fields: dict[str, str], deadline: float) -> None:
    from shim.hcs_bindings import network

    _ignore_not_found(lambda: network.delete_namespace(fields["id"]))


def release_endpoint(fields: dict[str, str], deadline: float) -> None:
    """Remove an endpoint from a namespace that the shim created. The endpoint itself belongs to CNI."""
    from shim.hcs_bindings import network

    _ignore_not_found(lambda: network.remove_namespace_endpoint(fields["namespace"], fields["id"]))


def release_credentials(fields: dict[str, str], deadline: float) -> None:
    from shim.container import credentials

    _ignore_not_found(lambda: credentials.remove(fields["id"]))


def _ignore_not_found(step: Callable[[], None]) -> None:
    try:
        step()
    except errors.HcsError as error:
        missing = errors.is_not_exist(error) or errors.is_network_object_missing(error)
        if not missing and errors.normalise(error.code) not in _NOT_FOUND:
            raise
